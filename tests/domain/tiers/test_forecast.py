"""A forecast equals the result of evaluating every memory on every day."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.dynamics.memory_decay import PRESETS, MemoryDecay
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.spec import Spec
from app.domain.dynamics.state import DAY_SECONDS, State, new
from app.domain.policy.policy import Forgetting, Policy
from app.domain.privacy.retention import no_expiry
from app.domain.strength.importance import Importance
from app.domain.tiers.decay_tier import DECAY_TIERS, TierThresholds
from app.domain.tiers.forecast import DAYS_MAX, count_tiers, horizon_seconds, tiers_by_time
from app.domain.tiers.keep_rule import KeepFacts
from app.domain.tiers.protection import Protection
from app.domain.tiers.tier_decision import TierFacts, fresh_facts
from tests.domain.dynamics.batches import ALL, BATCHES, GAPS, START, USUAL, YEAR_SECONDS, batch, each_model, many
from tests.examples import draw

each = each_model(usual=USUAL - {"memory_decay soft floor"})  # whose forecast takes seconds
SOME = st.sampled_from([0.0, 0.05, 0.15, 0.3, 0.5, 1.0])
TIERS = st.builds(
    lambda below, *rest: TierThresholds(below[2], below[1], below[0], *rest),
    st.tuples(SOME, SOME, SOME).map(sorted),
    st.sampled_from([0.0, 7.0, 90.0]),
    SOME,
    st.integers(0, 3),
)


def policy(dynamics: Dynamics, tiers: TierThresholds | None = None) -> Policy:
    """Return a policy with this model."""
    given = asdict(dynamics.parameters)
    importance = Importance(**given.pop("importance")) if dynamics.name == "spec" else Importance()
    forgetting = Forgetting(profile=dynamics.name, parameters=given)
    return Policy(forgetting=forgetting, importance=importance, tiers=tiers or TierThresholds())


def looked(policy: Policy, state: State, moments: np.ndarray, standing: TierFacts | None = None) -> list[list[int]]:
    """Evaluate every memory on every day; return the number of memories by tier."""
    standing = standing or fresh_facts(state.created_at)
    return [np.bincount(tiers_by_time(policy, state, standing, moment), minlength=4).tolist() for moment in moments]


def forecast_of(policy: Policy, state: State, moments: np.ndarray, standing: TierFacts | None = None) -> np.ndarray:
    return count_tiers(policy, state, standing or fresh_facts(state.created_at), moments)


def days(last: int, first: float = START) -> np.ndarray:
    return first + DAY_SECONDS * np.arange(last + 1.0)


@each
@draw(8)
@given(
    rows=BATCHES,
    gaps=st.lists(GAPS, min_size=1, max_size=9),
    tiers=TIERS,
)
def test_any_memories_under_any_thresholds_are_counted_as_each_look_would(
    dynamics: Dynamics, rows: list[tuple[float, ...]], gaps: list[float], tiers: TierThresholds
) -> None:
    moments = START - DAY_SECONDS + np.cumsum(gaps)
    wanted, state = policy(dynamics, tiers), batch(dynamics, rows)
    assert forecast_of(wanted, state, moments).tolist() == looked(wanted, state, moments)


@each
def test_many_memories_over_many_days_are_counted_as_each_look_would(dynamics: Dynamics) -> None:
    wanted, state, moments = policy(dynamics), many(dynamics, 1_000), days(60, START + YEAR_SECONDS)
    found = forecast_of(wanted, state, moments)
    assert found.tolist() == looked(wanted, state, moments)
    assert (found.sum(axis=1) == 1_000).all()


@each
def test_what_protects_counts_as_each_look_would(dynamics: Dynamics) -> None:
    chance = np.random.default_rng(5)
    state, moments = many(dynamics, 400), days(40, START + YEAR_SECONDS / 2)
    standing = TierFacts(
        tiers=chance.integers(0, 3, 400).astype(np.int8),
        kinds=chance.integers(-1, 5, 400).astype(np.int8),
        accepted_at=state.created_at,
        restored_at=np.where(chance.random(400) < 0.3, chance.uniform(moments[0], moments[30], 400), -np.inf),
        expiry=replace(
            no_expiry(400), at=np.where(chance.random(400) < 0.1, chance.uniform(moments[0], moments[35], 400), np.inf)
        ),
        erase_at=np.where(chance.random(400) < 0.1, chance.uniform(moments[0], moments[35], 400), np.inf),
        is_held=chance.random(400) < 0.1,
        is_marked=chance.random(400) < 0.1,
        is_promoted=chance.random(400) < 0.1,
        keep=KeepFacts(
            chances=np.where(chance.random(400) < 0.3, np.nan, chance.random(400)),
            sources=chance.integers(-1, 4, 400).astype(np.int8),
            shifts=chance.uniform(-0.7, 0.7, 400),
            above=chance.uniform(0, 0.5, 400),
        ),
    )
    wanted = policy(dynamics)
    assert forecast_of(wanted, state, moments, standing).tolist() == looked(wanted, state, moments, standing)


def test_an_unused_memory_goes_down_tier_by_tier() -> None:
    """Seed 004 §2.4: below .30 after 22.5 days, .15 after 31.9, .05 after 45.5, but deleted only from 90 days on."""
    by_decay = Policy(protection=Protection(salience_above=1))
    found = forecast_of(by_decay, new(np.array([START]), salience=0.5), days(100))
    tier = [DECAY_TIERS[place] for place in found.argmax(axis=1)]
    assert [tier.index(name) for name in DECAY_TIERS[:3]] == [0, 23, 32]
    assert "deleted" not in tier, "its salience alone makes it important enough"
    assert forecast_of(Policy(), new(np.array([START]), salience=0.5), days(100))[-1].tolist() == [1, 0, 0, 0]
    little = forecast_of(Policy(), new(np.array([START]), salience=0.1), days(100))
    assert little[:, 3].tolist() == [0] * 91 + [1] * 10, "older than 90 days, not exactly 90"


def test_used_memories_are_never_deleted_for_their_weakness() -> None:
    state = replace(new(np.array([START])), access_count=np.array([2.0]))
    assert forecast_of(Policy(), state, days(DAYS_MAX))[-1].tolist() == [0, 0, 1, 0]


def test_a_forecast_may_be_of_a_moment_or_of_no_memories() -> None:
    state = many(Spec(), 50)
    assert forecast_of(Policy(), state, np.array([START])).tolist() == looked(Policy(), state, np.array([START]))
    for name in ("spec", "memory_decay"):
        none = new(np.zeros(0))
        assert forecast_of(policy(ALL[name]), none, days(3)).tolist() == [[0, 0, 0, 0]] * 4


@pytest.mark.parametrize("name", ["spec", "memory_decay soft floor"])
def test_long_work_can_be_ended(name: str) -> None:
    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        count_tiers(policy(ALL[name]), many(ALL[name], 10), fresh_facts(np.zeros(10)), days(5), stop)


def test_ticks_limit_how_far_it_goes() -> None:
    assert horizon_seconds(Spec()) == float("inf")
    assert horizon_seconds(MemoryDecay(PRESETS["server"])) == DAYS_MAX * DAY_SECONDS


def test_ninety_days_take_seven_looks_at_each_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    state, exact, looks = many(Spec(), 1_000), Spec.strength, []

    def counted(model: Spec, rows: State, now: np.ndarray) -> np.ndarray:
        looks.append(len(rows.level))
        return exact(model, rows, now)

    monkeypatch.setattr(Spec, "strength", counted)
    forecast_of(Policy(), state, days(90, START + YEAR_SECONDS))
    assert looks == [1_000] * 7 * 3  # by bisection; a look on each day would be ninety
