"""The keep chance decides what decay may move and delete: by source, at the threshold, and beside the salience."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from app.domain.dynamics.state import new
from app.domain.policy.policy import CMM_SALIENCE, Policy
from app.domain.tiers import keep_rule
from app.domain.tiers.decay_tier import CurrentStrength, TierThresholds
from app.domain.tiers.explanation import explain_decisions
from app.domain.tiers.keep_rule import SOURCES, KeepFacts, KeepVerdict
from app.domain.tiers.protection import FORMER_SALIENCE, KEEP_ABOVE, Protection
from app.domain.tiers.tier_decision import RULES, TierRules, decide_tiers, fresh_facts

BELOW, ABOVE = KEEP_ABOVE - 0.01, KEEP_ABOVE + 0.01
LOW, HIGH = FORMER_SALIENCE - 0.01, FORMER_SALIENCE + 0.01
UNKNOWN = float("nan")
DAY = 86_400.0


def facts(source: str, chance: float = UNKNOWN, shift: float = 0.0, above: float = KEEP_ABOVE) -> KeepFacts:
    place = SOURCES.index(source) if source else -1
    return KeepFacts(np.array([chance]), np.array([place], np.int8), np.array([shift]), np.array([above]))


def judged(keep: KeepFacts, salience: float, rules: TierRules | None = None) -> str:
    """Return the rule that protects the memory; without one, "deletable" or "stays cold"."""
    rules = rules or Policy().rules
    verdict: KeepVerdict = rules.judge_keep(keep, new(np.zeros(1), salience=salience))
    [by_salience, by_chance, deletable] = (bool(column[0]) for column in verdict)
    assert not (by_salience and by_chance)
    return "salience" if by_salience else "chance" if by_chance else "deletable" if deletable else "stays cold"


@pytest.mark.parametrize(
    ("source", "chance", "salience", "found"),
    [
        ("heuristic", ABOVE, 0.0, "chance"),
        ("heuristic", BELOW, 0.9, "deletable"),
        ("consolidation", ABOVE, 0.0, "chance"),
        ("consolidation", BELOW, 0.9, "deletable"),
        ("heuristic", UNKNOWN, HIGH, "salience"),
        ("heuristic", UNKNOWN, LOW, "deletable"),
        ("llm", UNKNOWN, HIGH, "chance"),
        ("llm", UNKNOWN, LOW, "deletable"),
        ("caller", BELOW, HIGH, "salience"),
        ("caller", ABOVE, LOW, "deletable"),
        ("", ABOVE, 0.0, "deletable"),
    ],
)
def test_each_source_is_judged_by_its_own_number(source: str, chance: float, salience: float, found: str) -> None:
    assert judged(facts(source, chance), salience) == found


def test_no_threshold_and_no_shift_weakens_the_caller_s_own_salience() -> None:
    for above in (0.02, KEEP_ABOVE, 0.6, 1.0):
        for shift in (-0.7, 0.0, 0.7):
            assert judged(facts("caller", shift=shift, above=above), HIGH) == "salience"
    assert judged(facts("caller", shift=0.7), LOW) == "deletable", "nor does a shift raise it"


def test_the_curve_of_a_given_salience_rises_through_the_threshold() -> None:
    salience = np.linspace(0, 1, 101)
    chances = keep_rule.chances_of_salience(salience)
    assert (np.diff(chances) > 0).all()
    assert keep_rule.chances_of_salience(np.array([FORMER_SALIENCE]))[0] == pytest.approx(KEEP_ABOVE)


def test_a_shift_moves_the_chance_in_log_odds() -> None:
    assert judged(facts("heuristic", BELOW, shift=0.2), 0.0) == "chance"
    assert judged(facts("heuristic", ABOVE, shift=-0.2), 0.0) == "deletable"
    moved = keep_rule.shifted(facts("heuristic", 0.2, shift=0.5), np.zeros(1))
    assert keep_rule.log_odds(moved)[0] == pytest.approx(keep_rule.log_odds(0.2) + 0.5)


def test_a_higher_threshold_archives_more_but_deletes_no_more() -> None:
    assert judged(facts("heuristic", 0.3, above=0.5), 0.0) == "stays cold"
    rules = Policy(tiers=TierThresholds(deleted_keep_chance_below=0.4)).rules
    assert judged(facts("heuristic", 0.3, above=0.5), 0.0, rules) == "deletable"


def test_a_policy_with_its_own_salience_above_decides_by_salience_alone() -> None:
    rules = Policy(protection=Protection(salience_above=0.3)).rules
    assert judged(facts("heuristic", 0.99), 0.29, rules) == "stays cold", "0.145 still keeps it from deletion"
    assert judged(facts("heuristic", 0.99), 0.1, rules) == "deletable"
    assert judged(facts("heuristic", 0.01), 0.31, rules) == "salience"
    rules = Policy(tiers=TierThresholds(deleted_salience_below=0.05)).rules
    assert judged(facts("heuristic", BELOW), 0.06, rules) == "stays cold", "both conditions of a deletion hold"


def test_cmm_keeps_its_own_limit_for_a_given_salience_and_for_memories_without_a_chance() -> None:
    rules = Policy.model_validate({"forgetting": {"profile": "cmm"}}).rules
    assert rules.former_salience == CMM_SALIENCE
    assert judged(facts("heuristic"), 0.49, rules) == "stays cold"
    assert judged(facts("heuristic"), 0.51, rules) == "salience"
    assert judged(facts("heuristic", BELOW), 0.51, rules) == "deletable", "the chance of the rules knows better"


def test_a_summary_has_the_highest_chance_of_its_sources() -> None:
    keep = KeepFacts(
        np.array([0.1, 0.3, UNKNOWN]), np.array([0, 0, 0], np.int8), np.array([0.7, 0.7, 0.7]), np.full(3, KEEP_ABOVE)
    )
    assert keep_rule.merge_chances(keep, np.zeros(3)) == 0.3, "before any shift"
    assert keep_rule.merge_chances(keep, np.array([0, 0, 0.9])) > 0.9, "an unknown chance follows from the salience"
    assert keep_rule.merge_chances(facts("caller"), np.array([HIGH])) == 1
    assert keep_rule.merge_chances(facts("caller"), np.array([LOW])) < KEEP_ABOVE


@pytest.mark.parametrize(
    ("keep", "salience", "rule", "words"),
    [
        (facts("heuristic", 0.34), 0.2, "keep_chance", f"keep chance 0.34 is above {KEEP_ABOVE:g}"),
        (facts("llm"), 0.5, "keep_chance", "it follows from the model's salience 0.5"),
        (facts("consolidation", 0.34), 0.2, "keep_chance", "it is the highest of the summary's sources"),
        (facts("heuristic", 0.34, shift=0.3), 0.2, "keep_chance", "memories of the same role raised it from 0.34"),
        (facts("caller"), 0.5, "salience", "salience 0.5 is above 0.145, and the caller set it"),
        (facts("heuristic"), 0.5, "salience", "salience 0.5 is above 0.145; the memory has no keep chance yet"),
        (facts("heuristic", 0.05), 0.2, "decay", f"keep chance 0.05 is below {KEEP_ABOVE:g}"),
    ],
)
def test_why_names_the_rule_and_both_numbers(keep: KeepFacts, salience: float, rule: str, words: str) -> None:
    state, now, weak = new(np.zeros(1), salience=salience), 200 * DAY, CurrentStrength(np.array([0.01]), np.zeros(1))
    standing = fresh_facts(state.created_at)
    standing = type(standing)(**{name: getattr(standing, name) for name in standing.__slots__} | {"keep": keep})
    rules = Policy().rules
    decision = decide_tiers(rules, standing, state, now, weak)
    [why] = explain_decisions(rules, standing, state, now, weak, decision)
    assert (RULES[decision.rules[0]], words in why) == (rule, True), why


def test_a_field_without_effect_is_refused() -> None:
    for given in (
        {"protection": {"salience_above": 0.3, "keep_chance_above": 0.2}},
        {"protection": {"salience_above": 0.3}, "tiers": {"target_active_share": 0.4}},
    ):
        with pytest.raises(ValidationError, match="has no effect while"):
            Policy.model_validate(given)
