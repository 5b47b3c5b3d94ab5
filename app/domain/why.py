"""Why a memory is kept where it is, in words and numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from app.domain.dynamics.state import DAY_SECONDS, State
from app.domain.lifecycle import RULES, Decision, Rules, Standing
from app.domain.memory import KINDS
from app.domain.protection import Protection
from app.domain.tiers import Seen, Tiers


@dataclass(frozen=True, slots=True)
class Case:
    """What a decision about one memory was made of.

    Attributes:
        kind: The caller's; None where it gave none.
        strength: 0 to 1.
        importance: 0 to 1, without a context.
        uses: How often it was used.
        age_days: Since it was accepted.
        back_days: Since it was accepted or brought back.
        is_marked: Whether a tag or category of the caller's says never forget.
    """

    kind: str | None
    strength: float
    importance: float
    uses: int
    age_days: float
    back_days: float
    is_marked: bool


def cases(standing: Standing, state: State, now: float, seen: Seen) -> list[Case]:
    """Memories one by one; arguments as those of `lifecycle.decide`."""
    ages = (now - standing.accepted_at) / DAY_SECONDS
    back = (now - standing.grace_from) / DAY_SECONDS
    columns = (standing.kinds, seen.strength, seen.importance, state.access_count, ages, back, standing.is_marked)
    return [
        Case(KINDS[kind] if kind >= 0 else None, strength, importance, int(uses), age, since, marked)
        for kind, strength, importance, uses, age, since, marked in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]


def reasons(rules: Rules, standing: Standing, state: State, now: float, seen: Seen, decision: Decision) -> list[str]:
    """A line for each memory; arguments as `lifecycle.decide`'s, and its answer."""
    found = zip(decision.rules, cases(standing, state, now, seen), strict=True)
    return [_WORDS[RULES[rule]](rules, case) for rule, case in found]


def _compared(name: str, value: float, side: str, threshold: float) -> str:
    """In words; a value that looks like the threshold is told without its digits."""
    shown = f"{value:.4g}"
    return (
        f"{name} is just {side} {shown}" if shown == f"{threshold:.4g}" else f"{name} {shown} is {side} {threshold:g}"
    )


def _never_forget(rules: Rules, case: Case) -> str:
    protection = rules.protection
    if case.is_marked:
        return "a tag or category says never forget"
    if case.kind in protection.never_forget_kinds:
        return f"kind {case.kind} is never forgotten"
    if case.uses > protection.uses_above:
        return f"uses {case.uses}, more than {protection.uses_above}"
    return f"kind semantic, {_compared('importance', case.importance, 'above', protection.semantic_importance_above)}"


def _grace(rules: Rules, case: Case) -> str:
    protection: Protection = rules.protection
    if case.back_days < protection.grace_days:
        since = "accepted" if case.back_days == case.age_days else "restored"
        return f"{since} {case.back_days:.4g} days ago, less than {protection.grace_days:g}"
    if case.importance > protection.grace_importance_above:
        return _compared("importance", case.importance, "above", protection.grace_importance_above)
    return f"kind {case.kind} is left as it is"


def _decay(rules: Rules, case: Case) -> str:
    tiers: Tiers = rules.tiers
    if case.strength >= tiers.archived_below:
        return f"strength {case.strength:.4g} is at least {tiers.archived_below:g}"
    if case.strength >= tiers.cold_below:
        return _compared("strength", case.strength, "below", tiers.archived_below)
    deletable = (
        case.strength < tiers.deleted_below
        and case.age_days > tiers.deleted_after_days
        and case.importance < tiers.deleted_importance_below
        and case.uses < tiers.deleted_uses_below
    )
    if not deletable:
        return _compared("strength", case.strength, "below", tiers.cold_below)
    return (
        f"strength {case.strength:.4g} is below {tiers.deleted_below:g}, importance {case.importance:.4g} below "
        f"{tiers.deleted_importance_below:g}, {case.age_days:.4g} days old, over {tiers.deleted_after_days:g}, "
        f"uses {case.uses}, fewer than {tiers.deleted_uses_below}"
    )


_WORDS: Final[dict[str, Callable[[Rules, Case], str]]] = {
    "hold": lambda _rules, _case: "under a legal hold",
    "erasure": lambda _rules, _case: "its erasure was asked for, and the time to cancel it is over",
    "expiry": lambda _rules, _case: "kept as long as its category allows",
    "never_forget": _never_forget,
    "grace": _grace,
    "decay": _decay,
}
