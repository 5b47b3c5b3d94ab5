"""The profile `memory_decay`: storage and retrieval decay per tick, more slowly the higher the stability (seed 003).

Time passes in whole ticks counted from the anchor, and the anchor only moves to the last completed tick, so neither
sweeps nor uses lose a fraction of a tick. Stability decays with each tick, so no closed form gives the strength at a
later time: SQL shows the strength at the anchor, which a sweep moves at least every `refresh_days`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass as plain_dataclass
from dataclasses import field, replace
from typing import Annotated, Final, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.ops import EXPONENT_MIN, Floats, Sql, Term
from app.domain.dynamics.parameter_types import STRICT, Factor, Share
from app.domain.dynamics.state import DAY_SECONDS, STRENGTH_MIN, Event, Row, State, choose, due, take, used_at, when
from app.domain.ingest.memory import KINDS, Kind

Consolidation = Literal[
    "activation_and_stability",
    "retrieval_only",
    "stability_only_direct",
    "retrieval_with_storage_fraction",
    "retrieval_rank_scaled_fraction",
    "retrieval_capped_fraction",
    "retrieval_margin_bm25_fraction",
]

FACT_KINDS: Final = ("semantic", "procedural", "system")
"""Kinds that decay as facts; all others decay as episodes."""
CATEGORIES: Final[dict[str, tuple[Kind, float]]] = {
    "preference": ("semantic", 0.9),
    "decision": ("semantic", 0.85),
    "fact": ("semantic", 0.8),
    "episode": ("episodic", 0.45),
}
"""Kind and suggested importance by category. The importance is the middle of the range that seed 003 gives."""

LOOK_AHEAD_TICKS: Final = 1_000
"""Number of ticks that `due_at` looks ahead. If there is no crossing in this span, `due_at` returns its end."""

_TICK_SLACK_SECONDS = 1e-6  # resolution of seconds since 1970 as a double, and of PostgreSQL
_BLOCK_NUMBERS = 1_000_000
_STABILITY_MIN = 1e-17  # negligible compared with 1
IS_FACT: Final = np.array([kind in FACT_KINDS for kind in KINDS])
"""Mask of `FACT_KINDS`, indexed by kind."""

_Rate = Annotated[float, Field(ge=1e-9, le=100, allow_inf_nan=False)]


@dataclass(frozen=True, config=STRICT)
class SoftFloor:
    """Parameters of the soft floor. Seed 003 names this curve without constants; the defaults are this project's."""

    impact_weight: Annotated[float, Field(ge=0, le=20, allow_inf_nan=False)] = 2.0
    """α: an impact i slows decay by e^(α·i)."""
    lowest: Share = 0.05
    """f0, floor at impact 0."""
    highest: Share = 0.35
    """f1, floor at impact 1."""
    impact_power: Annotated[float, Field(ge=0.1, le=20, allow_inf_nan=False)] = 2.0
    """p, exponent of the floor's rise with impact."""
    gate_middle: Share = 0.4
    """g0, activation at which the gate is half open."""
    gate_width: Annotated[float, Field(ge=0.005, le=10, allow_inf_nan=False)] = 0.08
    """gw, width of the gate's transition."""
    gate_share: Share = 0.6
    """h, share by which an open gate slows decay."""
    slowest: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] = 0.1
    """kmin, minimum share of decay that remains."""


