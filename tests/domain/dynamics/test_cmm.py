"""The profile `cmm` against seed 002."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.domain.dynamics.cmm import CLASS_IMPORTANCES, Cmm, CmmParameters, priming, relevance
from app.domain.dynamics.state import DAY_SECONDS, WEEK_SECONDS, Event, State, new
from tests.domain.dynamics.batches import START

CMM = Cmm(CmmParameters(age_from="last_use"))
"""By the seed's wording, in which age counts from the last use."""
EVEN = Cmm()
"""By the default, in which age counts from the end of the grace period."""


def memory(uses: int = 0, last_use_days: float = 0) -> State:
    state = new(np.array([START]))
    return replace(
        state, access_count=np.array([float(uses)]), accessed_at=state.accessed_at + last_use_days * DAY_SECONDS
    )


def decay(state: State, days: float) -> float:
    return float(CMM.strength(state, START + days * DAY_SECONDS)[0])


def test_nothing_decays_within_the_grace_of_two_weeks() -> None:
    """Seed 002, decay: 1.0 if within grace period, 1,209,600 seconds."""
    assert decay(memory(), 0) == decay(memory(), 13.99) == 1
    assert decay(memory(), 14) < 1
    # counted from the last use, not from creation
    assert decay(memory(1, 20), 33.9) == 1


def test_after_the_grace_decay_counts_from_the_last_use() -> None:
    """Seed 002, decay: e^(-λ_eff · age), so that it begins with a fall to .546."""
    assert decay(memory(), 14) == pytest.approx(math.exp(-5e-7 * 1_209_600), rel=1e-12)
    assert decay(memory(), 60) == pytest.approx(math.exp(-5e-7 * 60 * 86_400), rel=1e-12)


def test_rehearsed_memories_decay_slower() -> None:
    """Seed 002, decay: λ_eff = λ / (1 + freq_weight · accesses per week)."""
    weekly = 3 / 20
    expected = math.exp(-5e-7 / (1 + weekly) * 130 * 86_400)
    assert decay(memory(3, 10), 140) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("uses", "weeks", "weekly"),
    [(0, 4, 0), (1, 4, 0.25), (2, 5, 0.4), (3, 20, 0.15), (49, 100, 0.49)],
)
def test_access_frequency_is_uses_by_weeks_since_creation(uses: int, weeks: float, weekly: float) -> None:
    """Seed 002, decay: accesses per week, 0.25 of which slow λ from 5e-7 /s to 4e-7."""
    age_seconds = weeks * WEEK_SECONDS
    rate = -math.log(decay(memory(uses), 7 * weeks)) / age_seconds
    assert rate == pytest.approx(5e-7 / (1 + weekly), rel=1e-9)


def test_a_memory_of_hours_counts_as_one_of_a_day() -> None:
    """Seed 002, decay: accesses per week, which would be many if only the first hour counted."""
    eager = Cmm(CmmParameters(grace_days=0, lock_accesses_per_week=7.5, frequency_weight=1))
    hour = 3_600
    strength = eager.strength(memory(1), START + hour)[0]
    assert strength == pytest.approx(math.exp(-5e-7 / (1 + 7) * hour), rel=1e-12), "7 a week, not 168"
    assert eager.strength(memory(2), START + hour)[0] == 1, "14 a week reach the lock"


def test_rehearsal_counts_by_its_weight() -> None:
    """Seed 002, decay: freq_weight."""
    deaf, keen = (Cmm(CmmParameters(frequency_weight=weight, age_from="last_use")) for weight in (0, 4))
    at = START + 4 * WEEK_SECONDS
    assert deaf.strength(memory(1), at)[0] == pytest.approx(math.exp(-5e-7 * 4 * WEEK_SECONDS), rel=1e-12)
    assert keen.strength(memory(1), at)[0] == pytest.approx(math.exp(-5e-7 / 2 * 4 * WEEK_SECONDS), rel=1e-12)


def test_at_the_end_of_the_grace_decay_begins_at_1() -> None:
    """Seed 002, decay: e^(-λ_eff · age) after the grace period, with age counted from its end."""
    for days in (0, 13.99, 14, 14.0001):
        assert EVEN.strength(memory(), START + days * DAY_SECONDS)[0] == pytest.approx(1, abs=1e-4)
    for days in (15, 30, 90):
        expected = math.exp(-5e-7 * (days - 14) * DAY_SECONDS)
        assert EVEN.strength(memory(), START + days * DAY_SECONDS)[0] == pytest.approx(expected, rel=1e-12)
    rehearsed = EVEN.strength(memory(3, 10), START + 140 * DAY_SECONDS)[0]
    assert rehearsed == pytest.approx(math.exp(-5e-7 / (1 + 3 / 20) * (130 - 14) * DAY_SECONDS), rel=1e-12)


