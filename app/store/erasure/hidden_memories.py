"""Hide the memories of an open erasure from every read until the erasure is cancelled or finished."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app.domain.changes.types import DELETED, RESTORED
from app.domain.ingest.ids import last_seq
from app.domain.privacy.legal_hold import Scope
from app.store.changes import feed
from app.store.consolidation import hidden_supersessions
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column
from app.store.erasure import requests
from app.store.erasure.requests import Erasure
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import TierCounts
from app.store.privacy.holds import scope_sql


class Hidden(NamedTuple):
    """Memories that were hidden or unhidden, in id order, with their contribution to the tenant's counts."""

    ids: list[UUID]
    counts: TierCounts


_NUMBERS: Final = """
  coalesce(array_agg(memory_id ORDER BY memory_id), '{}') AS ids, count(*) FILTER (WHERE tier = 'active') AS active,
  count(*) FILTER (WHERE tier = 'archived') AS archived, count(*) FILTER (WHERE tier = 'cold') AS cold,
  CAST(coalesce(sum((
    SELECT octet_length(text) FROM memories AS said
    WHERE said.tenant_id = :tenant AND said.memory_id = {rows}.memory_id)), 0) AS bigint) AS text_bytes
"""


def hide(
    tx: Connection,
    tenant_id: UUID,
    erasure_id: UUID,
    scope: Scope,
    among: Sequence[UUID] | None = None,
    cut: str | None = None,
) -> Hidden:
    """Hide the memories in a scope from every read; all their data is retained. The feed reports them as deleted.

    The call locks the memories' rows in `memories`, then their states, in id order.

    Args:
        erasure_id: The erasure that hides the memories.
        scope: Conditions that select the memories.
        among: Hide only these of the selected memories; None hides all.
        cut: Hide only memories up to this stream position.

    Returns:
        The memories hidden by this call.
    """
    statement = text(f"""
WITH picked AS MATERIALIZED (
  SELECT memory_id FROM memories AS memory
  WHERE tenant_id = :tenant AND deleted_at IS NULL AND {scope_sql(scope)} {_AMONG if among is not None else ""}
    {"AND seq <= :last_seq" if cut is not None else ""}
  ORDER BY memory_id FOR UPDATE
), stood AS MATERIALIZED (
  SELECT memory_id, tier FROM memory_state
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM picked)) AND tier <> 'deleted'
  ORDER BY memory_id FOR UPDATE
), noted AS (
  INSERT INTO hidden_memories (tenant_id, memory_id, erasure_id, tier)
  SELECT :tenant, memory_id, :erasure_id, tier FROM stood
  ON CONFLICT (tenant_id, memory_id) DO NOTHING
), hidden AS (
  UPDATE memories SET deleted_at = clock_timestamp()
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM stood))
), retired AS (
  UPDATE memory_state SET tier = 'deleted', next_due_at = 'infinity'
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM stood))
)
SELECT {_NUMBERS.replace("{rows}", "stood")} FROM stood
""")  # noqa: S608 - constants only
    values: dict[str, Any] = {"tenant": tenant_id, "erasure_id": erasure_id, "among": list(among or ())}
    values |= scope.conditions() | ({} if cut is None else {"last_seq": last_seq(cut)})
    hidden = _hidden(tx.execute(statement, values).one())
    feed.record(tx, tenant_id, DELETED, hidden.ids)
    return hidden


_AMONG: Final = "AND memory_id = ANY (CAST(:among AS uuid[]))"


def _hidden(row: Row[Any]) -> Hidden:
    return Hidden(list(row.ids), TierCounts(row.active, row.archived, row.cold, row.text_bytes))


def unhide(
    tx: Connection, tenant_id: UUID, erasure_id: UUID | None = None, among: Sequence[UUID] | None = None
) -> Hidden:
    """Unhide the memories that an erasure hides, or these memories, and restore each to its former tier.

    A memory loses its external id if a visible memory uses the id by now; if several unhidden memories have the same
    external id, only the latest retains it.

    Args:
        erasure_id: The erasure whose memories are unhidden.
        among: Memories that are unhidden regardless of the erasure that hides them.

    Returns:
        The unhidden memories; the caller must restore their index entries.
    """
    values = {"tenant": tenant_id, "erasure_id": erasure_id, "among": list(among or ())}
    unhidden = _hidden(tx.execute(_SHOW_AGAIN, values).one())
    feed.record(tx, tenant_id, RESTORED, unhidden.ids)
    return unhidden


_SHOW_AGAIN: Final = text(f"""
WITH locked AS MATERIALIZED (
  SELECT memory_id FROM memories
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(
    SELECT memory_id FROM hidden_memories
    WHERE tenant_id = :tenant AND (erasure_id = :erasure_id OR memory_id = ANY (CAST(:among AS uuid[])))))
  ORDER BY memory_id FOR UPDATE
), back AS MATERIALIZED (
  DELETE FROM hidden_memories WHERE tenant_id = :tenant AND memory_id IN (SELECT memory_id FROM locked)
  RETURNING memory_id, tier
), shown AS (
  UPDATE memories AS memory SET deleted_at = NULL, external_id = CASE WHEN EXISTS (
      SELECT FROM memories AS other WHERE other.tenant_id = :tenant AND other.external_id = memory.external_id
        AND other.deleted_at IS NULL) OR EXISTS (
      SELECT FROM memories AS later WHERE later.tenant_id = :tenant AND later.external_id = memory.external_id
        AND later.memory_id = ANY (ARRAY(SELECT memory_id FROM back))
        AND (later.seq, later.memory_id) > (memory.seq, memory.memory_id)) THEN NULL ELSE external_id END
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM back))
), stands AS (
  UPDATE memory_state AS state SET tier = back.tier, wanted_tier = back.tier, next_due_at = '-infinity'
  FROM back WHERE state.tenant_id = :tenant AND state.memory_id = back.memory_id
)
SELECT {_NUMBERS.replace("{rows}", "back")} FROM back
""")  # noqa: S608 - constants only


