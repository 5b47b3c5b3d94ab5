"""The order of results if one corrects another."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.domain.search import correction_order
from app.domain.search.correction_order import CorrectionPair, asks_for_present, explain_corrections
from app.domain.search.request import SearchRequest, SearchResult

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)
A, B, C, D = (UUID(int=number) for number in range(1, 5))


def results(
    *ids: UUID, subjects: dict[UUID, str] | None = None, explain: dict[str, Any] | None = None
) -> list[SearchResult]:
    """Return results with falling scores; the higher the id, the later it was said."""
    unsaid: dict[str, Any] = dict.fromkeys(("thread", "speaker", "external_id", "kind"))
    return [
        SearchResult(
            id=memory_id,
            text="",
            score=1 - at / 10,
            strength=1,
            tier="active",
            subject=(subjects or {}).get(memory_id),
            tags=[],
            occurred_at=NOON + timedelta(memory_id.int),
            created_at=NOON,
            explain=explain,
            **unsaid,
        )
        for at, memory_id in enumerate(ids)
    ]


def place(found: list[SearchResult], pairs: list[CorrectionPair], shown: int = 10) -> list[SearchResult]:
    return correction_order.place_corrections(found, pairs, shown)


def order(found: list[SearchResult]) -> list[UUID]:
    return [result.id for result in found]


def test_the_newer_takes_the_place_of_the_older() -> None:
    assert order(place(results(A, C, D, B), [CorrectionPair(B, A)])) == [B, C, D, A]
    assert order(place(results(C, A, D, B), [CorrectionPair(B, A)])) == [C, B, D, A]


def test_the_older_sinks_to_the_last_place_shown_and_no_further() -> None:
    found = place(results(A, C, D, B), [CorrectionPair(B, A)], shown=3)
    assert order(found) == [B, C, A, D]
    assert [result.score for result in found] == pytest.approx([1.0, 0.9, 0.8, 0.8])
    assert order(place(results(A, C, D, B), [CorrectionPair(B, A)], shown=1)) == [B, A, C, D]


def test_one_that_ranks_above_already_stays() -> None:
    assert place(results(B, C, A), [CorrectionPair(B, A)]) == results(B, C, A)


@pytest.mark.parametrize("ids", [(A, B, C), (B, A, C), (C, A, B), (A, C, B), (B, C, A), (C, B, A)])
@pytest.mark.parametrize(
    "pairs",
    [
        [CorrectionPair(B, A), CorrectionPair(C, B)],
        [CorrectionPair(C, B), CorrectionPair(B, A)],
        [CorrectionPair(B, A), CorrectionPair(C, A)],
    ],
)
def test_of_a_chain_and_of_a_fork_the_newest_comes_first(ids: tuple[UUID, ...], pairs: list[CorrectionPair]) -> None:
    found = order(place(results(*ids, D), pairs))
    assert [each for each in found if each != D] == [C, B, A]


def test_scores_still_fall_and_the_own_one_is_told() -> None:
    found = place(results(A, C, B, explain={}), [CorrectionPair(B, A)])
    assert [(result.id, result.score) for result in found] == [(B, 1.0), (C, 0.9), (A, 0.8)]
    assert [result.explain for result in found] == [{"placed": {"own_score": 0.8}}, {}, {"placed": {"own_score": 1.0}}]


def test_subjects_are_not_crossed_and_what_is_not_found_is_passed_over() -> None:
    found = results(A, B, subjects={A: "ann"})
    assert place(found, [CorrectionPair(B, A), CorrectionPair(D, A), CorrectionPair(B, C)]) == found


def test_links_that_lead_in_a_circle_come_to_an_end() -> None:
    found = place(results(A, B, C), [CorrectionPair(A, B), CorrectionPair(B, A)])
    assert sorted(order(found)) == [A, B, C]


def test_nothing_is_lost_and_nothing_comes_twice() -> None:
    found = place(results(D, A, C, B), [CorrectionPair(B, A), CorrectionPair(C, D)])
    assert sorted(order(found)) == [A, B, C, D]


def test_both_ends_are_explained_where_that_is_asked() -> None:
    [a, b] = explain_corrections(results(A, B, explain={"words": 1.0}), [CorrectionPair(B, A)])
    assert a.explain == {"words": 1.0, "corrected_by": [B]}
    assert b.explain == {"words": 1.0, "corrects": [A]}
    assert explain_corrections(results(A, B), [CorrectionPair(B, A)]) == results(A, B)


@pytest.mark.parametrize(
    "query",
    [
        "When is my flight?",
        "On which date did we set the switch to the new Postgres?",
        "Which replacement did I finally choose?",
        "What was I going to call her, in the end?",
        "Where do I live now?",
        "flight",
        "",
    ],
)
def test_a_question_asks_for_the_present_unless_it_says_otherwise(query: str) -> None:
    assert asks_for_present(SearchRequest(query))


@pytest.mark.parametrize(
    "query",
    [
        "When was my flight originally?",
        "Where did I use to live before?",
        "Where I used to live",
        "What was the first plan for the flight?",
        "What was my old address?",
        "What did I think in March?",
        "How has the date changed?",
    ],
)
def test_a_question_about_the_past_does_not(query: str) -> None:
    assert not asks_for_present(SearchRequest(query))


def test_a_look_back_does_not() -> None:
    assert not asks_for_present(SearchRequest("When is my flight?", as_of=NOON))
