"""Enrichment: batches are claimed fairly, halved around failures, and memories set aside only as a last resort."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.store.core import database
from app.store.enrichment import work_queue
from tests.service import Service, Tenant
from tests.waiting import PATIENCE_SECONDS

STAGES = {"index": stage_runner.run_index_stage, "embed": stage_runner.embed, "score": stage_runner.run_score_stage}
TARGETS = {"index": "_index_claim", "embed": "embed_memories", "score": "score_memories"}


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


class Fake:
    """A fake stage that records its batches and fails on chosen memories."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
        self.given: list[tuple[UUID, list[UUID]]] = []
        self.cursed: set[UUID] = set()
        self.error: BaseException = ValueError("what a memory says")
        monkeypatch.setattr(stage_runner, TARGETS[stage], self)

    def __call__(self, tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
        self.given.append((tenant_id, list(memory_ids)))
        if self.cursed & set(memory_ids):
            raise self.error
        return len(memory_ids)


def waiting(service: Service, stage: str) -> int:
    found: int = service.one(
        "SELECT coalesce(sum(cardinality(memory_ids)), 0)::int FROM tenant_work WHERE stage = %s", stage
    )
    return found


def release(service: Service) -> None:
    """Expire every lease."""
    service.rows("UPDATE tenant_work SET claimed_until = '-infinity'")


def test_what_is_done_waits_no_more_and_the_other_stages_still_do(service: Service, tenant: Tenant, stage: str) -> None:
    service.send(tenant.tenant_id, "one", "two")
    drain.drain_streams()
    assert STAGES[stage]() == 2
    assert waiting(service, stage) == 0
    assert [waiting(service, other) for other in STAGES if other != stage] == [2, 2]
    assert STAGES[stage]() == 0


def test_tenants_take_turns(service: Service, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    service.configure(index_rows=1, embed_rows=1, score_rows=1)
    tenants = [service.tenant() for _ in range(3)]
    for _ in range(3):
        for tenant in tenants:
            service.send(tenant.tenant_id, "x")
            drain.drain_streams()
    fake = Fake(monkeypatch, stage)
    STAGES[stage]()
    served = [tenant_id for tenant_id, _ in fake.given]
    assert len(served) == 9
    assert all(len(set(served[start : start + 3])) == 3 for start in range(0, 9, 3))


def test_a_batch_has_a_limit_but_for_its_first_item(
    service: Service, tenant: Tenant, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.configure(index_rows=5, embed_rows=5, score_rows=5)
    for size in (2, 2, 2, 7, 1):
        service.send(tenant.tenant_id, *["x"] * size)
        drain.drain_streams()
    fake = Fake(monkeypatch, stage)
    STAGES[stage]()
    assert [len(memory_ids) for _, memory_ids in fake.given] == [4, 2, 7, 1]


def test_the_one_that_fails_is_cornered_and_set_aside_and_its_neighbours_are_done(
    service: Service, tenant: Tenant, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = service.send(tenant.tenant_id, *(f"{n}" for n in range(16)))
    drain.drain_streams()
    fake = Fake(monkeypatch, stage)
    fake.cursed = {ids[11]}
    done = sum(STAGES[stage]() for _ in range(12))
    assert done == 15
    assert waiting(service, stage) == 0
    assert service.letters(tenant.tenant_id) == [(stage, "ValueError", 3)]
    assert service.rows("SELECT memory_ids FROM dead_letters") == [([ids[11]],)]
    assert service.one("SELECT count(*) FROM memories") == 16


def test_a_failure_leaves_other_items_of_its_tenant_alone(
    service: Service, tenant: Tenant, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.configure(index_rows=1, embed_rows=1, score_rows=1)
    requests = [service.send(tenant.tenant_id, f"{n}")[0] for n in range(3)]
    for _ in requests:
        drain.drain_streams()
    fake = Fake(monkeypatch, stage)
    fake.cursed = {requests[0]}
    for _ in range(6):
        STAGES[stage]()
    assert waiting(service, stage) == 0
    assert [letter[0] for letter in service.letters(tenant.tenant_id)] == [stage]


def test_while_a_store_is_away_no_try_counts(
    service: Service, tenant: Tenant, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = service.send(tenant.tenant_id, "patient")
    drain.drain_streams()
    fake = Fake(monkeypatch, stage)
    fake.cursed = set(ids)
    fake.error = OperationalError("SELECT", {}, psycopg.OperationalError("the connection is closed"))
    for _ in range(10):
        with pytest.raises(OperationalError):
            STAGES[stage]()
        assert STAGES[stage]() == 0, "no immediate retry"
        release(service)
    assert service.one("SELECT max(attempts) FROM tenant_work WHERE stage = %s", stage) == 0
    fake.cursed = set()
    assert STAGES[stage]() == 1
    assert service.letters(tenant.tenant_id) == []


class Killed(BaseException):
    """Simulates SIGKILL: nothing after it runs."""


def test_one_that_kills_its_worker_is_cornered_too(
    service: Service, tenant: Tenant, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = service.send(tenant.tenant_id, *(f"{n}" for n in range(4)))
    drain.drain_streams()
    fake = Fake(monkeypatch, stage)
    fake.cursed, fake.error = {ids[2]}, Killed()
    deaths = 0
    for _ in range(40):
        try:
            STAGES[stage]()
        except Killed:
            deaths += 1
            release(service)
    assert waiting(service, stage) == 0
    assert service.letters(tenant.tenant_id) == [(stage, stage_runner.KILLED, 3)]
    assert deaths <= 3 + 3 * 2
    assert {memory_id for _, given in fake.given for memory_id in given} == set(ids)


def test_a_claim_is_ones_own_until_its_lease_ends(service: Service, tenant: Tenant, stage: str) -> None:
    service.send(tenant.tenant_id, "one")
    drain.drain_streams()

    def claim(lease: float) -> work_queue.WorkClaim | None:
        with database.shared() as tx:
            return work_queue.claim(tx, stage, claim_id=uuid4(), after=work_queue.NIL, limit=10, lease_seconds=lease)

    first = claim(60)
    assert first is not None
    assert claim(60) is None
    release(service)
    second = claim(60)
    assert second is not None
    assert second.attempts == 2
    with database.shared() as tx:
        work_queue.finish_claim(tx, first)  # the lease has expired, so the claim isn't theirs any more
    assert waiting(service, stage) == 1
    with database.shared() as tx:
        work_queue.finish_claim(tx, second)
    assert waiting(service, stage) == 0


def test_two_workers_that_give_a_memory_up_set_it_aside_once(service: Service, tenant: Tenant, stage: str) -> None:
    service.send(tenant.tenant_id, "one")
    drain.drain_streams()

    def claim() -> work_queue.WorkClaim:
        release(service)
        with database.shared() as tx:
            claimed = work_queue.claim(tx, stage, claim_id=uuid4(), after=work_queue.NIL, limit=10, lease_seconds=60)
        assert claimed is not None
        return claimed

    lost = [claim() for _ in range(4)][-1]
    present = claim()
    for attempt in (lost, present, present):
        assert stage_runner._process_claim(attempt, lambda *_: 1) == 0
        assert len(service.letters(tenant.tenant_id)) == (attempt is present)
    assert waiting(service, stage) == 0


def test_a_lost_claim_is_not_split(service: Service, tenant: Tenant, stage: str) -> None:
    ids = service.send(tenant.tenant_id, "a", "b", "c")
    drain.drain_streams()

    def claim(lease: float) -> work_queue.WorkClaim | None:
        with database.shared() as tx:
            return work_queue.claim(tx, stage, claim_id=uuid4(), after=work_queue.NIL, limit=10, lease_seconds=lease)

    def items() -> list[tuple[list[UUID], int]]:
        return [
            (row[0], row[1])
            for row in service.rows(
                "SELECT memory_ids, attempts FROM tenant_work WHERE stage = %s ORDER BY work_id", stage
            )
        ]

    lost, present = claim(-1), claim(60)
    assert lost is not None
    assert present is not None
    with database.shared() as tx:
        work_queue.split_claim(tx, lost)
    assert items() == [(ids, 2)], "the second worker holds the item, and no memory is queued twice"
    with database.shared() as tx:
        work_queue.split_claim(tx, present)
    assert items() == [(ids[:1], 1), (ids[1:], 1)]


def test_a_slice_ends_in_time_and_asks_for_another(
    service: Service, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        service.send(service.tenant().tenant_id, "x")
    drain.drain_streams()
    nudges: list[str] = []
    monkeypatch.setattr("app.queues.enqueue", lambda task, *_, **__: nudges.append(task.rpartition(".")[2]))
    service.redis.flushdb()
    service.configure(slice_seconds=0.000001)
    assert STAGES[stage]() == 1
    assert nudges.count(stage) == 1
    service.configure(slice_seconds=PATIENCE_SECONDS)
    assert STAGES[stage]() == 2
    assert nudges.count(stage) == 1


def test_the_other_stage_goes_on_while_one_fails(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = service.send(tenant.tenant_id, "a needle in the hay")
    drain.drain_streams()
    fake = Fake(monkeypatch, "embed")
    fake.cursed = set(ids)
    for _ in range(4):
        stage_runner.embed()
    stage_runner.run_index_stage()
    assert service.one("SELECT count(*) FROM memory_words") == 1
    assert [letter[0] for letter in service.letters(tenant.tenant_id)] == ["embed"]


def test_a_batch_that_takes_too_long_is_halved(
    service: Service, tenant: Tenant, stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = service.send(tenant.tenant_id, *(f"{n}" for n in range(4)))
    drain.drain_streams()
    fake = Fake(monkeypatch, stage)
    fake.cursed = {ids[2]}
    service.configure(statement_timeout_seconds=0.2)
    database.close()
    with database.shared() as tx, pytest.raises(OperationalError) as timed_out:
        tx.execute(text("SELECT pg_sleep(3600)"))
    service.configure(statement_timeout_seconds=PATIENCE_SECONDS)
    database.close()
    fake.error = timed_out.value
    assert sum(STAGES[stage]() for _ in range(8)) == 3
    assert service.rows("SELECT memory_ids FROM dead_letters") == [([ids[2]],)]


def test_batches_are_embedded_side_by_side(service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    service.configure(embed_rows=1)
    for n in range(6):
        service.send(tenant.tenant_id, f"memory {n}")
        drain.drain_streams()
    both = threading.Barrier(2)

    def meet(_: UUID, memory_ids: Sequence[UUID]) -> int:
        both.wait(timeout=PATIENCE_SECONDS)
        return len(memory_ids)

    monkeypatch.setattr(stage_runner, "embed_memories", meet)
    assert stage_runner.embed(threads=2) == 6
    assert waiting(service, "embed") == 0


def test_what_was_tried_before_is_embedded_alone(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This memory may have killed its worker; neighbours in its batch would be retried and set aside with it."""
    service.configure(embed_rows=1)
    for text_of_one in ("tried", "tried", "new", "new"):
        service.send(tenant.tenant_id, text_of_one)
        drain.drain_streams()
    tried = {
        memory_id
        for [ids] in service.rows(
            "UPDATE tenant_work SET attempts = 1 WHERE stage = 'embed' AND work_id IN "
            "(SELECT work_id FROM tenant_work WHERE stage = 'embed' ORDER BY work_id LIMIT 2) RETURNING memory_ids"
        )
        for memory_id in ids
    }
    inside: set[UUID] = set()
    met: dict[UUID, set[UUID]] = {}

    def record_turn(_: UUID, memory_ids: Sequence[UUID]) -> int:
        inside.update(memory_ids)
        threading.Event().wait(0.1)  # long enough for the other thread to enter, if it were allowed to
        met[memory_ids[0]] = set(inside)
        inside.difference_update(memory_ids)
        return len(memory_ids)

    monkeypatch.setattr(stage_runner, "embed_memories", record_turn)
    assert stage_runner.embed(threads=2) == 4
    assert all(met[memory_id] == {memory_id} for memory_id in tried)
