"""Estimate from the times of uses how fast memories fade: a survival likelihood with a forgetting model's own curve.

A memory is used at the rate a · (S(t) + 0.01) per day, where S is its strength under the model and a is its appetite,
about its uses per day at full strength. Appetites may have any distribution. A memory without uses contributes the time
for which it was observed (`ops/decisions/0085-*.md` has the formula and the assumptions).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import DAY_SECONDS, Event, Row, State, take

SPEED_MAX: Final = 64.0
"""Speeds from 1/64 of the current one to 64 times the current one are tried."""
PAUSE_SECONDS: Final = DAY_SECONDS
"""Time after acceptance and after each counted use in which uses don't count: they belong to the same conversation."""
USES_MAX: Final = 30
"""A memory is observed up to this many uses."""
FLOOR: Final = 0.01
"""Rate of uses that have nothing to do with strength, relative to the rate at full strength."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)
_PLACES = ((_NODES + 1) / 2) ** 3  # dense at the start of an interval, where strength falls fastest
_SHARES = 3 * ((_NODES + 1) / 2) ** 2 * _WEIGHTS / 2
_GRID_STEPS = 9
_NARROWINGS = 9
_CURVATURE_STEP = 0.1
_GOLDEN = (5**0.5 - 1) / 2
_APPETITES = np.geomspace(1e-4, 30, 24)  # uses per day at full strength
_APPETITE_STEPS = 100


@dataclass(frozen=True)
class Observed:
    """Memories from their acceptance on, and their uses.

    Attributes:
        fresh: The memories as accepted, shape (n,); `state.new` describes them.
        since: Start of the time in which each memory's uses were recorded, in seconds since 1970, shape (n,).
        until: Its end: now, or the time at which the memory left the active tier or was superseded.
        rows: Row of each use, shape (m,).
        at: Time of each use, shape (m,).
    """

    fresh: State
    since: Floats
    until: Floats
    rows: npt.NDArray[np.intp]
    at: Floats


@dataclass(frozen=True)
class SpeedFit:
    """An estimated speed of decay, as a factor on the model's.

    Attributes:
        log_speed: Natural logarithm of the speed with the highest likelihood; None without a use that counts, or if the
            likelihood has no maximum between the limits.
        error: Standard error of `log_speed`; None if the likelihood is flat.
        memories: Number of memories observed for some time.
        uses: Number of uses that count.
    """

    log_speed: float | None
    error: float | None
    memories: int
    uses: int


@dataclass(frozen=True)
class _Round:
    """The n-th interval of each memory that has one: it ends with the n-th use, or with the end of observation.

    Attributes:
        rows: The memories.
        nodes: Times at which strength is evaluated, shape (rows, nodes).
        days: Weight of each of these times in an integral over the observed days.
        used: Places in `rows` of the memories whose interval ends with a use.
        at: Time of each of these uses.
        counts: Mask of the uses that count.
    """

    rows: npt.NDArray[np.intp]
    nodes: Floats
    days: Floats
    used: npt.NDArray[np.intp]
    at: Floats
    counts: npt.NDArray[np.bool_]


def fit_speed(model_at: Callable[[float], Dynamics], observed: Observed) -> SpeedFit:
    """Return the speed at which the model explains the uses best.

    Args:
        model_at: Returns the model that fades this many times as fast.
        observed: The memories; all must fade at the same rate apart from salience, uses and the like.
    """
    rounds = _rounds(observed)
    counts = np.zeros(observed.since.size)
    days = np.zeros(observed.since.size)
    for each in rounds:
        np.add.at(counts, each.rows[each.used[each.counts]], 1)
        days[each.rows] += each.days.sum(axis=1)
    seen = np.flatnonzero(days > 0)
    memories, uses = int(seen.size), int(counts.sum())
    if not uses:
        return SpeedFit(None, None, memories, uses)
    known: dict[float, float] = {}

    def likelihood(log_speed: float) -> float:
        if log_speed not in known:
            logs, exposures = _explain(model_at(float(np.exp(log_speed))), observed, rounds)
            known[log_speed] = logs + _appetite_likelihood(counts[seen], exposures[seen])
        return known[log_speed]

    end = float(np.log(SPEED_MAX))
    grid = np.linspace(-end, end, _GRID_STEPS).tolist()
    best = max(grid, key=likelihood)
    if best in (grid[0], grid[-1]):
        return SpeedFit(None, None, memories, uses)
    width = grid[1] - grid[0]
    log_speed = _maximise(likelihood, best - width, best + width, _NARROWINGS)
    sides = likelihood(log_speed - _CURVATURE_STEP) + likelihood(log_speed + _CURVATURE_STEP)
    curvature = (2 * likelihood(log_speed) - sides) / _CURVATURE_STEP**2
    return SpeedFit(log_speed, curvature**-0.5 if curvature > 0 else None, memories, uses)


def _rounds(observed: Observed) -> list[_Round]:
    """Split each memory's observed time at its uses."""
    within = (observed.at >= observed.fresh.created_at[observed.rows]) & (observed.at < observed.until[observed.rows])
    order = np.lexsort((observed.at[within], observed.rows[within]))
    rows, at = observed.rows[within][order], observed.at[within][order]
    first = np.searchsorted(rows, rows)
    place = np.arange(rows.size) - first
    until = observed.until.copy()
    beyond = place == USES_MAX - 1
    until[rows[beyond]] = at[beyond]
    rounds = []
    remaining = np.flatnonzero(until > observed.fresh.created_at)
    paused = np.maximum(observed.fresh.created_at + PAUSE_SECONDS, observed.since)
    begun = observed.fresh.created_at.copy()
    for number in range(USES_MAX):
        here = np.flatnonzero(place == number)
        ends = until.copy()
        ends[rows[here]] = at[here]
        starts = np.maximum(begun, paused)[remaining]
        lengths = np.maximum(ends[remaining] - starts, 0)[:, None]
        used_rows = rows[here]
        counts = at[here] >= paused[used_rows]
        rounds.append(
            _Round(
                remaining,
                starts[:, None] + lengths * _PLACES,
                lengths / DAY_SECONDS * _SHARES,
                np.searchsorted(remaining, used_rows),
                at[here],
                counts,
            )
        )
        begun[used_rows] = at[here]
        paused[used_rows[counts]] = at[here][counts] + PAUSE_SECONDS
        remaining = used_rows[until[used_rows] > at[here]]
        if not remaining.size:
            break
    return rounds


