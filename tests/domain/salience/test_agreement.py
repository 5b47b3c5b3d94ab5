"""Agreement of a model's ratings with the rules: rank correlation and mean difference by version."""

from __future__ import annotations

import pytest

from app.domain.salience.agreement import RATINGS_MIN, ComparedRating, compare


def ratings(by_model: list[float], by_rules: list[float], version: str = "small/salience-3") -> list[ComparedRating]:
    return [ComparedRating(version, *pair) for pair in zip(by_model, by_rules, strict=True)]


RISING = [number / 20 for number in range(20)]


@pytest.mark.parametrize(
    ("by_model", "by_rules", "correlation"),
    [
        (RISING, [value**2 for value in RISING], 1.0),
        (RISING, RISING[::-1], -1.0),
        (RISING, [0.5] * 20, None),
        # Ties share their mean rank: computed by hand with ranks 1.5, 1.5, 3.5, 3.5, … against 1 to 10.
        ([0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4, 0.5, 0.5], RISING[:10], pytest.approx(0.9847, abs=1e-4)),
    ],
)
def test_the_rank_correlation_follows_the_order_alone(
    by_model: list[float], by_rules: list[float], correlation: float | None
) -> None:
    [found] = compare(ratings(by_model, by_rules))
    assert found.rank_correlation == correlation


def test_few_ratings_have_a_difference_but_no_correlation() -> None:
    [found] = compare(ratings([0.5] * (RATINGS_MIN - 1), [0.25] * (RATINGS_MIN - 1)))
    assert (found.ratings, found.rank_correlation, found.mean_difference) == (RATINGS_MIN - 1, None, 0.25)
    assert compare([]) == []


def test_versions_are_apart_and_a_model_may_have_a_slash_in_its_name() -> None:
    new, old = ratings(RISING, RISING, "open/small/salience-4"), ratings([0.1], [0.4], "open/small/salience-2")
    first, second = compare([*new, *old])
    assert (first.model, first.prompt_version, first.ratings) == ("open/small", "salience-4", 20)
    assert (second.prompt_version, second.ratings, second.mean_difference) == ("salience-2", 1, -0.3)
