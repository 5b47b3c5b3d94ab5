"""The interface of a forgetting model."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from app.domain.dynamics.ops import Floats, Term
from app.domain.dynamics.state import Event, Row, State


class Dynamics(Protocol):
    """A forgetting model with its parameters: pure functions of states and moments, in batches.

    Every number is a double; moments are seconds since 1970. A row's anchor (`anchored_at`) is the moment at which its
    state was calculated. If a method gets a moment before the anchor, it uses the anchor instead. For a moment before
    the last use, the time since the last use counts as 0. With unchanged parameters and no use in between, the strength
    at a moment doesn't depend on how often the anchor was moved before. A model with ticks moves anchors only to ticks.
    """

    @property
    def name(self) -> str:
        """Name of the model in a policy."""

    @property
    def parameters(self) -> Any:
        """Frozen dataclass of the parameters, which refuses invalid values."""

    @property
    def refresh_seconds(self) -> float:
        """Age of an anchor at which a sweep should move it; infinite if SQL calculates the current strength."""

    @property
    def spreads(self) -> bool:
        """Return whether a use strengthens linked memories; if not, links aren't looked up."""

    def strength(self, state: State, now: Floats | float) -> Floats:
        """Return each row's strength at `now`, 0 to 1; it never rises between uses."""

    def score(self, state: State, now: Floats | float) -> Floats:
        """Return the model's score, at least 0: the strength, except in mnemex, where the score can exceed 1."""

    def strength_sql(self, row: Row[Term], now: Term) -> str:
        """Return the strength as an SQL expression; as of the anchor if `refresh_seconds` is finite."""

    def due_at(self, state: State, thresholds: Floats | float) -> Floats:
        """Return the moment at which each row's strength falls below its threshold.

        The returned moment is at most 1 ms late. It may be early, but never before the anchor. It is `inf` if the
        strength never falls below the threshold. If a row is still above its threshold at that moment, the caller
        should advance the row and call `due_at` again. A caller should schedule the next check of a row at least
        `DUE_MARGIN_SECONDS` after the current check.
        """

    def advance(self, state: State, now: Floats | float) -> State:
        """Return the rows with anchors moved to `now` (in a model with ticks, to the last tick) and equal strengths."""

    def at_strength(self, state: State, now: Floats | float, strength: Floats | float) -> State:
        """Return the rows with `strength` as their strength at `now`; uses and their times are unchanged.

        `strength` is 0 to 1; in mnemex, it is a score, which can exceed 1.

        Used for restores, and whenever an input of the formula changes: see `profiles.rebase`.
        """

    def reinforce(self, state: State, event: Event) -> State:
        """Return the rows after the event. A use that is earlier than the row's last use only raises the count."""


@runtime_checkable
class Bridging(Dynamics, Protocol):
    """A model with SQL expressions that convert rows from and to other models.

    SQL uses them to calculate the current strength of rows that are anchored under an earlier policy.
    """

    def score_sql(self, row: Row[Term], now: Term) -> str:
        """Return the score as an SQL expression; as of the anchor if `refresh_seconds` is finite."""

    def level_sql(self, row: Row[Term], at: Term, score: Term) -> str:
        """Return an SQL expression for the `level` that `at_strength` sets; `at` mustn't precede the anchor."""
