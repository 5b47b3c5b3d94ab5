"""Store the scores that rules or a model give memories, and read the inputs for scoring.

A row contains the scorer's result regardless of the caller's values; readers must prefer the caller's values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from app.domain.ingest.memory import KINDS
from app.domain.ingest.roles import Role

HEURISTIC: Final = "heuristic"
LLM: Final = "llm"


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A memory to be scored by the rules.

    Attributes:
        categories: The caller's categories; if there are none, the categories that a model inferred from this text.
        is_open: True if the caller gave no salience.
        rarity: Mean rarity of the memory's own words, 0 (in all of the tenant's memories) to 1 (in no other memory);
            None until the memory is indexed.
    """

    memory_id: UUID
    text_version: int
    text: str
    speaker: str | None
    role: Role | None
    kind: str | None
    tags: list[str]
    categories: list[str]
    is_open: bool
    rarity: float | None


class Assessment(msgspec.Struct, frozen=True, kw_only=True):
    """A scorer's result for a memory: criteria from 0 to 10, uncertainty and sensitivity from 0 to 1.

    Attributes:
        inferred_cues: Cues that should recall the memory; written by `cues.write`.
        version: The model and its prompt; None for the rules.
        digest: Digest of the model's input; None for the rules.
        keep_chance: The rules' chance that the memory should be kept, 0 to 1; None from a model.
    """

    memory_id: UUID
    text_version: int
    emotional: float
    novelty: float
    actionable: float
    personal: float
    uncertainty: float
    inferred_kind: str | None
    inferred_entities: tuple[str, ...]
    inferred_topics: tuple[str, ...] = ()
    inferred_categories: tuple[str, ...] = ()
    inferred_cues: tuple[str, ...] = ()
    sensitivity: float | None = None
    version: str | None = None
    digest: bytes | None = None
    keep_chance: float | None = None


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], *, closed: bool) -> list[Unjudged]:
    """Return the scoring inputs of these memories in id order, without deleted memories.

    Args:
        closed: Include memories whose salience the caller has set.
    """
    values = {"tenant": tenant_id, "memory_ids": list(memory_ids), "closed": closed}
    return [Unjudged(*row) for row in tx.execute(_READ, values)]


# Uses one lookup per row: without statistics for a new tenant, the planner would run a join as a loop over all pairs.
_READ = text("""
WITH total AS MATERIALIZED (
  SELECT ln(coalesce(max(documents), 0) + 1) AS log_memories FROM words WHERE tenant_id = :tenant AND word = ''
)
SELECT given.memory_id, text_version, text, speaker, role, kind, tags,
  CASE WHEN categories = '{}' THEN coalesce(inferred_categories, '{}') ELSE categories END AS categories,
  salience_source IS DISTINCT FROM 'caller' AS is_open,
  CAST(least(greatest(rarity, 0), 1) AS double precision) AS rarity
FROM (SELECT DISTINCT unnest(CAST(:memory_ids AS uuid[]))) AS given (memory_id)
CROSS JOIN LATERAL (
  SELECT text_version, text, speaker, role, kind, tags, categories FROM memories
  WHERE tenant_id = :tenant AND memories.memory_id = given.memory_id AND deleted_at IS NULL OFFSET 0
) AS memory
CROSS JOIN LATERAL (
  SELECT salience_source FROM memory_state
  WHERE tenant_id = :tenant AND memory_state.memory_id = given.memory_id OFFSET 0
) AS state
LEFT JOIN LATERAL (
  SELECT inferred_categories FROM scores
  WHERE tenant_id = :tenant AND scores.memory_id = given.memory_id AND scores.text_version = memory.text_version
  OFFSET 0
) AS score ON true
LEFT JOIN LATERAL (
  SELECT avg(1 - ln(documents) / nullif((SELECT log_memories FROM total), 0)) AS rarity
  FROM (
    SELECT unnest(tsvector_to_array(own)) AS word FROM memory_words
    WHERE tenant_id = :tenant AND memory_words.memory_id = given.memory_id OFFSET 0
  ) AS lexeme CROSS JOIN LATERAL (
    SELECT documents FROM words WHERE tenant_id = :tenant AND words.word = lexeme.word OFFSET 0
  ) AS known
) AS rare ON true
WHERE :closed OR salience_source IS DISTINCT FROM 'caller'
ORDER BY given.memory_id
""")


