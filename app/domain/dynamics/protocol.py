"""The interface of a forgetting model."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from app.domain.dynamics.ops import Floats, Term
from app.domain.dynamics.state import Event, Row, State


class Dynamics(Protocol):
    """A forgetting model with its parameters: pure functions of states and moments, in batches.

    Every number is a double; moments are seconds since 1970. A moment before a row's anchor counts as the anchor, a
    moment before its last use as age 0. With unchanged parameters and no use in between, the strength at a moment
    doesn't depend on how often the anchor was moved before (in a model with ticks, moved to ticks).
    """

    @property
    def name(self) -> str:
        """Name of the model in a policy."""

    @property
    def parameters(self) -> Any:
        """Frozen dataclass of the parameters, which refuses invalid values."""

    @property
    def refresh_seconds(self) -> float:
        """Age of an anchor from which a sweep should renew it; infinite if SQL calculates the current strength."""

    @property
    def spreads(self) -> bool:
        """Return whether a use strengthens linked memories; if not, links aren't looked up."""

    def strength(self, state: State, now: Floats | float) -> Floats:
        """Return each row's strength at `now`, 0 to 1; it never rises between uses."""

    def score(self, state: State, now: Floats | float) -> Floats:
        """Return the model's own number, at least 0: the strength, except in mnemex, where it can exceed 1."""

    def strength_sql(self, row: Row[Term], now: Term) -> str:
        """Return the strength as an SQL expression; as of the anchor if `refresh_seconds` is finite."""

    def due_at(self, state: State, thresholds: Floats | float) -> Floats:
        """Return a lower bound of the first moment at which each row's strength is below its threshold.

        It is at most 1 ms after the true moment, never before the anchor, and `inf` if the strength never falls below.
        A caller that finds a row still above its threshold asks again, with at least `DUE_MARGIN_SECONDS` of delay.
        """

    def advance(self, state: State, now: float) -> State:
        """Return equal strengths with all anchors moved to `now` (in a model with ticks, to the last tick)."""

    def at_strength(self, state: State, now: Floats | float, strength: Floats | float) -> State:
        """Return rows with this strength at `now`, 0 to 1 (any score in mnemex); uses and their times are unchanged.

        Used for restores, and whenever an input of the formula changes: see `profiles.rebase`.
        """

    def reinforce(self, state: State, event: Event) -> State:
        """Return the rows after the event. A late use is counted and changes nothing else."""


@runtime_checkable
class Bridging(Dynamics, Protocol):
    """A model that SQL can convert rows to and from, so that rows of former policies show their strength."""

    def score_sql(self, row: Row[Term], now: Term) -> str:
        """Return the score as an SQL expression; as of the anchor if `refresh_seconds` is finite."""

    def level_sql(self, row: Row[Term], at: Term, score: Term) -> str:
        """Return the level that `at_strength` sets, as an SQL expression; `at` must not be before the anchor."""
