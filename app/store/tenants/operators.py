"""Store the people who log in through a provider, by tenant. Audit entries and records hold only a row's id."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import Connection, text

OPERATORS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Operator:
    """A person who acted in a tenant.

    Attributes:
        sub: The provider's id of the person.
        seen_at: The person's last log-in.
    """

    operator_id: UUID
    issuer: str
    sub: str
    name: str
    seen_at: datetime


def upsert(tx: Connection, tenant_id: UUID, issuer: str, sub: str, name: str) -> UUID:
    """Store a log-in and return the person's id in this tenant, which is random."""
    values = {"tenant_id": tenant_id, "operator_id": uuid4(), "issuer": issuer, "sub": sub, "name": name}
    operator_id: UUID = tx.execute(_UPSERT, values).scalar_one()
    return operator_id


_UPSERT = text("""
INSERT INTO operators (tenant_id, operator_id, issuer, sub, name)
VALUES (:tenant_id, :operator_id, :issuer, :sub, :name)
ON CONFLICT (tenant_id, issuer, sub) DO UPDATE SET name = excluded.name, seen_at = now()
RETURNING operator_id
""")


def list_operators(tx: Connection, tenant_id: UUID) -> list[Operator]:
    """Return the people of a tenant, latest log-in first."""
    rows = tx.execute(_LIST, {"tenant_id": tenant_id, "limit": OPERATORS_MAX})
    return [Operator(*row) for row in rows]


_LIST = text("""
SELECT operator_id, issuer, sub, name, seen_at FROM operators WHERE tenant_id = :tenant_id
ORDER BY seen_at DESC, operator_id LIMIT :limit
""")


def get(tx: Connection, tenant_id: UUID, operator_id: UUID) -> Operator | None:
    """Return the person with this id in the tenant, or None if there is none."""
    row = tx.execute(_GET, {"tenant_id": tenant_id, "operator_id": operator_id}).one_or_none()
    return None if row is None else Operator(*row)


_GET = text("""
SELECT operator_id, issuer, sub, name, seen_at FROM operators
WHERE tenant_id = :tenant_id AND operator_id = :operator_id
""")


def delete(tx: Connection, tenant_id: UUID, operator_id: UUID) -> None:
    """Delete a person's row."""
    tx.execute(_DELETE, {"tenant_id": tenant_id, "operator_id": operator_id})


_DELETE = text("DELETE FROM operators WHERE tenant_id = :tenant_id AND operator_id = :operator_id")