def list_vectors(
    tx: Connection, tenant_id: UUID, space_id: int, memory_ids: Sequence[UUID], before: int
) -> tuple[list[UUID], NDArray[np.float32]]:
    """Return the vectors of these memories and of the last `before` memories preceding all of them, in id order.

    Args:
        space_id: The embedding space.
        memory_ids: At least one.
        before: Maximum number of earlier memories.

    Returns:
        The ids and their vectors, shape (n, dimensions). Memories without a vector are omitted.
    """
    values = {
        "tenant": tenant_id,
        "space": space_id,
        "memory_ids": list(memory_ids),
        "first": min(memory_ids),
        "before": before,
    }
    rows = tx.execute(_VECTORS, values).all()
    if not rows:
        return [], np.empty((0, 0), dtype=np.float32)
    # A vector's binary form is its dimensions and an unused field (16 bits each), then the values (big-endian float16).
    packed = np.frombuffer(b"".join(row.embedding for row in rows), dtype=">f2").reshape(len(rows), -1)
    return [row.memory_id for row in rows], packed[:, 2:].astype(np.float32)


_VECTORS = text("""
WITH earlier AS (
  SELECT memory_id, embedding FROM embeddings
  WHERE tenant_id = :tenant AND space_id = :space
    AND memory_id < :first
  ORDER BY memory_id DESC LIMIT :before
)
SELECT memory_id, halfvec_send(embedding) AS embedding FROM (
  SELECT memory_id, embedding FROM earlier
  UNION ALL
  SELECT memory_id, embedding FROM embeddings
  WHERE tenant_id = :tenant AND space_id = :space AND memory_id = ANY (CAST(:memory_ids AS uuid[]))
) AS near ORDER BY memory_id
""")


def write(
    tx: Connection, tenant_id: UUID, scorer: Literal["heuristic", "llm"], found: Sequence[Assessment]
) -> list[UUID]:
    """Write scores of memories whose text is unchanged since it was read and that the caller hasn't scored since.

    A score by the rules isn't written if a model has rated this text already. In either case, the memory's salience
    (the sum of the four criteria, divided by 40) and its keep chance are then set from the stored score. If the keep
    chance changes, the next sweep decides the memory's tier again. Its kind is set to the inferred kind if the caller
    gave none. A memory whose text has changed is skipped: its new text is scored separately.

    A new score replaces the earlier score and clears its cues. A model's score keeps the rules' salience of the same
    text beside it, to compare both.

    Returns:
        The memories whose scores were written.
    """
    if not found:
        return []
    values = {"tenant": tenant_id, "scorer": scorer, "rows": msgspec.json.encode(found).decode()}
    written = list(tx.execute(_WRITE, values).scalars())
    scored = {
        "memory_ids": [assessment.memory_id for assessment in found],
        "text_versions": [assessment.text_version for assessment in found],
    }
    tx.execute(_SET_SALIENCE, {"tenant": tenant_id, "kinds": list(KINDS), **scored})
    return written


