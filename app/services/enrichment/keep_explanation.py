"""Explain the chance that a memory should be kept, by the features that contribute most to it."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from app.domain.salience.criteria import Reason
from app.domain.salience.rules import explain_keep_chance
from app.services.enrichment.score_by_rules import list_evidence
from app.store.core import database
from app.store.enrichment import keep_chances, scores


@dataclass(frozen=True, slots=True)
class KeepExplanation:
    """The chance that a memory should be kept, as the rules estimated it, and the main reasons.

    Attributes:
        chance: 0 to 1.
        reasons: The strongest features of the memory's current text and the turns before it, strongest first.
    """

    chance: float
    reasons: tuple[Reason, ...]


def explain(tx: database.Transaction, tenant_id: UUID, memory_id: UUID) -> KeepExplanation | None:
    """Explain a memory's chance; None if a model, the caller or nobody scored it."""
    chance = keep_chances.read(tx, tenant_id, memory_id)
    memories = scores.read(tx, tenant_id, [memory_id], closed=False) if chance is not None else []
    if chance is None or not memories:
        return None
    turns = keep_chances.list_turns_before(tx, tenant_id, [memory_id])
    [evidence] = list_evidence(memories, {}, turns)
    return KeepExplanation(chance, explain_keep_chance(evidence))
