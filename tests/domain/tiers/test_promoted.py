"""The rule that keeps promoted memories (seeds 000 and 001)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from app.domain.dynamics.state import DAY_SECONDS, new
from app.domain.policy.policy import Policy
from app.domain.policy.policy_diff import amend_policy
from app.domain.policy.presets import PRESETS
from app.domain.strength.importance import importance
from app.domain.strength.promotion import Promotion
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength
from app.domain.tiers.explanation import explain_decisions
from app.domain.tiers.tier_decision import RULES, decide_tiers, fresh_facts, may_move
from tests.domain.dynamics.batches import START

KEEPS = Policy(promotion=Promotion(keeps=True))


def decided(policy: Policy, days: float = 400, **facts: Any) -> tuple[str, str, str, bool]:
    """Return tier, rule and reason of an unused memory after so many days, and whether decay may ever move it."""
    state, now = new(np.array([START]), salience=0.05), START + days * DAY_SECONDS
    given: dict[str, Any] = {name: np.array([value]) for name, value in facts.items()}
    standing = replace(fresh_facts(state.created_at), **given)
    seen = CurrentStrength(policy.model.strength(state, now), importance(policy.importance, state, now))
    decision = decide_tiers(policy.rules, standing, state, now, seen)
    [why] = explain_decisions(policy.rules, standing, state, now, seen, decision)
    can_move = bool(may_move(policy.rules, standing, state, now, seen)[0])
    return DECAY_TIERS[decision.tiers[0]], RULES[decision.rules[0]], why, can_move


def test_001_a_promoted_memory_is_retained_where_the_policy_says_so() -> None:
    """Seed 001, promotion criteria: retained, while garbage collection takes the others."""
    assert decided(KEEPS, is_promoted=True) == (
        *("active", "promoted", "it is promoted, and the policy keeps promoted memories"),
        False,
    )
    assert decided(KEEPS, is_promoted=False)[:2] == ("deleted", "decay")
    assert decided(Policy(), is_promoted=True)[:2] == ("deleted", "decay"), "off by default"


def test_the_rule_stands_directly_behind_never_forget() -> None:
    assert RULES.index("promoted") == RULES.index("never_forget") + 1
    assert decided(KEEPS, is_promoted=True, is_marked=True)[1] == "never_forget"
    assert decided(KEEPS, days=1, is_promoted=True)[1] == "promoted", "before the grace period"


def test_holds_and_erasures_win() -> None:
    assert decided(KEEPS, is_promoted=True, is_held=True)[1] == "hold"
    assert decided(KEEPS, is_promoted=True, erase_at=START)[:2] == ("deleted", "erasure")


@pytest.mark.parametrize(
    "name", ["personal_assistant", "development", "research", "meeting_notes", "mnemex_as_specified"]
)
def test_000_the_presets_of_mnemex_keep_promoted_memories(name: str) -> None:
    """Seed 000, promote threshold: high-value memories move to long-term storage."""
    assert PRESETS[name]["promotion"] == {"keeps": True}
    assert decided(amend_policy(Policy(), {}, name), is_promoted=True)[1] == "promoted"
    others = [preset for other, preset in PRESETS.items() if "forgetting" not in preset or "mnemex" not in str(preset)]
    assert all("promotion" not in preset for preset in others)
