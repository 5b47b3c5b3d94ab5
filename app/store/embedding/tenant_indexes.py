"""Create and drop a large tenant's dedicated vector indexes, and add its vectors to their graphs.

`tenant_spaces.graph_space_id` is the space for which a tenant has dedicated indexes, and `embeddings.grafted` marks the
vectors that are in the graph. Rewriting a vector removes it from the graph, so that writes cost no more than without a
graph. The windows of long memories have their own graph, marked by `memory_windows.grafted`.
"""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import Connection, text

DIMENSIONS_MAX = 4000
"""Maximum number of dimensions of half-precision vectors in a graph."""

# Searches and writers queue behind a transaction that waits for a table lock, so the lock timeout is short.
_PATIENCE = text("SELECT set_config('lock_timeout', '1s', true), set_config('statement_timeout', '10min', true)")


def create_indexes(tx: Connection, tenant_id: UUID, space_id: int) -> None:
    """Create the tenant's dedicated indexes for a space, as empty graphs: none of its vectors may be marked yet.

    Building the indexes reads both tables once and blocks writes to them in the meantime.

    Raises:
        sqlalchemy.exc.OperationalError: Another transaction locked a table for over a second; nothing was changed.
    """
    tx.execute(_PATIENCE)
    tx.execute(text("SELECT make_graph(CAST(:space AS smallint))"), {"space": space_id})
    tx.execute(text("SELECT make_window_graph(CAST(:space AS smallint))"), {"space": space_id})
    tx.execute(_NOTE, {"tenant": tenant_id, "space": space_id})


def drop_indexes(tx: Connection, tenant_id: UUID, space_id: int) -> None:
    """Drop the tenant's indexes for a space; its vectors remain marked. Raises the same error as `create_indexes`."""
    tx.execute(_PATIENCE)
    tx.execute(text("SELECT drop_graph(CAST(:space AS smallint))"), {"space": space_id})
    tx.execute(text("SELECT drop_window_graph(CAST(:space AS smallint))"), {"space": space_id})
    tx.execute(_NOTE, {"tenant": tenant_id, "space": None})


_NOTE = text("UPDATE tenant_spaces SET graph_space_id = CAST(:space AS smallint) WHERE tenant_id = :tenant")


def add_to_graphs(tx: Connection, tenant_id: UUID, space_id: int, limit: int) -> int:
    """Add up to `limit` vectors and up to `limit` windows to their graphs. Return their number; repeat until 0."""
    values = {"tenant": tenant_id, "space": space_id, "limit": limit}
    return sum(tx.execute(statement, values).rowcount for statement in _GRAFT)


def unmark_dropped(tx: Connection, tenant_id: UUID, space_id: int, limit: int) -> int:
    """Unmark up to `limit` vectors and up to `limit` windows of dropped graphs. Return their number; repeat until 0."""
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
    """Count a space's vectors and windows that aren't in a graph, each up to `most`. Return the higher count."""
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
    """Return the number of the tenant's memories in the full-text index."""
    return int(tx.execute(_COUNT_MEMORIES, {"tenant": tenant_id}).scalar() or 0)


_COUNT_MEMORIES = text("SELECT documents FROM words WHERE tenant_id = :tenant AND word = ''")
