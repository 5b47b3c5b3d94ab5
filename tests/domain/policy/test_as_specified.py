"""The presets that follow a seed to the letter: the transitions of each seed's own examples."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import pytest

from app.domain.dynamics.state import DAY_SECONDS, State, new
from app.domain.policy.policy import Policy
from app.domain.policy.policy_diff import amend_policy
from app.domain.search.candidate_types import Candidate, CandidateStrength
from app.domain.search.scoring import blend_scores
from app.domain.search.signals import ScoreParts
from app.domain.strength import importance
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength
from app.domain.tiers.tier_decision import RULES, decide_tiers, fresh_facts
from tests.domain.dynamics.batches import START

ANY = {"tiers": {"archived_below": 0.9}, "protection": {"grace_days": 30, "salience_above": 0.0}}
"""Settings of an earlier policy, which a preset replaces."""


def preset(name: str, **changes: object) -> Policy:
    return amend_policy(amend_policy(Policy(), ANY), changes, name)


def memory(*, uses: int = 0, salience: float = 0.5, multiplier: float = 1.0, used_days: float = 0.0) -> State:
    state = new(np.array([START]), salience=salience, multiplier=multiplier)
    at = state.accessed_at + used_days * DAY_SECONDS
    return replace(state, access_count=np.array([float(uses)]), accessed_at=at, anchored_at=at)


def decided(policy: Policy, state: State, days: float, strength: float | None = None) -> tuple[str, str]:
    """Return the tier and the deciding rule so many days after acceptance, at a given or at the model's strength."""
    now = START + days * DAY_SECONDS
    found = policy.model.strength(state, now) if strength is None else np.array([strength])
    seen = CurrentStrength(found, importance.importance(policy.importance, state, now))
    decision = decide_tiers(policy.rules, fresh_facts(state.created_at), state, now, seen)
    return DECAY_TIERS[decision.tiers[0]], RULES[decision.rules[0]]


@pytest.mark.parametrize(
    ("strength", "days", "uses", "tier"),
    [
        (0.30, 100, 0, "active"),
        (0.29, 100, 0, "archived"),
        (0.15, 100, 0, "archived"),
        (0.14, 100, 0, "cold"),
        (0.05, 100, 0, "cold"),
        (0.04, 100, 0, "deleted"),
        (0.04, 90, 0, "cold"),
        (0.04, 100, 2, "cold"),
        (0.04, 6, 0, "active"),
    ],
)
def test_004_tiers_follow_strength_alone(strength: float, days: float, uses: int, tier: str) -> None:
    """Seed 004 §2.4, §5.1: .30, .15, .05; age > 90 days, importance < .2, fewer than 2 uses; grace of 7 days."""
    state = memory(uses=uses, salience=0.15)
    assert decided(preset("as_specified"), state, days, strength)[0] == tier


def test_004_salience_protects_by_its_part_in_importance_alone() -> None:
    """Seed 004 §2.4: without the protection by salience, what is salient fades too, more slowly."""
    policy = preset("as_specified")
    assert decided(policy, memory(salience=0.5), 30) == ("archived", "decay")
    assert decided(Policy(), memory(salience=0.5), 30)[0] == "active"
    assert decided(policy, memory(salience=0.15), 400) == ("deleted", "decay")
    assert decided(policy, memory(salience=0.9), 400)[0] == "cold", "importance is at least .2"
    assert decided(policy, memory(uses=100, salience=1), 400, 0.1)[1] == "never_forget", "§5.2: count > 50"
    assert policy.importance == Policy().importance
    assert policy.reinforcement.by_search_share == 0, "§2.3: each access reinforces"


@pytest.mark.parametrize(
    ("uses", "hours", "multiplier", "tier"),
    [
        pytest.param(1, 6, 1.0, "active", id="A"),
        pytest.param(6, 48, 1.0, "active", id="B"),
        pytest.param(3, 120, 1.5, "active", id="C"),
        pytest.param(1, 504, 1.0, "deleted", id="D"),
        pytest.param(1, 720, 1.0, "deleted", id="forget threshold"),
        pytest.param(1, 288, 1.0, "active", id="0.0625, above the threshold"),
        pytest.param(1, 318, 1.0, "deleted", id="0.047, below it"),
    ],
)
@pytest.mark.parametrize("salience", [0.0, 0.5, 0.95])
def test_000_a_score_below_the_threshold_deletes(
    uses: int, hours: float, multiplier: float, salience: float, tier: str
) -> None:
    """Seed 000, worked examples and decision logic; seed 001, garbage collection: no other condition counts."""
    policy = preset("mnemex_as_specified", forgetting={"parameters": {"curve": "exponential"}})
    state = memory(uses=uses - 1, multiplier=multiplier, salience=salience)
    assert decided(policy, state, hours / 24)[0] == tier


def test_000_searches_dont_reinforce_and_another_tuning_sets_its_own_threshold() -> None:
    """Seed 001, automatic reinforcement: by observation and touch."""
    policy = preset("mnemex_as_specified")
    assert not policy.reinforcement.by_search
    lower = amend_policy(policy, {"forgetting": {"parameters": {"forget_below": 0.03}}})
    assert lower.rules.tiers.deleted_below == 0.03


def score(policy: Policy, strength: float, retrieval: float = 1.0) -> float:
    """Return the score of a search in the preset's mode for a memory with a cosine of .8."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found = [Candidate(UUID(int=1), "x", None, None, None, None, None, [], None, at, "active", 0.0, 1.0, 0.8)]
    vitals = CandidateStrength(*(np.array([value]) for value in (strength, 1.0, 0.5, 0.5, retrieval)))
    parts = ScoreParts({"relevance": np.ones(1)})
    parameters = policy.model.parameters
    return float(blend_scores(found, parts, vitals, policy.ranking, parameters=parameters).scores[0])


def test_002_nothing_is_moved_and_what_has_decayed_does_not_surface() -> None:
    """Seed 002, decay (age since the last access) and threshold filtering (.3)."""
    policy = preset("cmm_as_specified")
    for days, expected in ((13.9, 1.0), (14, math.exp(-5e-7 * 1_209_600)), (60, math.exp(-5e-7 * 60 * 86_400))):
        strength = policy.model.strength(memory(), START + days * DAY_SECONDS)[0]
        assert strength == pytest.approx(expected)
        assert decided(policy, memory(), days) == ("active", "decay")
        assert (score(policy, strength) > 0) == (0.8 * strength > 0.3)
    assert decided(policy, memory(), 3_000) == ("active", "decay")
    assert score(policy, 0.0) == 0


def test_003_nothing_is_moved_and_what_is_below_the_storage_threshold_is_not_found() -> None:
    """Seed 003, auto-tick (an hour) and dual score: filtered by storage, ranked by retrieval."""
    policy = preset("memory_decay_as_specified")
    fact = replace(memory(), kind=np.array([1.0]))
    day, week = (policy.model.strength(fact, START + days * DAY_SECONDS)[0] for days in (1, 7))
    assert day == pytest.approx(math.exp(-0.02 / 1.25 * 24))
    assert week == pytest.approx(math.exp(-0.02 / 1.25 * 168))
    assert policy.model.strength(fact, START + 3_599)[0] == 1, "under an hour, at full activation"
    assert decided(policy, memory(), 3_000) == ("active", "decay")
    assert score(policy, 0.049) == 0 < score(policy, 0.05, 0.25) < score(policy, 0.05, 0.81)
