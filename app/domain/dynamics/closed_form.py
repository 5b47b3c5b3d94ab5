"""Base of the models whose strength is one formula of a row and a moment: `spec`, `mnemex` and `cmm`."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace

import numpy as np

from app.domain.dynamics.ops import NUMPY, Floats, Ops, Sql, Term, V
from app.domain.dynamics.state import Row, State, when


class ClosedForm(ABC):
    """A model defined by two formulas: score from level, and level from score. `Dynamics` describes the methods."""

    refresh_seconds = math.inf
    spreads = False

    @abstractmethod
    def _score(self, ops: Ops[V], row: Row[V], now: V) -> V:
        """Return the score at a moment that isn't before the anchor."""

    @abstractmethod
    def _level(self, ops: Ops[V], row: Row[V], at: V, score: V) -> V:
        """Return the level at which the row has this score at a moment."""

    def strength(self, state: State, now: Floats | float) -> Floats:
        """Return the strength at `now`, 0 to 1: the score, unless the model limits it."""
        return self.score(state, now)

    def score(self, state: State, now: Floats | float) -> Floats:
        """Return the score at `now`, at least 0."""
        return self._score(NUMPY, state, when(state, now))

    def strength_sql(self, row: Row[Term], now: Term) -> str:
        """Return the strength as an SQL expression, equal to `strength` within 1e-9."""
        return self.score_sql(row, now)

    def score_sql(self, row: Row[Term], now: Term) -> str:
        """Return the score as an SQL expression, within a relative error of 1e-9."""
        ops = Sql()
        return ops.text(self._score(ops, row, now))

    def level_sql(self, row: Row[Term], at: Term, score: Term) -> str:
        """Return the level that `at_strength` sets, as an SQL expression."""
        ops = Sql()
        return ops.text(self._level(ops, row, at, score))

    def advance(self, state: State, now: Floats | float) -> State:
        """Move the anchor; the level stays the same, because it refers to the last use."""
        return replace(state, anchored_at=when(state, now))

    def at_strength(self, state: State, now: Floats | float, strength: Floats | float) -> State:
        """Set the level that gives this score at `now` and applies until the next use."""
        at = when(state, now)
        level = self._level(NUMPY, state, at, np.asarray(strength, np.float64))
        return replace(state, anchored_at=at, level=level)
