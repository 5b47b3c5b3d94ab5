"""The circumstances of a tenant, as far as a search must know: its policies, its spaces and the clock, at once."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store import database, policies, spaces
from app.store.packed import driver
from app.store.spaces import TenantSpaces


class Circumstances(NamedTuple):
    """The circumstances of a tenant.

    Attributes:
        now: By the database's clock, in seconds since 1970.
        policies: All of its policies, as of `policies.versions`.
        spaces: As of `spaces.of_tenant`.
    """

    now: float
    policies: list[tuple[int, float, str]]
    spaces: TenantSpaces | None


def read(tx: Connection, tenant_id: UUID) -> Circumstances:
    """The circumstances of a tenant now."""
    rows = driver(tx).execute(_READ, {"tenant": tenant_id}, binary=True).fetchall()
    simulated = database.simulated_now(tx)
    now = rows[0][0] if simulated is None else simulated.timestamp()
    return Circumstances(now, [row[1:4] for row in rows if row[1] is not None], spaces.of_row(rows[0][4:]))


_READ: Final = f"""
SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8), policy.*, there.*
FROM (VALUES (1)) AS one
LEFT JOIN ({policies.VERSIONS}) AS policy ON true
LEFT JOIN ({spaces.OF_TENANT}) AS there ON true
ORDER BY version
"""  # noqa: S608 - put together of constants
