"""The unit of work records everything that a write entails, once, and nothing if the write fails."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from app.services.memories import recount
from app.services.storage.memory_write import Level, memory_write
from app.store.core import database
from app.store.enrichment.work_queue import EMBED, INDEX
from app.store.erasure import requests
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import NONE, TierCounts
from tests.service import Service, Tenant
from tests.services import archived_memories
from tests.waiting import PATIENCE_SECONDS, until


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def test_a_deletion_is_counted_once_and_queues_nothing(service: Service, tenant: Tenant) -> None:
    ids = archived_memories.remember(service, tenant.tenant_id, "A kettle", "A boat")
    with memory_write(tenant.tenant_id, "tier") as write:
        write.queue([EMBED], ids[:1])
        write.measure(ids[:1])
        write.delete(ids[:1], {("deleted", "decay"): 1})
        write.audit("memories_deleted", ids=ids[:1])
    with database.tenant(tenant.tenant_id) as tx:
        assert tenant_counts.read(tx, tenant.tenant_id) == TierCounts(active=1, text_bytes=6)
    assert recount.recount_tenant(tenant.tenant_id) == NONE
    assert service.rows("SELECT move, rule, memories FROM tier_moves") == [("deleted", "decay", 1)]
    assert service.rows("SELECT items FROM audit WHERE action = 'memories_deleted'") == [(1,)]
    assert service.rows("SELECT stage FROM tenant_work WHERE %s = ANY (memory_ids)", ids[0]) == []


def test_nothing_is_written_if_the_block_fails(service: Service, tenant: Tenant) -> None:
    ids = archived_memories.remember(service, tenant.tenant_id, "A kettle")

    def delete_and_fail() -> None:
        with memory_write(tenant.tenant_id, "tier") as write:
            write.delete(ids, {("deleted", "decay"): 1})
            write.audit("memories_deleted", ids=ids)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        delete_and_fail()
    assert service.rows("SELECT memory_id FROM memories") == [(ids[0],)]
    assert service.rows("SELECT FROM tier_moves") == []
    assert service.rows("SELECT FROM audit WHERE action = 'memories_deleted'") == []
    assert recount.recount_tenant(tenant.tenant_id) == NONE


def test_work_is_one_item_for_each_call_and_stage(service: Service, tenant: Tenant) -> None:
    ids = archived_memories.remember(service, tenant.tenant_id, "A kettle", "A boat")
    with memory_write(tenant.tenant_id, "state") as write:
        write.queue([INDEX, EMBED], ids)
        write.queue([EMBED], ids[1:])
        write.queue([EMBED], [])
    found = service.rows("SELECT stage, memory_ids FROM tenant_work ORDER BY stage, cardinality(memory_ids)")
    assert found == [("embed", ids[1:]), ("embed", ids), ("index", ids)]


LOCKS = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted = %s"


@pytest.mark.parametrize(("level", "locks"), [("state", 0), ("tier", 1), ("content", 2)])
def test_the_level_decides_the_first_locks(service: Service, tenant: Tenant, level: Level, locks: int) -> None:
    with memory_write(tenant.tenant_id, level):
        assert service.one(LOCKS, True) == locks
    assert service.one(LOCKS, True) == 0


def test_the_holds_are_locked_before_the_erasures(service: Service, tenant: Tenant) -> None:
    def write() -> None:
        with memory_write(tenant.tenant_id, "content"):
            pass

    with ThreadPoolExecutor(1) as pool:
        with database.tenant(tenant.tenant_id) as tx:
            requests.lock_exclusive(tx, tenant.tenant_id)
            writing = pool.submit(write)
            until(lambda: service.one(LOCKS, False), "the write waits for the erasures")
            assert service.one(LOCKS, True) == 1, "it holds the other lock already"
        writing.result(timeout=PATIENCE_SECONDS)
