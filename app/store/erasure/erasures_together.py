"""Select due deletions of single memories, and store their progress many at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.store.core.packed import Uuids, driver
from app.store.erasure.erasures import COLUMNS, Erasure, as_erasure
from app.store.erasure.tombstones import ENTERED_AGAIN, LOCK_MARK, MARK
from app.store.search import searches
from app.store.tiers import removal


class Single(NamedTuple):
    """A deletion of one memory."""

    erasure_id: UUID
    memory_id: UUID


_SINGLE: Final = """
  status = 'grace' AND kind = 'user' AND scope = jsonb_build_object('memory_ids', scope->'memory_ids')
  AND jsonb_array_length(scope->'memory_ids') = 1"""
_SINGLES: Final = "SELECT erasure_id, CAST(scope->'memory_ids'->>0 AS uuid) FROM erasures"


def due(tx: Connection, tenant_id: UUID, as_of: datetime, apart: Sequence[UUID], limit: int) -> list[Single]:
    """Return single-memory deletions whose grace period has ended, skipping `apart` and those with an unfinished job.

    No two of the results are for the same memory.
    """
    values = {"tenant": tenant_id, "as_of": as_of, "apart": Uuids(apart), "limit": limit}
    found = [Single(*row) for row in driver(tx).execute(_DUE, values).fetchall()]
    return list({each.memory_id: each for each in reversed(found)}.values())


_DUE: Final = f"""
{_SINGLES} WHERE tenant_id = %(tenant)s AND {_SINGLE} AND erase_after <= %(as_of)s
  AND erasure_id <> ALL (%(apart)s) AND NOT EXISTS (
    SELECT FROM jobs
    WHERE jobs.tenant_id = %(tenant)s AND status IN ('queued', 'running') AND kind = 'erase'
      AND parameters->>'erasure_id' = CAST(erasures.erasure_id AS text))
