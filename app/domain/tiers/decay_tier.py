"""Compute the tier that decay alone requires, and the next time at which this tier can change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.parameter_types import STRICT, Days, Share
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, DUE_MARGIN_SECONDS, State
from app.domain.strength import importance
from app.domain.strength.importance import Importance
from app.domain.tiers.protection import KEEP_ABOVE

DECAY_TIERS: Final = ("active", "archived", "cold", "deleted")
"""Tiers in the order of decay; a row stores the tier's index."""


@dataclass(frozen=True, config=STRICT)
class TierThresholds:
    """Thresholds of the tiers; the defaults are seed 004's (§3), except for the keep chance."""

    archived_below: Share = 0.30
    """Strength below which decay moves a memory to the archive."""
    cold_below: Share = 0.15
    """Strength below which decay moves a memory to cold storage."""
    deleted_below: Share = 0.05
    """Strength below which a memory may be deleted if all other deletion thresholds are met."""
    deleted_after_days: Days = 90.0
    """Minimum age for deletion (exclusive), in days since acceptance."""
    deleted_importance_below: Share = 0.2
    """Importance below which a memory may be deleted."""
    deleted_uses_below: Annotated[int, Field(ge=0, le=1_000_000)] = 2
    """Number of uses below which a memory may be deleted."""

    deleted_keep_chance_below: Share = KEEP_ABOVE
    """Keep chance below which a memory may be deleted; without effect if `protection.salience_above` is set. The source
    (seed 004) has no such rule; it was added because deletion is final."""
    deleted_salience_below: Share | None = None
    """If set, only memories with a salience below this may be deleted, even if their keep chance permits deletion. If
    this isn't set, 0.145 is used where salience decides: if `protection.salience_above` is set, and for memories
    without a keep chance."""
    target_active_share: Annotated[float, Field(ge=0.05, le=0.95)] | None = None
    """If set, each night chooses the threshold for `protection.keep_chance_above` so that this share of the tenant's
    memories is protected. The share refers to all memories, including those that decay has deleted. Memories that other
    rules protect count towards the share first. The chosen threshold is 0.02 to 0.6."""

    @property
    def by_tier(self) -> dict[str, float]:
        """Strength below which decay requires each tier, by tier."""
        return {"archived": self.archived_below, "cold": self.cold_below, "deleted": self.deleted_below}

    @model_validator(mode="after")
    def _in_order(self) -> TierThresholds:
        if not self.deleted_below <= self.cold_below <= self.archived_below:
            found = f"{self.deleted_below}, {self.cold_below} and {self.archived_below}"
            raise ValueError(f"must satisfy deleted_below <= cold_below <= archived_below, not {found}")
        return self


class CurrentStrength(NamedTuple):
    """Strength and importance without a context at a given time, 0 to 1, shape (n,)."""

    strength: Floats
    importance: Floats


def decay_tier(
    tiers: TierThresholds,
    state: State,
    now: Floats | float,
    seen: CurrentStrength,
    accepted_at: Floats,
    is_deletable: npt.NDArray[np.bool_],
) -> npt.NDArray[np.int8]:
    """Return the tier that decay alone requires, as an index in `DECAY_TIERS`, ignoring protection.

    Args:
        now: Seconds since 1970.
        seen: The memories' strength and importance at that time.
        accepted_at: Time of acceptance, in seconds since 1970.
        is_deletable: True if neither keep chance nor salience prevents the deletion (`keep_rule.judge`).
    """
    strength = seen.strength
    deletable = (
        (strength < tiers.deleted_below)
        & (now - accepted_at > tiers.deleted_after_days * DAY_SECONDS)
        & (seen.importance < tiers.deleted_importance_below)
        & (state.access_count < tiers.deleted_uses_below)
        & is_deletable
    )
    tier = (strength < tiers.archived_below).astype(np.int8) + (strength < tiers.cold_below)
    return np.where(deletable, 3, tier).astype(np.int8)


def next_due_at(
    tiers: TierThresholds,
    weights: Importance,
    dynamics: Dynamics,
    state: State,
    now: float,
    seen: CurrentStrength,
    *,
    steps: tuple[float, ...] = (),
) -> Floats:
    """Return the first time after `now`, or a lower bound of it, at which decay can require another tier.

    The tier can change when strength or importance crosses a threshold, or when the model must be refreshed. Times are
    in seconds since 1970, `inf` if neither happens.

    Args:
        weights: Parameters of importance.
        state: The memories, anchored under these parameters.
        now: Seconds since 1970.
        seen: The memories' strength and importance at that time.
        steps: Further thresholds of importance, below which a memory loses its protection by importance.
    """
    first: Floats = np.minimum.reduce(
        [
            _time_of_crossing(seen.strength, tuple(tiers.by_tier.values()), dynamics.due_at, state),
            _time_of_crossing(
                seen.importance,
                (*steps, tiers.deleted_importance_below),
                lambda rows, thresholds: importance.due_at(weights, rows, thresholds),
                state,
            ),
            state.anchored_at + dynamics.refresh_seconds,
        ]
    )
    return np.maximum(first, now + DUE_MARGIN_SECONDS)


def _time_of_crossing(
    values: Floats, thresholds: tuple[float, ...], due_at: Callable[[State, Floats], Floats], state: State
) -> Floats:
    """Return the time at which each value falls below its next lower threshold; `inf` if there is none."""
    steps = np.sort(np.asarray(thresholds))
    reached = np.searchsorted(steps, values, side="right")
    next_step = np.where(reached > 0, steps[np.maximum(reached - 1, 0)], 0.0)
    return np.where(reached > 0, due_at(state, next_step), np.inf)
