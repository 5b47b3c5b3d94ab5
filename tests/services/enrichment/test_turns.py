"""Enrichment serves every tenant in turn, however its slices end."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import pytest

from app.clients.redis.connection import SHARED_TURNS
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.store.ingest.envelopes import WORK_ITEM_MEMORIES
from tests.service import Service


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
