"""Explain a memory's tier in words and numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from app.domain.durations import format_duration
from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS, State
from app.domain.ingest.memory import KINDS
from app.domain.privacy import parameters, retention
from app.domain.privacy.retention import OF_SUBJECT, STATED
from app.domain.rounding import round_for_people
from app.domain.tiers import keep_rule
from app.domain.tiers.decay_tier import CurrentStrength, TierThresholds
from app.domain.tiers.protection import FORMER_SALIENCE, Protection
from app.domain.tiers.tier_decision import RULES, Decision, TierFacts, TierRules


@dataclass(frozen=True, slots=True)
class DecisionCase:
    """Inputs to the decision about one memory.

    Attributes:
        kind: The kind set by the caller; None if the caller set none.
        strength: 0 to 1.
        importance: Importance without a context, 0 to 1.
        uses: Number of uses.
        age_days: Days since acceptance.
        back_days: Days since acceptance or the last restore.
        is_marked: True if a tag or category set by the caller protects the memory permanently.
        is_promoted: True if the memory is promoted.
        salience: 0 to 1, from the caller, a model or the rules.
        keep_chance: Keep chance that is compared with the threshold, 0 to 1; None if it isn't known yet.
        keep_above: Threshold of the keep chance in force for the tenant; None if the policy decides by salience.
        keep_shift: Change of the keep chance by the tenant's uses; 0 for none.
        salience_source: `caller`, `llm`, `heuristic` or `consolidation`; None without a salience.
        privacy_risk: Risk of retaining the memory, 0 to 1.
        expires_as: Category whose retention period applies; `expires_at` for the memory's own time of expiry,
            `subject_retention` for a period of its subject. None if the memory never expires or if the period for
            memories without a category applies.
        expires_after_days: The retention period, in days since acceptance; None if the memory never expires.
        expires_by_risk: True if the retention period applies only because the privacy risk is too high.
    """

    kind: str | None
    strength: float
    importance: float
    uses: int
    age_days: float
    back_days: float
    is_marked: bool
    is_promoted: bool
    salience: float
    keep_chance: float | None
    keep_above: float | None
    keep_shift: float
    salience_source: str | None
    privacy_risk: float
    expires_as: str | None
    expires_after_days: float | None
    expires_by_risk: bool


def decision_cases(
    rules: TierRules, standing: TierFacts, state: State, now: float, seen: CurrentStrength
) -> list[DecisionCase]:
    """Return the inputs of the decision for each memory; the arguments are those of `tier_decision.decide_tiers`."""
    ages = (now - standing.accepted_at) / DAY_SECONDS
    back = (now - standing.grace_from) / DAY_SECONDS
    measured = (seen.strength, seen.importance, state.access_count, ages, back)
    columns = (standing.kinds, *measured, standing.is_marked, standing.is_promoted, state.salience)
    rows = zip(
        *(column.tolist() for column in columns),
        _keep_chances(rules, standing, state),
        _expiries(rules, standing, ages),
        strict=True,
    )
    return [
        DecisionCase(
            *(KINDS[kind] if kind >= 0 else None, strength, importance, int(uses), age, since),
            *(marked, promoted, salience, *keep, *expiry),
        )
        for kind, strength, importance, uses, age, since, marked, promoted, salience, keep, expiry in rows
    ]


def _keep_chances(
    rules: TierRules, standing: TierFacts, state: State
) -> Iterator[tuple[float | None, float | None, float, str | None]]:
    keep = standing.keep
    chances, unshifted = keep_rule.shifted(keep, state.salience), keep_rule.rate(keep, state.salience)
    by_chance = rules.protection.salience_above is None
    columns = (chances, chances - unshifted, keep.above, keep.sources)
    for chance, shift, above, source in zip(*(column.tolist() for column in columns), strict=True):
        known = not math.isnan(chance)
        yield (
            chance if known else None,
            above if by_chance else None,
            shift if known else 0.0,
            keep_rule.SOURCES[source] if source >= 0 else None,
        )


def _expiries(
    rules: TierRules, standing: TierFacts, ages: Floats
) -> Iterator[tuple[float, str | None, float | None, bool]]:
    privacy, expiry = rules.privacy, standing.expiry
    risks = retention.privacy_risk(privacy, expiry.pii, expiry.sensitivity, ages)
    periods = (expiry.at - standing.accepted_at) / DAY_SECONDS
    columns = (np.isfinite(expiry.at), risks, expiry.category, expiry.by_risk, periods)
    for expires, risk, category, by_risk, period in zip(*(column.tolist() for column in columns), strict=True):
        if expires:
            days = period if category in (STATED, OF_SUBJECT) else retention.category_days(privacy, category)
            yield risk, retention.category_name(privacy, category), days, by_risk
        else:
            yield risk, None, None, False


def explain_decisions(
    rules: TierRules, standing: TierFacts, state: State, now: float, seen: CurrentStrength, decision: Decision
) -> list[str]:
    """Explain each memory in one line; the arguments are those of `tier_decision.decide_tiers` and its result."""
    cases = zip(decision.rules, decision_cases(rules, standing, state, now, seen), strict=True)
    return [_WORDS[RULES[rule]](rules, case) for rule, case in cases]


def _format_comparison(name: str, value: float, side: str, threshold: float) -> str:
    """Format a comparison; add "just" if value and threshold look equal when rounded."""
    shown = round_for_people(value, 4)
    same = shown == round_for_people(threshold, 4)
    return f"{name} is just {side} {shown}" if same else f"{name} {shown} is {side} {threshold:g}"


def _format_age(days: float) -> str:
    """Format an age: below one day in hours or smaller units, otherwise in days."""
    if days < 1:
        return format_duration(days * DAY_SECONDS)
    shown = round_for_people(days, 4)
    return f"{shown} day" if shown == "1" else f"{shown} days"


def _expiry(rules: TierRules, case: DecisionCase) -> str:
    days = case.expires_after_days or 0
    if case.expires_as == parameters.STATED:
        return f"its stated time of expiry has passed: it was to be kept for {_format_age(days)}"
    if case.expires_as == parameters.OF_SUBJECT:
        return (
            f"the retention period of its subject is {round_for_people(days, 4)} days, and this memory is "
            f"{_format_age(case.age_days)} old"
        )
    which = f"memories of the category {case.expires_as}" if case.expires_as else "memories without a category"
    period = f"the retention period of {which} is {days:g} days, and this memory is {_format_age(case.age_days)} old"
    if not case.expires_by_risk:
        return period
    return f"{_format_comparison('privacy risk', case.privacy_risk, 'above', rules.privacy.risk_above)}: {period}"


def _never_forget(rules: TierRules, case: DecisionCase) -> str:
    protection = rules.protection
    if case.is_marked:
        return "a tag or category protects it permanently"
    if case.kind in protection.never_forget_kinds:
        return f"memories of the kind {case.kind} are protected permanently"
    if case.uses > protection.uses_above:
        return f"{case.uses} uses are more than {protection.uses_above}"
    limit = protection.semantic_importance_above
    return f"the kind is semantic and {_format_comparison('importance', case.importance, 'above', limit)}"


def _grace(rules: TierRules, case: DecisionCase) -> str:
    protection: Protection = rules.protection
    if case.back_days < protection.grace_days:
        is_new = case.back_days == case.age_days
        period = f"in {'their' if is_new else 'the'} first {_format_age(protection.grace_days)}"
        since, seen = ("", "received") if is_new else (" after a restore", "restored")
        return (
            f"memories aren't moved or deleted for lack of use {period}{since}; this one was {seen} "
            f"{_format_age(case.back_days)} ago"
        )
    if case.importance > protection.grace_importance_above:
        return _format_comparison("importance", case.importance, "above", protection.grace_importance_above)
    return f"decay doesn't move memories of the kind {case.kind}"


def _salience(rules: TierRules, case: DecisionCase) -> str:
    if rules.protection.salience_above is not None:
        return _format_comparison("salience", case.salience, "above", rules.protection.salience_above)
    words = _format_comparison("salience", case.salience, "above", rules.former_salience)
    if case.salience_source == "caller":
        return f"{words}, and the caller set it"
    return f"{words}; the memory has no keep chance yet"


def _keep_chance(rules: TierRules, case: DecisionCase) -> str:
    words = _format_comparison("keep chance", case.keep_chance or 0.0, "above", case.keep_above or 0.0)
    if rules.tiers.target_active_share is not None:
        words += f", the threshold found for an active share of {rules.tiers.target_active_share:g}"
    return words + _format_origin(case)


def _format_origin(case: DecisionCase) -> str:
    """Format where a keep chance comes from, if it isn't the rules' own."""
    origins = {
        "llm": f"; it follows from the model's salience {round_for_people(case.salience, 4)}",
        "caller": f"; it follows from the caller's salience {round_for_people(case.salience, 4)}",
        "consolidation": "; it is the highest of the summary's sources",
    }
    words = origins.get(case.salience_source or "", "")
    if case.keep_shift:
        verb = "raised" if case.keep_shift > 0 else "lowered"
        words += (
            f"; this tenant's uses of memories of the same role {verb} it from "
            f"{round_for_people((case.keep_chance or 0) - case.keep_shift, 4)}"
        )
    return words


def _decay(rules: TierRules, case: DecisionCase) -> str:
    tiers: TierThresholds = rules.tiers
    if case.strength >= tiers.archived_below:
        return f"strength {round_for_people(case.strength, 4)} is at least {tiers.archived_below:g}"
    if case.strength >= tiers.cold_below:
        return _format_comparison("strength", case.strength, "below", tiers.archived_below)
    limits = [
        ("strength", case.strength, tiers.deleted_below),
        ("importance", case.importance, tiers.deleted_importance_below),
        *_deletion_limits(rules, case),
    ]
    deletable = (
        all(value < limit for _, value, limit in limits)
        and case.age_days > tiers.deleted_after_days
        and case.uses < tiers.deleted_uses_below
    )
    if not deletable:
        return _format_comparison("strength", case.strength, "below", tiers.cold_below)
    below = ", ".join(f"{name} {round_for_people(value, 4)} is below {limit:g}" for name, value, limit in limits)
    return (
        f"{below}, it has fewer than {tiers.deleted_uses_below} uses, and it is {_format_age(case.age_days)} old, more "
        f"than {tiers.deleted_after_days:g} days"
    )


def _deletion_limits(rules: TierRules, case: DecisionCase) -> list[tuple[str, float, float]]:
    """Return the limits of keep chance and salience on deletion, by name: the memory's value, and the threshold."""
    tiers, limits = rules.tiers, list[tuple[str, float, float]]()
    by_chance = rules.protection.salience_above is None and case.keep_chance is not None
    if by_chance and case.keep_chance is not None:
        limits.append(("keep chance", case.keep_chance, tiers.deleted_keep_chance_below))
    if tiers.deleted_salience_below is not None:
        limits.append(("salience", case.salience, tiers.deleted_salience_below))
    elif not by_chance:
        limits.append(("salience", case.salience, FORMER_SALIENCE))
    return limits


_WORDS: Final[dict[str, Callable[[TierRules, DecisionCase], str]]] = {
    "hold": lambda _rules, _case: "under a legal hold",
    "erasure": lambda _rules, _case: "its erasure is past the grace period",
    "expiry": _expiry,
    "never_forget": _never_forget,
    "promoted": lambda _rules, _case: "it is promoted, and the policy keeps promoted memories",
    "grace": _grace,
    "salience": _salience,
    "keep_chance": _keep_chance,
    "decay": _decay,
}
