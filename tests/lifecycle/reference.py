"""Reference model of tiers, written from the design alone: one memory at a time, in plain floats.

It is slow and shares only constants with the service, no code. Times are in days from an arbitrary origin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

TIERS: Final = ("active", "archived", "cold", "deleted")
NEVER_TAGS: Final = {
    "user_preference",
    "system_config",
    "explicitly_saved",
    "commitment",
    "promise",
    "decision",
    "personal_fact",
    "high_importance",
    "legal",
    "privacy",
    "procedural_knowledge",
}
NEVER_CATEGORIES: Final = {
    "user_preference",
    "configuration",
    "explicitly_saved",
    "commitment",
    "decision",
    "personal_fact",
    "deletion_request",
    "privacy_setting",
    "consent",
}
KIND_RATES: Final = {"episodic": 1.0, "semantic": 0.7, "procedural": 0.5, "emotional": 0.6, "system": 0.3}


@dataclass
class Numbers:
    """A tenant's configurable numbers, with the design's defaults."""

    profile: str = "spec"
    law: str = "quadratic"
    base_per_day: float = 0.1
    half_life_days: float = 3.0
    lambda_per_second: float = 5e-7
    archived_below: float = 0.30
    cold_below: float = 0.15
    deleted_below: float = 0.05
    deleted_after_days: float = 90
    deleted_importance_below: float = 0.2
    deleted_uses_below: int = 2
    deleted_salience_below: float = 0.145
    grace_days: float = 7
    grace_importance_above: float = 0.7
    salience_above: float = 0.145
    semantic_importance_above: float = 0.8
    uses_above: int = 50
    never_tags: set[str] = field(default_factory=lambda: set(NEVER_TAGS))
    never_categories: set[str] = field(default_factory=lambda: set(NEVER_CATEGORIES))


@dataclass
class Memory:
    """A memory; `kind` is set by the caller, `fades_as` may be inferred."""

    accepted: float
    salience: float = 0.0
    kind: str | None = None
    fades_as: str = "episodic"
    tags: set[str] = field(default_factory=set)
    categories: set[str] = field(default_factory=set)
    uses: int = 0
    tier: str = "active"
    holds: set[str] = field(default_factory=set)
    restored: float = -math.inf
    erase: float = math.inf
    expires: float = math.inf
    used: float = field(init=False)
    anchor: float = field(init=False)
    score: float = 1.0

    def __post_init__(self) -> None:
        """Start with full strength and no uses."""
        self.used = self.anchor = self.accepted


# --- Importance and strength ---


def importance(memory: Memory, now: float) -> float:
    """Return the importance without a context: three weighted terms, divided by the sum of their weights."""
    recent = math.exp(-0.05 * max(now - memory.used, 0))
    often = min(math.log(1 + memory.uses) / math.log(101), 1)
    return (0.25 * recent + 0.20 * often + 0.35 * memory.salience) / 0.80


def strength(numbers: Numbers, memory: Memory, now: float) -> float:
    """Return the strength from 0 to 1; before the anchor it equals its value at the anchor."""
    return min(score(numbers, memory, now), 1)


def score(numbers: Numbers, memory: Memory, now: float) -> float:
    """Return the profile's raw score, which may exceed 1 in mnemex."""
    now = max(now, memory.anchor)
    shape = SHAPES[numbers.profile]
    return memory.score * shape(numbers, memory, now) / shape(numbers, memory, memory.anchor)


def _spec(numbers: Numbers, memory: Memory, now: float) -> float:
    """Return e^-R, with R the rate integrated since the last use."""
    age = max(now - memory.used, 0)
    constant = (0.20 * min(math.log(1 + memory.uses) / math.log(101), 1) + 0.35 * memory.salience) / 0.80
    recent = 0.25 / 0.80
    left = 1 - constant
    slow = 1 - 0.9 * constant
    powers = {
        "quadratic": [left**2, -2 * left * recent, recent**2],
        "linear": [slow, -0.9 * recent],
        "product": [
            left**2 * slow,
            -2 * left * recent * slow - 0.9 * recent * left**2,
            recent**2 * slow + 1.8 * left * recent**2,
            -0.9 * recent**3,
        ],
    }[numbers.law]

    def area(first: float, last: float) -> float:
        whole = powers[0] * (last - first)
        for k, factor in enumerate(powers[1:], start=1):
            whole += factor / (0.05 * k) * (math.exp(-0.05 * k * first) - math.exp(-0.05 * k * last))
        return whole

    if memory.uses == 0:
        worn = 1.5 * area(0, age)
    else:
        worn = 0.5 * area(0, min(age, 1))
        if age > 1:
            worn += 0.7 * area(1, min(age, 7))
        if age > 7:
            worn += area(7, age)
    return math.exp(-numbers.base_per_day * KIND_RATES[memory.fades_as] * worn)


