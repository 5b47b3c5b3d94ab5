"""Record changes in the transactions that make them, and read them in commit order.

A row holds a batch of changes of one type: their ids, and a batch number that the sequence assigns while the changed
rows are still locked. Cursors are assigned later: a reader numbers the committed batches in the order of their batch
numbers, while it locks the tenant's head (its row in `change_heads`). A transaction that commits late is therefore
numbered after everything that was read before, so readers skip nothing; if two transactions change the same memory, the
later one has a higher batch number and becomes visible later, so the changes of a memory keep their order. Cursors have
no gaps: the cursor of each change is its predecessor's plus one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from app.domain.ingest.ids import array_literal
from app.store.core import database
from app.store.core.binary_arrays import driver_connection, fetch_value

IDS_MAX: Final = 1000
"""Maximum number of ids per row."""
NUMBERED_MAX: Final = 2000
"""Maximum number of rows that one statement numbers."""
KEEP_DAYS: Final = 7
"""Retention in days of tenants whose policy was stored without `changes.keep_days`."""

Batch = tuple[str, str]
"""Changes of one type: the type, and the ids as a PostgreSQL array literal."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change in a tenant's feed.

    Attributes:
        cursor: Position in the feed, from 1, without gaps.
        type: One of `domain.changes.types.TYPES`.
        at: Time of the change.
        id: Id of the memory, erasure, job, dead letter, run or export that changed.
    """

    cursor: int
    type: str
    at: datetime
    id: str


def record(
    tx: Connection, tenant_id: UUID, change_type: str, ids: Collection[UUID], at: datetime | None = None
) -> None:
    """Record changes of one type, in the transaction that makes them, with the changed rows locked.

    Nothing is recorded if the tenant's policy switches the feed off.

    Args:
        at: Time of the changes; None for the transaction's current time.
    """
    record_batches(tx, tenant_id, batches(change_type, ids), at)


def record_batches(tx: Connection, tenant_id: UUID, given: Sequence[Batch], at: datetime | None = None) -> None:
    """Record batches of changes, as in `record`, in the given order."""
    if given:
        driver_connection(tx).execute(RECORD, {"tenant": tenant_id, **parameters(tx, given, at)})


def batches(change_type: str, ids: Collection[UUID]) -> list[Batch]:
    """Return changes of one type as batches of at most `IDS_MAX` ids."""
    names = [str(each) for each in ids]
    return [(change_type, array_literal(names[start : start + IDS_MAX])) for start in range(0, len(names), IDS_MAX)]


def parameters(tx: Connection, given: Sequence[Batch], at: datetime | None = None) -> dict[str, Any]:
    """Return the parameters of `RECORD`, except the tenant."""
    return {
        "changes_at": at or database.simulated_now(tx),
        "change_types": [change_type for change_type, _ in given],
        "changed": [ids for _, ids in given],
    }


IS_ON: Final = f"""coalesce((
  SELECT CAST(body->'changes'->>'keep_days' AS int) FROM policies
  WHERE policies.tenant_id = %(tenant)s AND effective_at <= now() ORDER BY version DESC LIMIT 1), {KEEP_DAYS}) > 0"""  # noqa: S608
"""SQL condition that the tenant's policy switches the feed on."""
RECORD: Final = f"""
INSERT INTO changes (tenant_id, at, size, type, ids)
SELECT %(tenant)s, coalesce(%(changes_at)s::timestamptz, clock_timestamp()), cardinality(ids), type, ids
FROM (
  SELECT type, CAST(item AS uuid[]) AS ids
  FROM unnest(%(change_types)s::text[], %(changed)s::text[]) AS given (type, item) OFFSET 0
) AS batches
WHERE {IS_ON}
"""  # noqa: S608 - constants only


