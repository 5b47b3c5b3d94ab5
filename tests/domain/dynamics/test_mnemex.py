"""The profile `mnemex` against seeds 000 and 001; if a printed number contradicts the formula, the formula decides."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.domain.dynamics.mnemex import (
    CATEGORY_PACES,
    PRESETS,
    Mnemex,
    MnemexParameters,
    is_other_domain,
    pace,
)
from app.domain.dynamics.state import DAY_SECONDS, Event, State, new
from tests.domain.dynamics.batches import START

HOUR_SECONDS = 3_600.0
EXPONENTIAL = Mnemex(MnemexParameters(curve="exponential"))


def memory(uses: int = 1, multiplier: float = 1, pace: float = 1) -> State:
    """Return a memory with this use count by the seed's convention, in which a new one has 1."""
    state = new(np.array([START]), multiplier=multiplier, pace=pace)
    return replace(state, access_count=np.array([uses - 1.0]))


def score(dynamics: Mnemex, seconds: float, uses: int = 1, multiplier: float = 1) -> float:
    return float(dynamics.score(memory(uses, multiplier), START + seconds)[0])


@pytest.mark.parametrize(
    ("hours", "printed", "share"),
    [
        (0, 1.000, 1.000),
        (12, 0.917, 0.891),
        (24, 0.841, 0.794),
        (72, 0.500, 0.500),
        (168, 0.210, 0.198),
        (336, 0.044, 0.039),
        (720, 0.001, 0.001),
    ],
)
def test_decay_with_a_half_life_of_three_days(hours: float, printed: float, share: float) -> None:
    """Seed 000, decay component. Errata: 12 h, 1 d, 7 d and 14 d are printed otherwise than the formula gives."""
    assert score(EXPONENTIAL, hours * HOUR_SECONDS) == pytest.approx(share, abs=5e-4)
    assert (abs(printed - share) > 1e-3) == (hours in {12, 24, 168, 336})


@pytest.mark.parametrize(
    ("uses", "printed", "factor"), [(1, 1.0, 1.0), (5, 2.63, 2.63), (10, 3.98, 3.98), (50, 11.45, 10.46)]
)
def test_uses_count_by_the_power_of_0_6(uses: int, printed: float, factor: float) -> None:
    """Seed 000, use count component. Erratum: 50 uses."""
    assert score(EXPONENTIAL, 0, uses) == pytest.approx(factor, abs=5e-3)
    assert (abs(printed - factor) > 1e-2) == (uses == 50)


@pytest.mark.parametrize(
    ("uses", "days", "multiplier", "expected"),
    [
        pytest.param(1, 0.25, 1.0, 0.9439, id="worked example A"),
        pytest.param(6, 2.0, 1.0, 1.846, id="worked example B"),
        pytest.param(3, 5.0, 1.5, 0.913, id="worked example C"),
        pytest.param(1, 21.0, 1.0, 0.0078, id="worked example D"),
        pytest.param(3, 1 / 24, 2.0, 3.829, id="threshold summary, scenario 1"),
        pytest.param(1, 30.0, 1.0, 0.00098, id="threshold summary, example"),
    ],
)
def test_worked_examples(uses: int, days: float, multiplier: float, expected: float) -> None:
    """Seed 000, which prints two or three digits."""
    by_hand = uses**0.6 * math.exp(-math.log(2) / 3 * days) * multiplier
    assert score(EXPONENTIAL, days * DAY_SECONDS, uses, multiplier) == pytest.approx(by_hand, rel=1e-12)
    assert by_hand == pytest.approx(expected, rel=5e-3)


def test_the_power_law_halves_at_its_half_life_and_has_the_heavier_tail() -> None:
    """Seed 000, model selection: t0 = H / (2^(1/α) - 1)."""
    t0 = 3 / (2 ** (1 / 1.1) - 1)
    for days in (0.5, 3, 30, 365):
        assert score(Mnemex(), days * DAY_SECONDS) == pytest.approx((1 + days / t0) ** -1.1, rel=1e-12)
    assert score(Mnemex(), 3 * DAY_SECONDS) == pytest.approx(0.5)
    assert score(Mnemex(), 30 * DAY_SECONDS) > 10 * score(EXPONENTIAL, 30 * DAY_SECONDS)


def test_two_components_are_a_fast_and_a_slow_one() -> None:
    """Seed 000, model selection."""
    dynamics = Mnemex(MnemexParameters(curve="two_component"))
    for seconds in (0, 3_600, 86_400, 30 * 86_400):
        mixed = 0.7 * math.exp(-1.603e-5 * seconds) + 0.3 * math.exp(-1.147e-6 * seconds)
        assert score(dynamics, seconds) == pytest.approx(mixed, rel=1e-12)


