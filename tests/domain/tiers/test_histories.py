"""Any sequence of events leaves a sane state, and no due date is computed too late."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DUE_MARGIN_SECONDS, Event, Row, State
from app.domain.strength.importance import Importance
from app.domain.tiers.decay_tier import CurrentStrength, TierThresholds, next_due_at
from tests.domain.dynamics.batches import ALL, BATCHES, GAPS, SHARES, batch
from tests.domain.tiers.test_decay_tier import ROUNDING, SLACK_SECONDS, happened, seen_at
from tests.domain.tiers.test_decay_tier import STEPS as IMPORTANCE_STEPS
from tests.examples import draw

TIERS, WEIGHTS = TierThresholds(), Importance()
HAPPENINGS = ("use", "late use", "associate", "test", "salience", "kind", "pace", "policy", "restore", "nothing")
STEPS = st.lists(
    st.tuples(GAPS, st.sampled_from(HAPPENINGS), SHARES, st.sampled_from(sorted(ALL))), min_size=1, max_size=6
)


def after(dynamics: Dynamics, state: State, now: float, happening: str, share: float) -> State:
    """Return the memories after this event happened to all of them; policy changes are handled by the caller."""
    match happening:
        case "use":
            return dynamics.reinforce(state, Event(at=now, now=now, boost=True))
        case "late use":
            return dynamics.reinforce(state, Event(at=now - share * 1e6, now=now))
        case "associate" | "test":
            return dynamics.reinforce(state, Event(at=now, now=now, source=happening))
        case "restore":
            return dynamics.at_strength(state, now, np.maximum(dynamics.strength(state, now), share))
        case "salience":
            inputs = replace(state, salience=np.full_like(state.salience, share))
        case "kind":
            inputs = replace(state, kind=np.full_like(state.kind, round(4 * share)))
        case "pace":
            inputs = replace(state, pace=np.full_like(state.pace, 0.5 + share))
        case _:
            return state
    return rebase(state, now, dynamics, dynamics, inputs)


def assert_not_late(dynamics: Dynamics, state: State, now: float, gap: float) -> None:
    """Assert that nothing happens in the gap until a millisecond before each memory's computed due date."""
    seen = seen_at(WEIGHTS, dynamics, state, now)
    before = happened(TIERS, state, now, seen)
    due = next_due_at(TIERS, WEIGHTS, dynamics, state, now, seen, steps=IMPORTANCE_STEPS)
    last = np.minimum(due - DUE_MARGIN_SECONDS - SLACK_SECONDS, now + gap)
    for share in (0.1, 0.5, 0.9, 1.0):
        moment = np.maximum(now + share * (last - now), now)
        later = seen_at(WEIGHTS, dynamics, state, moment)
        rounded_up = CurrentStrength(later.strength * ROUNDING, later.importance * ROUNDING)
        assert (happened(TIERS, state, moment, rounded_up) <= before).all()


@pytest.mark.parametrize("name", ALL)
@draw(13)
@given(rows=BATCHES, steps=STEPS)
def test_no_next_moment_is_late_after_anything(
    name: str, rows: list[tuple[float, ...]], steps: list[tuple[float, str, float, str]]
) -> None:
    dynamics = ALL[name]
    state = batch(dynamics, rows)
    now = float(state.anchored_at.max())
    for gap, happening, share, other in steps:
        assert_not_late(dynamics, state, now, gap)
        now += gap
        strength = dynamics.strength(state, now)
        assert np.isfinite(strength).all()
        assert (strength >= 0).all()
        assert (strength <= 1).all()
        if happening == "policy":
            state, dynamics = rebase(state, now, dynamics, ALL[other]), ALL[other]
        else:
            state = after(dynamics, state, now, happening, share)
        assert all(np.isfinite(getattr(state, field.name)).all() for field in fields(Row))
    assert_not_late(dynamics, state, now, 1e8)
