"""Enrichment serves every tenant in turn, however its slices end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from app.clients.redis.connection import SHARED_TURNS
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.store.core import database
from app.store.enrichment import work_queue
from app.store.ingest.envelopes import WORK_ITEM_MEMORIES
from tests.service import Service
from tests.waiting import PATIENCE_SECONDS


class Clock:
    """A clock that stands still until a test sets it."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def test_slices_that_end_early_still_serve_every_tenant_in_its_turn(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_runner, "SHARED_LANE_SECONDS", 0)
    service.configure(index_rows=1)
    tenant_ids = [service.tenant().tenant_id for _ in range(4)]
    for tenant_id in tenant_ids:
        for number in range(3):
            service.send(tenant_id, f"memory {number}")
            drain.drain_streams()
    service.send(tenant_ids[0], "waits to be stored: a slice ends after a batch")

    for _ in tenant_ids:
        assert stage_runner.run_index_stage() == 1

    left = service.rows("SELECT count(*) FROM tenant_work WHERE stage = 'index' GROUP BY tenant_id")
    assert left == [(2,)] * len(tenant_ids)


def test_while_requests_wait_to_be_stored_a_slice_of_indexing_still_serves_many_tenants(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant_ids = [service.tenant().tenant_id for _ in range(4)]
    for tenant_id in tenant_ids:
        service.send(tenant_id, "to be indexed")
        drain.drain_streams()
    service.send(tenant_ids[0], "waits to be stored")
    clock, index = Clock(), stage_runner._index_claim

    def index_slowly(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
        clock.seconds += stage_runner.SHARED_LANE_SECONDS / 2.5
        return index(tenant_id, memory_ids)

    monkeypatch.setattr(stage_runner, "time", clock)
    monkeypatch.setattr(stage_runner, "_index_claim", index_slowly)

    assert stage_runner.run_index_stage() == 3
    assert stage_runner.run_index_stage() == 1


def test_a_stage_has_short_turns_as_soon_as_the_drain_has(service: Service) -> None:
    flood, quiet = (service.tenant().tenant_id for _ in range(2))
    service.send(quiet, "a word")
    drain.drain_streams()
    assert stage_runner.run_index_stage() == 1
    service.send(flood, *(f"memory {number}" for number in range(2 * WORK_ITEM_MEMORIES)))
    drain.drain_streams()
    service.configure(slice_seconds=1e-6)  # one turn per slice
    assert stage_runner.run_index_stage() == WORK_ITEM_MEMORIES, "the first item, instead of both"
    service.redis.delete(SHARED_TURNS)
    assert stage_runner.run_index_stage() == WORK_ITEM_MEMORIES


@pytest.mark.parametrize(
    ("stage", "run", "process"),
    [
        (work_queue.INDEX, stage_runner.run_index_stage, "index_memories"),
        (work_queue.EMBED, stage_runner.embed, "embed_memories"),
    ],
)
def test_during_a_tenant_s_turn_the_other_workers_of_a_stage_are_free_for_others(
    service: Service, monkeypatch: pytest.MonkeyPatch, stage: str, run: Callable[[], int], process: str
) -> None:
    flood, quiet = (service.tenant().tenant_id for _ in range(2))
    service.send(flood, *(f"memory {number}" for number in range(2 * WORK_ITEM_MEMORIES)))
    service.send(quiet, "a word")
    drain.drain_streams()
    monkeypatch.setitem(stage_runner._last_turns, stage, quiet)  # so the flood's turn is next
    service.configure(slice_seconds=1e-6)  # one turn per slice
    processed: list[UUID] = []
    beside: list[int] = []
    original = getattr(stage_runner, process)

    def while_others_claim(tenant_id: UUID, *given: Any) -> int:
        processed.append(tenant_id)
        if len(processed) == 1:
            beside.extend([run(), run()])
        return int(original(tenant_id, *given))

    monkeypatch.setattr(stage_runner, process, while_others_claim)
    run()
    assert processed == [flood, quiet]
    assert beside == [1, 0]


@pytest.mark.parametrize("slice_seconds", [PATIENCE_SECONDS, pytest.param(1e-6, id="a call that outlasts its slice")])
def test_an_idle_thread_embeds_what_arrives_during_another_tenant_s_turn(
    service: Service, monkeypatch: pytest.MonkeyPatch, slice_seconds: float
) -> None:
    """The flood's turn ends only when the other tenant's memory, which is stored during the turn, is embedded."""
    flood, quiet = (service.tenant().tenant_id for _ in range(2))
    service.send(flood, *(f"memory {number}" for number in range(2 * WORK_ITEM_MEMORIES)))
    drain.drain_streams()
    service.redis.set(SHARED_TURNS, "1")
    processed: list[UUID] = []
    is_other_embedded = threading.Event()

    def embed(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
        processed.append(tenant_id)
        if tenant_id == quiet:
            is_other_embedded.set()
        elif len(processed) == 1:
            service.send(quiet, "a word")
            drain.drain_streams()
            assert is_other_embedded.wait(PATIENCE_SECONDS)
        return len(memory_ids)

    monkeypatch.setattr(stage_runner, "embed_memories", embed)
    service.configure(slice_seconds=slice_seconds)
    embedded = list(iter(partial(stage_runner.embed, threads=2), 0))
    assert sum(embedded) == 2 * WORK_ITEM_MEMORIES + 1
    assert len(embedded) == 1 or slice_seconds < PATIENCE_SECONDS, "a long slice embeds everything"
    assert processed[:2] == [flood, quiet]


@pytest.fixture
def rests(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each rest of scoring, which no test waits for."""
    rests: list[float] = []
    monkeypatch.setattr(stage_runner, "_rest", rests.append)
    return rests


@pytest.fixture
def scored_next(service: Service) -> list[UUID]:
    """Two tenants with a memory each, whose work for all stages was queued a minute ago."""
    tenant_ids = [service.tenant().tenant_id for _ in range(2)]
    for tenant_id in tenant_ids:
        service.send(tenant_id, "a word")
    drain.drain_streams()
    service.rows("UPDATE tenant_work SET created_at = created_at - interval '1 minute' RETURNING 1")
    return tenant_ids


def test_scoring_rests_after_a_shared_turn_while_search_is_behind(
    service: Service, scored_next: list[UUID], rests: list[float]
) -> None:
    service.configure(slice_seconds=100)
    assert stage_runner.run_score_stage() == len(scored_next)
    assert len(rests) == len(scored_next)
    assert all(seconds > 0 for seconds in rests)


def test_scoring_never_rests_longer_than_a_slice(service: Service, scored_next: list[UUID], rests: list[float]) -> None:
    service.configure(slice_seconds=1e-6)
    assert stage_runner.run_score_stage() == 1
    assert rests == [1e-6]


def test_scoring_goes_on_when_search_has_caught_up_or_waits_for_a_provider(
    service: Service, scored_next: list[UUID], rests: list[float]
) -> None:
    assert stage_runner.run_index_stage() == len(scored_next)
    with database.shared() as tx:
        for tenant_id in scored_next:
            work_queue.postpone(tx, work_queue.EMBED, tenant_id, 60)
    assert stage_runner.run_score_stage() == len(scored_next)
    assert rests == []


def test_scoring_goes_on_while_all_other_work_is_recent(service: Service, rests: list[float]) -> None:
    for _ in range(2):
        service.send(service.tenant().tenant_id, "a word")
    drain.drain_streams()
    service.rows("UPDATE tenant_work SET created_at = now() + interval '1 hour' RETURNING 1")
    assert stage_runner.run_score_stage() == 2
    assert rests == []


def test_scoring_of_a_tenant_alone_never_rests(service: Service, rests: list[float]) -> None:
    service.send(service.tenant().tenant_id, "a word")
    drain.drain_streams()
    service.rows("UPDATE tenant_work SET created_at = created_at - interval '1 minute' RETURNING 1")
    assert stage_runner.run_score_stage() == 1
    assert rests == []
