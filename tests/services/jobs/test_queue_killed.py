"""A worker killed by SIGKILL loses its current step and nothing more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from signal import SIGKILL
from uuid import UUID

import pytest

from app.domain.jobs import Job, Step
from app.services.ingest import dead_letter_replay, drain
from app.services.jobs import queue, runner, schedule
from tests.service import Service
from tests.services.job_kinds import set_kind

ROOT = Path(__file__).resolve().parents[3]
WORKER = """
import sys
from uuid import UUID
from app.services.ingest import dead_letter_replay
from app.services.jobs import runner
from tests.services.jobs.test_queue_killed import count_to_three

runner.KINDS["test"] = runner.JobKind(count_to_three)
what, *ids = sys.argv[1:]
{"job": runner.run_slice, "replay": dead_letter_replay.replay_letter}[what](*map(UUID, ids))
"""


def count_to_three(job: Job) -> Step:
    n = job.state.get("n", 0) + 1
    return Step(1, {"n": n}, n == 3, counts={"seen": 1})


def run_until_killed(service: Service, failpoint: str, *words: object) -> None:
    service.configure(failpoints=failpoint)
    done = subprocess.run([sys.executable, "-c", WORKER, *map(str, words)], cwd=ROOT, env=os.environ, check=False)
    assert done.returncode == -SIGKILL
    service.configure(failpoints="")


@pytest.mark.slow
def test_a_job_goes_on_after_kill_9_once_its_lease_is_over(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    set_kind(monkeypatch, "test", count_to_three)
    tenant, other = service.tenant(), service.tenant()
    job_id = queue.create(tenant.tenant_id, "test", {})
    waiting = queue.create(other.tenant_id, "test", {})
    run_until_killed(service, "job.before_note*2", "job", job_id)
    assert service.rows("SELECT status, done FROM jobs WHERE job_id = %s", job_id) == [("running", 1)]
    assert schedule.insert_due_runs([]) == 0, "its lease is still valid"
    service.rows("UPDATE jobs SET claimed_until = now() - interval '1 millisecond' WHERE job_id = %s", job_id)
    sent: list[UUID] = []
    monkeypatch.setattr("app.queues.enqueue", lambda _, argument, **__: sent.append(argument))
    assert schedule.insert_due_runs([]) == 1
    assert sent == [waiting], "the other job has waited longer"
    for turn in range(2):
        runner.run_slice(sent[turn])
    assert service.rows("SELECT status, done, counts FROM jobs") == [("done", 3, {"seen": 3})] * 2


@pytest.mark.slow
def test_a_replay_that_is_killed_before_its_letter_is_deleted_stores_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = service.tenant()
    with monkeypatch.context() as patched:
        patched.setattr("app.store.ingest.envelopes.copy_fresh", lambda *_: 1 / 0)
        service.send(tenant.tenant_id, "x")
        drain.drain_streams()
    letter_id = service.one("SELECT letter_id FROM dead_letters")
    run_until_killed(service, "replay.before_delete", "replay", tenant.tenant_id, letter_id)
    assert drain.drain_streams() == 1
    dead_letter_replay.replay_letter(tenant.tenant_id, letter_id)
    assert drain.drain_streams() == 0
    assert service.texts(tenant.tenant_id) == ["x"]
    assert service.letters(tenant.tenant_id) == []
    assert service.is_idle()