@pytest.mark.parametrize(("preset", "lambda_per_second"), [
    ("personal_assistant", 2.673e-6), ("development", 8.02e-6), ("research", 5.73e-7), ("meeting_notes", 1.60e-5),
])  # fmt: skip
def test_presets_are_the_seed_s_by_half_life(preset: str, lambda_per_second: float) -> None:
    """Seed 000, tuning for different use cases; seed 001, decay rate."""
    half_life = PRESETS[preset].half_life_days * DAY_SECONDS
    assert math.log(2) / half_life == pytest.approx(lambda_per_second, rel=4e-3)
    assert score(Mnemex(PRESETS[preset]), half_life) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("uses", "last_use_days", "created_days", "multiplier", "promoted"),
    [(1, 0, 0, 1, True), (3, 5, 10, 1.5, True), (5, 7, 10, 0.1, True), (5, 7, 15, 0.1, False), (4, 7, 10, 0.1, False)],
)
def test_promotion_is_by_score_or_by_uses_within_two_weeks(
    uses: int, last_use_days: float, created_days: float, multiplier: float, promoted: bool
) -> None:
    """Seed 000, threshold summary, scenarios 1 and 2."""
    now = START + created_days * DAY_SECONDS
    state = replace(memory(uses, multiplier), accessed_at=np.array([now - last_use_days * DAY_SECONDS]))
    assert EXPONENTIAL.promoted(state, now)[0] == promoted


def test_a_touch_resets_time_counts_and_may_boost() -> None:
    """Seed 001, reinforcement: use_count + 1, last_used now, strength + 0.1 up to 2.0."""
    now = START + 5 * DAY_SECONDS
    old, touched = memory(2, 1.95), EXPONENTIAL.reinforce(memory(2, 1.95), Event(at=now, now=now, boost=True))
    assert touched.multiplier[0] == 2.0
    assert EXPONENTIAL.score(touched, now)[0] == pytest.approx(3**0.6 * 2)
    assert EXPONENTIAL.score(old, now)[0] == pytest.approx(2**0.6 * 1.95 * 2 ** (-5 / 3))
    assert EXPONENTIAL.reinforce(old, Event(at=now, now=now)).multiplier[0] == 1.95


def test_a_passed_test_boosts_and_is_no_use() -> None:
    tested = EXPONENTIAL.reinforce(memory(), Event(at=START, now=START + 60, source="test"))
    assert (tested.multiplier[0], tested.access_count[0], tested.accessed_at[0]) == (1.1, 0, START)


def test_strength_is_the_score_up_to_one() -> None:
    assert EXPONENTIAL.score(memory(50), START)[0] > 10
    assert EXPONENTIAL.strength(memory(50), START)[0] == 1


def test_a_restored_memory_keeps_what_it_was_lifted_to_until_its_next_use() -> None:
    month = START + 30 * DAY_SECONDS
    lifted = EXPONENTIAL.at_strength(memory(), month, 0.45)
    assert EXPONENTIAL.strength(lifted, month + 3 * DAY_SECONDS)[0] == pytest.approx(0.225)
    used = EXPONENTIAL.reinforce(lifted, Event(at=month, now=month))
    assert used.level[0] == 0
    assert EXPONENTIAL.score(used, month)[0] == pytest.approx(2**0.6)


def test_a_use_doesn_t_weaken_what_was_lifted_above_its_own_score() -> None:
    month = START + 30 * DAY_SECONDS
    lifted = EXPONENTIAL.at_strength(memory(multiplier=0.1), month, 0.45)
    used = EXPONENTIAL.reinforce(lifted, Event(at=month, now=month))
    assert EXPONENTIAL.score(used, month)[0] == pytest.approx(0.45)


@pytest.mark.parametrize(
    ("tags", "context", "other"),
    [
        ({"security", "jwt", "preferences"}, {"api", "auth", "backend"}, True),
        ({"a", "b", "c"}, {"a", "b", "d"}, False),
        ({"a", "b"}, {"a", "c", "d"}, True),
        (set(), {"a"}, False),
        ({"a"}, set(), False),
    ],
)
def test_use_in_another_domain_is_little_overlap_of_tags(tags: set[str], context: set[str], other: bool) -> None:
    """Seed 001, cross-domain usage detection, and its example."""
    assert is_other_domain(MnemexParameters(), tags, context) == other


def test_categories_set_the_pace_of_time() -> None:
    """Seed 000, adaptive decay: credentials λ × 0.5, ephemeral λ × 2."""
    assert (pace(["credentials"]), pace(["ephemeral"]), pace(["work"]), pace([])) == (0.5, 2.0, 1.0, 1.0)
    for category, factor in CATEGORY_PACES.items():
        state = memory(pace=pace([category]))
        assert EXPONENTIAL.score(state, START + 3 * DAY_SECONDS)[0] == pytest.approx(0.5**factor)


@pytest.mark.parametrize(
    "wrong",
    [
        {"beta": 1.1},
        {"half_life_days": 0},
        {"alpha": math.inf},
        {"fast_share": 1},
        {"fast_lambda_per_second": 1e-7},
        {"x": 1},
    ],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        MnemexParameters(**wrong)
