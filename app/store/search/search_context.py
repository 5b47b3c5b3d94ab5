"""Read the tenant's context for a search in one statement: policies, spaces, clock and windows."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store.core import database
from app.store.core.binary_arrays import driver_connection
from app.store.embedding import embedding_spaces, windows
from app.store.embedding.embedding_spaces import TenantSpaces
from app.store.tenants import policies


class SearchContext(NamedTuple):
    """A tenant's context for a search.

    Attributes:
        now: The database's time in seconds since 1970.
        policies: All policy versions, as returned by `policies.list_versions`.
        spaces: The tenant's spaces, as returned by `embedding_spaces.read_tenant_spaces`.
        mark: A version stamp that changes with any of the other values except `now`.
        has_windows: The tenant has a memory long enough to have windows.
    """

    now: float
    policies: list[tuple[int, float, str]]
    spaces: TenantSpaces | None
    mark: str
    has_windows: bool


def read(tx: Connection, tenant_id: UUID) -> SearchContext:
    """Return a tenant's current context."""
    rows = driver_connection(tx).execute(_READ, {"tenant": tenant_id}, binary=True).fetchall()
    clock, mark, has_windows = rows[0][:3]
    policies_read = [row[3:6] for row in rows if row[3] is not None]
    return SearchContext(
        reference_time(tx, clock), policies_read, embedding_spaces.parse_spaces(rows[0][6:]), mark, has_windows
    )


def reference_time(tx: Connection, clock: float) -> float:
    """Return a simulated tenant's time, otherwise the given database time, in seconds since 1970."""
    simulated = database.simulated_now(tx)
    return clock if simulated is None else simulated.timestamp()


CLOCK: Final = "(SELECT CAST(extract(epoch FROM clock_timestamp()) AS float8))"
"""SQL for the database's time in seconds since 1970; evaluated once per statement."""
MARK: Final = f"""(
  SELECT concat_ws(' ', {windows.ANY},
    (SELECT string_agg(concat_ws('.', version, xmin), ' ' ORDER BY version) FROM policies WHERE tenant_id = %(tenant)s),
    (SELECT concat_ws('.', 'in', xmin) FROM tenant_spaces WHERE tenant_id = %(tenant)s)))"""  # noqa: S608 - built from constants
"""SQL for `SearchContext.mark`, built from the transaction ids that wrote the rows; evaluated once per statement."""

_READ: Final = f"""
SELECT {CLOCK}, {MARK}, {windows.ANY}, policy.*, there.*
FROM (VALUES (1)) AS one
LEFT JOIN ({policies.VERSIONS}) AS policy ON true
LEFT JOIN ({embedding_spaces.OF_TENANT}) AS there ON true
ORDER BY version
"""  # noqa: S608 - built from constants
