"""Select memories that only the rules have scored for rating by a model, and look up earlier ratings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.salience.llm_scoring import Score
from app.domain.salience.rating_batches import ContextTurn, Conversation
from app.store.enrichment import rating_context

STAGE: Final = "rate"


@dataclass(frozen=True, slots=True)
class Unrated:
    """A memory to be rated by a model.

    Attributes:
        conversation: Its thread and subject; None without a thread.
        seq: Its place in the thread.
        asks: Number of rating attempts, including the current one and excluding undone ones (`uncount_attempts`).
        around: Turns of its conversation before and after it, in their order.
    """

    memory_id: UUID
    text_version: int
    text: str
    speaker: str | None
    conversation: Conversation | None
    seq: int
    asks: int
    around: tuple[ContextTurn, ...]


# Selects eligible memories: the rules have scored the current text version, the caller hasn't set the salience, and the
# memory isn't excluded from rating by this version (`exclude`).
_OPEN = """
  FROM scores AS score
  JOIN memories AS memory ON memory.tenant_id = :tenant AND memory.memory_id = score.memory_id
    AND memory.text_version = score.text_version AND memory.deleted_at IS NULL
  JOIN memory_state AS state ON state.tenant_id = :tenant AND state.memory_id = score.memory_id
    AND state.salience_source IS DISTINCT FROM 'caller'
  WHERE score.tenant_id = :tenant AND score.scorer = 'heuristic' AND score.refused_by IS DISTINCT FROM :version
"""


def claim(tx: Connection, tenant_id: UUID, version: str, limit: int) -> list[Unrated]:
    """Select the memories whose rule-based scores are least certain, and count an attempt for each.

    Turns around them that await a rating too are selected with them, since their texts are sent in any case. Memories
    with an unfinished earlier attempt, whose worker died, are selected last and one at a time, so that a memory that
    can't be rated doesn't affect others. Rows locked by another transaction are skipped.

    Args:
        tx: The tenant's transaction, to be committed before the model is called.
        version: The rating version (model and prompt); memories excluded from this version are skipped.
        limit: Maximum number of memories, 1 or more.
    """
    values = {"tenant": tenant_id, "version": version}
    rows = tx.execute(_LOCK, values | {"tried": False, "limit": limit}).all()
    around: dict[UUID, list[ContextTurn]] = {}
    if rows:
        around = rating_context.list_around(tx, tenant_id, [row.memory_id for row in rows if row.thread is not None])
        rows = _add_neighbours(tx, values, rows, around, limit)
    elif rows := tx.execute(_LOCK, values | {"tried": True, "limit": 1}).all():
        around = rating_context.list_around(tx, tenant_id, [rows[0].memory_id])
    if rows:
        tx.execute(_NOTE, {"tenant": tenant_id, "memory_ids": [row.memory_id for row in rows]})
    return [
        Unrated(
            *(row.memory_id, row.text_version, row.text, row.speaker),
            conversation=None if row.thread is None else Conversation(row.thread, row.subject),
            seq=row.seq,
            asks=row.asks + 1,
            around=tuple(around.get(row.memory_id, ())),
        )
        for row in rows
    ]


def _add_neighbours(
    tx: Connection, values: dict[str, Any], rows: Sequence[Any], around: dict[UUID, list[ContextTurn]], limit: int
) -> Sequence[Any]:
    """Return at most `limit` rows: each of these, followed by the turns around it that await a rating too.

    The turns around the added rows are added to `around`.
    """
    first = {row.memory_id: row for row in rows}
    ids = {turn.memory_id for turns in around.values() for turn in turns} - first.keys()
    near = {row.memory_id: row for row in tx.execute(_LOCK_NEAR, values | {"ids": list(ids)})} if ids else {}
    known = first | near
    chosen: dict[UUID, Any] = {}
    for row in rows:
        for memory_id in (row.memory_id, *(turn.memory_id for turn in around.get(row.memory_id, ()))):
            if memory_id in known and len(chosen) < limit:
                chosen.setdefault(memory_id, known[memory_id])
    if added := chosen.keys() & near.keys():
        around |= rating_context.list_around(tx, values["tenant"], list(added))
    return list(chosen.values())


_COLUMNS = """
SELECT score.memory_id, score.text_version, memory.text, coalesce(memory.speaker, memory.role) AS speaker,
  memory.thread, memory.subject, memory.seq, score.asks
