"""Read the recipients, legal holds, schema version and policy version that an erasure report states."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.case_details import CLEARED, REDACTED
from app.domain.privacy.legal_hold import HoldGround
from app.store.core.binary_arrays import Uuids, driver_connection
from app.store.privacy.holds import HOLDS


class Recipient(NamedTuple):
    """A host that was called for a tenant: the purposes, the number of calls, and the first and last day of use."""

    host: str
    purposes: list[str]
    calls: int
    first: date
    last: date


class Holding(NamedTuple):
    """A legal hold and the number of the queried memories that it covers."""

    hold_id: UUID
    placed_at: datetime
    memories: int
    ground: str | None = None


def hosts(tx: Connection, tenant_id: UUID) -> list[Recipient]:
    """Return every host that was ever called for a tenant, in alphabetical order."""
    return [Recipient(*row) for row in tx.execute(_HOSTS, {"tenant": tenant_id})]


_HOSTS: Final = text("""
SELECT host, array_agg(DISTINCT purpose ORDER BY purpose), CAST(sum(calls) AS bigint), min(day), max(day) FROM usage
WHERE tenant_id = :tenant AND calls > 0 AND host <> '' GROUP BY host ORDER BY host
""")


def holds_on(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[Holding]:
    """Return the holds on these memories, in order of placement."""
    rows = driver_connection(tx).execute(_HOLDS_ON, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [Holding(*row) for row in rows]


_HOLDS_ON: Final = f"""
SELECT hold.hold_id, hold.placed_at, count(*), hold.ground
FROM (
  SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) OFFSET 0
) AS memory JOIN holds AS hold ON hold.tenant_id = %(tenant)s AND {HOLDS}
GROUP BY hold.hold_id, hold.placed_at, hold.ground ORDER BY hold.placed_at, hold.hold_id
"""  # noqa: S608 - constants only


class HoldAuthors(NamedTuple):
    """Authors of the texts of a legal hold: of its reason, and of the reason of its release, if there is one.

    Attributes:
        ground: The legal ground now, which may have been added or corrected since a report was written.
        is_replaced: Whether the reason was replaced because of an erased person's name.
        is_release_replaced: Whether the reason of the release was replaced.
        is_removed: Whether the reason was removed with the conditions of the hold.
        thread: The conversation among the conditions of the hold.
    """

    hold_id: UUID
    placed_at: datetime
    placed_by: str
    released_at: datetime | None
    released_by: str | None
    has_release_reason: bool
    ground: HoldGround | None
    is_replaced: bool
    is_release_replaced: bool
    is_removed: bool
    thread: str | None


def hold_authors(tx: Connection, tenant_id: UUID, hold_ids: Sequence[UUID]) -> list[HoldAuthors]:
    """Return who wrote the texts of these holds, in order of placement; unknown holds are omitted."""
    values = {"tenant": tenant_id, "ids": Uuids(hold_ids), "replaced": REDACTED, "removed": CLEARED}
    rows = driver_connection(tx).execute(_HOLD_AUTHORS, values).fetchall()
    return [HoldAuthors(*row) for row in rows]


_HOLD_AUTHORS: Final = """
SELECT hold_id, placed_at, placed_by, released_at, released_by, coalesce(release_reason, '') <> '', ground,
  reason = %(replaced)s, coalesce(release_reason = %(replaced)s, false), reason = %(removed)s, thread
FROM holds
WHERE tenant_id = %(tenant)s AND hold_id = ANY (%(ids)s) ORDER BY placed_at, hold_id
"""


def hold_times(
    tx: Connection, tenant_id: UUID, hold_ids: Sequence[UUID]
) -> dict[UUID, tuple[datetime, datetime | None]]:
    """Return when each of these holds was placed and released (None if it is in force); unknown holds are omitted."""
    rows = driver_connection(tx).execute(_HOLD_TIMES, {"tenant": tenant_id, "ids": Uuids(hold_ids)}).fetchall()
    return {hold_id: (placed_at, released_at) for hold_id, placed_at, released_at in rows}


_HOLD_TIMES: Final = """
SELECT hold_id, placed_at, released_at FROM holds WHERE tenant_id = %(tenant)s AND hold_id = ANY (%(ids)s)
"""


def schema(tx: Connection) -> str:
    """Return the revision of the database's schema."""
    return str(tx.execute(_SCHEMA).scalar_one())


_SCHEMA: Final = text("SELECT version_num FROM alembic_version")


def policy(tx: Connection, tenant_id: UUID) -> int:
    """Return the version of the policy in force; 0 for the default policy."""
    return int(tx.execute(_POLICY, {"tenant": tenant_id}).scalar_one())


_POLICY: Final = text("""
SELECT coalesce(max(version), 0) FROM policies WHERE tenant_id = :tenant AND effective_at <= now()
""")
