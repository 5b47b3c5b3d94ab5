"""Decide each memory's tier at a given time, and record the deciding rule.

Sweeps, moves, forecasts and `why` share this decision. The rules in order of precedence are legal hold, erasure,
privacy expiry, never forget, promoted, grace, salience, keep chance, decay. A decision never raises a tier; a use, a
restore or an undo can.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS, DUE_MARGIN_SECONDS, State
from app.domain.ingest.memory import KINDS
from app.domain.privacy.parameters import Privacy
from app.domain.privacy.retention import Expiry, no_expiry
from app.domain.tiers import keep_rule
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength, TierThresholds, decay_tier
from app.domain.tiers.keep_rule import KeepFacts, KeepVerdict, no_keep_facts
from app.domain.tiers.protection import FORMER_SALIENCE, Protection

RULES: Final = ("hold", "erasure", "expiry", "never_forget", "promoted", "grace", "salience", "keep_chance", "decay")
"""Rules by precedence; a decision stores the rule's index."""
DELETED: Final = DECAY_TIERS.index("deleted")
_HOLD, _ERASURE, EXPIRY, _NEVER, _PROMOTED, _GRACE, _SALIENCE, _KEEP, _DECAY = range(len(RULES))


@dataclass(frozen=True, slots=True)
class TierFacts:
    """Tiers, protections and deadlines of memories, apart from their decay state.

    Every array has shape (n,). Times are in seconds since 1970.

    Attributes:
        tiers: Current tiers, as indexes in `DECAY_TIERS`.
        kinds: Kinds set by the caller, as indexes in `KINDS`; -1 if the caller set none.
        accepted_at: Time of acceptance.
        restored_at: Time of the last restore; minus infinity if never restored.
        expiry: Time and reason of the privacy expiry.
        erase_at: Time of a pending erasure; infinite if there is none.
        is_held: True under a legal hold.
        is_marked: True if a tag or category set by the caller protects the memory permanently.
        is_promoted: True if the memory is promoted.
        keep: Keep chances, and the threshold in force.
    """

    tiers: npt.NDArray[np.int8]
    kinds: npt.NDArray[np.int8]
    accepted_at: Floats
    restored_at: Floats
    expiry: Expiry
    erase_at: Floats
    is_held: npt.NDArray[np.bool_]
    is_marked: npt.NDArray[np.bool_]
    is_promoted: npt.NDArray[np.bool_]
    keep: KeepFacts

    def select(self, rows: npt.NDArray[np.integer[Any]]) -> TierFacts:
        """Return the facts of these rows."""
        return TierFacts(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def expires_at(self) -> Floats:
        """Time of the privacy expiry; infinite if never."""
        return self.expiry.at

    @property
    def grace_from(self) -> Floats:
        """Start of the grace period: the acceptance or the last restore."""
        return np.maximum(self.accepted_at, self.restored_at)


def fresh_facts(accepted_at: Floats) -> TierFacts:
    """Return the facts of active memories without any protection, deadline or keep chance."""
    count = accepted_at.shape
    return TierFacts(
        tiers=np.zeros(count, np.int8),
        kinds=np.full(count, -1, np.int8),
        accepted_at=accepted_at,
        restored_at=np.full(count, -np.inf),
        expiry=no_expiry(accepted_at.size),
        erase_at=np.full(count, np.inf),
        is_held=np.zeros(count, np.bool_),
        is_marked=np.zeros(count, np.bool_),
        is_promoted=np.zeros(count, np.bool_),
        keep=no_keep_facts(accepted_at.size),
    )


class TierRules(NamedTuple):
    """The parts of a policy that determine a tier.

    Attributes:
        former_salience: Salience above which a memory without a keep chance, or one rated by the caller, is protected.
        keeps_promoted: True if decay neither moves nor deletes promoted memories.
    """

    tiers: TierThresholds
    protection: Protection
    privacy: Privacy = Privacy()
    former_salience: float = FORMER_SALIENCE
    keeps_promoted: bool = False

    def judge_keep(self, keep: KeepFacts, state: State) -> KeepVerdict:
        """Judge memories by their keep chance or salience; see `keep_rule.judge`."""
        return keep_rule.judge(self.protection, self.tiers, self.former_salience, keep, state.salience)


class Decision(NamedTuple):
    """The decided tiers, shape (n,).

    Attributes:
        tiers: New tiers, as indexes in `DECAY_TIERS`; never above the current ones.
        rules: The deciding rules, as indexes in `RULES`.
    """

    tiers: npt.NDArray[np.int8]
    rules: npt.NDArray[np.int8]


def decide_tiers(
    rules: TierRules, standing: TierFacts, state: State, now: Floats | float, seen: CurrentStrength
) -> Decision:
    """Decide the tier of each memory at a time.

    Args:
        standing: Tiers, protections and deadlines of the memories.
        state: Decay state of the same memories.
        now: Seconds since 1970.
        seen: The memories' strength and importance at that time.
    """
    kept = rules.judge_keep(standing.keep, state)
    decided = np.select(
        [
            standing.is_held,
            standing.erase_at <= now,
            standing.expires_at <= now,
            never_forget(rules.protection, standing, state, seen),
            keeps_as_promoted(rules, standing),
            _grace(rules.protection, standing, now, seen),
            kept.by_salience,
            kept.by_chance,
        ],
        [_HOLD, _ERASURE, EXPIRY, _NEVER, _PROMOTED, _GRACE, _SALIENCE, _KEEP],
        _DECAY,
    ).astype(np.int8)
    required = decay_tier(rules.tiers, state, now, seen, standing.accepted_at, kept.is_deletable)
    by_decay = np.maximum(standing.tiers, required)
    is_deleted = (decided == _ERASURE) | (decided == EXPIRY)
    otherwise = np.where(decided == _DECAY, by_decay, standing.tiers)
    return Decision(np.where(is_deleted, DELETED, otherwise).astype(np.int8), decided)


def may_move(
    rules: TierRules, standing: TierFacts, state: State, now: Floats | float, seen: CurrentStrength
) -> npt.NDArray[np.bool_]:
    """Return true for memories that nothing protects from decay.

    Time only ends protections: once true, the result stays true until a use, an edit, or a change of holds, promotion
    or policy.
    """
    kept = rules.judge_keep(standing.keep, state)
    return np.asarray(
        ~standing.is_held
        & ~never_forget(rules.protection, standing, state, seen)
        & ~keeps_as_promoted(rules, standing)
        & ~_grace(rules.protection, standing, now, seen)
        & ~kept.by_salience
        & ~kept.by_chance
    )


def never_forget(
    protection: Protection, standing: TierFacts, state: State, seen: CurrentStrength
) -> npt.NDArray[np.bool_]:
    """Return true for memories under the rule `never_forget`: by tag, category, kind, uses, or semantic importance."""
    semantic = standing.kinds == KINDS.index("semantic")
    return np.asarray(
        standing.is_marked
        | is_of(standing, protection.never_forget_kinds)
        | (semantic & (seen.importance > protection.semantic_importance_above))
        | (state.access_count > protection.uses_above)
    )


def keeps_as_promoted(rules: TierRules, standing: TierFacts) -> npt.NDArray[np.bool_]:
    """Return true for promoted memories if the policy keeps them (source 001, see ops/sources.md)."""
    return np.asarray(standing.is_promoted & rules.keeps_promoted)


def _grace(
    protection: Protection, standing: TierFacts, now: Floats | float, seen: CurrentStrength
) -> npt.NDArray[np.bool_]:
    young = now - standing.grace_from < protection.grace_days * DAY_SECONDS
    return np.asarray(
        young | (seen.importance > protection.grace_importance_above) | is_of(standing, protection.grace_kinds)
    )


def is_of(standing: TierFacts, kinds: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Return true for memories of one of these kinds."""
    return np.isin(standing.kinds, [KINDS.index(kind) for kind in kinds])


def fixed_due_at(rules: TierRules, standing: TierFacts, now: float, seen: CurrentStrength) -> Floats:
    """Return the first time after `now` at which the decision can change independently of strength and importance.

    Times are in seconds since 1970, `inf` if there is none. The decision can change at the end of the grace period, at
    the minimum age for deletion, at an expiry and at an erasure. Grace and age only matter for memories already weak
    enough for decay to move them; the others are evaluated again when they become weak.

    Args:
        now: Seconds since 1970.
        seen: The memories' strength and importance at that time.
    """
    grace_ends = standing.grace_from + rules.protection.grace_days * DAY_SECONDS + DUE_MARGIN_SECONDS
    deletable_from = standing.accepted_at + rules.tiers.deleted_after_days * DAY_SECONDS + DUE_MARGIN_SECONDS
    ends = [
        np.where(seen.strength < rules.tiers.archived_below, grace_ends, np.inf),
        np.where(seen.strength < rules.tiers.deleted_below, deletable_from, np.inf),
        standing.expires_at,
        standing.erase_at,
    ]
    first: Floats = np.min([np.where(end > now, end, np.inf) for end in ends], axis=0)
    return first
