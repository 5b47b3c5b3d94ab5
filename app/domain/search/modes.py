"""From relevance to the score: what each mode takes for relevant, and how strength and importance count in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import numpy as np

from app.domain.dynamics import cmm, memory_decay
from app.domain.dynamics.cmm import CmmParameters
from app.domain.dynamics.memory_decay import MemoryDecayParameters
from app.domain.dynamics.ops import Floats
from app.domain.search.candidates import Candidate, Vitals
from app.domain.search.ranking import Ranking
from app.domain.search.signals import Parts

P = TypeVar("P")

_BASES: Final = {
    "lexical": {"words": 1.0, "soft_words": 0.0, "relevance": 0.0},
    "dense": {"words": 0.0, "soft_words": 0.0, "relevance": 1.0},
    "cmm": {"words": 0.0, "soft_words": 0.0, "relevance": 1.0},
    "memory_decay": {"words": 0.3, "soft_words": 0.0, "relevance": 0.7},
}
"""Weights of the base scores in the modes that leave the policy's aside; they select the candidates, too."""
_SELECTING: Final = (1.0, 0.5)
"""Weights of words and relevance by which candidates are selected in the other modes."""
_ALONE: Final = {"lexical": "words", "dense": "relevance"}
"""The one part of relevance that counts, in the modes of one."""


@dataclass(frozen=True, slots=True)
class Blended:
    """Scores of the candidates and what they are made of: the sum of the parts times all factors, or 0.

    Attributes:
        scores: At least 0, shape (n,); 0 isn't shown.
        parts: By the names of their weights.
        factors: By name, shape (n,).
    """

    scores: Floats
    parts: Parts
    factors: dict[str, Floats]


def based(ranking: Ranking, *, has_vector: bool = True) -> Ranking:
    """The weights by which the mode finds candidates; a base score of weight 0 needn't be worked out.

    Without a vector of the query, words stand in for meaning.
    """
    if ranking.mode not in _BASES:
        return ranking
    if has_vector:
        return ranking.model_copy(update=_BASES[ranking.mode])
    mode = "lexical" if ranking.mode == "dense" else ranking.mode
    return ranking.model_copy(update={"mode": mode, **_BASES["lexical"]})


def selection(ranking: Ranking) -> tuple[float, float]:
    """Return the weights of words and relevance by which candidates are selected; 0 where neither part counts.

    A mode's ranking in which nothing counts but soft words selects by words.
    """
    if ranking.mode in _BASES:
        return ranking.words, ranking.relevance
    words, relevance = _SELECTING
    return (words if ranking.words or ranking.soft_words else 0.0, relevance if ranking.relevance else 0.0)


def parameters_of(own: object, kind: type[P]) -> P:
    """The parameters of a mode: the profile's own where it has such, else the seed's defaults."""
    return own if isinstance(own, kind) else kind()


def blend(
    found: Sequence[Candidate],
    parts: Parts,
    vitals: Vitals,
    ranking: Ranking,
    priming: Floats | None = None,
    parameters: Any = None,
) -> Blended:
    """The candidates' scores by the mode of the ranking.

    Args:
        found: The candidates.
        parts: Their relevance to the query.
        vitals: What time has made of them.
        ranking: Mode and weights.
        priming: Factor for each, 1 or more; None where nothing is primed.
        parameters: Those of the tenant's model of forgetting.
    """
    primed = {} if priming is None else {"priming": priming}
    match ranking.mode:
        case "cmm":
            return _cmm(found, vitals, primed, parameters_of(parameters, CmmParameters))
        case "memory_decay":
            return _memory_decay(found, vitals, primed, parameters_of(parameters, MemoryDecayParameters))
        case _:
            alone = _ALONE.get(ranking.mode)
            counted = Parts({alone: parts.by_name[alone]}) if alone else parts
            factors = _lifts(vitals, ranking) | primed
            return Blended(_multiplied(counted.total, factors), counted, factors)


def _lifts(vitals: Vitals, ranking: Ranking) -> dict[str, Floats]:
    """What lifts relevance: each factor by at most its weight, so that none outweighs what has to do with the query."""
    lifting = (
        ("strength", ranking.strength, vitals.strength),
        ("recency", ranking.recency, vitals.recency),
        ("importance", ranking.importance, vitals.importance),
    )
    return {name: 1 + weight * part for name, weight, part in lifting if weight}


def _cmm(found: Sequence[Candidate], vitals: Vitals, primed: dict[str, Floats], parameters: CmmParameters) -> Blended:
    """Similarity · decay · importance · priming, shown above a threshold (seed 002).

    Without a vector of the query, words stand in for similarity.
    """
    similarity, importance = _similarity(found), 2 * vitals.salience  # stored at half, see `CLASS_IMPORTANCES`
    if not similarity.any():
        similarity = _words(found)
    scores = cmm.relevance(similarity, vitals.strength, importance, primed.get("priming", np.ones(len(found))))
    shown = np.where(scores > parameters.surface_above, scores, 0.0)
    return Blended(
        shown, Parts({"relevance": similarity}), {"strength": vitals.strength, "importance": importance} | primed
    )


def _memory_decay(
    found: Sequence[Candidate], vitals: Vitals, primed: dict[str, Floats], parameters: MemoryDecayParameters
) -> Blended:
    """Similarity · A_r^w, then so much of it and so much of the words; nothing whose storage is too weak (seed 003)."""
    activated = memory_decay.relevance(parameters, _similarity(found), vitals.strength, vitals.retrieval)
    weight = parameters.bm25_weight
    parts = Parts({"relevance": (1 - weight) * activated, "words": weight * _words(found)})
    scores = np.where(vitals.strength >= parameters.storage_threshold, _multiplied(parts.total, primed), 0.0)
    return Blended(scores, parts, primed)


def _multiplied(scores: Floats, factors: dict[str, Floats]) -> Floats:
    for factor in factors.values():
        scores = scores * factor
    return scores


def _similarity(found: Sequence[Candidate]) -> Floats:
    return np.array([candidate.cosine for candidate in found], np.float64)


def _words(found: Sequence[Candidate]) -> Floats:
    return np.array([candidate.words for candidate in found], np.float64)