def hide_matching(
    tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], *, also_by_id: bool
) -> tuple[dict[UUID, list[UUID]], TierCounts]:
    """Hide the memories among these that match an open erasure: they were added, edited or restored after its request.

    Args:
        tx: The tenant's transaction, which has locked the memories.
        memory_ids: Memories about to become visible.
        also_by_id: Include erasures whose scope lists memory ids.

    Returns:
        The memories hidden by this call, by erasure, and their contribution to the tenant's counts.
    """
    hidden_by: dict[UUID, list[UUID]] = {}
    counts = tenant_counts.NONE
    if not memory_ids:
        return hidden_by, counts
    for erasure in _open(tx, tenant_id, memory_ids if also_by_id else []):
        hidden_now = hide(tx, tenant_id, erasure.erasure_id, erasure.scope, memory_ids, erasure.cut)
        if hidden_now.ids:
            hidden_supersessions.hide_supersessions(tx, tenant_id, erasure.erasure_id, hidden_now.ids)
            hidden_by[erasure.erasure_id] = hidden_now.ids
            counts = counts.plus(hidden_now.counts)
    return hidden_by, counts


def _open(tx: Connection, tenant_id: UUID, named: Sequence[UUID]) -> list[Erasure]:
    values = {"tenant": tenant_id, "named": [str(memory_id) for memory_id in named]}
    return [requests.as_erasure(row) for row in tx.execute(_OPEN, values)]


_OPEN: Final = text(f"""
SELECT {requests.COLUMNS} FROM erasures
WHERE tenant_id = :tenant AND status IN ('grace', 'running', 'held') AND (NOT scope ? 'memory_ids' OR EXISTS (
  SELECT FROM jsonb_array_elements_text(scope->'memory_ids') AS id
  WHERE id IN (SELECT unnest(CAST(:named AS text[])))))
ORDER BY requested_at, erasure_id
""")  # noqa: S608 - constants only


def page_hidden(tx: Connection, tenant_id: UUID, erasure_id: UUID, after: UUID, limit: int) -> list[UUID]:
    """Return a page of the memories hidden by an erasure, in id order, with their rows in `hidden_memories` locked."""
    return fetch_column(tx, _INDEXED, {"tenant": tenant_id, "erasure_id": erasure_id, "after": after, "limit": limit})


_INDEXED: Final = """
SELECT memory_id FROM hidden_memories
WHERE tenant_id = %(tenant)s AND erasure_id = %(erasure_id)s AND memory_id > %(after)s
ORDER BY memory_id LIMIT %(limit)s FOR UPDATE
"""


def list_hidden(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> list[UUID]:
    """Return all memories hidden by an erasure."""
    return fetch_column(tx, _ALL_OF, {"tenant": tenant_id, "erasure_id": erasure_id})


_ALL_OF: Final = "SELECT memory_id FROM hidden_memories WHERE tenant_id = %(tenant)s AND erasure_id = %(erasure_id)s"


def reassign(tx: Connection, tenant_id: UUID, erasure_id: UUID, memory_ids: Sequence[UUID]) -> TierCounts:
    """Reassign these memories to a running erasure; hide those that are visible, and return their counts."""
    hidden = hide(tx, tenant_id, erasure_id, Scope(memory_ids=list(memory_ids)))
    driver_connection(tx).execute(_TAKE_OVER, {"tenant": tenant_id, "erasure_id": erasure_id, "ids": Uuids(memory_ids)})
    return hidden.counts


_TAKE_OVER: Final = """
UPDATE hidden_memories SET erasure_id = %(erasure_id)s WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


def save_vectors(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Save the vectors that callers supplied, which can't be recomputed, before these memories' vectors are removed."""
    driver_connection(tx).execute(_KEEP, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_KEEP: Final = """
INSERT INTO hidden_vectors (tenant_id, memory_id, space_id, text_version, vector)
SELECT %(tenant)s, memory_id, space_id, text_version, embedding FROM embeddings
WHERE tenant_id = %(tenant)s AND space_id = ANY (ARRAY(SELECT space_id FROM embedding_spaces))
  AND memory_id = ANY (%(ids)s) AND by_caller
ON CONFLICT DO NOTHING
"""


def restore_vectors(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Move saved vectors of active memories back into the index; delete saved vectors of memories in other tiers."""
    driver_connection(tx).execute(_PUT_BACK, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_PUT_BACK: Final = """
WITH back AS (
  DELETE FROM hidden_vectors WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
  RETURNING space_id, memory_id, text_version, vector
)
INSERT INTO embeddings (tenant_id, space_id, memory_id, text_version, embedding, by_caller)
SELECT %(tenant)s, space_id, memory_id, text_version, vector, true FROM back
WHERE (
  SELECT tier FROM memory_state AS state
  WHERE state.tenant_id = %(tenant)s AND state.memory_id = back.memory_id) = 'active'
ORDER BY memory_id ON CONFLICT DO NOTHING
"""


def active_among(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return the active memories among these, in id order."""
    return fetch_column(tx, _ACTIVE, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_ACTIVE: Final = """
SELECT memory_id FROM memory_state
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND tier = 'active' ORDER BY memory_id
"""
