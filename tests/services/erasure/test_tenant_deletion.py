"""Deletion of a tenant: an erasure of everything, after which only the tombstone and the proofs remain."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict, Invalid, NotFound, TenantClosed
from app.services.erasure import requests, tenant_deletion
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import legal_holds
from app.services.tenants import tenants
from app.store.core import database
from app.store.erasure import whole_tenant
from tests.service import Service
from tests.services.due_deletions import UNFINISHED, worked
from tests.services.erasure.test_erasures import Household, house

__all__ = ["house"]


def name_of(tenant_id: UUID) -> str:
    return tenant_deletion.get(tenant_id).tenant.name


def delete(tenant_id: UUID, grace_days: int | None = 0) -> tenant_deletion.Deletion:
    return tenant_deletion.request(tenant_id, name_of(tenant_id), "key", grace_days)


def left(service: Service, tenant_id: UUID) -> dict[str, int]:
    """Return the tenant's rows by table, for tables that have any."""
    with database.tenant(tenant_id) as tx:
        tables = whole_tenant.list_tables(tx)
    counts = {
        table: service.one(f"SELECT count(*) FROM {table} WHERE tenant_id = %s", tenant_id)  # noqa: S608 - catalogue names
        for table in tables
    }
    return {table: count for table, count in counts.items() if count}


def test_every_table_with_a_tenant_has_an_answer(service: Service) -> None:
    with database.tenant(service.tenant().tenant_id) as tx:
        found = whole_tenant.list_tables(tx)
    known = [*whole_tenant.DATA, *whole_tenant.LAST, *whole_tenant.KEYS, *whole_tenant.KEPT]
    assert sorted(known) == found, "a new table needs an answer in app/store/erasure/whole_tenant.py"


def test_the_service_may_delete_from_every_table(service: Service) -> None:
    tenant_id = service.tenant().tenant_id
    for table in (*whole_tenant.DATA, *whole_tenant.LAST, *whole_tenant.KEYS):
        with database.tenant(tenant_id) as tx:
            whole_tenant.delete_rows(tx, tenant_id, UUID(int=0), table)


def test_everything_of_a_tenant_is_erased_and_another_tenant_is_untouched(house: Household) -> None:
    other = Household(house.service)
    before = left(house.service, other.tenant_id)
    made = delete(house.tenant_id)
    worked(house.service, UNFINISHED)
    done = tenant_deletion.get(house.tenant_id)
    assert (done.tenant.status, done.tenant.deletion_id) == ("deleted", made.tenant.deletion_id)
    assert done.tenant.name == str(house.tenant_id)
    kept = left(house.service, house.tenant_id)
    assert kept == {"tenants": 1, "audit": kept["audit"], "audit_heads": 1, "erasures": 1, "jobs": 1} | {
        "ebbing_keys.erasure_ledger": 1
    }
    assert left(house.service, other.tenant_id) == before
    report = tenant_deletion.read_report(house.tenant_id)
    assert (report["scope"], report["memories"], set(report["left"].values())) == ("tenant", 4, {0})
    assert {row["code"] for row in report["kept"]} == {
        *("tenant_tombstone", "tenant_audit", "tenant_requests", "tenant_usage", "tenant_case")
    }
