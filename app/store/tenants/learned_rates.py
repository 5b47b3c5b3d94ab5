"""Store the latest rates of forgetting that were learned for a tenant."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.policy.learned_rates import NONE, StoredRates, decode_rates


def read(tx: Connection, tenant_id: UUID) -> StoredRates:
    """Return the tenant's latest result; `NONE` without one."""
    body = tx.execute(_READ, {"tenant": tenant_id}).scalar()
    return NONE if body is None else decode_rates(body)


_READ: Final = text("SELECT CAST(learned_rates AS text) FROM tenants WHERE tenant_id = :tenant")


def write(tx: Connection, tenant_id: UUID, rates: StoredRates) -> None:
    """Replace the tenant's result."""
    tx.execute(_WRITE, {"tenant": tenant_id, "body": msgspec.json.encode(rates).decode()})


_WRITE: Final = text("UPDATE tenants SET learned_rates = CAST(:body AS jsonb) WHERE tenant_id = :tenant")
