"""Score memories by rules: read texts, score them outside of transactions, and write the scores of unchanged texts.

The suggestions of the tenant's forgetting profile are written with the scores. Scored memories are queued for rating by
a model even if none is configured yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app import queues
from app.domain.changes.types import SCORED
from app.domain.salience import ScoringEvidence, judge
from app.domain.salience.criteria import Turn
from app.domain.strength.profile_hints import RatedContent, content_rule
from app.services.storage.memory_write import memory_write
from app.settings import settings
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.enrichment import keep_chances, profile_hints, rating_turns, scores
from app.store.enrichment.keep_chances import KeepChance
from app.store.enrichment.scores import Assessment, Unjudged
from app.store.tenants import policies

# Maximum number of earlier memories used to compute a memory's novelty.
EARLIER_MEMORIES = 2000
# Number of vectors compared with all earlier ones at a time: a matrix of 3 MB instead of 36.
ROWS_AT_ONCE = 256


def score_memories(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Score these memories, except memories that the caller or, for the current text, a model has scored.

    The keep chance depends on the turns before a memory. If turns that follow these memories in their threads were
    scored earlier, because turns arrived out of order or were edited, their chances are computed again.

    Returns:
        The number of scores written.
    """
    with database.tenant(tenant_id) as tx:
        profile_rule = content_rule(policies.read_current(tx, tenant_id).forgetting)
        unjudged = scores.read(tx, tenant_id, memory_ids, closed=profile_rule is not None)
        followers = scores.read(tx, tenant_id, keep_chances.list_followers(tx, tenant_id, memory_ids), closed=False)
        rated = [memory for memory in unjudged if memory.is_open]
        turns = keep_chances.list_turns_before(tx, tenant_id, [memory.memory_id for memory in (*rated, *followers)])
        spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        open_ids = [memory.memory_id for memory in rated]
        ids, vectors = (
            scores.list_vectors(tx, tenant_id, spaces.searched.space_id, open_ids, EARLIER_MEMORIES)
            if open_ids and spaces is not None
            else ([], np.empty((0, 0), dtype=np.float32))
        )
    nearest = dict(zip(ids, _nearest_earlier(vectors), strict=True))
    assessments = _judge_memories(rated, nearest, turns)
    contents = [RatedContent(memory.text, memory.categories, nearest.get(memory.memory_id)) for memory in unjudged]
    suggestions = [profile_rule(content) for content in contents] if profile_rule else []
    with memory_write(tenant_id, "state") as write, write.update([each.memory_id for each in unjudged]):
        tx = write.tx
        written = scores.write(tx, tenant_id, scores.HEURISTIC, assessments)
        profile_hints.write(
            tx, tenant_id, [(memory.memory_id, memory.text_version) for memory in unjudged], suggestions
        )
        write.report(SCORED, written)
        if written:
            rating_turns.add(tx, tenant_id)
    if followers:
        write_chances(tenant_id, followers, turns)
    if written and settings().has_provider:
        queues.nudge(queues.RATE_MEMORIES)
    return len(written)


def _nearest_earlier(vectors: NDArray[np.float32]) -> list[float | None]:
    """Return each vector's cosine to the nearest preceding vector, 0 to 1; None for the first vector.

    Args:
        vectors: Unit vectors in id order, shape (n, dimensions).
    """
    nearest: list[float | None] = [None] * min(len(vectors), 1)
    for start in range(1, len(vectors), ROWS_AT_ONCE):
        rows = vectors[start : start + ROWS_AT_ONCE]
        similar = np.tril(rows @ vectors[: start + len(rows)].T, k=start - 1)
        nearest.extend(np.clip(similar.max(axis=1), 0, 1).tolist())
    return nearest


def list_evidence(
    memories: Sequence[Unjudged], nearest: Mapping[UUID, float | None], turns: Mapping[UUID, Sequence[Turn]]
) -> list[ScoringEvidence]:
    """Return the inputs of the rules for these memories.

    Args:
        nearest: Cosine to the nearest earlier memory, by memory, where it is known.
        turns: The turns before each memory in its thread, nearest first.
    """
    return [
        ScoringEvidence(
            text=memory.text,
            speaker=memory.speaker,
            role=memory.role,
            kind=memory.kind,
            tags=tuple(memory.tags),
            rarity=memory.rarity,
            nearest=nearest.get(memory.memory_id),
            before=turns.get(memory.memory_id, ()),
        )
        for memory in memories
    ]


def _judge_memories(
    unjudged: Sequence[Unjudged], nearest: Mapping[UUID, float | None], turns: Mapping[UUID, Sequence[Turn]]
) -> list[Assessment]:
    judgements = judge(list_evidence(unjudged, nearest, turns))
    return [
        Assessment(
            memory_id=memory.memory_id,
            text_version=memory.text_version,
            emotional=judgement.criteria.emotional,
            novelty=judgement.criteria.novelty,
            actionable=judgement.criteria.actionable,
            personal=judgement.criteria.personal,
            uncertainty=judgement.uncertainty,
            inferred_kind=judgement.kind,
            inferred_entities=judgement.entities,
            keep_chance=judgement.keep_chance,
        )
        for memory, judgement in zip(unjudged, judgements, strict=True)
    ]


def write_chances(tenant_id: UUID, memories: Sequence[Unjudged], turns: Mapping[UUID, Sequence[Turn]]) -> int:
    """Compute the chances of memories that the rules scored earlier, and write them.

    Args:
        turns: The turns before each memory in its thread, nearest first.

    Returns:
        The number of memories whose chance changed.
    """
    chances = [
        KeepChance(memory.memory_id, memory.text_version, judgement.keep_chance)
        for memory, judgement in zip(memories, judge(list_evidence(memories, {}, turns)), strict=True)
    ]
    with memory_write(tenant_id, "state") as write:
        keep_chances.write(write.tx, tenant_id, chances)
        return keep_chances.copy_to_states(write.tx, tenant_id, [memory.memory_id for memory in memories])