@dataclass(frozen=True, config=STRICT)
class MemoryDecayParameters:
    """Parameters of `memory_decay`; the defaults are seed 003's, except for a tick of a day."""

    curve: Literal["exponential", "power_law", "soft_floor"] = "exponential"
    """A·e^(-λ/c), A / (1 + β/c), or decay towards a floor."""
    tick_seconds: Annotated[float, Field(ge=600, le=31_536_000, allow_inf_nan=False)] = DAY_SECONDS
    """Length of a tick; at least ten minutes, since each tick costs computing time."""
    lambda_fact: _Rate = 0.02
    """λ per tick for facts."""
    lambda_episode: _Rate = 0.035
    """λ per tick for episodes."""
    beta_fact: _Rate = 0.08
    """β per tick for facts, power law."""
    beta_episode: _Rate = 0.12
    """β per tick for episodes, power law."""
    impact_weight: Factor = 0.5
    """α in c = (1 + α·i)(1 + ρ·s), where i is the impact and s the stability."""
    stability_weight: Factor = 0.8
    """ρ in c = (1 + α·i)(1 + ρ·s)."""
    stability_decay: Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)] = 0.01
    """Share of stability lost per tick."""
    soft_floor: SoftFloor = SoftFloor()
    """Parameters used only by the soft floor."""
    consolidation: Consolidation = "retrieval_with_storage_fraction"
    """Rule that determines what a use strengthens (seed 003, retrieval consolidation)."""
    boost: Share = 0.1
    """Increase of retrieval per use."""
    storage_fraction: Share = 0.25
    """Share of `boost` that also applies to storage."""
    gain_direct: Share = 0.2
    """Increase of stability per use, times 1 - stability/cap."""
    gain_associate: Share = 0.05
    """Increase of stability per use of a linked memory, times 1 - stability/cap."""
    stability_cap: Annotated[float, Field(ge=0.001, le=1, allow_inf_nan=False)] = 1.0
    """Maximum stability."""
    boost_below: Share = 0.85
    """`retrieval_capped_fraction`: ceiling for the boost by a use; above it, retrieval and storage don't change."""
    margin_from: Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)] = 0.2
    """`retrieval_margin_bm25_fraction`: no boost below this margin."""
    storage_threshold: Share = 0.05
    """Storage below which a search of mode `memory_decay` doesn't return a memory."""
    retrieval_weight: Factor = 0.5
    """w in similarity · A_r^w, a part of the score of a search of mode `memory_decay`."""
    bm25_weight: Share = 0.3
    """Share of the word match in the score of a search of mode `memory_decay`; the rest is similarity · A_r^w."""
    spread_factor: Share = 0.5
    """Share of a found memory's score passed along a link of full weight; 0 disables spreading."""
    refresh_days: Annotated[float, Field(ge=0.01, le=10_000, allow_inf_nan=False)] = 7.0
    """Maximum age of the strength shown by SQL."""

    @model_validator(mode="after")
    def _floors_in_order(self) -> MemoryDecayParameters:
        if self.soft_floor.lowest > self.soft_floor.highest:
            pair = f"{self.soft_floor.lowest} and {self.soft_floor.highest}"
            raise ValueError(f"soft_floor.lowest must be at most soft_floor.highest, not {pair}")
        return self


PRESETS: Final = {
    "daily": MemoryDecayParameters(),
    "server": MemoryDecayParameters(tick_seconds=3_600),
}
"""`server` has the seed's own tick of an hour, at which few unused memories survive a week."""


Curve = Callable[[State], Callable[[Floats, Floats], Floats]]
"""Function that takes memories and returns another function, their decay in one tick. That function takes an amount
(storage or retrieval) and the stability before the tick, and returns the amount after the tick."""


