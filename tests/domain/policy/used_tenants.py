"""Tenants whose memories are used as one forgetting model says, to test that its rate is learned back."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from app.domain.dynamics import state
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.rate_fit import Observed
from app.domain.dynamics.state import DAY_SECONDS, Event, Row, take

SPAN_DAYS: Final = 365.0
_CANDIDATES_MAX = 400
_BACKGROUND = 0.005
_SECOND_USE = 0.3
_WEEKEND = 0.4


def simulate(
    truth: Dynamics,
    memories: int,
    seed: int,
    kind: int = 0,
    *,
    archiving: Dynamics | None = None,
    uses_per_day: float = 0.03,
    shape: float | None = None,
    pause: tuple[float, float] = (0.0, 0.0),
) -> Observed:
    """Return memories accepted over `SPAN_DAYS`, and their uses until the end of that time.

    A memory's rate of use is its appetite times its strength under `truth`. Appetites are log-normal, so a few memories
    have most uses; fewer uses happen on weekends; every third use is followed by another within two hours, and some
    uses have nothing to do with strength.

    Args:
        archiving: Model by which half of the memories, which nothing protects, leave the active tier below 0.3.
        uses_per_day: Mean appetite, in uses per day at full strength.
        shape: Draw the appetites from a gamma distribution of this shape; None for a log-normal one.
        pause: First and last day of a time in which the tenant uses nothing.
    """
    draw = np.random.default_rng(seed)
    created = np.sort(draw.uniform(0, SPAN_DAYS, memories)) * DAY_SECONDS
    fresh = state.new(created, salience=draw.beta(2, 2, memories), kind=kind)
    log_normal, gamma = draw.normal(-0.5, 1.0, memories), draw.gamma(shape or 1.0, 1 / (shape or 1.0), memories)
    appetites = uses_per_day * np.maximum(np.exp(log_normal) if shape is None else gamma, 1e-6)
    end = SPAN_DAYS * DAY_SECONDS
    until = np.full(memories, end)
    exposed = draw.random(memories) < 0.5
    current, real, at = fresh, fresh, created.copy()
    rows, times = [], []
    for _ in range(_CANDIDATES_MAX):
        at = at + draw.exponential(1 / appetites) * DAY_SECONDS
        if archiving is not None:
            leaving = exposed & (until == end)
            until = np.where(leaving, np.minimum(archiving.due_at(real, 0.3), end), until)
            until = np.where(leaving & (until > at), end, until)
        here = np.flatnonzero(at < until)
        if not here.size:
            break
        part, now = take(current, here), at[here]
        chance = truth.strength(part, now) + _BACKGROUND
        days = now / DAY_SECONDS
        chance = np.where(days % 7 < 2, chance * _WEEKEND, chance)
        chance = np.where((days >= pause[0]) & (days < pause[1]), 0.0, chance)
        used = here[draw.random(here.size) < chance]
        for again in (False, True):
            if again:
                used = used[draw.random(used.size) < _SECOND_USE]
                at[used] += draw.uniform(60, 7200, used.size)
                used = used[at[used] < until[used]]
            if not used.size:
                break
            event = Event(at[used], end)
            current = _put(current, used, truth.reinforce(take(current, used), event))
            if archiving is not None:
                real = _put(real, used, archiving.reinforce(take(real, used), event))
            rows.append(used)
            times.append(at[used])
    order = np.concatenate(rows).astype(np.intp), np.concatenate(times)
    return Observed(fresh, created, until, *order)


def _put(whole: state.State, rows: np.ndarray, part: state.State) -> state.State:
    columns = {name: np.array(getattr(whole, name)) for name in Row.__dataclass_fields__}
    for name, column in columns.items():
        column[rows] = getattr(part, name)
    return replace(whole, **columns)