def read_page(
    tx: Connection, tenant_id: UUID, cursor: int, types: frozenset[str] | None, limit: int
) -> tuple[list[Change], int]:
    """Return up to `limit` changes after a cursor, in commit order, and the cursor from which to continue.

    The transaction may number committed changes, so it must be committed before the cursors are given to a caller.
    Changes that another transaction is numbering right now are left for the next call.

    Args:
        cursor: Cursor of the last change that the reader has, or `oldest`.
        types: Types to return; None for all. The returned cursor is past skipped changes of other types.
        limit: At least 1.
    """
    _number(tx, tenant_id, wait=False)
    searched = _head(tx, tenant_id)[0]
    changes = _read(tx, tenant_id, cursor, types, limit)
    reached = changes[-1].cursor if changes else cursor
    return changes, reached if len(changes) == limit else max(reached, searched)


def newest(tx: Connection, tenant_id: UUID) -> int:
    """Return the cursor of the newest committed change, after which a reader gets only later ones; 0 if none.

    The transaction may number changes and then locks the tenant's head, so it must end soon.
    """
    while _number(tx, tenant_id, wait=True) == NUMBERED_MAX:
        pass
    return _head(tx, tenant_id)[0]


def oldest(tx: Connection, tenant_id: UUID) -> int:
    """Return the lowest cursor that a reader may go on from: changes after it are all retained; 0 at first."""
    return _head(tx, tenant_id)[1]


def bounds(tx: Connection, tenant_id: UUID) -> tuple[int, int]:
    """Return the cursor of the newest change that is numbered already, and the oldest cursor to go on from."""
    return _head(tx, tenant_id)


def has_news(tx: Connection, tenant_id: UUID, cursor: int) -> bool:
    """Return True if there are changes after a cursor, of any type, or some that aren't numbered yet."""
    return bool(fetch_value(tx, _HAS_NEWS, {"tenant": tenant_id, "cursor": cursor}))


_HAS_NEWS: Final = """
SELECT EXISTS (SELECT FROM changes WHERE tenant_id = %(tenant)s AND last IS NULL)
  OR EXISTS (SELECT FROM changes WHERE tenant_id = %(tenant)s AND last > %(cursor)s)
"""


def _head(tx: Connection, tenant_id: UUID) -> tuple[int, int]:
    rows = driver_connection(tx).execute(_HEAD, {"tenant": tenant_id}).fetchall()
    return rows[0] if rows else (0, 0)


_HEAD: Final = "SELECT newest, oldest FROM change_heads WHERE tenant_id = %(tenant)s"


def _number(tx: Connection, tenant_id: UUID, *, wait: bool) -> int:
    """Assign cursors to committed batches, at most `NUMBERED_MAX`; return their number.

    Args:
        wait: Wait for another transaction that numbers; otherwise return 0 at once.
    """
    connection, values = driver_connection(tx), {"tenant": tenant_id, "limit": NUMBERED_MAX}
    if not fetch_value(tx, _IS_PENDING, values):
        return 0
    # Only if there is no head: otherwise, the insert would wait for a concurrent transaction that has changed the head.
    if not connection.execute(_HEAD, values).fetchall():
        connection.execute(_OPEN, values)
    head = fetch_value(tx, _LOCK if wait else _TRY_LOCK, values)
    if head is None:
        return 0
    # A statement of its own: its snapshot includes the numbers that the lock's last holder has assigned.
    return int(fetch_value(tx, _NUMBER, values | {"newest": head}))


_IS_PENDING: Final = "SELECT EXISTS (SELECT FROM changes WHERE tenant_id = %(tenant)s AND last IS NULL)"
_OPEN: Final = "INSERT INTO change_heads (tenant_id) VALUES (%(tenant)s) ON CONFLICT DO NOTHING"
_LOCK: Final = "SELECT newest FROM change_heads WHERE tenant_id = %(tenant)s FOR UPDATE"
_TRY_LOCK: Final = f"{_LOCK} SKIP LOCKED"
_NUMBER: Final = """
WITH pending AS (
  SELECT batch, size FROM changes WHERE tenant_id = %(tenant)s AND last IS NULL ORDER BY batch LIMIT %(limit)s
), placed AS (
  SELECT batch, %(newest)s + sum(size) OVER (ORDER BY batch) AS last FROM pending
), numbered AS (
  UPDATE changes SET last = placed.last FROM placed
  WHERE changes.tenant_id = %(tenant)s AND changes.batch = placed.batch RETURNING changes.last
), moved AS (
  UPDATE change_heads SET newest = (SELECT max(last) FROM numbered)
  WHERE tenant_id = %(tenant)s AND EXISTS (SELECT FROM numbered)
)
SELECT count(*) FROM numbered
"""


