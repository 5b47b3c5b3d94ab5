"""What decay alone asks for: the tier of a memory by its strength, and when that can next be another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.parameters import STRICT, Days, Share
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, DUE_MARGIN_SECONDS, State
from app.domain.strength import importance as importances
from app.domain.strength.importance import Importance

DECAY_TIERS: Final = ("active", "archived", "cold", "deleted")
"""In the order of decay; a row's tier is a place in it."""


@dataclass(frozen=True, config=STRICT)
class Tiers:
    """Where the tiers begin; the defaults are seed 004's (§3), but for salience."""

    archived_below: Share = 0.30
    """Strength below which decay asks for the archive."""
    cold_below: Share = 0.15
    """Strength below which it asks for cold storage."""
    deleted_below: Share = 0.05
    """Strength below which a memory may be deleted, where the others agree."""
    deleted_after_days: Days = 90.0
    """Age that it must have, in days since acceptance."""
    deleted_importance_below: Share = 0.2
    """Importance that it must be below."""
    deleted_uses_below: Annotated[int, Field(ge=0, le=1_000_000)] = 2
    """Uses that it must have fewer of."""

    deleted_salience_below: Share = 0.145
    """Salience that it must be below: what is deleted doesn't come back. Not the seed's."""

    @model_validator(mode="after")
    def _in_order(self) -> Tiers:
        if not self.deleted_below <= self.cold_below <= self.archived_below:
            found = f"{self.deleted_below}, {self.cold_below} and {self.archived_below}"
            raise ValueError(f"deleted_below <= cold_below <= archived_below, not {found}")
        return self


class Seen(NamedTuple):
    """Memories at a moment: strength and importance without a context, 0 to 1, shape (n,)."""

    strength: Floats
    importance: Floats


def decay_tier(
    tiers: Tiers, state: State, now: Floats | float, seen: Seen, accepted_at: Floats
) -> npt.NDArray[np.int8]:
    """The tier that decay alone asks for, as a place in `DECAY_TIERS`: nothing protects here.

    Args:
        tiers: Thresholds.
        state: The memories.
        now: Seconds since 1970.
        seen: The memories at that moment.
        accepted_at: When they were accepted, in seconds since 1970.
    """
    strength = seen.strength
    deletable = (
        (strength < tiers.deleted_below)
        & (now - accepted_at > tiers.deleted_after_days * DAY_SECONDS)
        & (seen.importance < tiers.deleted_importance_below)
        & (state.access_count < tiers.deleted_uses_below)
        & (state.salience < tiers.deleted_salience_below)
    )
    place = (strength < tiers.archived_below).astype(np.int8) + (strength < tiers.cold_below)
    return np.where(deletable, 3, place).astype(np.int8)


def next_due_at(
    tiers: Tiers,
    weights: Importance,
    dynamics: Dynamics,
    state: State,
    now: float,
    seen: Seen,
    *,
    steps: tuple[float, ...] = (),
) -> Floats:
    """The first moment after `now`, or a bound below it, at which decay can ask for something else.

    A threshold of strength or importance crossed, or a model's own next look. In seconds since 1970, `inf` where
    nothing can.

    Args:
        tiers: Thresholds.
        weights: What importance is made of.
        dynamics: How strength falls.
        state: The memories, anchored under these.
        now: Seconds since 1970.
        seen: The memories at that moment.
        steps: Further thresholds of importance: below them, what it protects isn't protected any more.
    """
    first: Floats = np.minimum.reduce(
        [
            _crossing(
                seen.strength, (tiers.archived_below, tiers.cold_below, tiers.deleted_below), dynamics.due_at, state
            ),
            _crossing(
                seen.importance,
                (*steps, tiers.deleted_importance_below),
                lambda rows, thresholds: importances.due_at(weights, rows, thresholds),
                state,
            ),
            state.anchored_at + dynamics.refresh_seconds,
        ]
    )
    return np.maximum(first, now + DUE_MARGIN_SECONDS)


def _crossing(
    values: Floats, thresholds: tuple[float, ...], due_at: Callable[[State, Floats], Floats], state: State
) -> Floats:
    """When each value falls below the highest of the thresholds that it still reaches; `inf` below all."""
    steps = np.sort(np.asarray(thresholds))
    reached = np.searchsorted(steps, values, side="right")
    next_step = np.where(reached > 0, steps[np.maximum(reached - 1, 0)], 0.0)
    return np.where(reached > 0, due_at(state, next_step), np.inf)
