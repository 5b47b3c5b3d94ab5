"""Ranking modes: how each computes relevance, how strength counts, and how a search spreads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, get_args
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from app.domain.dynamics.cmm import CmmParameters
from app.domain.dynamics.memory_decay import MemoryDecayParameters
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.parameters import Mode, Ranking
from app.domain.search.request import SearchRequest, SearchResult
from app.domain.search.result_list import list_uses, rank_candidates
from app.domain.search.scoring import selection_weights
from app.domain.search.spreading_activation import Neighbour, ReachedMemory, spread_scores, spreading_settings

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)
MODES = get_args(Mode)


def candidate(number: int, words: float, cosine: float, speaker: str | None = None) -> Candidate:
    return Candidate(
        UUID(int=number),
        "text",
        None,
        None,
        speaker,
        None,
        None,
        [],
        None,
        NOON,
        "active",
        words=words,
        relevance=cosine,
        cosine=cosine,
    )


def vitals(strength: Sequence[float], **others: Sequence[float]) -> CandidateStrength:
    columns = dict.fromkeys(("recency", "importance", "salience", "retrieval"), strength) | others
    return CandidateStrength(np.array(strength), **{name: np.array(column) for name, column in columns.items()})


def ranked(
    candidates: Sequence[Candidate],
    alive: CandidateStrength,
    mode: Mode = "hybrid",
    priming: Sequence[float] | None = None,
    parameters: object = None,
    **weights: float,
) -> list[SearchResult]:
    ranking = Ranking(mode=mode, **weights)
    primed = None if priming is None else np.array(priming)
    return rank_candidates(
        candidates, alive, SearchRequest("Bo", explain=True), ranking, priming=primed, parameters=parameters
    )


def ids(results: Sequence[SearchResult]) -> list[int]:
    return [result.id.int for result in results]


@pytest.mark.parametrize("mode", MODES)
def test_of_two_equally_relevant_memories_the_stronger_comes_first(mode: Mode) -> None:
    twins = [candidate(1, 1, 0.8), candidate(2, 1, 0.8)]
    assert ids(ranked(twins, vitals([0.9, 0.6]), mode)) == [1, 2]
    assert ids(ranked(twins, vitals([0.6, 0.9]), mode)) == [2, 1]


@pytest.mark.parametrize("mode", ["hybrid", "lexical", "dense"])
def test_strength_lifts_by_its_weight_at_most(mode: Mode) -> None:
    """A forgotten memory still ranks before a strong one that is clearly less relevant."""
    given = [candidate(1, 1, 0.8), candidate(2, 0.8, 0.64)]
    assert ids(ranked(given, vitals([0.0, 1.0]), mode)) == [1, 2]
    assert ids(ranked(given, vitals([0.0, 1.0]), mode, strength=1.0)) == [2, 1]


def test_each_lift_is_a_factor_of_the_score() -> None:
    alive = vitals([0.5], recency=[0.25], importance=[0.75])
    [result] = ranked([candidate(1, 0.5, 0.5)], alive, strength=0.2, recency=0.4, importance=0.8)
    assert result.explain is not None
    assert result.explain["factors"] == pytest.approx({"strength": 1.1, "recency": 1.1, "importance": 1.6})
    parts = sum(part for part in result.explain.values() if isinstance(part, float))
    assert result.score == pytest.approx(parts * 1.1 * 1.1 * 1.6)


def test_what_has_no_weight_is_no_factor() -> None:
    [result] = ranked([candidate(1, 1, 1)], vitals([0.5]), strength=0, importance=0)
    assert result.explain is not None
    assert result.explain["factors"] == {}


def test_words_or_meaning_alone() -> None:
    given = [candidate(1, 1, 0), candidate(2, 0.5, 0.5, "Bo"), candidate(3, 0, 1)]
    alive = vitals([1, 1, 1])
    assert ids(ranked(given, alive, "lexical")) == [1, 2]
    assert ids(ranked(given, alive, "dense")) == [3, 2]


def test_cmm_multiplies_and_shows_what_is_above_its_threshold() -> None:
    """Seed 002: similarity · decay · importance · priming, with importance stored at half."""
    given = [candidate(1, 1, 0.5), candidate(2, 1, 0.6), candidate(3, 1, 0.6), candidate(4, 1, 0.6)]
    alive = vitals([0.8, 0.5, 1, 0], salience=[1, 0.5, 0, 1])
    results = ranked(given, alive, "cmm", priming=[1, 1.3, 1, 1])
    assert ids(results) == [1, 2]
    assert [result.score for result in results] == pytest.approx([0.8, 0.39])
    assert results[1].explain == {"relevance": 0.6, "factors": {"strength": 0.5, "importance": 1, "priming": 1.3}}
    assert ids(ranked(given, alive, "cmm")) == [1], "0.3 itself isn't above"
    assert ids(ranked(given, alive, "cmm", parameters=CmmParameters(surface_above=0.1))) == [1, 2]


def test_cmm_without_a_vector_of_the_query_goes_by_words() -> None:
    given = [candidate(1, 1, 0), candidate(2, 0.2, 0)]
    assert ids(ranked(given, vitals([1, 1], salience=[0.5, 0.5]), "cmm")) == [1]


def test_memory_decay_drops_what_is_too_weak_and_weighs_in_words() -> None:
    """Seed 003: similarity · A_r^½, with words weighted at .3; A_s must be at least .05."""
    given = [candidate(1, 0, 0.8), candidate(2, 1, 0.8), candidate(3, 1, 0.8)]
    alive = vitals([1, 0.05, 0.049], retrieval=[0.25, 0.25, 1])
    results = ranked(given, alive, "memory_decay")
    assert ids(results) == [2, 1]
    assert [result.score for result in results] == pytest.approx([0.58, 0.28])
    assert results[0].explain == {"relevance": pytest.approx(0.28), "words": 0.3, "factors": {}}
    own = MemoryDecayParameters(storage_threshold=0.0, retrieval_weight=0.0, bm25_weight=0.5)
    scores = [result.score for result in ranked(given, alive, "memory_decay", parameters=own)]
    assert scores == pytest.approx([0.9, 0.9, 0.4])


@given(
    st.sampled_from(MODES),
    st.lists(st.tuples(*[st.floats(0, 1)] * 7), min_size=1, max_size=5),
    st.floats(1, 1.3),
)
def test_what_is_explained_adds_up(mode: Mode, rows: list[tuple[float, ...]], primed: float) -> None:
    given = [candidate(n, words, cosine) for n, (words, cosine, *_) in enumerate(rows)]
    alive = CandidateStrength(*np.array([row[2:] for row in rows]).T)
    for result in ranked(given, alive, mode, priming=[primed] * len(given)):
        assert result.explain is not None
        factors: dict[str, float] = result.explain.pop("factors")
        assert result.score == pytest.approx(sum(result.explain.values()) * math.prod(factors.values()))
        assert result.score > 0


@pytest.mark.parametrize(
    ("mode", "has_vector", "expected"),
    [
        ("hybrid", True, ("hybrid", 2, 3)),
        ("hybrid", False, ("hybrid", 2, 3)),
        ("lexical", True, ("lexical", 1, 0)),
        ("dense", True, ("dense", 0, 1)),
        ("dense", False, ("lexical", 1, 0)),
        ("cmm", True, ("cmm", 0, 1)),
        ("cmm", False, ("cmm", 1, 0)),
        ("memory_decay", True, ("memory_decay", 0.3, 0.7)),
        ("memory_decay", False, ("memory_decay", 1, 0)),
    ],
)
def test_by_what_candidates_are_found(mode: Mode, has_vector: bool, expected: tuple[Any, ...]) -> None:
    ranking = selection_weights(Ranking(mode=mode, words=2, relevance=3), has_vector=has_vector)
    assert (ranking.mode, ranking.words, ranking.relevance) == expected


A, B, C, D = (UUID(int=number) for number in range(1, 5))


def test_a_neighbour_gets_a_share_of_its_best_parents_score_if_it_has_less() -> None:
    near = [
        Neighbour(A, C, "vector", 1),
        Neighbour(B, C, "entity", 1),
        Neighbour(A, D, "link", 0.5),
        Neighbour(A, B, "link", 1),
    ]
    assert spread_scores({A: 0.8, B: 0.6}, near, 0.5) == {
        C: ReachedMemory(0.4, A, "vector"),
        D: ReachedMemory(0.2, A, "link"),
    }
    assert spread_scores({A: 0.8, B: 0.3}, near, 0.5)[B] == ReachedMemory(0.4, A, "link")


def test_how_a_mode_spreads() -> None:
    assert spreading_settings("hybrid", CmmParameters()) is None
    own = spreading_settings("cmm", CmmParameters(spread_factor=0.25, spread_hops=2))
    assert own is not None
    assert (own.ways, own.factor, own.hops) == (("vector", "entity", "link"), 0.25, 2)
    assert spreading_settings("cmm", CmmParameters(spread_hops=0)) is None
    assert spreading_settings("memory_decay", MemoryDecayParameters(spread_factor=0)) is None
    default = spreading_settings("memory_decay", CmmParameters())
    assert default is not None
    assert (default.ways, default.factor, default.strength_min) == (("link",), 0.5, 0.05)


def test_what_a_search_has_spread_to_is_a_use_without_words_or_margin() -> None:
    found = [candidate(1, 1, 0.8)]
    results = ranked(found, vitals([1.0]))
    reported = list_uses([*results, structs.replace(results[0], id=D)], found)
    assert [(use.id, use.place, use.lexical, use.margin) for use in reported] == [(A, 0, True, 0.8), (D, 1, False, 0)]
