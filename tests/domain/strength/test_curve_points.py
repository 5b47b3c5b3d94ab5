"""A forgetting curve is the model's own strength, from use to use."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.domain.dynamics.memory_decay import MemoryDecay, MemoryDecayParameters
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, Event, new
from app.domain.strength.curve_points import CurveMemory, compute_curve
from tests.domain.dynamics.batches import START, each_model

DAYS = [0.0, 1.0, 5.0, 10.0, 20.0]


@each_model()
def test_it_is_the_strength_on_each_day_with_the_uses_before(dynamics: Dynamics) -> None:
    found = compute_curve(dynamics, CurveMemory(0.6, 1, 0, (5.0, 12.0, 99.0)), DAYS, [0.3])
    assert found.days.tolist() == [0, 1, 5, 5, 10, 12, 12, 20]
    state = new(np.array([START]), salience=0.6, kind=1)
    used = dynamics.reinforce(state, Event(at=START + 5 * DAY_SECONDS, now=START + 5 * DAY_SECONDS))
    expected = [dynamics.strength(state, START + day * DAY_SECONDS)[0] for day in (0, 1, 5)]
    expected += [dynamics.strength(used, START + day * DAY_SECONDS)[0] for day in (5, 10, 12)]
    assert found.strengths[:6] == pytest.approx(expected, rel=1e-6)
    assert found.at(5) == found.strengths[3]
    assert found.at(7) == found.strengths[3]
    assert found.strengths[3] >= found.strengths[2]
    assert found.strengths[6] >= found.strengths[5]


@each_model()
def test_a_threshold_s_day_is_when_strength_falls_below_it(dynamics: Dynamics) -> None:
    state = new(np.array([START]), salience=0.5)
    for threshold, day in compute_curve(dynamics, CurveMemory(), DAYS, [0.3, 0.05]).below_days.items():
        if math.isfinite(day):
            moment = START + day * DAY_SECONDS
            assert dynamics.strength(state, moment + 0.001)[0] < threshold <= dynamics.strength(state, moment - 0.01)[0]
        else:
            assert dynamics.strength(state, START + 3_650 * DAY_SECONDS)[0] >= threshold


def test_further_than_a_bound_is_looked() -> None:
    """With a tick of an hour, `due_at` returns a bound after 1,000 ticks."""
    slow = MemoryDecay(MemoryDecayParameters(tick_seconds=3_600, lambda_episode=0.0005))
    found = compute_curve(slow, CurveMemory(), DAYS, [0.3])
    assert found.below_days[0.3] == pytest.approx(math.ceil(math.log(1 / 0.3) / (0.0005 / 1.25)) / 24, abs=0.01)
