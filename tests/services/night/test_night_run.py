"""A night runs its steps in order as of one moment, whatever fails, dies, takes too long or interrupts it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from signal import SIGKILL
from typing import Any
from uuid import UUID

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from app.domain.jobs import Step
from app.services.ingest import drain
from app.services.jobs import backpressure, queue, runner, schedule
from app.services.monitoring import stats
from app.services.night import night_run, steps
from app.store.jobs.schedules import ScheduleRun
from tests.service import Service, Tenant
from tests.services.job_kinds import set_kind
from tests.services.jobs.test_queue_killed import ROOT
from tests.waiting import PATIENCE_SECONDS

Seen = list[tuple[str, datetime, dict[str, Any]]]
Did = Callable[[str, datetime, dict[str, Any]], Step]

WORKER = """
import sys
from uuid import UUID
from app.domain.jobs import Step
from app.services.jobs import runner
from app.services.night import steps

steps.STEPS.clear()
for name in ("a", "b", "c"):
    steps.STEPS[name] = lambda tenant, as_of, state, until: Step(1, {"n": state.get("n", 0) + 1}, "n" in state)
runner.run_slice(UUID(sys.argv[1]))
"""


@pytest.fixture(autouse=True)
def _unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.queues.enqueue", lambda *_, **__: None)


@pytest.fixture
def tenant(service: Service) -> Tenant:
    made = service.tenant()
    schedule.insert_due_runs(["night"])
    return made


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The completed pieces of steps a, b and c, two pieces each."""
    pieces: Seen = []
    define(monkeypatch, pieces, lambda _, __, state: Step(1, {"n": state.get("n", 0) + 1}, "n" in state))
    return pieces


def define(monkeypatch: pytest.MonkeyPatch, seen: Seen, do: Did) -> None:
    """Replace the steps of a night by a, b and c."""

    def step(name: str) -> steps.CarryOn:
        def carry_on(_: UUID, as_of: datetime, state: dict[str, Any], __: float) -> Step:
            seen.append((name, as_of, state))
            return do(name, as_of, state)

        return carry_on

    monkeypatch.setattr(night_run, "STEPS", {name: step(name) for name in ("a", "b", "c")})


def begun(tenant: Tenant) -> UUID:
    job_id = schedule.run(tenant.tenant_id, "night").job_id
    assert job_id is not None
    return job_id


def last(tenant: Tenant) -> ScheduleRun:
    return schedule.list_runs(tenant.tenant_id, "night", None, 1)[0]


def lapse(service: Service) -> None:
    service.rows("UPDATE jobs SET claimed_until = now() WHERE claimed_until IS NOT NULL")


def test_steps_follow_each_other_as_of_one_moment(tenant: Tenant, seen: Seen) -> None:
    runner.run_slice(begun(tenant))
    assert [(name, state) for name, _, state in seen] == [(name, state) for name in "abc" for state in ({}, {"n": 1})]
    run = last(tenant)
    assert {as_of for _, as_of, _ in seen} == {run.scheduled_for}
    assert (run.status, run.done, run.counts, run.step) == ("done", 6, {"a": 2, "b": 2, "c": 2}, None)
    job = queue.get(tenant.tenant_id, begun(tenant))
    assert job.status == "queued", "the second run is a night of its own"


def test_the_steps_that_there_are_do_their_work(service: Service, tenant: Tenant) -> None:
    service.send(tenant.tenant_id, "x", "y")
    service.work()
    job_id = begun(tenant)
    runner.run_slice(job_id)
    run = last(tenant)
    assert (run.status, run.failed, run.counts["sweep"]) == ("done", {}, 2)
    assert {name.partition(".")[0] for name in run.counts} == set(steps.STEPS)
    assert "sweep: 2" in [line["message"] for line in queue.get(tenant.tenant_id, job_id).log or []]
    assert service.redis.hget("ebbing:{s0}:counters", "runs_done") == b"1"


