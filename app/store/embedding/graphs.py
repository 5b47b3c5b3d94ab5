"""Indexes of a large tenant's own: making and dropping them, and grafting its vectors into the graph.

`tenant_spaces.graph_space_id` says which space a tenant has them for; `embeddings.grafted` which vectors are in the
graph. A vector that is written again leaves the graph, so that writing costs no more than before. Windows of long
memories have a graph of their own, by `memory_windows.grafted`.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

DIMENSIONS_MAX = 4000
"""Of vectors in half precision that a graph can be made of."""

# Searches and writers queue behind whoever waits for a table, so nobody waits for long.
_PATIENCE = text("SELECT set_config('lock_timeout', '1s', true), set_config('statement_timeout', '10min', true)")


def make(tx: Connection, tenant_id: UUID, space_id: int) -> None:
    """Make the tenant's indexes for a space in which none of its vectors is grafted yet; an empty graph.

    Reads both tables once, and their writers wait as long.

    Raises:
        sqlalchemy.exc.OperationalError: Others had a table for more than a second; nothing is changed.
    """
    tx.execute(_PATIENCE)
    tx.execute(text("SELECT make_graph(CAST(:space AS smallint))"), {"space": space_id})
    tx.execute(text("SELECT make_window_graph(CAST(:space AS smallint))"), {"space": space_id})
    tx.execute(_NOTE, {"tenant": tenant_id, "space": space_id})


def drop(tx: Connection, tenant_id: UUID, space_id: int) -> None:
    """Drop the tenant's indexes for a space; raises as `make`. Vectors stay marked until they are `ungraft`ed."""
    tx.execute(_PATIENCE)
    tx.execute(text("SELECT drop_graph(CAST(:space AS smallint))"), {"space": space_id})
    tx.execute(text("SELECT drop_window_graph(CAST(:space AS smallint))"), {"space": space_id})
    tx.execute(_NOTE, {"tenant": tenant_id, "space": None})


_NOTE = text("UPDATE tenant_spaces SET graph_space_id = CAST(:space AS smallint) WHERE tenant_id = :tenant")


def graft(tx: Connection, tenant_id: UUID, space_id: int, limit: int) -> int:
    """Put some vectors and windows that aren't in a graph yet into theirs. Returns how many; call again until 0."""
    values = {"tenant": tenant_id, "space": space_id, "limit": limit}
    return sum(tx.execute(statement, values).rowcount for statement in _GRAFT)


def ungraft(tx: Connection, tenant_id: UUID, space_id: int, limit: int) -> int:
    """Unmark some vectors and windows, of graphs that are gone. Returns how many; call again until 0."""
    values = {"tenant": tenant_id, "space": space_id, "limit": limit}
    return sum(tx.execute(statement, values).rowcount for statement in _UNGRAFT)


_TABLES = ("embeddings", "memory_windows")
_MARK = """
WITH lot AS MATERIALIZED (
  SELECT memory_id FROM {table} WHERE tenant_id = :tenant AND space_id = :space AND {which}
  LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE {table} SET grafted = NOT grafted
WHERE tenant_id = :tenant AND space_id = :space AND memory_id = ANY (ARRAY(SELECT memory_id FROM lot)) AND {which}
"""
_GRAFT = [text(_MARK.format(table=table, which="NOT grafted")) for table in _TABLES]
_UNGRAFT = [text(_MARK.format(table=table, which="grafted")) for table in _TABLES]


def count_tail(tx: Connection, tenant_id: UUID, space_id: int, most: int) -> int:
    """Return how many vectors or windows in a space aren't in a graph, whichever are more, counted up to `most`."""
    values = {"tenant": tenant_id, "space": space_id, "most": most}
    return int(tx.execute(_COUNT_TAIL, values).scalar_one())


_COUNT_TAIL = text("""
SELECT greatest((
  SELECT count(*) FROM (
    SELECT FROM embeddings WHERE tenant_id = :tenant AND space_id = :space AND NOT grafted LIMIT :most) AS counted
), (
  SELECT count(*) FROM (
    SELECT FROM memory_windows WHERE tenant_id = :tenant AND space_id = :space AND NOT grafted LIMIT :most) AS counted
))
""")


def count_memories(tx: Connection, tenant_id: UUID) -> int:
    """How many memories of the tenant are found by words."""
    return int(tx.execute(_COUNT_MEMORIES, {"tenant": tenant_id}).scalar() or 0)


_COUNT_MEMORIES = text("SELECT documents FROM words WHERE tenant_id = :tenant AND word = ''")
