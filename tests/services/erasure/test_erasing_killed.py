"""F22: an erasure killed after any step resumes, whatever happens to the same memories in between."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.ingest.ids import last_seq
from app.domain.jobs import ERASE, Job
from app.domain.privacy.legal_hold import Scope
from app.services.erasure import execution, requests
from app.services.erasure.requests import ErasureOptions
from app.services.erasure.steps import STEPS
from app.services.memories import recount
from app.services.security import audit
from tests.service import Service
from tests.services.archived_memories import remember
from tests.services.tiers.test_cold_storage_killed import ROOT, Workers
from tests.variants import variants
from tests.waiting import PATIENCE_SECONDS

PLACES = (
    "erasing.cut",
    "erasing.entered",
    "erasing.planned",
    "erasing.before_commit",
    *(f"erasing.{s}" for s in STEPS),
)
USUAL_PLACES = frozenset({"erasing.cut", "erasing.before_commit", "erasing.memories"})  # `make test-long` has the rest
WORKERS = """
import json, os, sys
from uuid import UUID, uuid4
from app.domain.jobs import Job
from app.services.erasure import execution, steps
import cryptography.hazmat.primitives.ciphers.aead

steps.STEP_SECONDS = 0.2  # no other process stores the entries it waits for

def work(tenant, erasure):
    state = {}
    for _ in range(15):
        done = execution.run_slice(Job(uuid4(), UUID(tenant), "erase", {"erasure_id": erasure}, state, None, 0))
        if done.finished:
            return
        state = done.state

for line in sys.stdin:
    order = json.loads(line)
    if not (child := os.fork()):
        os.environ.update(order["environment"])
        work(*order["words"])
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    command = [sys.executable, "-c", WORKERS]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Workers(process.stdin, process.stdout)
        process.stdin.close()
        process.wait(PATIENCE_SECONDS)


def asked(tenant_id: UUID) -> UUID:
    return requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0), "key").erasure_id


def finish(service: Service, tenant_id: UUID, erasure_id: UUID, about: str = "") -> None:
    """Run the erasure to its end beside the workers, and assert that it is complete; `about` is the message."""
    state: dict[str, Any] = {}
    for _ in range(100):
        service.work()
        done = execution.run_slice(Job(uuid4(), tenant_id, ERASE, {"erasure_id": str(erasure_id)}, state, None, 0))
        assert done.failure is None, about
        if done.finished:
            break
        state = done.state
    found = requests.get(tenant_id, erasure_id)
    assert found.status == "verified", about
    assert [each["step"] for each in found.executed] == [each["step"] for each in found.plan or ()] == [*STEPS], about
    left = "SELECT count(*) FROM memories WHERE tenant_id = %s AND subject = 'ann' AND seq <= %s"
    assert service.one(left, tenant_id, last_seq(found.cut or "")) == 0, about
    words = "SELECT count(*) FROM memory_words WHERE tenant_id = %s AND words::text LIKE '%%gooseberr%%'"
    come_back = service.one("SELECT count(*) FROM memories WHERE tenant_id = %s AND subject = 'ann'", tenant_id)
    assert come_back or not service.one(words, tenant_id), about
    assert audit.verify(tenant_id).broken is None, about
    assert not any(recount.recount_tenant(tenant_id)), about


def said(number: int) -> dict[str, Any]:
    who = "ann" if number % 2 else "bob"
    return {"text": f"{who} has {number} {'gooseberries' if number % 2 else 'pears'}", "subject": who, "thread": "t"}


@pytest.mark.slow
@pytest.mark.acceptance(5)
@pytest.mark.parametrize("place", variants(PLACES, USUAL_PLACES))
def test_killed_anywhere_it_goes_on(service: Service, workers: Workers, place: str) -> None:
    tenant_id = service.tenant().tenant_id
    remember(service, tenant_id, *map(said, range(4)))
    erasure_id = asked(tenant_id)
    workers.killed(place, tenant_id, erasure_id)
    finish(service, tenant_id, erasure_id)
    assert len(service.texts(tenant_id)) == 2
