"""What happens to a memory at a moment, and why: the one decision that sweeps, moves, forecasts and `why` share.

In order of precedence: a legal hold, an erasure, the end of what privacy allows, never forget, grace, salience, decay.
Tiers only go down here; a use, a restore or an undo brings a memory back up.
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
from app.domain.privacy.retention import Expiry, never
from app.domain.tiers.protection import Protection
from app.domain.tiers.tiers import DECAY_TIERS, Seen, Tiers, decay_tier

RULES: Final = ("hold", "erasure", "expiry", "never_forget", "grace", "salience", "decay")
"""What can decide, the strongest first; a decision's rule is a place in it."""
DELETED: Final = DECAY_TIERS.index("deleted")
_HOLD, _ERASURE, EXPIRY, _NEVER, _GRACE, _SALIENCE, _DECAY = range(len(RULES))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where memories are kept and what speaks for or against them, apart from decay; shape (n,).

    Moments are in seconds since 1970.

    Attributes:
        tiers: Where each is, as places in `DECAY_TIERS`.
        kinds: The caller's, as places in `KINDS`; -1 where it gave none.
        accepted_at: When each was accepted.
        restored_at: When it was brought back the last time; minus infinity for never.
        expiry: When privacy lets it go, and why.
        erase_at: When an erasure that was asked for does; infinite for none.
        is_held: Whether a legal hold is on it.
        is_marked: Whether a tag or category of the caller's says never forget.
    """

    tiers: npt.NDArray[np.int8]
    kinds: npt.NDArray[np.int8]
    accepted_at: Floats
    restored_at: Floats
    expiry: Expiry
    erase_at: Floats
    is_held: npt.NDArray[np.bool_]
    is_marked: npt.NDArray[np.bool_]

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Standing:
        """These rows alone."""
        return Standing(*(getattr(self, field.name)[rows] for field in fields(self)))

    @property
    def expires_at(self) -> Floats:
        """When privacy lets each go; infinite for never."""
        return self.expiry.at

    @property
    def grace_from(self) -> Floats:
        """When each was accepted, or brought back."""
        return np.maximum(self.accepted_at, self.restored_at)


def fresh(accepted_at: Floats) -> Standing:
    """Of memories that are active, and that nothing speaks for or against."""
    count = accepted_at.shape
    return Standing(
        tiers=np.zeros(count, np.int8),
        kinds=np.full(count, -1, np.int8),
        accepted_at=accepted_at,
        restored_at=np.full(count, -np.inf),
        expiry=never(accepted_at.size),
        erase_at=np.full(count, np.inf),
        is_held=np.zeros(count, np.bool_),
        is_marked=np.zeros(count, np.bool_),
    )


class Rules(NamedTuple):
    """What a policy says of it."""

    tiers: Tiers
    protection: Protection
    privacy: Privacy = Privacy()


class Decision(NamedTuple):
    """What shall be, shape (n,).

    Attributes:
        tiers: Where each memory shall be kept, as places in `DECAY_TIERS`; never above where it is.
        rules: What decided, as places in `RULES`.
    """

    tiers: npt.NDArray[np.int8]
    rules: npt.NDArray[np.int8]


def decide(rules: Rules, standing: Standing, state: State, now: Floats | float, seen: Seen) -> Decision:
    """Where each memory shall be kept at a moment, and what decided.

    Args:
        rules: The policy's.
        standing: The memories.
        state: The same.
        now: Seconds since 1970.
        seen: Their strength and importance then.
    """
    decided = np.select(
        [
            standing.is_held,
            standing.erase_at <= now,
            standing.expires_at <= now,
            never_forget(rules.protection, standing, state, seen),
            _grace(rules.protection, standing, now, seen),
            _salience(rules.protection, state),
        ],
        [_HOLD, _ERASURE, EXPIRY, _NEVER, _GRACE, _SALIENCE],
        _DECAY,
    ).astype(np.int8)
    asked = np.maximum(standing.tiers, decay_tier(rules.tiers, state, now, seen, standing.accepted_at))
    gone = (decided == _ERASURE) | (decided == EXPIRY)
    kept = np.where(decided == _DECAY, asked, standing.tiers)
    return Decision(np.where(gone, DELETED, kept).astype(np.int8), decided)


def may_move(rules: Rules, standing: Standing, state: State, now: Floats | float, seen: Seen) -> npt.NDArray[np.bool_]:
    """Whether decay decides: nothing protects the memory. Once so, always so until it is used or changed."""
    return np.asarray(
        ~standing.is_held
        & ~never_forget(rules.protection, standing, state, seen)
        & ~_grace(rules.protection, standing, now, seen)
        & ~_salience(rules.protection, state)
    )


def never_forget(protection: Protection, standing: Standing, state: State, seen: Seen) -> npt.NDArray[np.bool_]:
    """Whether each memory is never forgotten: for its marks, its kind or its uses."""
    semantic = standing.kinds == KINDS.index("semantic")
    return np.asarray(
        standing.is_marked
        | is_of(standing, protection.never_forget_kinds)
        | (semantic & (seen.importance > protection.semantic_importance_above))
        | (state.access_count > protection.uses_above)
    )


def _grace(protection: Protection, standing: Standing, now: Floats | float, seen: Seen) -> npt.NDArray[np.bool_]:
    young = now - standing.grace_from < protection.grace_days * DAY_SECONDS
    return np.asarray(
        young | (seen.importance > protection.grace_importance_above) | is_of(standing, protection.grace_kinds)
    )


def _salience(protection: Protection, state: State) -> npt.NDArray[np.bool_]:
    """What time alone doesn't take: salience only changes with the text, or with who judges it."""
    return np.asarray(state.salience > protection.salience_above)


def is_of(standing: Standing, kinds: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    """Whether each memory is of one of these kinds."""
    return np.isin(standing.kinds, [KINDS.index(kind) for kind in kinds])


def fixed_due_at(rules: Rules, standing: Standing, now: float, seen: Seen) -> Floats:
    """The first moment after `now` at which time alone, not strength or importance, may change the decision.

    In seconds since 1970, `inf` where none comes: the end of the grace, the age of deletion, an expiry, an erasure.
    Grace and age hold back only what is weak enough for decay to ask for it; what isn't yet comes up when it is.

    Args:
        rules: The policy's.
        standing: The memories.
        now: Seconds since 1970.
        seen: Their strength and importance then.
    """
    grace_ends = standing.grace_from + rules.protection.grace_days * DAY_SECONDS + DUE_MARGIN_SECONDS
    of_age = standing.accepted_at + rules.tiers.deleted_after_days * DAY_SECONDS + DUE_MARGIN_SECONDS
    ends = [
        np.where(seen.strength < rules.tiers.archived_below, grace_ends, np.inf),
        np.where(seen.strength < rules.tiers.deleted_below, of_age, np.inf),
        standing.expires_at,
        standing.erase_at,
    ]
    first: Floats = np.min([np.where(end > now, end, np.inf) for end in ends], axis=0)
    return first