def _mnemex(numbers: Numbers, memory: Memory, now: float) -> float:
    scale = numbers.half_life_days / (2 ** (1 / 1.1) - 1)
    return float((memory.uses + 1) ** 0.6 * (1 + max(now - memory.used, 0) / scale) ** -1.1)


def _cmm(numbers: Numbers, memory: Memory, now: float) -> float:
    weekly = memory.uses / max((now - memory.accepted) / 7, 1 / 7)
    age = max(now - memory.used, 0)
    if age < 14 or weekly >= 0.5:
        return 1.0
    return math.exp(-numbers.lambda_per_second / (1 + weekly) * age * 86_400)


SHAPES: Final[dict[str, Callable[[Numbers, Memory, float], float]]] = {"spec": _spec, "mnemex": _mnemex, "cmm": _cmm}


# --- Events ---


def settle(numbers: Numbers, memory: Memory, now: float) -> None:
    """Fix the decay so far, before any input of strength changes."""
    memory.score = score(numbers, memory, now)
    memory.anchor = max(now, memory.anchor)


def use(numbers: Numbers, memory: Memory, now: float) -> None:
    """Use the memory once, now."""
    settle(numbers, memory, now)
    memory.uses += 1
    memory.used = now
    whole = SHAPES[numbers.profile](numbers, memory, now)
    if numbers.profile == "spec":
        memory.score = min(1, memory.score + 0.15 * (1 - memory.score))
    else:
        memory.score = max(memory.score, whole) if numbers.profile == "mnemex" else whole


def restore(numbers: Numbers, memory: Memory, now: float) -> None:
    """Restore to active: counts as a use, raises the strength to at least .45, and restarts the grace period."""
    use(numbers, memory, now)
    memory.score = max(memory.score, 0.45)
    memory.tier = "active"
    memory.restored = now


# --- The decision ---


def decide(numbers: Numbers, memory: Memory, now: float) -> tuple[str, str]:
    """Return the tier that the memory should be in, and the deciding rule."""
    weight = importance(memory, now)
    if memory.holds:
        return memory.tier, "hold"
    if min(memory.erase, memory.expires) <= now:
        return "deleted", "erasure" if memory.erase <= now else "expiry"
    if (
        memory.tags & numbers.never_tags
        or memory.categories & numbers.never_categories
        or memory.kind == "procedural"
        or (memory.kind == "semantic" and weight > numbers.semantic_importance_above)
        or memory.uses > numbers.uses_above
    ):
        return memory.tier, "never_forget"
    young = now - max(memory.accepted, memory.restored) < numbers.grace_days
    if young or weight > numbers.grace_importance_above or memory.kind == "system":
        return memory.tier, "grace"
    if memory.salience > numbers.salience_above:
        return memory.tier, "salience"
    left = strength(numbers, memory, now)
    asked = "active" if left >= numbers.archived_below else "archived" if left >= numbers.cold_below else "cold"
    if (
        left < numbers.deleted_below
        and now - memory.accepted > numbers.deleted_after_days
        and weight < numbers.deleted_importance_below
        and memory.uses < numbers.deleted_uses_below
        and memory.salience < numbers.deleted_salience_below
    ):
        asked = "deleted"
    return max(asked, memory.tier, key=TIERS.index), "decay"


def night(numbers: Numbers, memories: Sequence[Memory], now: float) -> None:
    """Move every accepted memory to the tier it should be in."""
    for memory in memories:
        if memory.tier != "deleted" and memory.accepted <= now:
            memory.tier, _ = decide(numbers, memory, now)


def next_change(numbers: Numbers, memory: Memory, now: float, days: float, step: float = 1 / 4) -> float | None:
    """Return when the tier next changes without any event, within `days`: sampled four times a day, then bisected."""
    before = decide(numbers, memory, now)[0]
    for turn in range(1, math.ceil(days / step) + 1):
        if decide(numbers, memory, now + turn * step)[0] == before:
            continue
        early, late = now + (turn - 1) * step, now + turn * step
        for _ in range(40):
            middle = (early + late) / 2
            early, late = (middle, late) if decide(numbers, memory, middle)[0] == before else (early, middle)
        return late
    return None
