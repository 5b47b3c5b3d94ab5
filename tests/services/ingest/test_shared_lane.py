"""The drain and the index stage share a lane of few processes; neither starves while work keeps arriving."""

from __future__ import annotations

from collections import deque

import pytest

from app import queues
from app.clients.redis.stream import TenantBatch
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from tests.service import Service

REQUESTS = 30


def test_the_index_stage_has_turns_while_requests_keep_arriving(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process runs the tasks in the order of their messages, and each turn of the drain brings another request."""
    service.configure(drain_entries=1)
    monkeypatch.setattr(drain, "NUDGE_EVERY_SECONDS", 0)
    monkeypatch.setattr(drain, "INDEX_WAITS_SECONDS", 0)
    monkeypatch.setattr(stage_runner, "SHARED_LANE_SECONDS", 0)
    lane: deque[str] = deque()
    monkeypatch.setattr(queues, "enqueue", lambda task, *_, **__: lane.append(task))
    tenant = service.tenant()
    store = drain._store_entries
    left = REQUESTS
    waiting: list[int] = []

    def arrive() -> None:
        nonlocal left
        left -= 1
        if service.post(tenant.tenant_id, b'[{"text":"one of many requests"}]').nudge:
            lane.append(queues.DRAIN)

    def store_while_another_arrives(turn: TenantBatch) -> int:
        if left:
            arrive()
        return store(turn)

    def unindexed() -> int:
        pending = "SELECT coalesce(sum(cardinality(memory_ids)), 0) FROM tenant_work WHERE stage = 'index'"
        return int(service.one(pending))

    monkeypatch.setattr(drain, "_store_entries", store_while_another_arrives)
    arrive()
    while lane:
        task = lane.popleft()
        if task == queues.DRAIN:
            drain.drain_and_index()
            waiting.append(unindexed())
        elif task == queues.INDEX:
            stage_runner.run_index_stage()
    assert max(waiting) <= 3, "the drain stores no more than a few requests before the index stage has a turn"
    assert not unindexed()
    assert len(service.texts(tenant.tenant_id)) == REQUESTS


@pytest.mark.parametrize(("stored", "is_left"), [(drain.FEW_MEMORIES, False), (drain.FEW_MEMORIES + 1, True)])
def test_a_drain_task_indexes_a_few_memories_itself(
    service: Service, monkeypatch: pytest.MonkeyPatch, stored: int, is_left: bool
) -> None:
    sent: list[str] = []
    monkeypatch.setattr(queues, "enqueue", lambda task, *_, **__: sent.append(task))
    tenant = service.tenant()
    service.send(tenant.tenant_id, *(f"memory {number}" for number in range(stored)))
    drain.drain_and_index()
    unindexed = service.one("SELECT count(*) FROM tenant_work WHERE stage = 'index'")
    assert (queues.INDEX in sent, unindexed > 0) == (is_left, is_left)
    assert queues.EMBED_MEMORIES in sent


def test_a_drain_task_that_indexes_leaves_the_nudge_of_a_waiting_index_task(service: Service) -> None:
    """Its flag prevents a second message of the task in the lane."""
    queues.nudge(queues.INDEX)
    service.send(service.tenant().tenant_id, "a memory")
    drain.drain_and_index()
    assert queues.nudge(queues.INDEX)