def _explain(model: Dynamics, observed: Observed, rounds: list[_Round]) -> tuple[float, Floats]:
    """Return the sum of ln(S + floor) over the counted uses, and each memory's integral of S + floor over its days."""
    current, exposures, logs = observed.fresh, np.zeros(observed.since.size), 0.0
    for each in rounds:
        part = take(current, each.rows)
        exposures[each.rows] += ((_strengths(model, part, each.nodes) + FLOOR) * each.days).sum(axis=1)
        if not each.used.size:
            continue
        used = take(part, each.used)
        logs += float(np.log(model.strength(used, each.at) + FLOOR)[each.counts].sum())
        current = _put(current, each.rows[each.used], model.reinforce(used, Event(each.at, float(each.at.max()))))
    return logs, exposures


def _strengths(model: Dynamics, state: State, at: Floats) -> Floats:
    """Return the strengths of each row at several times in ascending order, shape (rows, times)."""
    if math.isinf(model.refresh_seconds):
        repeated = take(state, np.repeat(np.arange(at.shape[0]), at.shape[1]))
        return model.strength(repeated, at.ravel()).reshape(at.shape)
    strengths = np.empty_like(at)  # advanced step by step, so that a model with ticks processes each tick only once
    for place in range(at.shape[1]):
        state = model.advance(state, at[:, place])
        strengths[:, place] = model.strength(state, at[:, place])
    return strengths


def _put(state: State, rows: npt.NDArray[np.intp], part: State) -> State:
    """Return the state with these rows replaced."""
    columns = {}
    for field in fields(Row):
        column = np.array(getattr(state, field.name))
        column[rows] = getattr(part, field.name)
        columns[field.name] = column
    return Row(**columns)


def _appetite_likelihood(counts: Floats, exposures: Floats) -> float:
    """Return the highest log-likelihood of the counts over all distributions of appetites on `_APPETITES`.

    The distribution is found by expectation maximisation, so that no form of it has to be assumed.

    Args:
        counts: Uses of each memory.
        exposures: Integral of the relative rate of use over each memory's days.
    """
    logs = counts[:, None] * np.log(_APPETITES) - exposures[:, None] * _APPETITES
    highest = logs.max(axis=1)
    likelihoods = np.exp(logs - highest[:, None])
    weights = np.full(_APPETITES.size, 1 / _APPETITES.size)
    for _ in range(_APPETITE_STEPS):
        weights *= (1 / (likelihoods @ weights)) @ likelihoods / counts.size
    return float((np.log(likelihoods @ weights) + highest).sum())


def _maximise(function: Callable[[float], float], low: float, high: float, narrowings: int) -> float:
    """Return the place of the maximum by golden section, finished by a parabola through the last three points."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    for _ in range(narrowings):
        if at_left < at_right:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = function(right)
        else:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = function(left)
    middle, width = (left + right) / 2, (high - low) / 2
    below, here, above = (function(middle + side * width) for side in (-1, 0, 1))
    bend = below - 2 * here + above
    return middle if bend >= 0 else middle + 0.5 * width * (below - above) / bend