@pytest.mark.parametrize("state", [memory(), memory(1), memory(3, 10), memory(9, 1), memory(4, 7)])
@pytest.mark.parametrize("threshold", [0.9, 0.6, 0.3, 0.05])
def test_due_times_are_shifted_by_the_grace(state: State, threshold: float) -> None:
    due = EVEN.due_at(state, threshold)[0]
    assert EVEN.strength(state, due - 0.002)[0] >= threshold > EVEN.strength(state, due)[0]
    assert due >= CMM.due_at(state, threshold)[0]
    unused = EVEN.due_at(memory(), threshold)[0] - START
    assert unused == pytest.approx(14 * DAY_SECONDS + math.log(1 / threshold) / 5e-7, abs=0.01)


@pytest.mark.parametrize(("uses", "is_locked"), [(4, True), (3, False)])
def test_the_lock_begins_at_half_an_access_a_week(uses: int, is_locked: bool) -> None:
    """Seed 002, lock threshold default: 0.5 accesses/week."""
    assert (decay(memory(uses), 56) == 1) == is_locked


def test_what_is_used_every_other_week_is_locked() -> None:
    """Seed 002, decay: 1.0 while accesses per week are at or above the lock threshold."""
    state = memory(4, 7)
    assert decay(state, 8 * 7) == 1
    assert decay(state, 8 * 7 + 0.01) == pytest.approx(math.exp(-5e-7 / 1.5 * 49 * 86_400), abs=1e-3)


@pytest.mark.parametrize(
    ("state", "threshold", "moment"),
    [
        (memory(), 0.6, 14 * DAY_SECONDS),
        (memory(), 0.3, math.log(1 / 0.3) / 5e-7),
        (memory(4, 7), 0.3, 8 * WEEK_SECONDS),
        (memory(1, 0), 0.3, None),
        (memory(3, 10), 0.05, None),
    ],
)
def test_due_is_the_end_of_grace_or_lock_or_the_curve(state: State, threshold: float, moment: float | None) -> None:
    due = CMM.due_at(state, threshold)[0]
    if moment is not None:
        assert due == pytest.approx(START + moment, abs=0.01)
    assert CMM.strength(state, due - 0.002)[0] >= threshold > CMM.strength(state, due)[0]


def test_a_use_counts_and_starts_the_grace_again() -> None:
    now = START + 60 * DAY_SECONDS
    used = CMM.reinforce(memory(), Event(at=now, now=now))
    assert used.access_count[0] == 1
    assert decay(used, 73) == 1


def test_a_restored_memory_fades_from_what_it_was_lifted_to() -> None:
    now = START + 100 * DAY_SECONDS
    lifted = CMM.at_strength(memory(), now, 0.45)
    assert CMM.strength(lifted, now)[0] == pytest.approx(0.45)
    assert decay(lifted, 110) == pytest.approx(0.45 * math.exp(-5e-7 * 10 * 86_400))
    assert decay(CMM.reinforce(lifted, Event(at=now, now=now)), 100) == 1


def test_importance_by_what_a_memory_is() -> None:
    """Seed 002, importance."""
    assert CLASS_IMPORTANCES == {"correction": 2.0, "instruction": 2.0, "novel": 1.5, "normal": 1.0, "routine": 0.5}


def test_priming_is_a_boost_that_fades_over_ten_turns() -> None:
    """Seed 002, priming boost: 1.3 at activation, about 1 after ten turns."""
    primed = priming(CmmParameters(), np.array([0.0, 1, 10, 11, 500]))
    assert primed[0] == pytest.approx(1.3)
    assert primed[1] == pytest.approx(1 + 0.3 * math.exp(-0.5))
    assert primed[2] == pytest.approx(1, abs=0.003)
    assert primed[3] == primed[4] == 1


def test_what_was_never_activated_or_only_later_is_not_primed() -> None:
    assert priming(CmmParameters(), np.array([np.nan, -1, -1e9])).tolist() == [1, 1, 1]
    steepest = CmmParameters(priming_decay_per_turn=100)
    assert priming(steepest, np.array([0.0, 10, 1e9, -1e9])).tolist() == [1.3, 1, 1, 1]


def test_a_zero_in_any_factor_removes_a_memory() -> None:
    """Seed 002, why multiplicative."""
    factors = np.array([[0.8, 0.5, 2.0, 1.3], [0, 1, 2, 1], [1, 0, 2, 1], [1, 1, 0, 1]])
    np.testing.assert_allclose(relevance(*factors.T), [1.04, 0, 0, 0])


@pytest.mark.parametrize(
    "wrong",
    [{"lambda_per_second": 0}, {"lock_accesses_per_week": 0}, {"grace_days": -1}, {"frequency_weight": math.nan}],
)
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CmmParameters(**wrong)
