"""Recipients of a tenant's memories: model providers that were called, and the store of cold memories and exports."""

from __future__ import annotations

from typing import Any

import pytest

from app.services.security import recipients
from app.store.core import database
from tests.service import Service


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ({"cold_url": "s3://bucket/folder"}, "bucket"),
        ({"cold_url": "s3://bucket/folder", "cold_endpoint": "https://store.example:9000"}, "store.example"),
    ],
)
def test_the_host_of_cold_storage_is_among_them(service: Service, given: dict[str, Any], host: str) -> None:
    tenant_id = service.tenant().tenant_id
    statement = "INSERT INTO usage (tenant_id, day, purpose, host, model, calls) VALUES (%s, now(), %s, %s, 'm', %s)"
    for purpose, calls in (("score", 3), ("embed", 2)):
        service.rows(statement, tenant_id, purpose, "model.example", calls)
    service.rows(statement, tenant_id, "rerank", "never.example", 0)
    service.configure(**given)
    with database.tenant(tenant_id) as tx:
        found = recipients.list_recipients(tx, tenant_id)
    assert [(each["host"], each["purposes"], each["calls"]) for each in found] == [
        ("model.example", ["embed", "score"], 5),
        (host, ["cold storage", "exports"], None),
    ]


def test_a_folder_of_this_machine_is_nobody(service: Service) -> None:
    service.configure(cold_url="file:///var/lib/cold")
    tenant_id = service.tenant().tenant_id
    with database.tenant(tenant_id) as tx:
        assert recipients.list_recipients(tx, tenant_id) == []
