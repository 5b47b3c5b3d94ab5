"""The data's mark in the erasure ledger: in a restored copy, no tenant's erasure may skip the entries of another."""

from __future__ import annotations

from uuid import UUID, uuid4

from app.store.core import database
from app.store.erasure import ledger, tombstones
from tests.service import Service, Tenant

CUT = "1788034687000-0"


def enter(tenant: Tenant, erasure_id: UUID, *memory_ids: UUID) -> None:
    with database.tenant(tenant.tenant_id) as tx:
        tombstones.enter_in_ledger(tx, tenant.tenant_id, {erasure_id: memory_ids}, {}, CUT)


def mark(service: Service) -> int:
    return int(service.one("SELECT seq FROM ledger_mark"))


def test_a_replay_that_finds_more_does_not_skip_the_entries_of_other_tenants(service: Service) -> None:
    """The entry moves to the end of the ledger; the mark stays before the entries that still wait."""
    ours, theirs = service.tenant(), service.tenant()
    began, erasure_id, other_id, memory_id = mark(service), uuid4(), uuid4(), uuid4()
    enter(ours, erasure_id, memory_id)
    enter(theirs, other_id, uuid4())
    assert mark(service) == service.one("SELECT max(seq) FROM ebbing_keys.erasure_ledger")
    service.rows("UPDATE ledger_mark SET seq = %s", began)  # as in a copy of the data from before both
    enter(ours, erasure_id, memory_id, uuid4())
    with database.shared() as tx:
        following = ledger.next_entry(tx, mark(service))
    assert following is not None
    assert following.erasure_id == other_id


def test_the_transaction_is_the_tenants_afterwards(service: Service) -> None:
    tenant = service.tenant()
    service.send(service.tenant().tenant_id, "a memory of another tenant")
    service.work()
    with database.tenant(tenant.tenant_id) as tx:
        tombstones.enter_in_ledger(tx, tenant.tenant_id, {uuid4(): [uuid4()]}, {}, CUT)
        assert tx.exec_driver_sql("SELECT count(*) FROM memories").scalar() == 0
