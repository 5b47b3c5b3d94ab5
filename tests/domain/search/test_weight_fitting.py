"""Weights fitted to uses: a planted preference is found, noise is not, and few uses propose nothing."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest

from app.domain.search import weight_fitting
from app.domain.search.parameters import Ranking
from app.domain.search.policy_comparison import ReplayedSearch, compare_policies, mean_interval
from app.domain.search.search_record import PARTS
from app.domain.search.weight_fitting import JudgedSearch, fit_weights, propose_weights

RESULTS = 10
PRESENT = np.array([getattr(Ranking(), name) for name in PARTS])


def searches(count: int, wanted: dict[str, float] | None, seed: int = 1) -> list[JudgedSearch]:
    """Return searches with results in the order of the present weights, and one used result each.

    The used result is the best one by `wanted`, the caller's own weights by name, or a random one if that is None.
    """
    dice = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        features = dice.uniform(0, 1, (RESULTS, len(PARTS)))
        features = features[np.argsort(-(features @ PRESENT))]
        used = np.zeros(RESULTS, bool)
        if wanted is None:
            used[dice.integers(RESULTS)] = True
        else:
            weights = np.array([wanted.get(name, 0.0) for name in PARTS])
            used[int(np.argmax(features @ weights))] = True
        found.append(JudgedSearch(features, used))
    return found


def test_a_planted_preference_is_found_and_proposed() -> None:
    planted = Ranking().model_dump() | {"actor": 2.0, "role": 0.1}
    found = propose_weights(searches(400, planted), Ranking())
    assert found.reason is None
    assert found.difference is not None
    assert 0 < found.difference.low < found.difference.mean < found.difference.high
    assert found.after > found.before + 0.05
    assert found.weights["actor"] > 1.2, "from 0.5 towards 2"
    assert found.weights["role"] < 0.4, "from 0.75 towards 0.1"
    assert sum((Ranking().model_dump() | found.weights)[name] for name in PARTS) == pytest.approx(
        PRESENT.sum(), abs=0.06
    )


def test_uses_by_chance_propose_nothing() -> None:
    found = [propose_weights(searches(200, None, seed), Ranking()) for seed in range(20)]
    refused = [each for each in found if not each.weights]
    assert len(refused) >= 18, "a 95 % interval has false positives now and then"
    assert all(each.reason is not None and "held-out" in each.reason for each in refused)


def test_uses_of_what_stands_above_propose_nothing() -> None:
    odds = 1 / np.arange(1, RESULTS + 1)
    for seed in range(20):
        dice = np.random.default_rng(seed)
        used = dice.choice(RESULTS, 200, p=odds / odds.sum())
        judged = [
            JudgedSearch(each.features, np.arange(RESULTS) == place)
            for each, place in zip(searches(200, None, seed), used, strict=True)
        ]
        assert propose_weights(judged, Ranking()).weights == {}


def test_few_uses_propose_nothing_however_clear() -> None:
    clear = searches(400, {"actor": 1.0})
    reported = [each for each in clear if len(each.pairs())]
    few = propose_weights(reported[: weight_fitting.USES_MIN - 1], Ranking())
    assert (few.weights, few.difference) == ({}, None)
    assert few.reason is not None
    assert str(weight_fitting.USES_MIN) in few.reason
    assert propose_weights(reported[: weight_fitting.USES_MIN], Ranking()).difference is not None
    assert propose_weights([], Ranking()).weights == {}


def test_answers_that_were_used_as_a_whole_or_not_at_all_say_nothing() -> None:
    whole = [JudgedSearch(each.features, np.ones(RESULTS, bool)) for each in searches(100, None)]
    found = propose_weights(whole, Ranking())
    assert (found.searches, found.pairs, found.weights) == (100, 0, {})


def test_weights_stay_within_their_range_and_keep_their_sum() -> None:
    pairs = [each.pairs() for each in searches(300, {"now": 1.0})]
    fitted = fit_weights(pairs, PRESENT)
    assert fitted.min() >= 0
    assert fitted.max() <= weight_fitting.WEIGHT_MAX
    assert fitted.sum() == pytest.approx(PRESENT.sum())
    assert fitted[PARTS.index("now")] == fitted.max()


def test_few_uses_move_weights_less_than_many() -> None:
    pairs = [each.pairs() for each in searches(800, {"now": 1.0})]
    near, far = (np.abs(fit_weights(some, PRESENT) - PRESENT).sum() for some in (pairs[:20], pairs))
    assert near < far


def test_the_fit_is_the_least_of_its_loss() -> None:
    pairs = [each.pairs() for each in searches(100, {"actor": 1.0, "words": 1.0})]
    rows = np.concatenate(pairs)
    shares = np.full(len(rows), 1 / len(rows))
    found = weight_fitting._minimise(rows, shares, PRESENT, 0.1)

    def loss(weights: np.ndarray) -> float:
        return float(shares @ np.logaddexp(0, -rows @ weights) + 0.05 * ((weights - PRESENT) ** 2).sum())

    dice = np.random.default_rng(3)
    near = [np.clip(found + dice.normal(0, 0.05, len(PARTS)), 0, 10) for _ in range(200)]
    assert loss(found) <= min(map(loss, near))


def test_each_span_of_time_is_judged_by_weights_fitted_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = searches(100, {"actor": 1.0})
    seen: list[int] = []
    held = fit_weights

    def spy(pairs: list[np.ndarray], present: np.ndarray) -> np.ndarray:
        seen.append(len(pairs))
        return held(pairs, present)

    monkeypatch.setattr(weight_fitting, "fit_weights", spy)
    propose_weights(judged, Ranking())
    assert seen == [80] * weight_fitting.FOLDS + [100]


def test_an_interval_holds_the_mean_and_is_the_same_each_time() -> None:
    numbers = np.random.default_rng(5).normal(0.1, 1, 400)
    found = mean_interval(numbers)
    assert found.low < numbers.mean() < found.high
    assert found.high - found.low == pytest.approx(4 * 1 / np.sqrt(400), rel=0.15)
    assert mean_interval(numbers) == found


def test_a_comparison_counts_what_changes_at_the_top() -> None:
    a, b, c, d, e, f = (UUID(int=n) for n in range(6))
    found = compare_policies(
        [
            ReplayedSearch(a, [a, b, c, d, e, f], [b, a, c, d, e, f], [a, b], frozenset({b, f})),
            ReplayedSearch(b, [a, b, c], [a, b, c], [b, a], frozenset()),
            ReplayedSearch(c, [], [], [], frozenset()),
        ]
    )
    assert found.changed == {1: 1, 5: 0, 10: 0}
    assert found.overlap == {1: pytest.approx(1 / 3), 5: pytest.approx(2 / 3), 10: pytest.approx(2 / 3)}
    assert found.as_answered == 2
    assert found.uses is not None
    assert (found.uses.searches, found.uses.uses) == (1, 2)
    assert found.uses.before == (1.0, 0.5)
    assert found.uses.after == (1.0, 1.0)
    assert tuple(found.uses.reciprocal_rank) == (0.5, 0.5, 0.5)