ORDER BY erase_after, erasure_id LIMIT %(limit)s
"""


def lock(tx: Connection, tenant_id: UUID, singles: Sequence[Single], *, executed: Sequence[str] | None) -> list[Single]:
    """Lock the rows of these deletions, in id order, and return those that are still in the expected state.

    Args:
        executed: The steps that must be done; None if the grace period hasn't been ended yet.
    """
    ids = Uuids([each.erasure_id for each in singles])
    if executed is None:
        statement, steps = f"{_SINGLES} WHERE tenant_id = %(tenant)s AND {_SINGLE} AND erasure_id = ANY (%(ids)s)", ""
    else:
        steps = msgspec.json.encode(executed).decode()
        statement = f"""{_SINGLES} WHERE tenant_id = %(tenant)s AND status = 'running'
  AND jsonb_path_query_array(executed, '$[*].step') = CAST(%(steps)s AS jsonb) AND erasure_id = ANY (%(ids)s)"""
    statement += " ORDER BY erasure_id FOR UPDATE"
    rows = driver(tx).execute(statement.encode(), {"tenant": tenant_id, "ids": ids, "steps": steps}).fetchall()
    return [Single(*row) for row in rows]


def of_summaries(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of these memories that existing summaries were made from."""
    rows = driver(tx).execute(_OF_SUMMARIES, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return {memory_id for (memory_id,) in rows}


_OF_SUMMARIES: Final = """
SELECT DISTINCT part.memory_id
FROM (SELECT * FROM lineage WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) OFFSET 0) AS part
CROSS JOIN LATERAL (
  SELECT FROM merges
  WHERE merges.tenant_id = %(tenant)s AND merges.merge_id = part.merge_id AND summary_id IS NOT NULL OFFSET 0
) AS made
"""


def segments(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Return the segment of each cold memory."""
    rows = driver(tx).execute(_SEGMENTS, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return dict(rows)


_SEGMENTS: Final = """
SELECT memory_id, segment_id FROM cold_memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


def rows_of(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Count, per memory, the rows of each table that refer to it; the tables are those of `residue.by_id`."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    found: dict[UUID, dict[str, int]] = {memory_id: dict.fromkeys(_ROWS_OF, 0) for memory_id in memory_ids}
    for table, statement in _ROWS_OF.items():
        for memory_id, count in driver(tx).execute(statement.encode(), values).fetchall():
            found[memory_id][table] = count
    return found


def _each(table: str, members: str, more: str = "") -> str:
    return f"""
SELECT id, count(*) FROM {table} CROSS JOIN LATERAL (SELECT DISTINCT id FROM unnest({members}) AS id) AS member
WHERE tenant_id = %(tenant)s AND {more or f"{members} && %(ids)s"} AND id = ANY (%(ids)s) GROUP BY id"""  # noqa: S608 - constants only


_ROWS_OF: Final = {
    table: f"SELECT memory_id, count(*) FROM {table} "  # noqa: S608 - constants only
    "WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) GROUP BY memory_id"
    for table in (*removal.OWN, *removal.BY_OTHERS)
} | {
    "links": _each("links", "ARRAY[memory_id, other_id]", "(memory_id = ANY (%(ids)s) OR other_id = ANY (%(ids)s))"),
    "dead_letters": _each("dead_letters", "memory_ids"),
    "tenant_work": _each("tenant_work", "memory_ids"),
    "recorded_searches": _each("recorded_searches", "memory_ids", searches.HOLDS),
    "merges": "SELECT summary_id, count(*) FROM merges "
    "WHERE tenant_id = %(tenant)s AND summary_id = ANY (%(ids)s) GROUP BY summary_id",
}


def start(
    tx: Connection, tenant_id: UUID, singles: Sequence[Single], there: Sequence[UUID], cut: str, now: datetime
) -> None:
    """Start these deletions with a watermark and record each in the ledger; their rows are locked.

    Args:
        there: The memories that still exist; the others need no erasure.
    """
    left = set(there)
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "ids": Uuids([each.erasure_id for each in singles]),
        "memories": [f"{{{each.memory_id}}}" if each.memory_id in left else "{}" for each in singles],
        "cut": cut,
        "now": now,
    }
    driver(tx).execute(LOCK_MARK)
    if driver(tx).execute(_LEDGER, values).rowcount:
        driver(tx).execute(MARK, values | {"erasure_ids": values["ids"]})
    driver(tx).execute(_START, values)


_LEDGER: Final = f"""
INSERT INTO ebbing_keys.erasure_ledger AS known (tenant_id, erasure_id, memory_ids, cut)
SELECT %(tenant)s, id, CAST(memories AS uuid[]), %(cut)s
FROM unnest(%(ids)s, %(memories)s::text[]) AS given (id, memories)
{ENTERED_AGAIN}
"""  # noqa: S608 - constants only
_START: Final = """
UPDATE erasures SET status = 'running', cut = %(cut)s, started_at = coalesce(started_at, %(now)s)
WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(ids)s)
"""


def plan(tx: Connection, tenant_id: UUID, plans: Mapping[UUID, list[dict[str, Any]]]) -> list[UUID]:
    """Store the plan of each deletion that has none yet. Return the ids of those."""
    values = _given(tenant_id, plans)
    return [erasure_id for (erasure_id,) in driver(tx).execute(_PLAN, values).fetchall()]


_PLAN: Final = """
UPDATE erasures SET plan = CAST(given.value AS jsonb), executed = '[]'
FROM unnest(%(ids)s, %(values)s::text[]) AS given (id, value)
WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(ids)s) AND erasure_id = given.id
  AND status = 'running' AND plan IS NULL
RETURNING erasure_id
"""


def note(tx: Connection, tenant_id: UUID, done: Mapping[UUID, list[dict[str, Any]]]) -> None:
    """Append finished steps to each deletion; their rows are locked."""
    driver(tx).execute(_NOTE, _given(tenant_id, done))


_NOTE: Final = """
UPDATE erasures SET executed = executed || CAST(given.value AS jsonb)
FROM unnest(%(ids)s, %(values)s::text[]) AS given (id, value)
WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(ids)s) AND erasure_id = given.id
"""


def several(tx: Connection, tenant_id: UUID, erasure_ids: Sequence[UUID]) -> list[Erasure]:
    """Return erasures by their ids, in id order."""
    return [as_erasure(row) for row in tx.execute(_SEVERAL, {"tenant": tenant_id, "ids": list(erasure_ids)})]


_SEVERAL: Final = text(f"""
SELECT {COLUMNS} FROM erasures WHERE tenant_id = :tenant AND erasure_id = ANY (CAST(:ids AS uuid[]))
ORDER BY erasure_id
""")  # noqa: S608 - constants only


def finish(
    tx: Connection, tenant_id: UUID, reports: Mapping[UUID, dict[str, Any]], now: datetime, rewrite_by: datetime | None
) -> None:
    """Mark each deletion as verified and store its report; their rows are locked.

    Args:
        rewrite_by: Deadline for rewriting the affected segments; None if none is affected.
    """
    driver(tx).execute(_FINISH, _given(tenant_id, reports) | {"now": now, "rewrite_by": rewrite_by})


_FINISH: Final = """
UPDATE erasures SET status = 'verified', finished_at = %(now)s, verified_at = %(now)s, scope = '{}', reason = NULL,
  report = CAST(given.value AS jsonb),
  rewrite_by = CASE WHEN jsonb_path_exists(plan, '$[*].segments[*]') THEN %(rewrite_by)s::timestamptz END
FROM unnest(%(ids)s, %(values)s::text[]) AS given (id, value)
WHERE tenant_id = %(tenant)s AND erasure_id = ANY (%(ids)s) AND erasure_id = given.id
"""


def _given(tenant_id: UUID, by_id: Mapping[UUID, Any]) -> dict[str, Any]:
    return {
        "tenant": tenant_id,
        "ids": Uuids(list(by_id)),
        "values": [msgspec.json.encode(value).decode() for value in by_id.values()],
    }
