"""The circumstances of a tenant, as far as a search must know: its policies, its spaces and the clock, at once."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store.core import database
from app.store.core.packed import driver
from app.store.embedding import spaces, windows
from app.store.embedding.spaces import TenantSpaces
from app.store.tenants import policies


class Circumstances(NamedTuple):
    """The circumstances of a tenant.

    Attributes:
        now: By the database's clock, in seconds since 1970.
        policies: All of its policies, as of `policies.versions`.
        spaces: As of `spaces.of_tenant`.
        mark: Another text for any other values of what follows `now`.
        has_windows: Whether any memory of the tenant is long enough to have windows.
    """

    now: float
    policies: list[tuple[int, float, str]]
    spaces: TenantSpaces | None
    mark: str
    has_windows: bool


def read(tx: Connection, tenant_id: UUID) -> Circumstances:
    """The circumstances of a tenant now."""
    rows = driver(tx).execute(_READ, {"tenant": tenant_id}, binary=True).fetchall()
    clock, mark, has_windows = rows[0][:3]
    policies_read = [row[3:6] for row in rows if row[3] is not None]
    return Circumstances(now_of(tx, clock), policies_read, spaces.of_row(rows[0][6:]), mark, has_windows)


def now_of(tx: Connection, clock: float) -> float:
    """Return the moment of a simulated tenant, or else what the clock of the database says, in seconds since 1970."""
    simulated = database.simulated_now(tx)
    return clock if simulated is None else simulated.timestamp()


CLOCK: Final = "(SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8))"
"""Column of the database's clock, in seconds since 1970; read once in a statement."""
MARK: Final = f"""(
  SELECT concat_ws(' ', {windows.ANY},
    (SELECT string_agg(concat_ws('.', version, xmin), ' ' ORDER BY version) FROM policies WHERE tenant_id = %(tenant)s),
    (SELECT concat_ws('.', 'in', xmin) FROM tenant_spaces WHERE tenant_id = %(tenant)s)))"""  # noqa: S608 - built from constants
"""Column of `Circumstances.mark`, made of the transactions that wrote the rows; worked out once in a statement."""

_READ: Final = f"""
SELECT {CLOCK}, {MARK}, {windows.ANY}, policy.*, there.*
FROM (VALUES (1)) AS one
LEFT JOIN ({policies.VERSIONS}) AS policy ON true
LEFT JOIN ({spaces.OF_TENANT}) AS there ON true
ORDER BY version
"""  # noqa: S608 - built from constants
