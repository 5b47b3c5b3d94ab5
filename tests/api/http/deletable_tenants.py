"""Tenants for the routes that delete one: to be deleted, being deleted, and as if deleted."""

from __future__ import annotations

import json
from contextlib import suppress
from uuid import UUID

from app.errors import Conflict
from app.services.erasure import tenant_deletion
from app.services.tenants import tenants
from tests.api.caller import Api


def another_tenant(api: Api, path: str) -> UUID:
    """Return a tenant to delete, or one whose deletion is requested, or as if it were finished."""
    if path.endswith("{tenant_id}"):
        with suppress(Conflict):  # refused requests leave it
            tenants.create("left")
        found = tenants.find_tenant("left")
        assert found is not None
        return found.tenant_id
    tenant_id = api.service.tenant().tenant_id
    name = tenant_deletion.get(tenant_id).tenant.name
    made = tenant_deletion.request(tenant_id, name, "y")
    if path.endswith("report"):
        report = {"memories": 0, "kept": [], "elsewhere": [], "stores": [], "left": {}}
        values = (json.dumps(report), made.tenant.deletion_id)
        api.service.rows("UPDATE erasures SET report = %s::jsonb WHERE erasure_id = %s", *values)
    return tenant_id
