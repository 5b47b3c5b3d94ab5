"""A tenant's policies in the order of their days, and memories brought from the one they were left under to today's."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import State, choose
from app.domain.policy.policy import Policy


@dataclass(frozen=True, slots=True)
class Era:
    """A policy, and from when on it holds.

    Attributes:
        version: The policy's; 0 is the default one, which holds before any was set.
        since: Seconds since 1970; minus infinity for the first.
    """

    version: int
    since: float
    policy: Policy

    @property
    def dynamics(self) -> Dynamics:
        """Its model of forgetting."""
        return self.policy.model


DEFAULT = Era(0, -np.inf, Policy())


class Timeline:
    """The policies of a tenant that have held, or will.

    A version ends when a higher one begins, so one that would begin after a higher one never holds.
    """

    def __init__(self, eras: Sequence[Era]) -> None:
        """Take all versions there are, in any order."""
        held: list[Era] = []
        for era in sorted((DEFAULT, *eras), key=lambda era: -era.version):
            if not held or era.since < held[-1].since:
                held.append(era)
        self._eras = held[::-1]
        self._starts = [era.since for era in self._eras]
        self._versions = [era.version for era in self._eras]

    @property
    def eras(self) -> list[Era]:
        """Those that have held or will, in their order; the first is the default policy's."""
        return list(self._eras)

    def at(self, now: float) -> Era:
        """The era of a moment, in seconds since 1970."""
        return self._eras[self._place(now)]

    def since(self, versions: npt.NDArray[np.integer[Any]]) -> Floats:
        """From when on each of these versions holds, in seconds since 1970."""
        return np.asarray(self._starts)[self._places(versions)]

    def until(self, now: float) -> list[Era]:
        """The eras up to that of a moment, the first one first."""
        return self._eras[: self._place(now) + 1]

    def after(self, now: float) -> list[Era]:
        """The eras that begin later than a moment, in their order."""
        return self._eras[self._place(now) + 1 :]

    def brought(self, state: State, versions: npt.NDArray[np.integer[Any]], now: float) -> State:
        """The states under the policy that holds at `now`, whatever era each was anchored in.

        Their past stays what it was: each era's model counts for its own time. Strength at `now` can then be
        worked out by today's model alone.

        Args:
            state: The memories.
            versions: Of the policy that each is anchored under, shape (n,).
            now: Seconds since 1970.
        """
        today = self._place(now)
        places = self._places(versions)
        for place in range(int(places.min(initial=today)), today):
            era, following = self._eras[place], self._eras[place + 1]
            moved = rebase(state, following.since, era.dynamics, following.dynamics)
            state = choose(places <= place, moved, state)
        return state

    def _places(self, versions: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.intp]:
        return np.searchsorted(self._versions, versions, side="right") - 1

    def _place(self, now: float) -> int:
        return bisect_right(self._starts, now) - 1
