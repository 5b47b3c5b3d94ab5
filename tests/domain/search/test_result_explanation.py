"""Explanations of a result: ranks among the candidates, and matched words as the query spells them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest

from app.domain.search.candidate_types import Candidate
from app.domain.search.result_explanation import map_spellings, rank_by_score
from app.domain.search.terms import QueryTerm

RARITY = {"tea": 2.0, "drink": 1.0, "auth-servic": 3.0, "喝茶": 4.0}
TERMS = [
    *(QueryTerm(lexeme, 1, None) for lexeme in RARITY),
    QueryTerm("drink", 1, "drinks"),
    QueryTerm("drink", 1, "drinking"),
    QueryTerm("tea", 1, "tea"),
    QueryTerm("喝", 0, "喝茶"),
    QueryTerm("喝茶", 1, "喝茶"),
]


def candidate(words: float, relevance: float) -> Candidate:
    now = datetime(2026, 3, 7, tzinfo=UTC)
    rest: dict[str, Any] = dict.fromkeys(("subject", "thread", "speaker", "external_id", "kind", "occurred_at"))
    return Candidate(
        **rest,
        memory_id=uuid4(),
        text="",
        tags=[],
        created_at=now,
        tier="active",
        words=words,
        relevance=relevance,
        cosine=relevance,
    )


def test_equals_share_a_place_and_what_has_no_score_has_none() -> None:
    candidates = [candidate(0.5, 0.0), candidate(1.0, 1.0), candidate(0.5, 0.0), candidate(0.1, 0.2)]
    assert rank_by_score(candidates) == [
        {"words": 2, "relevance": None},
        {"words": 1, "relevance": 1},
        {"words": 2, "relevance": None},
        {"words": 4, "relevance": 2},
    ]
    assert rank_by_score([]) == []


@pytest.mark.parametrize(
    ("lexemes", "shown"),
    [
        ({"drink", "tea"}, [("tea", 2.0), ("drinks", 1.0)]),  # the rarest first; of two spellings, the first one
        ({"auth-servic"}, [("auth-servic", 3.0)]),  # no single query word has this lexeme
        ({"喝茶", "喝"}, [("喝茶", 4.0)]),  # words without a rarity are left out
        (set(), []),
    ],
)
def test_words_are_shown_as_the_query_spells_them(lexemes: set[str], shown: list[tuple[str, float]]) -> None:
    assert list(map_spellings(lexemes, TERMS, RARITY).items()) == shown
