"""Turn relevance into scores: the weights of each mode and the effect of strength, recency and importance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import numpy as np

from app.domain.dynamics import cmm, memory_decay
from app.domain.dynamics.cmm import CmmParameters
from app.domain.dynamics.memory_decay import MemoryDecayParameters
from app.domain.dynamics.ops import Floats
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.parameters import Ranking
from app.domain.search.signals import ScoreParts
from app.domain.strength import importance
from app.domain.strength.importance import Importance

P = TypeVar("P")

_BASES: Final = {
    "lexical": {"words": 1.0, "soft_words": 0.0, "relevance": 0.0},
    "dense": {"words": 0.0, "soft_words": 0.0, "relevance": 1.0},
    "cmm": {"words": 0.0, "soft_words": 0.0, "relevance": 1.0},
    "memory_decay": {"words": 0.3, "soft_words": 0.0, "relevance": 0.7},
}
"""Weights of the base scores in modes that ignore the policy's weights; they also select the candidates."""
_SELECTING: Final = (1.0, 0.5)
"""Weights of words and relevance for candidate selection in the other modes."""
_ALONE: Final = {"lexical": "words", "dense": "relevance"}
"""The only part of relevance that counts, for modes with a single part."""


@dataclass(frozen=True, slots=True)
class BlendedScores:
    """Scores of the candidates (the sum of the parts times all factors, or 0) and the components of the scores.

    Attributes:
        scores: At least 0, shape (n,); candidates with 0 are not returned.
        parts: Weighted parts by the names of their weights.
        factors: Factors by name, shape (n,) each.
    """

    scores: Floats
    parts: ScoreParts
    factors: dict[str, Floats]


def selection_weights(ranking: Ranking, *, has_vector: bool = True) -> Ranking:
    """Return the weights with which the mode selects candidates; base scores of weight 0 need not be computed.

    If the query has no vector, words replace meaning.
    """
    if ranking.mode not in _BASES:
        return ranking
    if has_vector:
        return ranking.model_copy(update=_BASES[ranking.mode])
    mode = "lexical" if ranking.mode == "dense" else ranking.mode
    return ranking.model_copy(update={"mode": mode, **_BASES["lexical"]})


def selection(ranking: Ranking) -> tuple[float, float]:
    """Return the weights of words and relevance for candidate selection; 0 for a part that the ranking doesn't use.

    If a ranking uses only soft words, candidates are selected by words.
    """
    if ranking.mode in _BASES:
        return ranking.words, ranking.relevance
    words, relevance = _SELECTING
    return (words if ranking.words or ranking.soft_words else 0.0, relevance if ranking.relevance else 0.0)


def importance_in_context(weighing: Importance, candidates: Sequence[Candidate], background: Floats) -> Floats | None:
    """Return the candidates' importance with the query as its context, or None if no candidate has a cosine to it.

    Args:
        weighing: The policy's parameters of importance.
        background: Importance without a context, shape (n,).
    """
    cosines = _similarity(candidates)
    return importance.in_context(weighing, background, importance.closeness(cosines)) if cosines.any() else None


def apply_context(
    vitals: CandidateStrength, candidates: Sequence[Candidate], ranking: Ranking, weighing: Importance
) -> CandidateStrength:
    """Return the candidates' strength; if `ranking.in_context`, with their importance for the query."""
    found = importance_in_context(weighing, candidates, vitals.importance) if ranking.in_context else None
    return vitals if found is None else replace(vitals, importance=found)


def mode_parameters(own: object, kind: type[P]) -> P:
    """Return the profile's own parameters if they belong to this mode, otherwise the seed's defaults."""
    return own if isinstance(own, kind) else kind()


def blend_scores(
    found: Sequence[Candidate],
    parts: ScoreParts,
    vitals: CandidateStrength,
    ranking: Ranking,
    priming: Floats | None = None,
    parameters: Any = None,
) -> BlendedScores:
    """Return the candidates' scores under the ranking's mode.

    Args:
        parts: The candidates' relevance to the query.
        vitals: The candidates' time-dependent scores.
        priming: Factor for each candidate, 1 or more; None if nothing is primed.
        parameters: Parameters of the tenant's forgetting model.
    """
    primed = {} if priming is None else {"priming": priming}
    match ranking.mode:
        case "cmm":
            return _cmm(found, vitals, primed, mode_parameters(parameters, CmmParameters))
        case "memory_decay":
            return _memory_decay(found, vitals, primed, mode_parameters(parameters, MemoryDecayParameters))
        case _:
            alone = _ALONE.get(ranking.mode)
            counted = ScoreParts({alone: parts.by_name[alone]}) if alone else parts
            factors = _lifts(vitals, ranking) | primed
            return BlendedScores(_multiplied(counted.total, factors), counted, factors)


def _lifts(vitals: CandidateStrength, ranking: Ranking) -> dict[str, Floats]:
    """Return the factors on relevance, each from 1 to 1 + its weight, so that no factor outweighs the query."""
    lifting = (
        ("strength", ranking.strength, vitals.strength),
        ("recency", ranking.recency, vitals.recency),
        ("importance", ranking.importance, vitals.importance),
    )
    return {name: 1 + weight * part for name, weight, part in lifting if weight}


def _cmm(
    found: Sequence[Candidate], vitals: CandidateStrength, primed: dict[str, Floats], parameters: CmmParameters
) -> BlendedScores:
    """Return similarity · decay · importance · priming, with scores below a threshold set to 0 (seed 002).

    If the query has no vector, words replace similarity.
    """
    similarity, weight = _similarity(found), 2 * vitals.salience  # stored halved, see `CLASS_IMPORTANCES`
    if not similarity.any():
        similarity = _words(found)
    scores = cmm.relevance(similarity, vitals.strength, weight, primed.get("priming", np.ones(len(found))))
    shown = np.where(scores > parameters.surface_above, scores, 0.0)
    return BlendedScores(
        shown, ScoreParts({"relevance": similarity}), {"strength": vitals.strength, "importance": weight} | primed
    )


def _memory_decay(
    found: Sequence[Candidate], vitals: CandidateStrength, primed: dict[str, Floats], parameters: MemoryDecayParameters
) -> BlendedScores:
    """Mix similarity · A_r^w with words; memories below the storage threshold score 0 (seed 003)."""
    activated = memory_decay.relevance(parameters, _similarity(found), vitals.strength, vitals.retrieval)
    weight = parameters.bm25_weight
    parts = ScoreParts({"relevance": (1 - weight) * activated, "words": weight * _words(found)})
    scores = np.where(vitals.strength >= parameters.storage_threshold, _multiplied(parts.total, primed), 0.0)
    return BlendedScores(scores, parts, primed)


def _multiplied(scores: Floats, factors: dict[str, Floats]) -> Floats:
    for factor in factors.values():
        scores = scores * factor
    return scores


def _similarity(found: Sequence[Candidate]) -> Floats:
    return np.array([candidate.cosine for candidate in found], np.float64)


def _words(found: Sequence[Candidate]) -> Floats:
    return np.array([candidate.words for candidate in found], np.float64)
