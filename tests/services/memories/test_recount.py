"""A tenant's counters follow every change of its memories, and equal a full recount."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from app import metrics
from app.domain.ingest.memory import MemoryPatch
from app.domain.policy.policy import Policy
from app.services.ingest import drain
from app.services.memories import memories, recount
from app.services.monitoring import stats
from app.services.storage.memory_write import memory_write
from app.services.tenants import quota
from app.services.tiers import transitions
from app.store.core import database
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import NONE, TierCounts
from app.store.tiers import tiers
from tests.service import Service
from tests.services import nights
from tests.services.aged import Aged

LONG = "ünïcode " * 50


def stored_counts(tenant_id: UUID) -> TierCounts:
    with database.tenant(tenant_id) as tx:
        return tenant_counts.read(tx, tenant_id)


def counted(service: Service, tenant_id: UUID) -> TierCounts:
    rows = service.rows(
        "SELECT tier, octet_length(text) FROM memories JOIN memory_state USING (tenant_id, memory_id) "
        "WHERE tenant_id = %s AND deleted_at IS NULL",
        tenant_id,
    )
    tiers = [tier for tier, _ in rows]
    text_bytes = sum(size for _, size in rows)
    return TierCounts(tiers.count("active"), tiers.count("archived"), tiers.count("cold"), text_bytes)


def busy(service: Service, tenant_id: UUID) -> list[UUID]:
    """Store memories, send some again, and edit and delete some; return their ids."""
    ids = service.send(tenant_id, "one", LONG, {"text": "keyed", "external_id": "k"}, {"text": "two", "thread": "t"})
    ids += service.send(tenant_id, {"text": "keyed anew, and longer", "external_id": "k"}, "three")
    service.work()
    ids += service.send(tenant_id, {"text": "short", "external_id": "k"}, {"text": "x", "external_id": "m"}, "four")
    service.work()
    memories.edit_memory(tenant_id, ids[0], MemoryPatch(text=LONG))
    memories.edit_memory(tenant_id, ids[1], MemoryPatch(text="gone", thread="t"))
    memories.edit_memory(tenant_id, ids[3], MemoryPatch(tags=("a",)))
    memories.delete(tenant_id, ids[5])
    memories.delete(tenant_id, ids[2])
    return ids


def test_what_comes_is_changed_and_deleted_is_counted(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    busy(service, tenant_id)
    assert stored_counts(tenant_id) == counted(service, tenant_id)
    assert stored_counts(tenant_id).active == 5
    assert recount.recount_tenant(tenant_id) == NONE
    assert stats.tenant_stats(tenant_id).memories == {"active": 5, "archived": 0, "cold": 0}


def test_what_is_stored_twice_is_counted_once(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    base = bytes(6) + b"0123456789"
    for _ in range(2):
        service.post(tenant_id, b'[{"text":"x"},{"text":"y"}]', memories=2, base=base)
        drain.drain_streams()
    assert stored_counts(tenant_id) == TierCounts(active=2, text_bytes=2)


def test_moves_are_counted_and_audited_once_a_batch(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    aged = Aged(service, monkeypatch)
    ids = aged.remember(-25, -26, -100)
    assert recount.recount_tenant(aged.tenant_id).active == 3  # these rows were inserted behind the service's back
    nights.swept(aged.tenant_id)
    with memory_write(aged.tenant_id, "tier") as write:
        due = transitions.claim_due(write, "active", 10)
        transitions.record_moves(write, due, "archived")
    assert sorted(due.held.ids) == sorted(ids)
    with memory_write(aged.tenant_id, "tier") as write:
        due = transitions.claim_due(write, "archived", 10)
        transitions.record_moves(write, due, "cold", text_bytes=0)
    found = service.rows("SELECT actor, items, details FROM audit WHERE action = 'tier_moved' ORDER BY seq")
    assert found == [
        ("system", 3, {"to": "archived", "from_active": 3}),
        ("system", 1, {"to": "cold", "from_archived": 1}),
    ]
    assert stored_counts(aged.tenant_id)[:3] == (0, 2, 1)
    with memory_write(aged.tenant_id, "state") as write:
        tiers.write(write.tx, aged.tenant_id, due.held.ids, "active")
        write.restored(due.held.ids, "cold", "hand", "key1")
    found = service.rows("SELECT actor, items, details FROM audit WHERE action = 'memories_restored'")
    assert found == [("key1", 1, {"from": "cold"})]
    assert stored_counts(aged.tenant_id)[:3] == (1, 2, 0)
    assert recount.recount_tenant(aged.tenant_id) == NONE


def test_a_drift_is_corrected_told_and_gone(service: Service) -> None:
    tenant_id, other = service.tenant().tenant_id, service.tenant().tenant_id
    for each in (tenant_id, other):
        busy(service, each)
    service.rows(
        "UPDATE tenant_counts AS counts SET active = active + 7, text_bytes = 1 FROM (SELECT min(slot) AS first "
        "FROM tenant_counts WHERE tenant_id = %s) AS slots WHERE tenant_id = %s AND slot = first",
        tenant_id,
        tenant_id,
    )
    assert recount.recount_tenant(tenant_id).active == -7
    assert stored_counts(tenant_id) == counted(service, tenant_id)
    assert recount.recount_tenant(tenant_id) == recount.recount_tenant(other) == NONE
    assert metrics.read_counters()["counts_corrected"] == 1


@pytest.mark.slow
def test_a_recount_amid_writers_corrects_nothing(service: Service) -> None:
    """A transaction in progress counts in neither of the two sums."""
    tenant_id = service.tenant().tenant_id
    ids = service.send(tenant_id, *(f"memory {n}" for n in range(60)))
    service.work()

    def write(part: int) -> None:
        for memory_id in ids[part::3]:
            memories.edit_memory(tenant_id, memory_id, MemoryPatch(text=LONG[:part] + "x"))
            memories.delete(tenant_id, memory_id)

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, part) for part in range(3)]
        drifts = []
        while not all(done.done() for done in writing):
            drifts.append(recount.recount_tenant(tenant_id))
        for done in writing:
            done.result()
    assert set(drifts) == {NONE}
    assert stored_counts(tenant_id) == NONE == counted(service, tenant_id)


@pytest.mark.parametrize(("quota_bytes", "state"), [(None, "below"), (1000, "below"), (400, "near"), (300, "over")])
def test_a_quota_is_told_and_nothing_is_refused(service: Service, quota_bytes: int | None, state: str) -> None:
    tenant_id = service.tenant(Policy(quota_bytes=quota_bytes)).tenant_id
    service.send(tenant_id, "x" * 350)
    drain.drain_streams()
    room = quota.warn_near_quota(tenant_id)
    assert (room.text_bytes, room.vector_bytes, room.state) == (350, 0, state)
    assert stats.tenant_stats(tenant_id).room == room
    reported = {name: metrics.read_counters()[name] for name in ("quota_near", "quota_over")}
    assert reported == {"quota_near": int(state == "near"), "quota_over": int(state == "over")}
    service.send(tenant_id, "another")
    service.work()
    assert stored_counts(tenant_id).active == 2
    assert quota.warn_near_quota(tenant_id).vector_bytes == 2 * 256 * 2
