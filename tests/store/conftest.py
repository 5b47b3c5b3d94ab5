"""Fixtures: databases with tenants of thousands of memories."""

from __future__ import annotations

from tests.store.bulk_tenants import crowd, large_tenant, large_tenant_template

__all__ = ["crowd", "large_tenant", "large_tenant_template"]
