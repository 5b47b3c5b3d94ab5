"""Orders, curves and areas of `make bench-forgetting`, without the service."""

from __future__ import annotations

import numpy as np
import pytest

from ops.forgetting import curves
from ops.forgetting.curves import SHARES

EVIDENCE = [[0], [0, 3], [5, 6, 7], [19], [3]]
COUNT = 20


def kept_by(order: curves.Order, share: float) -> float:
    return float(np.mean(curves.evidence_kept(EVIDENCE, curves.keep(order, share))))


def test_the_largest_value_comes_first_then_the_second_key_then_the_later_turn() -> None:
    protected, strength = np.array([0, 1, 0, 1, 0]), np.array([0.9, 0.1, 0.2, 0.3, 0.9])
    assert curves.order_by(protected, strength).tolist() == [3, 1, 4, 0, 2]


def test_a_share_keeps_the_first_memories_of_an_order_and_at_least_one() -> None:
    order = np.array([2, 0, 1, 3])
    assert curves.keep(order, 0.5).tolist() == [True, False, True, False]
    assert curves.keep(order, 0.01).tolist() == [False, False, True, False]
    assert curves.keep(order, 1).all()


def test_no_order_keeps_more_evidence_than_the_oracle() -> None:
    """Among the other orders is one that prefers evidence, but not by its worth."""
    chance = np.random.default_rng(1)
    evidence_first = curves.order_by(np.isin(np.arange(COUNT), [0, 3, 5, 6, 7, 19]))
    others = [evidence_first, *(curves.order_by(chance.random(COUNT)) for _ in range(200))]
    best = curves.oracle(EVIDENCE, COUNT, chance)
    for share in SHARES:
        assert kept_by(best, share) >= max(kept_by(order, share) for order in others), share
    assert kept_by(best, 0.3) == 1
    assert kept_by(evidence_first, 0.1) < kept_by(best, 0.1)


def test_a_random_order_keeps_its_share_of_the_evidence_on_average() -> None:
    chance = np.random.default_rng(2)
    orders = [curves.order_by(chance.random(COUNT)) for _ in range(2000)]
    for share in (0.1, 0.5, 0.8):
        assert np.mean([kept_by(order, share) for order in orders]) == pytest.approx(share, abs=0.03)


def test_the_area_of_a_proportional_curve_is_a_half_and_of_an_immediate_one_nearly_one() -> None:
    assert curves.area(list(SHARES)) == pytest.approx(0.5)
    assert curves.area([1.0] * len(SHARES)) == pytest.approx(1 - SHARES[0] / 2)
    assert curves.area([0.0] * (len(SHARES) - 1) + [1.0]) == pytest.approx((1 - SHARES[-2]) / 2)


def test_recall_is_relative_to_what_all_memories_would_find() -> None:
    reference = np.array([1.0, 0.5, 0.0, 0.5])
    assert curves.relative_to(reference / 2, reference) == 0.5
    assert curves.relative_to(reference, np.zeros(4)) == 0
    assert curves.half_interval(reference / 2, reference, seed=1) == pytest.approx(0)
    assert curves.half_interval(np.array([1.0, 0.0, 0.0, 0.0]), reference, seed=1) > 0.2


def test_several_orders_of_one_method_are_averaged_by_question() -> None:
    first, second = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [0.0, 1.0]])
    assert curves.mean_curves([{"found": first}, {"found": second}])["found"].tolist() == [[0.5, 1], [0.5, 1]]
