"""What a model of forgetting has to offer."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from app.domain.dynamics.ops import Floats, Term
from app.domain.dynamics.state import Event, Row, State


class Dynamics(Protocol):
    """A model of forgetting with its parameters: pure functions of states and moments, in batches.

    Every number is a double; moments are seconds since 1970. A moment before a row's anchor counts as the anchor,
    one before its last use as age 0. With unchanged parameters and no use in between, the strength at a moment
    doesn't depend on how often the anchor was moved on the way (for a model in ticks: to ticks).
    """

    @property
    def name(self) -> str:
        """What a policy calls it."""

    @property
    def parameters(self) -> Any:
        """Its parameters: a frozen dataclass that refuses what makes no sense."""

    @property
    def refresh_seconds(self) -> float:
        """How long a row may lie before a sweep should anchor it anew; infinite where SQL works strength out itself."""

    @property
    def spreads(self) -> bool:
        """Whether use of a memory strengthens those linked to it; else links aren't looked up."""

    def strength(self, state: State, now: Floats | float) -> Floats:
        """Strength of each row at `now`, 0 to 1; it never rises between uses."""

    def score(self, state: State, now: Floats | float) -> Floats:
        """The model's own number, at least 0; it can exceed 1 in mnemex and is the strength elsewhere."""

    def strength_sql(self, row: Row[Term], now: Term) -> str:
        """Strength as an SQL expression; where `refresh_seconds` is finite, as of the anchor."""

    def due_at(self, state: State, thresholds: Floats | float) -> Floats:
        """The first moment, or shortly before, at which a row's strength is below its threshold.

        At most 1 ms after the true moment, never before the anchor, `inf` where it never happens. A lower bound:
        who finds a row still above its threshold asks again and waits at least a moment.
        """

    def advance(self, state: State, now: float) -> State:
        """The same strength with the anchor moved to `now` (to its last tick, for a model in ticks), in all rows."""

    def at_strength(self, state: State, now: Floats | float, strength: Floats | float) -> State:
        """Each row with this strength at `now`, 0 to 1 (any score in mnemex); uses and their times stay.

        For a restore, and for whatever changes an input of the formula: see `profiles.convert`.
        """

    def reinforce(self, state: State, event: Event) -> State:
        """Each row after the event. A use that came late counts, and leaves everything else as it was."""


@runtime_checkable
class Bridging(Dynamics, Protocol):
    """A model that SQL can take rows over to and from, so that those of a former policy show their strength, too."""

    def score_sql(self, row: Row[Term], now: Term) -> str:
        """The score as an SQL expression; where `refresh_seconds` is finite, as of the anchor."""

    def level_sql(self, row: Row[Term], at: Term, score: Term) -> str:
        """The level at which a row has this score at a moment that isn't before its anchor, as `at_strength` has it."""
