"""Numbers printed by the seeds that no other test covers, each recomputed from its section's formula.

Tested elsewhere: decay, uses, examples and presets of seed 000 in `dynamics/test_mnemex.py`, seed 002 in `test_cmm.py`,
003 in `test_memory_decay.py`, 004 §1 in `test_importance.py`, §2 in `test_spec.py`, §4 in `test_review.py`. Numbers
that contradict a seed's own formula are listed in `ops/dynamics.md`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from app.domain.dynamics.cmm import Cmm, CmmParameters
from app.domain.dynamics.memory_decay import PRESETS, MemoryDecay, MemoryDecayParameters
from app.domain.dynamics.mnemex import CONTENT_MULTIPLIERS, Mnemex, MnemexParameters
from app.domain.dynamics.spec import Spec, SpecParameters
from app.domain.dynamics.state import DAY_SECONDS, Event, State, new
from app.domain.ingest.memory import KINDS
from app.domain.salience.criteria import Criteria
from app.domain.salience.criteria import salience as salience_of
from app.domain.strength.importance import Importance
from app.domain.strength.review import ReviewParameters
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength, TierThresholds, decay_tier
from app.domain.tiers.protection import Protection
from tests.domain.dynamics.batches import START

EXPONENTIAL = Mnemex(MnemexParameters(curve="exponential"))
HOUR_SECONDS = 3_600.0


def memory(uses: int = 0, *, multiplier: float = 1, salience: float = 0.5, kind: str = "episodic") -> State:
    state = new(np.array([START]), multiplier=multiplier, salience=salience, kind=KINDS.index(kind))
    return replace(state, access_count=np.array([float(uses)]))


@pytest.mark.parametrize(
    ("half_life_days", "printed"),
    [(1, 8.02e-6), (3, 2.673e-6), (7, 1.15e-6), (7, 1.145e-6), (14, 5.73e-7), (0.5, 1.60e-5)],
)
def test_lambda_is_ln_2_by_the_half_life(half_life_days: float, printed: float) -> None:
    """Seed 000, half-life calculation and tuning guidelines; seed 001, decay rate. 2.673 and 1.145 are truncated."""
    state, dynamics = memory(), Mnemex(MnemexParameters(curve="exponential", half_life_days=half_life_days))
    found = -math.log(dynamics.score(state, START + 1_000)[0]) / 1_000
    assert found == pytest.approx(math.log(2) / (half_life_days * DAY_SECONDS), rel=1e-9)
    assert found == pytest.approx(printed, rel=4e-3)


@pytest.mark.parametrize(
    ("uses", "hours", "multiplier", "factor", "decay", "action"),
    [
        pytest.param(1, 6, 1.0, 1.00, 0.9439, "promote", id="A, which the seed keeps against its own rule"),
        pytest.param(6, 48, 1.0, 2.93, 0.630, "promote", id="B"),
        pytest.param(3, 120, 1.5, 1.93, 0.315, "promote", id="C"),
        pytest.param(1, 504, 1.0, 1.00, 0.0078, "forget", id="D"),
        pytest.param(1, 720, 1.0, 1.00, 0.00098, "forget", id="forget threshold"),
        pytest.param(3, 1, 2.0, 1.93, 0.990, "promote", id="promote threshold, scenario 1"),
        pytest.param(1, 96, 1.0, 1.00, 0.397, "keep", id="between the thresholds"),
    ],
)
def test_examples_step_by_step_to_their_decision(
    uses: int, hours: float, multiplier: float, factor: float, decay: float, action: str
) -> None:
    """Seed 000, worked examples and complete decision logic: promote at 0.65 or more, forget below 0.05."""
    assert uses**0.6 == pytest.approx(factor, abs=5e-3)
    assert EXPONENTIAL.score(memory(), START + hours * HOUR_SECONDS)[0] == pytest.approx(decay, rel=5e-3)
    now = START + 30 * DAY_SECONDS  # outside the window in which uses alone promote
    state = replace(memory(uses - 1, multiplier=multiplier), accessed_at=np.array([now - hours * HOUR_SECONDS]))
    score = EXPONENTIAL.score(state, now)[0]
    assert score == pytest.approx(factor * decay * multiplier, rel=8e-3)
    forgotten = score < EXPONENTIAL.parameters.forget_below
    found = "promote" if EXPONENTIAL.promoted(state, now)[0] else "forget" if forgotten else "keep"
    assert found == action


@pytest.mark.parametrize(("multiplier", "score"), [(2.0, 1.587), (1.5, 1.191), (1.0, 0.794), (0.5, 0.397)])
def test_the_multiplier_scales_the_score(multiplier: float, score: float) -> None:
    """Seed 000, strength modulation after a day; its sketch draws 2.0 for the first."""
    found = EXPONENTIAL.score(memory(multiplier=multiplier), START + DAY_SECONDS)[0]
    assert found == pytest.approx(multiplier * 2 ** (-1 / 3), rel=1e-12)
    assert found == pytest.approx(score, abs=5e-4)


def test_multipliers_by_content_are_the_seed_s() -> None:
    """Seed 000, context-aware strength."""
    assert CONTENT_MULTIPLIERS == {"security": 2.0, "decision": 1.5, "preference": 1.3}


def test_a_new_memory_counts_as_used_once() -> None:
    """Seed 001 stores use_count 0, for which its own formula would give 0; seed 000 counts from 1."""
    assert EXPONENTIAL.score(memory(0), START)[0] == 1
    used = EXPONENTIAL.reinforce(memory(0), Event(at=START, now=START))
    assert EXPONENTIAL.score(used, START)[0] == pytest.approx(2**0.6)


def test_a_use_in_another_domain_adds_a_tenth() -> None:
    """Seed 001, cross-domain usage detection: 1.0 becomes 1.1, and 1.2 with the next."""
    once = EXPONENTIAL.reinforce(memory(), Event(at=START, now=START, boost=True))
    twice = EXPONENTIAL.reinforce(once, Event(at=START, now=START, boost=True))
    assert (once.multiplier[0], twice.multiplier[0]) == pytest.approx((1.1, 1.2))


def test_defaults_of_mnemex() -> None:
    """Seed 000, parameter reference; seed 001, promotion criteria and garbage collection."""
    p = MnemexParameters()
    assert (p.curve, p.beta, p.half_life_days) == ("power_law", 0.6, 3)
    assert (p.forget_below, p.promote_from, p.promote_uses, p.promote_window_days) == (0.05, 0.65, 5, 14)
    assert (p.boost, p.other_domain_below) == (0.1, 0.3)


def test_defaults_of_cmm() -> None:
    """Seed 002, components and threshold filtering; it prints neither λ nor the frequency weight."""
    p = CmmParameters()
    assert (p.grace_days * DAY_SECONDS, p.lock_accesses_per_week) == (1_209_600, 0.5)
    assert (p.surface_above, p.priming_boost, p.priming_decay_per_turn, p.priming_turns) == (0.3, 0.3, 0.5, 10)
    assert Cmm().strength(memory(), START + 1_209_599)[0] == 1


def test_defaults_of_memory_decay() -> None:
    """Seed 003, decay parameters and server parameters; it prints no β, and its tick is a preset here."""
    p = MemoryDecayParameters()
    assert (p.lambda_fact, p.lambda_episode, p.impact_weight, p.stability_weight) == (0.02, 0.035, 0.5, 0.8)
    assert (p.stability_decay, p.gain_direct, p.gain_associate, p.stability_cap) == (0.01, 0.2, 0.05, 1.0)
    assert (p.boost, p.storage_fraction, p.retrieval_weight) == (0.1, 0.25, 0.5)
    assert PRESETS["server"].tick_seconds == 3_600


@pytest.mark.parametrize(("seconds", "ticks"), [(3_599, 0), (3_600, 1), (86_400, 24), (604_800, 168)])
def test_ticks_are_whole_intervals_of_the_time_gone_by(seconds: float, ticks: int) -> None:
    """Seed 003, auto-tick: floor(elapsed / interval)."""
    found = MemoryDecay(PRESETS["server"]).strength(memory(salience=0), START + seconds)[0]
    assert found == pytest.approx(math.exp(-0.035 * ticks), rel=1e-12)


@pytest.mark.parametrize(
    ("importance", "kind", "after_30_ticks"),
    [(0.9, "semantic", 0.661138), (0.8, "semantic", 0.651439), (0.5, "episodic", 0.431711)],
)
def test_requests_of_the_seed_after_a_month_of_days(importance: float, kind: str, after_30_ticks: float) -> None:
    """Seed 003, example requests: a preference, a decision and an episode."""
    state = memory(salience=importance, kind=kind)
    found = MemoryDecay().strength(state, START + 30 * DAY_SECONDS)[0]
    by_hand = math.exp(-30 * (0.035 if kind == "episodic" else 0.02) / (1 + 0.5 * importance))
    assert found == pytest.approx(by_hand, rel=1e-12)
    assert found == pytest.approx(after_30_ticks, abs=1e-6)


def test_recency_is_halved_by_its_lambda() -> None:
    """Seed 004 §1.1: λ .05 is a half-life of about 14 days."""
    assert math.log(2) / Importance().recency_lambda_per_day == pytest.approx(13.86, abs=0.005)


@pytest.mark.parametrize(("criteria", "salience"), [((10, 10, 10, 10), 1.0), ((0, 0, 0, 0), 0.0), ((7, 5, 6, 2), 0.5)])
def test_salience_is_the_criteria_s_sum_by_forty(criteria: tuple[float, ...], salience: float) -> None:
    """Seed 004 §1.3."""
    assert salience_of(Criteria(*criteria)) == sum(criteria) / 40 == salience


@pytest.mark.parametrize(("before", "after"), [(0.0, 0.15), (0.4, 0.49), (0.8, 0.83), (1.0, 1.0)])
def test_stronger_memories_are_given_less(before: float, after: float) -> None:
    """Seed 004 §2.3: S + 0.15 · (1 - S)."""
    state = Spec().at_strength(memory(), START, before)
    used = Spec().reinforce(state, Event(at=START, now=START))
    assert Spec().strength(used, START)[0] == pytest.approx(after)


@pytest.mark.parametrize(
    ("strength", "days", "importance", "uses", "tier"),
    [
        (0.30, 91, 0.1, 0, "active"),
        (0.29, 91, 0.1, 0, "archived"),
        (0.15, 91, 0.1, 0, "archived"),
        (0.14, 91, 0.1, 0, "cold"),
        (0.05, 91, 0.1, 0, "cold"),
        (0.04, 91, 0.1, 0, "deleted"),
        (0.04, 90, 0.1, 0, "cold"),
        (0.04, 91, 0.2, 0, "cold"),
        (0.04, 91, 0.1, 2, "cold"),
        (0.04, 91, 0.1, 1, "deleted"),
    ],
)
def test_tiers_begin_below_their_thresholds(
    strength: float, days: float, importance: float, uses: int, tier: str
) -> None:
    """Seed 004 §2.4 and §5.1: .30, .15, .05; the last only when over 90 days old, importance < .2, under 2 uses.

    The conditions on salience are not part of the seed.
    """
    seen = CurrentStrength(np.array([strength]), np.array([importance]))
    state = memory(uses, salience=0.1)
    found = decay_tier(TierThresholds(), state, START + days * DAY_SECONDS, seen, state.created_at, np.array([True]))[0]
    assert DECAY_TIERS[found] == tier


def test_the_configuration_example_is_the_default() -> None:
    """Seed 004, configuration example."""
    weights, spec, tiers, review = Importance().weights, SpecParameters(), TierThresholds(), ReviewParameters()
    assert (weights.recency, weights.frequency, weights.salience, weights.relevance) == (0.25, 0.2, 0.35, 0.2)
    assert (Importance().recency_lambda_per_day, Importance().max_expected_accesses) == (0.05, 100)
    assert (spec.base_per_day, spec.reinforcement) == (0.1, 0.15)
    assert (tiers.archived_below, tiers.cold_below, tiers.deleted_below) == (0.3, 0.15, 0.05)
    assert (review.first_interval_days, review.second_interval_days) == (1, 6)
    assert (review.easiness_min, review.easiness_max) == (1.3, 3.0)
    assert Protection().grace_days == 7