"""

_LOCK = text(f"""
{_COLUMNS} {_OPEN} AND (score.asks > 0) = :tried
ORDER BY score.uncertainty DESC, score.memory_id LIMIT :limit FOR UPDATE OF score SKIP LOCKED
""")

_LOCK_NEAR = text(f"""
{_COLUMNS} {_OPEN} AND score.asks = 0 AND score.memory_id = ANY (CAST(:ids AS uuid[]))
ORDER BY score.memory_id FOR UPDATE OF score SKIP LOCKED
""")

_NOTE = text("""
UPDATE scores SET asks = asks + 1 WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:memory_ids AS uuid[]))
""")


def count_unrated(tx: Connection, tenant_id: UUID, version: str) -> int:
    """Count a tenant's memories that await a rating by this version."""
    return int(tx.execute(_COUNT, {"tenant": tenant_id, "version": version}).scalar_one())


_COUNT = text(f"SELECT count(*) {_OPEN}")


def find_ratings(tx: Connection, tenant_id: UUID, version: str, digests: Sequence[bytes]) -> dict[bytes, Score]:
    """Return this version's earlier ratings of the tenant's texts, by digest of the model's input."""
    values = {"tenant": tenant_id, "version": version, "digests": list(digests)}
    return {digest: Score(*map(_frozen, columns)) for digest, *columns in tx.execute(_KNOWN, values)}


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


_KNOWN = text("""
SELECT DISTINCT ON (digest) digest, emotional, novelty, actionable, personal, sensitivity, inferred_kind,
  inferred_entities, inferred_topics, inferred_categories, inferred_cues
FROM scores
WHERE tenant_id = :tenant AND scorer = 'llm' AND digest = ANY (CAST(:digests AS bytea[])) AND version = :version
ORDER BY digest
""")


def uncount_attempts(tx: Connection, tenant_id: UUID, memories: Sequence[Unrated]) -> None:
    """Undo the counted attempt for these memories, because the model couldn't be called."""
    tx.execute(_FORGIVE, _unchanged_sql(tenant_id, memories))


_FORGIVE = text("""
UPDATE scores AS score SET asks = greatest(score.asks - 1, 0)
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:text_versions AS integer[])) AS taken (memory_id, text_version)
WHERE score.tenant_id = :tenant AND score.memory_id = taken.memory_id AND score.text_version = taken.text_version
  AND score.scorer = 'heuristic'
""")


def exclude(tx: Connection, tenant_id: UUID, memories: Sequence[Unrated], version: str) -> set[UUID]:
    """Exclude these memories from rating by this version until their text changes.

    Returns the ids of those that weren't excluded before: a worker whose turn has expired may exclude them, too.
    """
    rows = tx.execute(_REFUSE, _unchanged_sql(tenant_id, memories) | {"version": version})
    return set(rows.scalars())


_REFUSE = text("""
UPDATE scores AS score SET asks = 0, refused_by = :version
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:text_versions AS integer[])) AS taken (memory_id, text_version)
WHERE score.tenant_id = :tenant AND score.memory_id = taken.memory_id AND score.text_version = taken.text_version
  AND score.scorer = 'heuristic' AND score.refused_by IS DISTINCT FROM :version
RETURNING score.memory_id
""")


def reset_ratings(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Reset the attempts and exclusions of these memories, so that a model can rate them again."""
    tx.execute(_ASK_AGAIN, {"tenant": tenant_id, "memory_ids": list(memory_ids)})


_ASK_AGAIN = text("""
UPDATE scores SET asks = 0, refused_by = NULL
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:memory_ids AS uuid[])) AND scorer = 'heuristic'
""")


def _unchanged_sql(tenant_id: UUID, memories: Sequence[Unrated]) -> dict[str, object]:
    return {
        "tenant": tenant_id,
        "memory_ids": [memory.memory_id for memory in memories],
        "text_versions": [memory.text_version for memory in memories],
    }
