"""Explain a result by more than the parts of its score: ranks, matching words and time-dependent scores."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from app.domain.dynamics.ops import NUMPY, Floats
from app.domain.dynamics.state import DAY_SECONDS, State, age_at
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.terms import QueryTerm
from app.domain.strength import importance
from app.domain.strength.importance import Importance

BASE_SCORES: Final = ("words", "relevance")
UNRANKED: Final[Mapping[str, None]] = dict.fromkeys(BASE_SCORES)
"""Ranks of a result without any base score, such as a neighbour added by spreading."""


def rank_by_score(candidates: Sequence[Candidate]) -> list[dict[str, int | None]]:
    """Return each candidate's rank by each base score alone, from 1; ties share a rank, and a score of 0 has None."""
    places = {name: _places(np.array([getattr(candidate, name) for candidate in candidates])) for name in BASE_SCORES}
    return [{name: ranks[n] for name, ranks in places.items()} for n in range(len(candidates))]


def explain_strength(found: CandidateStrength, place: int) -> dict[str, float]:
    """Return one candidate's time-dependent scores, as used in its score."""
    return {
        "strength": float(found.strength[place]),
        "importance": float(found.importance[place]),
        "recency": float(found.recency[place]),
        "salience": float(found.salience[place]),
    }


def explain_importance(weighing: Importance, state: State, now: float, cosines: Floats) -> list[dict[str, float]]:
    """Return each memory's importance with a context and its four factors, all 0 to 1 (seed 004 §1.5).

    Args:
        weighing: The policy's parameters of importance.
        state: States of the memories, shape (n,).
        now: Seconds since 1970.
        cosines: Cosine of each memory to the context, NaN without a vector, shape (n,).
    """
    relevance = importance.closeness(cosines)
    columns = {
        "in_context": importance.importance(weighing, state, now, relevance),
        "recency": importance.recency(NUMPY, weighing, age_at(state, now) / DAY_SECONDS),
        "frequency": importance.frequency(NUMPY, weighing, state.access_count),
        "salience": state.salience,
        "relevance": relevance,
    }
    return [{name: float(column[row]) for name, column in columns.items()} for row in range(len(cosines))]


def map_spellings(
    lexemes: Collection[str], terms: Sequence[QueryTerm], rarity: Mapping[str, float]
) -> dict[str, float]:
    """Map words, as the query spells them, to their rarity (idf), rarest first.

    A lexeme that corresponds to no single word of the query, such as a pair of Chinese characters, is shown unchanged.

    Args:
        lexemes: The matching lexemes.
        terms: Terms of the query.
        rarity: Rarity by lexeme; lexemes missing here don't count in the search.
    """
    shown = {lexeme: spelling for spelling, lexeme in reversed(_alone(terms).items())}
    by_rarity = sorted((lexeme for lexeme in lexemes if lexeme in rarity), key=lambda found: (-rarity[found], found))
    return {shown.get(lexeme, lexeme): rarity[lexeme] for lexeme in by_rarity}


def _alone(terms: Sequence[QueryTerm]) -> dict[str, str]:
    """Map each spelling with exactly one lexeme to this lexeme, in the query's order."""
    lexemes: dict[str, list[str]] = {}
    for term in terms:
        if term.spelling is not None:
            lexemes.setdefault(term.spelling, []).append(term.lexeme)
    return {spelling: own[0] for spelling, own in lexemes.items() if len(own) == 1}


def _places(scores: Floats) -> list[int | None]:
    order = np.sort(-scores)
    return [int(np.searchsorted(order, -score)) + 1 if score > 0 else None for score in scores]