@plain_dataclass(frozen=True)
class MemoryDecay:
    """The model `memory_decay`: strength is storage (A_s, e^level at the anchor); its searches rank by retrieval (A_r).

    Attributes:
        parameters: Parameters of the model.
        curve: Replaces the curve that the parameters name; see `custom`.
        name: Name of the profile in a policy.
    """

    parameters: MemoryDecayParameters = field(default_factory=MemoryDecayParameters)
    curve: Curve | None = None
    name: str = "memory_decay"

    @property
    def refresh_seconds(self) -> float:
        """Maximum age of the strength in SQL, at least one tick."""
        return max(self.parameters.refresh_days * DAY_SECONDS, self.parameters.tick_seconds)

    @property
    def spreads(self) -> bool:
        """Return whether a use adds stability to linked memories in this consolidation mode."""
        p = self.parameters
        return p.gain_associate > 0 and p.consolidation not in {"retrieval_only", "stability_only_direct"}

    def strength(self, state: State, now: Floats | float) -> Floats:
        """Return storage after the ticks until `now`, 0 to 1."""
        return _storage(self._advanced(state, when(state, now)))

    def score(self, state: State, now: Floats | float) -> Floats:
        """Return the strength."""
        return self.strength(state, now)

    def retrieval(self, state: State, now: Floats | float) -> Floats:
        """Return A_r after the ticks until `now`, 0 to 1."""
        return self._advanced(state, when(state, now)).retrieval

    def strength_sql(self, row: Row[Term], now: Term) -> str:  # noqa: ARG002 - strength as of the anchor
        """Return storage at the anchor as an SQL expression."""
        ops = Sql()
        return ops.text(ops.exp(ops.minimum(row.level, 0.0)))

    def score_sql(self, row: Row[Term], now: Term) -> str:
        """Return the strength as an SQL expression."""
        return self.strength_sql(row, now)

    def level_sql(self, row: Row[Term], at: Term, score: Term) -> str:  # noqa: ARG002 - the anchor moves to `at`
        """Return the level that `at_strength` sets, as an SQL expression."""
        ops = Sql()
        return ops.text(ops.log(ops.minimum(ops.maximum(score, STRENGTH_MIN), 1.0)))

    def advance(self, state: State, now: Floats | float) -> State:
        """Move the anchor to the last tick up to `now`, with storage, retrieval and stability as of then."""
        return self._advanced(state, when(state, now))

    def at_strength(self, state: State, now: Floats | float, strength: Floats | float) -> State:
        """Set storage to this strength and raise retrieval to at least as much."""
        strength = np.clip(strength, STRENGTH_MIN, 1)
        state = self._advanced(state, when(state, now))
        level = np.broadcast_to(np.log(strength), state.level.shape)
        return replace(state, level=level, retrieval=np.maximum(state.retrieval, strength))

    def reinforce(self, state: State, event: Event) -> State:
        """Update retrieval, storage and stability according to the consolidation mode."""
        if event.source == "test":
            return self._consolidated(self.advance(state, event.now), event)
        at, late = used_at(state, event)
        if event.source == "associate":
            return self._consolidated(self._advanced(state, at), event)
        count = state.access_count + 1
        used = replace(self._consolidated(self._advanced(state, at), event), access_count=count, accessed_at=at)
        return choose(late, replace(self.advance(state, event.now), access_count=count), used) if late.any() else used

    def due_at(self, state: State, thresholds: Floats | float) -> Floats:
        """Return the first tick at which storage is below the thresholds, or the end of the look-ahead.

        Thresholds at or below the soft floor are never crossed: their moment is `inf`.
        """
        thresholds = np.broadcast_to(np.asarray(thresholds, np.float64), state.level.shape)
        below = _storage(state) < thresholds
        moments = np.where(below, state.anchored_at, np.inf)
        lowest = np.maximum(self._floor(state.salience), math.exp(EXPONENT_MIN))
        rows = np.flatnonzero(~below & (thresholds > lowest))
        falling = take(state, rows)
        storage, stability, tick = _storage(falling), falling.stability, self._tick(falling)
        last = self._look_ahead_ticks
        for ticks in range(1, last + 1):
            if not rows.size:
                break
            storage, stability = tick(storage, stability), stability * self._stability_kept
            crossed = (storage < thresholds[rows]) | (ticks == last)
            if crossed.any():
                crossing = due(falling, falling.anchored_at + ticks * self.parameters.tick_seconds)
                moments[rows[crossed]] = crossing[crossed]
                remaining = np.flatnonzero(~crossed)
                rows, storage, stability, falling = (
                    rows[remaining],
                    storage[remaining],
                    stability[remaining],
                    take(falling, remaining),
                )
                tick = self._tick(falling)
        return moments

    @property
    def _look_ahead_ticks(self) -> int:
        """Number of ticks to look ahead. A custom curve is slow: its look-ahead ends at the next refresh."""
        if self.curve is None:
            return LOOK_AHEAD_TICKS
        return min(math.floor(self.refresh_seconds / self.parameters.tick_seconds) + 1, LOOK_AHEAD_TICKS)

    @property
    def _stability_kept(self) -> float:
        return 1 - self.parameters.stability_decay

    def _advanced(self, state: State, at: Floats) -> State:
        """Return the state at the last tick up to each row's moment, which must not be before its anchor."""
        tick_seconds = self.parameters.tick_seconds
        ticks = np.floor((at - state.anchored_at + _TICK_SLACK_SECONDS) / tick_seconds)
        if self.curve is not None or self.parameters.curve == "soft_floor":
            storage, retrieval = self._stepped(state, ticks)
            level = np.where(ticks > 0, np.log(np.maximum(storage, STRENGTH_MIN)), state.level)
        else:
            faded = self._faded(state, ticks)
            level = np.maximum(state.level - faded, math.log(STRENGTH_MIN))
            retrieval = state.retrieval * np.exp(np.maximum(-faded, EXPONENT_MIN))
        return replace(
            state,
            anchored_at=state.anchored_at + ticks * tick_seconds,
            level=level,
            retrieval=retrieval,
            stability=state.stability * self._stability_kept**ticks,
        )

    def _faded(self, state: State, ticks: Floats) -> Floats:
        """Return -ln of the share left after this many ticks, summed tick by tick, for curves without a floor."""
        faded = np.where(state.stability < _STABILITY_MIN, ticks * self._loss(state, np.zeros_like(ticks)), 0.0)
        rows = np.flatnonzero((state.stability >= _STABILITY_MIN) & (ticks > 0))
        if not rows.size:
            return faded
        stable, ticks = take(state, rows), ticks[rows]
        for block in _blocks(int(ticks.max()), rows.size):
            stability_shares = self._stability_kept ** block[:, None]
            losses = self._loss(stable, stable.stability * stability_shares)
            faded[rows] += np.where(block[:, None] < ticks, losses, 0.0).sum(axis=0)
        return faded

    def _stepped(self, state: State, ticks: Floats) -> tuple[Floats, Floats]:
        """Return storage and retrieval after this many ticks, for curves calculated tick by tick."""
        amounts, stability = np.stack([_storage(state), state.retrieval]), state.stability.copy()
        moving = np.flatnonzero(ticks > 0)
        tick = self._tick(take(state, moving))
        for completed in range(int(ticks.max(initial=0))):
            unfinished = moving[ticks[moving] > completed]
            if unfinished.size < moving.size:
                moving, tick = unfinished, self._tick(take(state, unfinished))
            amounts[:, moving] = tick(amounts[:, moving], stability[moving])
            stability[moving] *= self._stability_kept
        return amounts[0], amounts[1]

    def _tick(self, state: State) -> Callable[[Floats, Floats], Floats]:
        """Return the decay of one tick as a function, see `Curve`."""
        if self.curve is not None:
            return self.curve(state)
        if self.parameters.curve != "soft_floor":
            return lambda amount, stability: amount * np.exp(-self._loss(state, stability))
        p, impact = self.parameters.soft_floor, state.salience
        floor = self._floor(impact)
        rate = self._by_kind(state, self.parameters.lambda_fact, self.parameters.lambda_episode)
        rate = rate / np.exp(p.impact_weight * impact)

        def after(amount: Floats, stability: Floats) -> Floats:
            lowest = np.minimum(floor, amount)
            gate = 1 / (1 + np.exp((p.gate_middle - amount) / p.gate_width))
            share = np.clip(1 - p.gate_share * impact * gate, p.slowest, 1)
            remaining_share = np.exp(-rate * share / (1 + self.parameters.stability_weight * stability))
            return np.clip(lowest + (amount - lowest) * remaining_share, lowest, amount)

        return after

    def _loss(self, state: State, stability: Floats) -> Floats:
        """Return -ln of the share left after a tick, for the exponential curve or the power law."""
        p = self.parameters
        slowed = (1 + p.impact_weight * state.salience) * (1 + p.stability_weight * stability)
        if p.curve == "power_law":
            return np.log1p(self._by_kind(state, p.beta_fact, p.beta_episode) / slowed)
        return self._by_kind(state, p.lambda_fact, p.lambda_episode) / slowed

    def _by_kind(self, state: State, fact: float, episode: float) -> Floats:
        return np.where(IS_FACT[state.kind.astype(np.intp)], fact, episode)

    def _floor(self, impact: Floats) -> Floats:
        """Return the amount below which storage never falls: 0 except with the soft floor."""
        p = self.parameters.soft_floor
        if self.curve is not None or self.parameters.curve != "soft_floor":
            return np.zeros_like(impact)
        return p.lowest + (p.highest - p.lowest) * impact**p.impact_power

    def _consolidated(self, state: State, event: Event) -> State:
        """Strengthen memories by the event; `state` must already be advanced to the last tick."""
        p = self.parameters
        direct = event.source != "associate"
        stability = state.stability
        if p.consolidation != "retrieval_only" if direct else self.spreads:
            gain = p.gain_direct if direct else p.gain_associate
            gained = stability + gain * (1 - stability / p.stability_cap)
            stability = np.clip(gained, stability, np.maximum(stability, p.stability_cap))
        if not direct:
            return replace(state, stability=stability)
        boost, storage_share = np.full_like(state.level, p.boost), p.storage_fraction
        match p.consolidation:
            case "activation_and_stability":
                storage_share = 1.0
            case "retrieval_only":
                storage_share = 0.0
            case "stability_only_direct":
                boost = np.zeros_like(boost)
            case "retrieval_rank_scaled_fraction":
                boost = boost / (1 + np.maximum(event.place, 0))
            case "retrieval_capped_fraction":
                boost = np.clip(p.boost_below - state.retrieval, 0, boost)
            case "retrieval_margin_bm25_fraction":
                boost = np.where((np.asarray(event.margin) >= p.margin_from) & event.lexical, boost, 0)
            case _:
                pass
        storage = np.minimum(_storage(state) + boost * storage_share, 1)
        return replace(
            state,
            level=np.log(np.maximum(storage, STRENGTH_MIN)),
            retrieval=np.minimum(state.retrieval + boost, 1),
            stability=stability,
        )


def relevance(parameters: MemoryDecayParameters, similarity: Floats, storage: Floats, retrieval: Floats) -> Floats:
    """Return the search score: similarity · A_r^w, or 0 if storage is below the threshold (seed 003, hybrid search)."""
    findable = storage >= parameters.storage_threshold
    return np.where(findable, similarity * retrieval**parameters.retrieval_weight, 0.0)


def _storage(state: State) -> Floats:
    return np.exp(np.clip(state.level, EXPONENT_MIN, 0))


def _blocks(ticks: int, rows: int) -> Iterator[Floats]:
    """Yield the ticks from 0 in blocks that fit in memory for this many rows."""
    size = max(_BLOCK_NUMBERS // rows, 1)
    for start in range(0, ticks, size):
        yield np.arange(start, min(start + size, ticks), dtype=np.float64)
