"""The rules of tiers in plain Python, one memory at a time: the service decides with arrays, by `app/domain/tiers`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from app.domain.dynamics.state import DAY_SECONDS
from app.domain.policy.policy import Policy
from app.domain.tiers.decay_tier import DECAY_TIERS

FORMER: Final = 0.145
CHANCE_OF_FORMER: Final = 0.11
SLOPE: Final = 6.7


@dataclass(frozen=True)
class Seen:
    """A memory at a moment, as the rules see it.

    Attributes:
        strength: 0 to 1.
        importance: 0 to 1.
        salience: 0 to 1.
        is_from_caller: The caller set the salience.
        stored_chance: Keep chance that the service has stored by its rules; None if there is none.
        age_seconds: Since acceptance.
        back_seconds: Since acceptance or the last return.
    """

    tier: str
    kind: str | None
    tags: frozenset[str]
    strength: float
    importance: float
    salience: float
    is_from_caller: bool
    stored_chance: float | None
    uses: int
    age_seconds: float
    back_seconds: float
    is_held: bool

    @property
    def keep_chance(self) -> float | None:
        """The stored chance, or the one that follows from the caller's salience; None if there is neither."""
        if self.is_from_caller:
            return chance_of_salience(self.salience)
        return self.stored_chance


def chance_of_salience(salience: float) -> float:
    """Return the keep chance of a salience from the caller: log-odds rise by `SLOPE` per unit."""
    odds = math.log(CHANCE_OF_FORMER / (1 - CHANCE_OF_FORMER)) + SLOPE * (salience - FORMER)
    return 1 / (1 + math.exp(-odds))


def decide(policy: Policy, seen: Seen) -> str:
    """Return the tier that a memory belongs in."""
    if seen.is_held or _is_never_forgotten(policy, seen) or _is_in_grace(policy, seen) or _is_kept(policy, seen):
        return seen.tier
    tiers = policy.tiers
    wanted = "active"
    if seen.strength < tiers.archived_below:
        wanted = "archived"
    if seen.strength < tiers.cold_below:
        wanted = "cold"
    if (
        seen.strength < tiers.deleted_below
        and seen.age_seconds > tiers.deleted_after_days * DAY_SECONDS
        and seen.importance < tiers.deleted_importance_below
        and seen.uses < tiers.deleted_uses_below
        and _may_be_deleted(policy, seen)
    ):
        wanted = "deleted"
    return max(seen.tier, wanted, key=DECAY_TIERS.index)


def _is_never_forgotten(policy: Policy, seen: Seen) -> bool:
    protection = policy.protection
    return bool(
        seen.tags.intersection(protection.never_forget_tags)
        or seen.kind in protection.never_forget_kinds
        or (seen.kind == "semantic" and seen.importance > protection.semantic_importance_above)
        or seen.uses > protection.uses_above
    )


def _is_in_grace(policy: Policy, seen: Seen) -> bool:
    protection = policy.protection
    return (
        seen.back_seconds < protection.grace_days * DAY_SECONDS
        or seen.importance > protection.grace_importance_above
        or seen.kind in protection.grace_kinds
    )


def _is_kept(policy: Policy, seen: Seen) -> bool:
    """Return True if the salience or the keep chance protects a memory; only one of them decides in a policy."""
    protection = policy.protection
    if protection.salience_above is not None:
        return seen.salience > protection.salience_above
    if seen.keep_chance is None or (seen.is_from_caller and seen.salience > FORMER):
        return seen.salience > FORMER
    return seen.keep_chance > protection.keep_chance_above


def _may_be_deleted(policy: Policy, seen: Seen) -> bool:
    tiers = policy.tiers
    by_salience = seen.salience < (FORMER if tiers.deleted_salience_below is None else tiers.deleted_salience_below)
    if policy.protection.salience_above is not None or seen.keep_chance is None:
        return by_salience
    is_unlikely = seen.keep_chance < tiers.deleted_keep_chance_below
    return is_unlikely and (by_salience or tiers.deleted_salience_below is None)
