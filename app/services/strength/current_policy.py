"""Read a tenant's policy in force."""

from __future__ import annotations

from app.store.core import database
from app.store.tenants import policies

read = database.in_tenant(policies.read_current)
"""Return the policy in force for a tenant."""