# Uses subqueries instead of joins: without statistics, the planner would run joins as loops over all pairs.
_WRITE = text("""
WITH found AS MATERIALIZED (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS found (
    memory_id uuid, text_version integer, emotional real, novelty real, actionable real, personal real,
    uncertainty real, inferred_kind text, inferred_entities text[], inferred_topics text[],
    inferred_categories text[], sensitivity real, version text, digest text,
    keep_chance real)
)
INSERT INTO scores AS known (tenant_id, memory_id, text_version, scorer, emotional, novelty, actionable, personal,
  uncertainty, inferred_kind, inferred_entities, inferred_topics, inferred_categories, sensitivity, version, digest,
  keep_chance)
SELECT :tenant, memory_id, text_version, :scorer, emotional, novelty, actionable, personal, uncertainty,
  inferred_kind, inferred_entities, inferred_topics, inferred_categories, sensitivity, version,
  decode(digest, 'base64'), keep_chance
FROM found
WHERE text_version = (
    SELECT memory.text_version FROM memories AS memory
    WHERE memory.tenant_id = :tenant AND memory.memory_id = found.memory_id AND memory.deleted_at IS NULL)
  AND (
    SELECT state.salience_source IS DISTINCT FROM 'caller' FROM memory_state AS state
    WHERE state.tenant_id = :tenant AND state.memory_id = found.memory_id)
ORDER BY memory_id
ON CONFLICT (tenant_id, memory_id) DO UPDATE
SET text_version = excluded.text_version, scorer = excluded.scorer, emotional = excluded.emotional,
  novelty = excluded.novelty, actionable = excluded.actionable, personal = excluded.personal,
  uncertainty = excluded.uncertainty, inferred_kind = excluded.inferred_kind,
  inferred_entities = excluded.inferred_entities, inferred_topics = excluded.inferred_topics,
  inferred_categories = excluded.inferred_categories, sensitivity = excluded.sensitivity,
  version = excluded.version, digest = excluded.digest, keep_chance = excluded.keep_chance,
  rules_salience = CASE WHEN (known.text_version, 'llm') = (excluded.text_version, excluded.scorer) THEN CASE
    known.scorer WHEN 'llm' THEN known.rules_salience
    ELSE (known.emotional + known.novelty + known.actionable + known.personal) / 40 END END,
  scored_at = now(), inferred_cues = '{}', cue_stems = '{}',
  asks = CASE WHEN (known.text_version, 'heuristic') = (excluded.text_version, excluded.scorer)
    THEN known.asks ELSE 0 END,
  refused_by = CASE WHEN (known.text_version, 'heuristic') = (excluded.text_version, excluded.scorer)
    THEN known.refused_by END
WHERE excluded.scorer = 'llm' OR known.scorer = 'heuristic' OR known.text_version <> excluded.text_version
RETURNING memory_id
""")

# Runs as a separate statement, so that it sees rows that other transactions have committed since the first one began.
_SET_SALIENCE = text("""
WITH same AS (
  SELECT memory_id
  FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:text_versions AS integer[])) AS found (memory_id, text_version)
  WHERE text_version = (
    SELECT memory.text_version FROM memories AS memory
    WHERE memory.tenant_id = :tenant AND memory.memory_id = found.memory_id AND memory.deleted_at IS NULL)
), locked AS MATERIALIZED (
  SELECT memory_id FROM memory_state
  WHERE tenant_id = :tenant AND memory_id = ANY (ARRAY(SELECT memory_id FROM same))
    AND salience_source IS DISTINCT FROM 'caller'
  ORDER BY memory_id FOR UPDATE
)
UPDATE memory_state AS state SET (salience, keep_chance, salience_source, kind, next_due_at) = (
  SELECT (score.emotional + score.novelty + score.actionable + score.personal) / 40, score.keep_chance, score.scorer,
    coalesce(array_position(CAST(:kinds AS text[]), coalesce((
      SELECT memory.kind FROM memories AS memory
      WHERE memory.tenant_id = :tenant AND memory.memory_id = state.memory_id), score.inferred_kind)) - 1, state.kind),
    CASE WHEN score.keep_chance IS DISTINCT FROM state.keep_chance THEN '-infinity' ELSE state.next_due_at END
  FROM scores AS score WHERE score.tenant_id = :tenant AND score.memory_id = state.memory_id)
WHERE state.tenant_id = :tenant AND state.memory_id = ANY (ARRAY(SELECT memory_id FROM locked)) AND (
    SELECT score.text_version FROM scores AS score
    WHERE score.tenant_id = :tenant AND score.memory_id = state.memory_id
  ) = (
    SELECT memory.text_version FROM memories AS memory
    WHERE memory.tenant_id = :tenant AND memory.memory_id = state.memory_id AND memory.deleted_at IS NULL)
""")


def list_unscored(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return the memories among these without a score of their current text, in id order."""
    return list(tx.execute(_UNSCORED, {"tenant": tenant_id, "memory_ids": list(memory_ids)}).scalars())


_UNSCORED = text("""
SELECT memory_id FROM memories AS memory
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:memory_ids AS uuid[])) AND NOT EXISTS (
  SELECT FROM scores WHERE scores.tenant_id = :tenant AND scores.memory_id = memory.memory_id
    AND scores.text_version = memory.text_version)
ORDER BY memory_id
""")


def remove(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Delete the scores of these memories."""
    tx.execute(_REMOVE, {"tenant": tenant_id, "memory_ids": list(memory_ids)})


_REMOVE = text("DELETE FROM scores WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:memory_ids AS uuid[]))")
