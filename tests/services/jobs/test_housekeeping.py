"""The ingest ledger retains its rows for as long as a replay may need them."""

from __future__ import annotations

import os
import time

import pytest

from app.domain.ingest.ids import RANDOM_BYTES, generate_base
from app.services.ingest import drain
from app.services.jobs import housekeeping
from tests.service import Service, Tenant
from tests.services.nights import purged

HOUR = 3600


@pytest.fixture
def tenant(service: Service) -> Tenant:
    return service.tenant()


def enter(service: Service, tenant: Tenant, age_seconds: float) -> None:
    """Store an envelope that was accepted this long ago."""
    base = generate_base(int((time.time() - age_seconds) * 1000), os.urandom(RANDOM_BYTES))
    service.post(tenant.tenant_id, b'{"text":"x"}', base=base)
    drain.drain_streams()


def ledger(service: Service, tenant: Tenant) -> int:
    found: int = service.one("SELECT count(*) FROM envelopes WHERE tenant_id = %s", tenant.tenant_id)
    return found


def test_rows_are_deleted_once_no_replay_can_need_them(service: Service, tenant: Tenant) -> None:
    longest = 24 * HOUR + housekeeping.REDELIVERY.total_seconds()
    for age in (0, longest - 60, longest + 60, longest + 30 * 24 * HOUR):
        enter(service, tenant, age)
    assert purged(tenant.tenant_id)["ledger"] == 2
    assert ledger(service, tenant) == 2
    assert len(service.texts(tenant.tenant_id)) == 4
    assert purged(tenant.tenant_id)["ledger"] == 0


def test_the_age_follows_the_setting(service: Service, tenant: Tenant) -> None:
    enter(service, tenant, 24 * HOUR + housekeeping.REDELIVERY.total_seconds() + 60)
    service.configure(idempotency_hours=48)
    assert purged(tenant.tenant_id)["ledger"] == 0


def test_other_tenants_rows_stay(service: Service, tenant: Tenant) -> None:
    other = service.tenant()
    enter(service, other, 90 * 24 * HOUR)
    assert purged(tenant.tenant_id)["ledger"] == 0
    assert ledger(service, other) == 1


def test_more_than_a_slice_is_deleted_slice_by_slice(
    service: Service, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(housekeeping, "SLICE_ROWS", 2)
    for _ in range(5):
        enter(service, tenant, 90 * 24 * HOUR)
    enter(service, tenant, 0)
    assert purged(tenant.tenant_id)["ledger"] == 5
    assert ledger(service, tenant) == 1
    assert service.redis.hget("ebbing:{s0}:counters", "ledger_purged_rows") == b"5"
