"""`mnemex`'s forgetting threshold is the strength below which its memories may be deleted (seed 000)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.domain.dynamics.state import DAY_SECONDS, new
from app.domain.policy.policy import Policy
from app.domain.policy.policy_diff import amend_policy
from app.domain.policy.stored_policy import STORED
from app.domain.strength import importance
from app.domain.tiers.decay_tier import CurrentStrength
from app.domain.tiers.tier_decision import DELETED, decide_tiers, fresh_facts
from app.errors import Invalid
from tests.domain.dynamics.batches import START


def mnemex(**changes: object) -> Policy:
    parameters = {"forgetting": {"profile": "mnemex", "parameters": {"forget_below": 0.1}}}
    return amend_policy(Policy(), parameters | changes)


def is_deleted(policy: Policy, days: float) -> bool:
    state = new(np.array([START]), salience=0.1)
    now = START + days * DAY_SECONDS
    seen = CurrentStrength(policy.model.strength(state, now), importance.importance(policy.importance, state, now))
    return bool(decide_tiers(policy.rules, fresh_facts(np.array([START])), state, now, seen).tiers[0] == DELETED)


def test_the_forget_threshold_deletes() -> None:
    """Seed 000, forget threshold: with the half-life of 9 days, the score is 0.079 after 100 days."""
    nine = {"half_life_days": 9}
    loose = amend_policy(mnemex(), {"forgetting": {"parameters": nine}})
    strict = amend_policy(loose, {"forgetting": {"parameters": {"forget_below": 0.05}}})
    assert 0.05 < loose.model.strength(new(np.array([START])), START + 100 * DAY_SECONDS)[0] < 0.1
    assert (is_deleted(loose, 100), is_deleted(strict, 100)) == (True, False)
    assert not is_deleted(loose, 80), "the age of 90 days is seed 004's condition, which stays"


def test_a_threshold_that_the_policy_sets_wins() -> None:
    assert mnemex(tiers={"deleted_below": 0.02}).rules.tiers.deleted_below == 0.02
    assert mnemex(tiers={"deleted_below": None}).rules.tiers.deleted_below == 0.1


@pytest.mark.parametrize(
    ("preset", "expected"),
    [("personal_assistant", 0.05), ("development", 0.10), ("research", 0.03), ("meeting_notes", 0.15)],
)
def test_every_tuning_deletes_below_its_own_threshold(preset: str, expected: float) -> None:
    """Seed 000, tuning for different use cases; a threshold of an earlier preset doesn't remain."""
    earlier = amend_policy(Policy(), {"tiers": {"deleted_below": 0.01}})
    assert amend_policy(earlier, {}, preset).rules.tiers.deleted_below == expected


def test_it_is_at_most_the_threshold_of_cold_storage() -> None:
    with pytest.raises(Invalid) as refused:
        mnemex(tiers={"cold_below": 0.08})
    [error] = refused.value.errors
    assert (error.field, error.value) == ("policy.forgetting.parameters.forget_below", 0.1)
    assert error.message == "must be at most tiers.cold_below, which is 0.08"
    stored = mnemex().model_dump(mode="json")
    stored["forgetting"]["parameters"]["forget_below"] = 0.9
    assert Policy.model_validate(stored, context=STORED).rules.tiers.deleted_below == 0.15


def test_other_profiles_have_no_such_threshold() -> None:
    policy = Policy()
    assert policy.rules.tiers == policy.tiers == replace(policy.tiers)
