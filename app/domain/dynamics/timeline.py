"""Order a tenant's policies by the time they take effect, and convert memories to the current policy."""

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
    """A policy version and the time at which it takes effect.

    Attributes:
        version: Version of the policy; 0 is the default policy, which applies before any was set.
        since: Start of the era, in seconds since 1970; minus infinity for the first era.
    """

    version: int
    since: float
    policy: Policy

    @property
    def dynamics(self) -> Dynamics:
        """The policy's forgetting model."""
        return self.policy.model


DEFAULT = Era(0, -np.inf, Policy())


class Timeline:
    """A tenant's past, current and future policies.

    A version ends when a higher version takes effect, so a version that starts later than a higher version never
    applies.
    """

    def __init__(self, eras: Sequence[Era]) -> None:
        """Build the timeline from all existing versions, in any order."""
        effective: list[Era] = []
        for era in sorted((DEFAULT, *eras), key=lambda era: -era.version):
            if not effective or era.since < effective[-1].since:
                effective.append(era)
        self._eras = effective[::-1]
        self._starts = [era.since for era in self._eras]
        self._versions = [era.version for era in self._eras]

    @property
    def eras(self) -> list[Era]:
        """Past, current and future eras in order; the first is the default policy's."""
        return list(self._eras)

    def at(self, now: float) -> Era:
        """Return the era of a moment, in seconds since 1970."""
        return self._eras[self._place(now)]

    def since(self, versions: npt.NDArray[np.integer[Any]]) -> Floats:
        """Return when each of these versions took effect, in seconds since 1970."""
        return np.asarray(self._starts)[self._places(versions)]

    def until(self, now: float) -> list[Era]:
        """Return the eras up to a moment's era, from the first on."""
        return self._eras[: self._place(now) + 1]

    def after(self, now: float) -> list[Era]:
        """Return the eras that begin later than a moment, in order."""
        return self._eras[self._place(now) + 1 :]

    def advance_to(self, state: State, versions: npt.NDArray[np.integer[Any]], now: float) -> State:
        """Return the states converted from the eras of their anchors to the policy in force at `now`.

        The model of each past era calculates the decay of that era. Afterwards, the current model alone gives the
        strength at `now`.

        Args:
            state: The memories.
            versions: Policy version that each memory is anchored under, shape (n,).
            now: Seconds since 1970.
        """
        current = self._place(now)
        indices = self._places(versions)
        for index in range(int(indices.min(initial=current)), current):
            era, following = self._eras[index], self._eras[index + 1]
            moved = rebase(state, following.since, era.dynamics, following.dynamics)
            state = choose(indices <= index, moved, state)
        return state

    def _places(self, versions: npt.NDArray[np.integer[Any]]) -> npt.NDArray[np.intp]:
        return np.searchsorted(self._versions, versions, side="right") - 1

    def _place(self, now: float) -> int:
        return bisect_right(self._starts, now) - 1