def test_a_night_shows_where_it_is(service: Service, tenant: Tenant, seen: Seen) -> None:
    service.configure(slice_seconds=1e-6)
    job_id = begun(tenant)
    shown = []
    for _ in range(6):
        runner.run_slice(job_id)
        run = last(tenant)
        shown.append((run.status, run.step, run.done))
    assert shown == [
        ("queued", "a", 1), ("queued", "b", 2), ("queued", "b", 3), ("queued", "c", 4), ("queued", "c", 5),
        ("done", None, 6),
    ]  # fmt: skip


def test_a_step_that_fails_is_named_and_the_others_are_done(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    def do(name: str, _: datetime, __: dict[str, Any]) -> Step:
        if name == "b":
            raise ValueError("what a memory says")
        return Step(1, {}, finished=True)

    define(monkeypatch, [], do)
    job_id = begun(tenant)
    runner.run_slice(job_id)
    run = last(tenant)
    assert (run.status, run.failed, run.counts) == ("failed", {"b": "ValueError"}, {"a": 1, "c": 1})
    job = queue.get(tenant.tenant_id, job_id)
    assert (job.status, job.error) == ("failed", "b: ValueError")
    assert "memory" not in str(job.log)
    reported = stats.tenant_stats(tenant.tenant_id).last_night
    assert reported is not None
    assert (reported.status, reported.failed_steps) == ("failed", ["b"])
    assert stats.nights().failed == {"b": 1}
    assert service.redis.hget("ebbing:{s0}:counters", "runs_failed") == b"1"


def test_what_passes_by_itself_is_waited_for(service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: Seen = []
    away = [OperationalError("SELECT", {}, psycopg.OperationalError("the connection is closed"))] * 4

    def do(*_: object) -> Step:
        if len(seen) > 1 and away:
            raise away.pop()
        return Step(1, {}, finished=True)

    define(monkeypatch, seen, do)
    job_id = begun(tenant)
    for _ in range(4):
        with pytest.raises(OperationalError):
            runner.run_slice(job_id)
        lapse(service)
    runner.run_slice(job_id)
    assert "".join(name for name, *_ in seen) == "abbbbbc"
    assert last(tenant).status == "done"


@pytest.mark.slow
def test_a_night_that_is_killed_anywhere_goes_on_where_it_was(service: Service, tenant: Tenant, seen: Seen) -> None:
    job_id = begun(tenant)
    service.configure(failpoints="job.before_note*4")
    command = [sys.executable, "-c", WORKER, str(job_id)]
    assert subprocess.run(command, cwd=ROOT, env=os.environ, check=False).returncode == -SIGKILL
    service.configure(failpoints="")
    assert (last(tenant).status, last(tenant).step, last(tenant).done) == ("running", "b", 3)
    runner.run_slice(job_id)
    assert seen == [], "its lease is still valid"
    lapse(service)
    runner.run_slice(job_id)
    assert [(name, state) for name, _, state in seen] == [("b", {"n": 1}), ("c", {}), ("c", {"n": 1})]
    assert (last(tenant).status, last(tenant).counts) == ("done", {"a": 2, "b": 2, "c": 2})


def test_a_night_whose_time_is_up_says_so_and_the_next_begins_there(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: Seen = []
    long = [True]

    def do(name: str, _: datetime, __: dict[str, Any]) -> Step:
        return Step(1, {"more": True}, finished=name != "b" or not long)

    define(monkeypatch, seen, do)
    service.configure(slice_seconds=1e-6)
    job_id = begun(tenant)
    for _ in range(2):
        runner.run_slice(job_id)
    service.rows("UPDATE jobs SET state = jsonb_set(state, '{ends_at}', '\"2020-01-01T00:00:00+00:00\"')")
    runner.run_slice(job_id)
    run = last(tenant)
    assert (run.status, run.step, run.done) == ("cut_short", "b", 2)
    log = queue.get(tenant.tenant_id, job_id).log or []
    assert log[-1]["message"] == "cut short in step b: the next nightly run starts with this step"
    assert stats.nights().cut_short == 1
    for remembered in (seen, long):
        remembered.clear()
    service.configure(slice_seconds=PATIENCE_SECONDS)
    runner.run_slice(begun(tenant))
    assert "".join(name for name, *_ in seen) == "bcabc"
    assert seen[0][1:] == (last(tenant).scheduled_for, {}), "as of the second night's own moment"
    seen.clear()
    runner.run_slice(begun(tenant))
    assert seen[0][0] == "a"


def test_a_step_that_this_version_lacks_is_left_out(service: Service, tenant: Tenant, seen: Seen) -> None:
    service.configure(slice_seconds=1e-6)
    job_id = begun(tenant)
    runner.run_slice(job_id)
    service.rows("UPDATE jobs SET state = jsonb_set(state, '{left}', '[\"of tomorrow\", \"c\"]')")
    service.configure(slice_seconds=PATIENCE_SECONDS)
    runner.run_slice(job_id)
    assert [name for name, *_ in seen] == ["a", "c", "c"]
    assert last(tenant).status == "done"


# --- Ingest has priority ---


def test_a_job_waits_while_ingest_is_behind(service: Service, tenant: Tenant, seen: Seen) -> None:
    service.configure(ingest_behind_seconds=0)
    job_id = begun(tenant)
    service.send(tenant.tenant_id, "x")
    for _ in range(3):
        runner.run_slice(job_id)
        assert (seen, last(tenant).status) == ([], "queued")
        assert service.one("SELECT attempts FROM jobs") == 0
        assert schedule.insert_due_runs([]) == 0, "not at once"
        lapse(service)
    assert [line["message"] for line in queue.get(tenant.tenant_id, job_id).log or []] == ["gives way to ingest"]
    service.work()
    runner.run_slice(job_id)
    assert (len(seen), last(tenant).status) == (6, "done")


@pytest.mark.parametrize("stage", ["stored", "indexed"])
def test_it_stops_after_its_slice_when_ingest_falls_behind(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    seen: Seen = []

    def do(*_: object) -> Step:
        if len(seen) == 2:
            service.send(tenant.tenant_id, "x")
            if stage == "indexed":
                drain.drain_streams()
        return Step(1, {}, finished=True)

    define(monkeypatch, seen, do)
    service.configure(ingest_behind_seconds=0)
    runner.run_slice(begun(tenant))
    assert "".join(name for name, *_ in seen) == "ab"


def test_it_waits_so_long_a_day_and_no_longer(service: Service, tenant: Tenant, seen: Seen) -> None:
    service.configure(ingest_behind_seconds=0, jobs_wait_hours=1, slice_seconds=1e-6)
    job_id = begun(tenant)
    service.send(tenant.tenant_id, "x")
    done = []
    for hours in (0, 0.9, 1.1, 23, 24.5, 26):
        service.rows(
            "UPDATE jobs SET created_at = now() - make_interval(secs => %s), claimed_until = now()", hours * 3600
        )
        runner.run_slice(job_id)
        done.append(len(seen))
    assert done == [0, 0, 1, 2, 2, 3]


def test_a_night_cannot_be_spent_waiting(service: Service) -> None:
    service.configure(jobs_wait_hours=6, night_hours=6)
    with pytest.raises(ValueError, match="JOBS_WAIT_HOURS"):
        backpressure.must_wait_for_ingest(0)


def test_other_jobs_give_way_too(service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    set_kind(monkeypatch, "test", lambda _: Step(1, {}, finished=True))
    service.configure(ingest_behind_seconds=0)
    service.send(tenant.tenant_id, "x")
    job_id = queue.create(tenant.tenant_id, "test", {})
    runner.run_slice(job_id)
    assert queue.get(tenant.tenant_id, job_id).done == 0


def test_old_runs_are_deleted_when_nobody_asks_any_more(service: Service, tenant: Tenant) -> None:
    for days in (100, 10):
        runner.run_slice(begun(tenant))
        aged = "UPDATE runs SET scheduled_for = now() - make_interval(days => %s) WHERE scheduled_for > %s"
        service.rows(aged, days, datetime.now(UTC) - timedelta(days=1))
    runner.run_slice(begun(tenant))
    ages = [
        (datetime.now(UTC) - run.scheduled_for).days for run in schedule.list_runs(tenant.tenant_id, "night", None, 9)
    ]
    assert ages == [0, 10]
