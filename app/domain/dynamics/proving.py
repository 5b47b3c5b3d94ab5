"""Check a forgetting model against the `Dynamics` contract in a trial run over representative states."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.profiles import BUILT_IN, PROFILES, Profile
from app.domain.dynamics.protocol import Dynamics
from app.domain.dynamics.state import (
    DAY_SECONDS,
    DUE_MARGIN_SECONDS,
    SQL_NOW,
    Event,
    Row,
    State,
    new,
    sql_columns,
)

_START: Final = 1_760_000_000.0
_AGES_DAYS: Final = (0.0, 0.01, 1.0, 6.5, 7.0, 30.0, 90.0)
_CLOSE: Final = 1e-6
_OFFERED: Final = ("strength", "score", "strength_sql", "due_at", "advance", "at_strength", "reinforce")
_BOUNDS: Final = {"level": (-1e9, 1e9), "retrieval": (0, 1), "stability": (0, 1), "multiplier": (0, 2)}
"""Valid range of each bounded column."""
_SOURCES: Final[tuple[Literal["direct", "associate", "test"], ...]] = ("direct", "associate", "test")


class Unfit(ValueError):
    """A model that violates the `Dynamics` contract; the message says how, with the numbers."""


def register(name: str, profile: Profile) -> None:
    """Make a forgetting model available to policies if a trial run with its default parameters finds no fault.

    Raises:
        Unfit: The name is taken or invalid, or the model is unfit.
    """
    if name in BUILT_IN:
        raise Unfit("its name is the name of a built-in profile: choose another name")
    if name in PROFILES:
        raise Unfit("another plugin has the same name: rename or uninstall one of them")
    if not name or not name.isascii() or not name.replace("_", "").replace("-", "").isalnum():
        raise Unfit("its name may contain only ASCII letters, digits, - and _")
    if not is_dataclass(profile.parameters) or not profile.parameters.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # every dataclass has it
        raise Unfit("its parameters must be one frozen dataclass")
    try:
        dynamics = profile.model(profile.parameters())
    except Exception as error:
        raise Unfit(f"creating it with its default parameters failed: {error}") from error
    if getattr(dynamics, "name", None) != name:
        raise Unfit(f"its model has the name {getattr(dynamics, 'name', None)!r}: both names must be the same")
    check(dynamics)
    PROFILES[name] = profile


def check(dynamics: Dynamics) -> None:
    """Run a model over representative states, which takes a few milliseconds.

    Raises:
        Unfit: The model lacks a member, raises, or returns NaN, values outside 0 to 1, or a rise without a use.
    """
    lacking = [name for name in _OFFERED if not callable(getattr(dynamics, name, None))]
    lacking += [name for name in ("parameters", "refresh_seconds", "spreads") if not hasattr(dynamics, name)]
    if lacking:
        raise Unfit(f"it lacks these members of `Dynamics`: {', '.join(lacking)}")
    refresh: Any = dynamics.refresh_seconds
    if not (isinstance(refresh, int | float) and refresh > 0):
        raise Unfit(f"refresh_seconds must be above 0, or infinite, not {refresh!r}")
    try:
        _run(dynamics)
    except Unfit:
        raise
    except Exception as error:
        raise Unfit(f"it raises {type(error).__name__} in a trial run: {error}") from error


def _run(dynamics: Dynamics) -> None:
    state = _grid()
    fresh = _strength(dynamics, new(state.created_at, salience=state.salience, kind=state.kind.astype(int)), _START)
    _refuse(np.abs(fresh - 1) > _CLOSE, "strength", "must be 1 for a new memory", fresh)
    lifted = dynamics.at_strength(state, _START, np.resize([1.0, 0.5, 0.1, 0.0], state.level.size))
    for checked in (state, lifted):
        _check_state(checked, "at_strength")
        _check_decay(dynamics, checked)
        _check_due_times(dynamics, checked)
    halved = dynamics.at_strength(state, _START, 0.5)
    halved_strength = _strength(dynamics, halved, _START)
    _refuse(
        (np.abs(halved_strength - 0.5) > _CLOSE) & (state.multiplier > 0),
        "at_strength",
        "must result in the given strength of 0.5",
        halved_strength,
    )
    for source in _SOURCES:
        _check_uses(dynamics, state, Event(at=_START + DAY_SECONDS, now=_START + DAY_SECONDS, source=source))
    if not isinstance(dynamics.strength_sql(sql_columns(), SQL_NOW), str):
        raise Unfit("strength_sql must return an SQL expression as text")


def _grid() -> State:
    """Return memories of each kind, with low and high salience, unused and frequently used."""
    kinds, saliences, uses, multipliers = (
        axis.ravel() for axis in np.meshgrid(np.arange(5.0), [0.0, 0.2, 0.5, 1.0], [0.0, 1.0, 30.0], [0.0, 1.0, 2.0])
    )
    state = new(np.full(kinds.size, _START), salience=saliences, kind=kinds.astype(int), multiplier=multipliers)
    return replace(state, access_count=uses, stability=np.where(uses > 0, 0.5, 0.0))


def _check_decay(dynamics: Dynamics, state: State) -> None:
    """Check that strength is within bounds, never rises, and doesn't depend on intermediate anchors."""
    before = np.full(state.level.size, 1.0)
    for age_days in _AGES_DAYS:
        now = _START + age_days * DAY_SECONDS
        strength = _strength(dynamics, state, now)
        _refuse(strength > before + _CLOSE, "strength", f"rises without a use, by day {age_days:g}", strength)
        score = np.asarray(dynamics.score(state, now))
        _refuse(~(np.isfinite(score) & (score >= strength - _CLOSE)), "score", "must be at least the strength", score)
        before = strength
    stopped = dynamics.advance(state, _START + 6.5 * DAY_SECONDS)
    _check_state(stopped, "advance")
    later = _strength(dynamics, stopped, _START + _AGES_DAYS[-1] * DAY_SECONDS)
    _refuse(np.abs(later - before) > _CLOSE, "advance", "changes the strength of later days", later)


