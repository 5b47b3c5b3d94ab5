"""Operator steps in a new installation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from app.services.tenants import tenants
from app.settings import settings
from app.store.core import database


def make_tenant(database_url: str, name: str, scopes: Sequence[str] = tenants.TENANT_SCOPES) -> tuple[str, str]:
    """Create a tenant in the database and return its id and first key."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("EBBING_DATABASE_URL", database_url)
        settings.cache_clear()
        database.close()
        try:
            tenant, key = tenants.create(name, scopes=scopes)
            return str(tenant.tenant_id), key
        finally:
            database.close()
            settings.cache_clear()
