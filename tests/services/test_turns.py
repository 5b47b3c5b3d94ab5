"""Enrichment goes round the tenants, whatever ends its slices."""

from __future__ import annotations

from app.services import enrichment, ingest
from tests.service import Service


def test_slices_that_end_early_still_serve_every_tenant_in_its_turn(service: Service) -> None:
    service.configure(index_rows=1)
    tenant_ids = [service.tenant().tenant_id for _ in range(4)]
    for tenant_id in tenant_ids:
        for number in range(3):
            service.send(tenant_id, f"memory {number}")
            ingest.drain()
    service.send(tenant_ids[0], "waits to be stored: a slice ends after a batch")

    for _ in tenant_ids:
        assert enrichment.index() == 1

    left = service.rows("SELECT count(*) FROM tenant_work WHERE stage = 'index' GROUP BY tenant_id")
    assert left == [(2,)] * len(tenant_ids)