def _check_due_times(dynamics: Dynamics, state: State) -> None:
    """Check that rows aren't below their threshold before they are due."""
    for threshold in (0.3, 0.05):
        due = np.asarray(dynamics.due_at(state, threshold), np.float64)
        _refuse(np.isnan(due) | (due < state.anchored_at), "due_at", "must be a moment not before the anchor", due)
        was_above = _strength(dynamics, state, _START) >= threshold
        shortly_before = np.minimum(due - 2 * DUE_MARGIN_SECONDS, _START + 400 * DAY_SECONDS)
        strength_before = _strength(dynamics, state, np.maximum(shortly_before, _START))
        late = was_above & (strength_before < threshold * (1 - _CLOSE))
        _refuse(late, "due_at", f"must not be later than the fall below {threshold}", due)


def _check_uses(dynamics: Dynamics, state: State, event: Event) -> None:
    after = dynamics.reinforce(state, event)
    _check_state(after, "reinforce")
    before = _strength(dynamics, state, event.now)
    strength = _strength(dynamics, after, event.now)
    _refuse(strength < before - _CLOSE, "reinforce", f"weakens ({event.source})", strength)
    gained = after.access_count - state.access_count
    _refuse(gained != (event.source == "direct"), "reinforce", f"counts wrongly ({event.source})", gained)


def _strength(dynamics: Dynamics, state: State, now: Floats | float) -> Floats:
    strength = np.asarray(dynamics.strength(state, now), np.float64)
    if strength.shape != state.level.shape:
        raise Unfit(f"strength must return a number for each row: {state.level.shape}, not {strength.shape}")
    _refuse(~((strength >= 0) & (strength <= 1)), "strength", "must be 0 to 1", strength)
    return strength


def _check_state(state: State, method: str) -> None:
    for field in fields(Row):
        column = np.asarray(getattr(state, field.name))
        low, high = _BOUNDS.get(field.name, (-np.inf, np.inf))
        wrong = ~(np.isfinite(column) & (column >= low) & (column <= high))
        _refuse(wrong, method, f"returns an invalid {field.name}", column)


def _refuse(wrong: npt.NDArray[np.bool_], method: str, what: str, found: npt.NDArray[Any]) -> None:
    if wrong.any():
        raise Unfit(f"{method} {what}: the value is {float(found[np.flatnonzero(wrong)[0]]):g}")
