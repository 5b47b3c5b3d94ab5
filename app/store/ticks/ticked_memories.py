"""Read memories in memory-decay's terms: type, category, importance, tick of creation, and both activations.

The activation is that of the last tick: memories of a tenant with a decay clock don't fade between ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.dynamics.memory_decay import FACT_KINDS
from app.domain.ingest.memory import KINDS
from app.store.core.binary_arrays import Uuids, driver_connection

AT_RISK_BELOW: Final = 0.3
"""Retrieval below which a memory counts as at risk."""


class TickedMemory(NamedTuple):
    """A memory in memory-decay's terms.

    Attributes:
        mtype: The submitted type; if none was submitted, `fact` or `episode`, depending on the memory's kind.
        category: The submitted category, or else the type.
        importance: 0 to 1.
        created_tick: The submitted tick, or else 0.
        storage: 0 to 1.
        retrieval: 0 to 1.
        uses: Number of uses.
    """

    memory_id: UUID
    text: str
    mtype: str
    category: str
    importance: float
    speaker: str
    created_tick: int
    storage: float
    retrieval: float
    stability: float
    uses: int


class CategorySummary(NamedTuple):
    """Number of memories of a category, and their average activation."""

    category: str
    memories: int
    retrieval: float
    storage: float


class MemorySummary(NamedTuple):
    """Number of memories, their average activation, and the number at risk."""

    memories: int
    retrieval: float
    storage: float
    at_risk: int


_FACTS: Final = ", ".join(str(KINDS.index(kind)) for kind in FACT_KINDS)
# PostgreSQL reports an underflow below e^-745.
_ROWS: Final = f"""
SELECT memory.memory_id, memory.seq, memory.text,
  coalesce(memory.metadata->>'mtype', CASE WHEN state.kind IN ({_FACTS}) THEN 'fact' ELSE 'episode' END) AS mtype,
  coalesce(memory.metadata->>'category', memory.metadata->>'mtype',
    CASE WHEN state.kind IN ({_FACTS}) THEN 'fact' ELSE 'episode' END) AS category,
  coalesce(state.salience, 0)::float8 AS importance, coalesce(memory.speaker, '') AS speaker,
  CASE WHEN memory.metadata->>'created_tick' ~ '^-?[0-9]{{1,15}}$'
    THEN (memory.metadata->>'created_tick')::bigint ELSE 0 END AS created_tick,
  exp(greatest(least(state.level, 0), -700)) AS storage, state.retrieval, state.stability, state.access_count AS uses
FROM memories AS memory
JOIN memory_state AS state ON state.tenant_id = %(tenant)s AND state.memory_id = memory.memory_id
WHERE memory.tenant_id = %(tenant)s AND memory.deleted_at IS NULL
"""  # noqa: S608 - constants only
_NAMES: Final = ", ".join(TickedMemory._fields)
_WANTED: Final = """
WHERE (%(category)s::text IS NULL OR category = %(category)s) AND (%(mtype)s::text IS NULL OR mtype = %(mtype)s)
"""


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, TickedMemory]:
    """Return these memories by id; deleted and unknown ones are omitted."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    rows = driver_connection(tx).execute(_READ, values).fetchall()
    return {row[0]: TickedMemory(*row) for row in rows}


_READ: Final = f"SELECT {_NAMES} FROM ({_ROWS} AND memory.memory_id = ANY (%(ids)s)) AS found"  # noqa: S608


def list_page(
    tx: Connection, tenant_id: UUID, category: str | None, mtype: str | None, offset: int, limit: int
) -> list[TickedMemory]:
    """Return a page of memories, those of the latest tick first."""
    values = {"tenant": tenant_id, "category": category, "mtype": mtype, "offset": offset, "limit": limit}
    return [TickedMemory(*row) for row in driver_connection(tx).execute(_PAGE, values).fetchall()]


_PAGE: Final = f"""
SELECT {_NAMES} FROM ({_ROWS}) AS found {_WANTED}
ORDER BY created_tick DESC, seq DESC OFFSET %(offset)s LIMIT %(limit)s
"""  # noqa: S608 - constants only


def count(tx: Connection, tenant_id: UUID, category: str | None = None, mtype: str | None = None) -> int:
    """Count the memories, optionally of one category or type."""
    values = {"tenant": tenant_id, "category": category, "mtype": mtype}
    row = driver_connection(tx).execute(_COUNT, values).fetchone()
    return 0 if row is None else int(row[0])


_COUNT: Final = f"SELECT count(*) FROM ({_ROWS}) AS found {_WANTED}"  # noqa: S608 - constants only


def summarise(tx: Connection, tenant_id: UUID) -> tuple[MemorySummary, list[CategorySummary]]:
    """Return the summary of all memories, and that of each category by name."""
    rows = driver_connection(tx).execute(_SUMMARY, {"tenant": tenant_id, "at_risk": AT_RISK_BELOW}).fetchall()
    [total] = [MemorySummary(*row[2:]) for row in rows if row[0]]
    return total, [CategorySummary(*row[1:5]) for row in rows if not row[0]]


_SUMMARY: Final = f"""
SELECT grouping(category) = 1, category, count(*), coalesce(avg(retrieval), 0), coalesce(avg(storage), 0),
  count(*) FILTER (WHERE retrieval < %(at_risk)s)
FROM ({_ROWS}) AS found GROUP BY GROUPING SETS ((), (category)) ORDER BY category
"""  # noqa: S608 - constants only


def list_later(tx: Connection, tenant_id: UUID, tick: int) -> dict[UUID, int]:
    """Return the tick of creation of the memories that were submitted for a tick after this one, by id."""
    rows = driver_connection(tx).execute(_LATER, {"tenant": tenant_id, "tick": tick}).fetchall()
    return {row[0]: row[1] for row in rows}


_LATER: Final = f"SELECT memory_id, created_tick FROM ({_ROWS}) AS found WHERE created_tick > %(tick)s"  # noqa: S608


def list_stored(tx: Connection, tenant_id: UUID, after: UUID, limit: int) -> list[UUID]:
    """Return the ids of a page of the tenant's memories, by id; hidden ones are omitted."""
    values = {"tenant": tenant_id, "after": after, "limit": limit}
    return [row.memory_id for row in tx.execute(_STORED, values)]


_STORED: Final = text("""
SELECT memory_id FROM memories WHERE tenant_id = :tenant AND deleted_at IS NULL AND memory_id > :after
ORDER BY memory_id LIMIT :limit
""")
