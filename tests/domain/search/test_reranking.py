"""The order that a reranker's scores produce."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import UUID

import pytest

from app.domain.search.request import SearchResult
from app.domain.search.reranking import LIFT, PASSAGE_MAX_BYTES, SCORE_MAX, apply_scores, reranked_text

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)


def result(number: int, score: float, text: str = "text", occurred_at: datetime | None = None) -> SearchResult:
    return SearchResult(
        UUID(int=number), text, score, 1.0, "active", None, None, None, None, None, [], occurred_at, NOON
    )


def order(results: list[float], scores: list[float]) -> list[int]:
    given = [result(number, score) for number, score in enumerate(results, start=1)]
    return [each.id.int for each in apply_scores(given, scores, "m")]


@pytest.mark.parametrize(
    ("results", "scores", "expected"),
    [
        ([3, 2, 1], [0, 0.5, 1], [3, 2, 1]),
        ([3, 2, 1], [-8, 3.5, 4], [2, 3, 1]),
        ([2, 2, 2], [0.1, 0.9, 0.9], [2, 3, 1]),
        ([3, 2, 1], [0.7, 0.7, 0.7], [1, 2, 3]),
        ([3, 2, 1], [-SCORE_MAX, 0, SCORE_MAX], [3, 2, 1]),
        ([3, 2, 1], [0, 0, 5e-324], [3, 1, 2]),
    ],
)
def test_results_are_ordered_by_their_score_lifted(
    results: list[float], scores: list[float], expected: list[int]
) -> None:
    assert order(results, scores) == expected


def test_none_can_win_more_than_the_lift() -> None:
    """A text that manipulates a model into the best score doesn't overtake a good answer that fits much better."""
    assert order([1.0, 0.3], [0.8, 1.0]) == [2, 1], "of two results, one always has the lowest score"
    assert order([1.0, 0.3, 0.2], [0.8, 1.0, 0.0]) == [1, 2, 3]
    [first, last] = apply_scores([result(1, 1.0), result(2, 0.005)], [0, 1], "m")
    assert (first.id.int, first.score) == (1, 1.0)
    assert last.score == pytest.approx(0.005 * LIFT)


def test_a_reranker_sees_day_and_text_in_short() -> None:
    assert reranked_text(result(1, 1, "hi", NOON)) == "2026-03-07 hi"
    assert len(reranked_text(result(1, 1, "ü" * 5000)).encode()) <= PASSAGE_MAX_BYTES