def _read(tx: Connection, tenant_id: UUID, cursor: int, types: frozenset[str] | None, limit: int) -> list[Change]:
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "cursor": cursor,
        "types": None if types is None else sorted(types),
        "limit": limit,
    }
    changes: list[Change] = []
    for begin, change_type, at, ids, spans in driver_connection(tx).execute(_AFTER, values, binary=True).fetchall():
        wanted = ids if spans is None else islice(_expand(ids, spans), max(cursor + 1 - begin, 0), None)
        first = max(begin, cursor + 1)
        rows = enumerate(islice(wanted, limit - len(changes)), first)
        changes += [Change(place, change_type, at, str(each)) for place, each in rows]
    return changes


def _expand(bases: Sequence[UUID], spans: Sequence[int]) -> Iterator[UUID]:
    """Yield the ids of all memories of requests, given their first ids and their numbers of memories."""
    for base, count in zip(bases, spans, strict=True):
        for place in range(count):
            yield UUID(int=base.int + place)


# The window sums the sizes of at most `limit` rows, so that only the ids of rows that are returned are read.
_AFTER: Final = """
SELECT last - size + 1, type, at,
  CASE WHEN spans IS NULL THEN ids[size - wanted + 1 : size - wanted + %(limit)s] ELSE ids END, spans
FROM (
  SELECT last, type, at, ids, spans, size, wanted, sum(wanted) OVER (ORDER BY last) - wanted AS before
  FROM (
    SELECT last, type, at, ids, spans, size, least(size, last - %(cursor)s) AS wanted FROM changes
    WHERE tenant_id = %(tenant)s AND last > %(cursor)s AND (%(types)s::text[] IS NULL OR type = ANY (%(types)s::text[]))
    ORDER BY last LIMIT %(limit)s
  ) AS candidates
) AS ranked
WHERE before < %(limit)s
ORDER BY last
"""


def interrupt(tx: Connection, tenant_id: UUID) -> None:
    """Invalidate all cursors: changes weren't recorded for a time, and no reader may skip them unnoticed."""
    newest(tx, tenant_id)
    driver_connection(tx).execute(_INTERRUPT, {"tenant": tenant_id})


_INTERRUPT: Final = """
INSERT INTO change_heads AS head (tenant_id, newest, oldest) VALUES (%(tenant)s, 1, 1)
ON CONFLICT (tenant_id) DO UPDATE SET newest = head.newest + 1, oldest = head.newest + 1
"""


def delete_expired(tx: Connection, tenant_id: UUID, before: datetime, limit: int) -> int:
    """Delete up to `limit` batches older than `before`; return their number. Repeat while it is `limit`.

    Unnumbered batches are numbered first, so that readers learn that changes were removed.
    """
    values = {"tenant": tenant_id, "before": before, "limit": limit}
    if not fetch_value(tx, _IS_EXPIRED, values):
        return 0
    newest(tx, tenant_id)
    return int(fetch_value(tx, _DELETE, values))


_IS_EXPIRED: Final = "SELECT EXISTS (SELECT FROM changes WHERE tenant_id = %(tenant)s AND at < %(before)s)"
_DELETE: Final = """
WITH expired AS MATERIALIZED (
  SELECT batch, last FROM changes WHERE tenant_id = %(tenant)s AND at < %(before)s AND last IS NOT NULL
  ORDER BY last LIMIT %(limit)s
), gone AS (
  DELETE FROM changes WHERE tenant_id = %(tenant)s AND batch IN (SELECT batch FROM expired)
), moved AS (
  UPDATE change_heads SET oldest = greatest(oldest, (SELECT max(last) FROM expired))
  WHERE tenant_id = %(tenant)s AND EXISTS (SELECT FROM expired)
)
SELECT count(*) FROM expired
"""
