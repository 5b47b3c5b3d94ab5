"""The tiers that decay alone requires, and that no tier changes before a memory's next due date."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, DUE_MARGIN_SECONDS, State, new, take
from app.domain.strength.importance import PRESETS, Importance, ImportanceWeights, importance
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength, TierThresholds, decay_tier, next_due_at
from tests.domain.dynamics.batches import BATCHES, CLOSED, GAPS, START, YEAR_SECONDS, batch, each_model, many
from tests.examples import draw

STEPS = (0.8, 0.7)
LONG_AGO = START - 1e9
SLACK_SECONDS = 2e-6  # rounding error of moments
ROUNDING = 1 + 1e-12
TEN_YEARS = 10 * YEAR_SECONDS
each = each_model()
TIERS = st.sampled_from(
    [
        TierThresholds(),
        TierThresholds(
            archived_below=0.9, cold_below=0.5, deleted_below=0.4, deleted_after_days=1, deleted_importance_below=0.6
        ),
        TierThresholds(archived_below=0.3, cold_below=0.3, deleted_below=0, deleted_after_days=0),
        TierThresholds(
            archived_below=1, cold_below=1, deleted_below=1, deleted_importance_below=1, deleted_uses_below=100
        ),
    ]
)
WEIGHTS = st.sampled_from(
    [
        Importance(),
        Importance(PRESETS["time_sensitive"], 0.5),
        Importance(ImportanceWeights(1, 0, 0, 0)),
        Importance(background_relevance="neutral"),
    ]
)


def seen_at(weights: Importance, dynamics: Dynamics, state: State, now: Floats | float) -> CurrentStrength:
    return CurrentStrength(dynamics.strength(state, now), importance(weights, state, now))


# --- The tier ---


def aged(days: float, uses: int = 0) -> State:
    """Return six memories of this age."""
    state = new(np.full(6, START - days * DAY_SECONDS))
    return replace(state, access_count=np.full(6, float(uses)))


def deletable(state: State) -> npt.NDArray[np.bool_]:
    """Return that neither keep chance nor salience prevents the deletion of any memory."""
    return np.ones(state.level.shape, np.bool_)


def names(tiers: TierThresholds, state: State, seen: CurrentStrength) -> list[str]:
    return [DECAY_TIERS[place] for place in decay_tier(tiers, state, START, seen, state.created_at, deletable(state))]


STRENGTHS = np.array([1, 0.30, 0.299, 0.15, 0.149, 0.049])


def test_strength_alone_decides_down_to_the_cold() -> None:
    found = names(TierThresholds(), aged(1), CurrentStrength(STRENGTHS, np.full(6, 0.1)))
    assert found == ["active", "active", "archived", "archived", "cold", "cold"]


def test_deleted_is_what_fulfils_all_four_conditions() -> None:
    weak = CurrentStrength(STRENGTHS, np.full(6, 0.199))
    assert names(TierThresholds(), aged(90.01, 1), weak)[-2:] == ["cold", "deleted"]
    assert "deleted" not in names(TierThresholds(), aged(90), weak)
    assert "deleted" not in names(TierThresholds(), aged(91, 2), weak)
    assert "deleted" not in names(TierThresholds(), aged(91), CurrentStrength(STRENGTHS, np.full(6, 0.2)))


def test_what_chance_or_salience_keep_is_never_deleted() -> None:
    weak, state = CurrentStrength(STRENGTHS, np.zeros(6)), aged(200)
    kept = np.array([False, False, False, False, True, False])
    found = decay_tier(TierThresholds(), state, START, weak, state.created_at, kept)
    assert [DECAY_TIERS[place] for place in found][-2:] == ["cold", "cold"]


def test_a_policy_has_its_own_thresholds() -> None:
    mild = TierThresholds(archived_below=0.1, cold_below=0.05, deleted_below=0.01)
    assert names(mild, aged(1), CurrentStrength(STRENGTHS, np.zeros(6))) == ["active"] * 5 + ["cold"]


@pytest.mark.parametrize("wrong", [{"cold_below": 0.31}, {"deleted_below": 0.2}])
def test_thresholds_out_of_order_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match="must satisfy deleted_below <= cold_below <= archived_below, not"):
        TierThresholds(**wrong)  # type: ignore[arg-type]  # of three floats


# --- The next due date ---


def happened(tiers: TierThresholds, state: State, moment: Floats | float, seen: CurrentStrength) -> Floats:
    """Return all effects of decay on an old memory as rising numbers: its tier, its importance steps."""
    steps = np.sort([*STEPS, tiers.deleted_importance_below])
    found = [
        decay_tier(tiers, state, moment, seen, np.full_like(seen.strength, LONG_AGO), deletable(state)),
        -np.searchsorted(steps, seen.importance, side="right"),
    ]
    return np.stack([np.asarray(one, np.float64) for one in found])


@each
@draw(13)
@given(
    rows=BATCHES,
    gap=GAPS,
    tiers=TIERS,
    weights=WEIGHTS,
    shares=st.lists(st.floats(0, 1), min_size=6, max_size=6),
)
def test_nothing_happens_until_a_millisecond_before_the_next_look(
    dynamics: Dynamics,
    rows: list[tuple[float, ...]],
    gap: float,
    tiers: TierThresholds,
    weights: Importance,
    shares: list[float],
) -> None:
    state = batch(dynamics, rows)
    now = float(state.anchored_at.max()) + gap
    seen = seen_at(weights, dynamics, state, now)
    due = next_due_at(tiers, weights, dynamics, state, now, seen, steps=STEPS)
    assert (due > now).all()
    last = np.where(np.isfinite(due), due - DUE_MARGIN_SECONDS - SLACK_SECONDS, now + TEN_YEARS)
    before = happened(tiers, state, now, seen)
    for share in (*shares, 1.0):
        moment = np.maximum(now + share * (last - now), now)
        later = seen_at(weights, dynamics, state, moment)
        rounded_up = CurrentStrength(later.strength * ROUNDING, later.importance * ROUNDING)
        assert (happened(tiers, state, moment, rounded_up) <= before).all()


@each_model(CLOSED)
def test_a_few_looks_in_a_memorys_life_find_all_that_a_fine_scan_finds(dynamics: Dynamics) -> None:
    """Evaluated only when it is due, a memory is never in another tier than the last evaluation found."""
    tiers, weights = TierThresholds(), Importance()
    state = many(dynamics, 40)
    scan = np.linspace(0, 2 * YEAR_SECONDS, 3_000)
    for row in range(40):
        memory = take(state, np.array([row]))
        now = float(memory.anchored_at[0])
        end = now + scan[-1]
        moments, places = [], []
        while now <= end:
            seen = seen_at(weights, dynamics, memory, now)
            moments.append(now)
            places.append(int(decay_tier(tiers, memory, now, seen, np.array([LONG_AGO]), deletable(memory))[0]))
            now = float(next_due_at(tiers, weights, dynamics, memory, now, seen, steps=STEPS)[0])
            assert len(moments) < 20, "tiers and importances have six thresholds"
        many_times = take(memory, np.zeros(scan.size, np.intp))
        at = moments[0] + scan
        seen = seen_at(weights, dynamics, many_times, at)
        found = decay_tier(tiers, many_times, at, seen, np.array([LONG_AGO]), deletable(many_times))
        held = np.array(places)[np.searchsorted(moments, at + DUE_MARGIN_SECONDS + SLACK_SECONDS, side="right") - 1]
        late = np.flatnonzero(found != held)
        assert late.size == 0 or np.abs(at[late, None] - np.array(moments)).min() < 2 * DUE_MARGIN_SECONDS


@each
def test_a_model_in_steps_is_looked_at_for_its_own_sake(dynamics: Dynamics) -> None:
    state = new(np.array([START]), salience=1.0)
    seen = seen_at(Importance(), dynamics, state, START)
    due = next_due_at(TierThresholds(), Importance(), dynamics, state, START, seen)
    assert due[0] <= START + dynamics.refresh_seconds
    step = getattr(dynamics.parameters, "tick_seconds", 0.0)
    assert dynamics.refresh_seconds >= step, "within a step there is nothing to do"
