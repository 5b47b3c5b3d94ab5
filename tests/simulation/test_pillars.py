"""The three pillars of seed 003, "Key Ideas": retrieval 40 %, forgetting 35 %, plausibility 25 %."""

from __future__ import annotations

import math

import pytest
from scipy.stats import spearmanr

from app.domain.simulation.pillars import Pillars, compute_pillars, rank_correlation
from app.domain.simulation.year import SimulatedFact, SimulatedStatement, Year

YEAR = Year(
    seed=0,
    days=30,
    said=(
        SimulatedStatement(0, "Ann", "fact 0", 0),
        SimulatedStatement(1, "Ann", "fact 1", 1),
        SimulatedStatement(2, "Ann", "fact 2", 2),
        SimulatedStatement(3, "Ann", "fact 2 again", 2),
        SimulatedStatement(4, "Ann", "hello"),
    ),
    facts=(
        SimulatedFact("fact", "Ann", (0,), ("a?", "b?"), math.inf),
        SimulatedFact("fact", "Ann", (1,), ("c?", "d?"), math.inf),
        SimulatedFact("fact", "Ann", (2, 3), ("e?", "f?"), math.inf),
    ),
    asked=(),
)
HITS = [[0], [4, 0], [1], [2, 3], [4], []]
"""Found at ranks 1 and 2, rank 1 and not, and never."""


def test_003_key_ideas_retrieval_is_the_mean_of_recall_and_reciprocal_rank() -> None:
    found = compute_pillars(YEAR, HITS, 0.25, None)
    recall, mean_reciprocal_rank = 3 / 6, (1 + 1 / 2 + 1) / 6
    assert found.retrieval == pytest.approx((recall + mean_reciprocal_rank) / 2)
    assert compute_pillars(YEAR, [[0], [0], [1], [1], [3], [2]], 0, None).retrieval == 1


def test_003_key_ideas_forgetting_is_the_share_of_chatter_that_is_not_active() -> None:
    assert compute_pillars(YEAR, HITS, 0.25, None).forgetting == 0.75


@pytest.mark.parametrize(
    ("strengths", "expected"),
    [
        ({0: 0.9, 1: 0.5, 2: 0.1, 3: 0.2}, 1.0),
        ({0: 0.1, 1: 0.5, 2: 0.2, 3: 0.9}, -1.0),
        ({0: 0.9, 1: 0.5}, 1.0),
        ({0: 0.5, 1: 0.5, 3: 0.5}, None),
    ],
    ids=["as strong as found", "the reverse, by the stronger statement", "deleted is 0", "all equal"],
)
def test_003_key_ideas_plausibility_is_the_rank_correlation_of_strength_and_being_found(
    strengths: dict[int, float], expected: float | None
) -> None:
    found = compute_pillars(YEAR, HITS, 0, strengths).plausibility
    assert found is None if expected is None else found == pytest.approx(expected)


def test_003_key_ideas_the_weighted_sum() -> None:
    assert Pillars(0.5, 0.8, 0.4).weighted_sum == pytest.approx(0.40 * 0.5 + 0.35 * 0.8 + 0.25 * 0.4)
    assert Pillars(0.5, 0.8, None).weighted_sum == pytest.approx(0.40 * 0.5 + 0.35 * 0.8)
    assert Pillars(1, 1, 1).weighted_sum == pytest.approx(1)


def test_ties_have_their_mean_rank() -> None:
    first, second = [0.1, 0.4, 0.4, 0.9, 0.2, 0.4], [0.0, 0.5, 1.0, 1.0, 0.5, 0.0]
    assert rank_correlation(first, second) == pytest.approx(spearmanr(first, second).statistic)
