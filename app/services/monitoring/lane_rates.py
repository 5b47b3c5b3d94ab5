"""Measure each lane's inflow and outflow per minute over a day, to estimate when a backlog is cleared.

Each minute, a sample is stored in Redis: every lane's depth and the cumulative number of items that have left it. A
rate is computed from the difference between two samples, so restarts don't affect it, and a minute without a sample is
merged into the next minute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, cast

import msgspec

from app import metrics, queues
from app.clients.redis.connection import LANE_MINUTE, LANE_SAMPLES
from app.clients.redis.stream import backlog, client
from app.domain.ingest.json_input import precompile
from app.services.monitoring import stats
from app.services.monitoring.stats import Lane

MINUTES_KEPT: Final = 24 * 60
WINDOW_MINUTES: Final = 5
"""Window over which current rates are averaged."""

_MS: Final = 60_000

# Worker counters of items that have left a lane. For lanes without such a counter, finished jobs are counted.
LEFT: Final = {
    queues.INGEST: "indexed_memories",
    queues.EMBED: "embedded_memories",
    queues.SCORE: "scored_memories",
}


@dataclass(frozen=True, slots=True)
class Minute:
    """A sampling interval of about one minute.

    Attributes:
        ended_at: Seconds since 1970.
        depth: Items pending at the end.
    """

    ended_at: float
    depth: int
    in_per_second: float
    out_per_second: float


@dataclass(frozen=True, slots=True)
class Rates:
    """A lane's inflow and outflow, in memories or jobs per second.

    Attributes:
        in_per_second: Average over the last `WINDOW_MINUTES`.
        out_per_second: Average over the last `WINDOW_MINUTES`.
        drain_seconds: Time until the lane is empty at these rates; 0 if it is empty, None if the backlog isn't falling.
        history: By minute, oldest first.
    """

    in_per_second: float
    out_per_second: float
    drain_seconds: float | None
    history: list[Minute]


@precompile
class _Sample(msgspec.Struct, array_like=True, frozen=True):
    """A snapshot of each lane's depth and of the cumulative number of items that have left it."""

    at_ms: int
    depths: dict[str, int]
    left: dict[str, int]


def take_sample() -> bool:
    """Take this minute's sample unless another process has taken it. Return whether this call took it."""
    minute = backlog().now_ms() // _MS
    before = client().set(LANE_MINUTE, minute, get=True)
    if before is not None and int(cast("bytes", before)) == minute:
        return False
    sample = _now(stats.lane_backlogs())
    with client().pipeline(transaction=False) as pipe:
        pipe.zadd(LANE_SAMPLES, {msgspec.json.encode(sample): minute})
        pipe.zremrangebyscore(LANE_SAMPLES, "-inf", minute - MINUTES_KEPT - 1)
        pipe.execute()
    return True


def lane_rates(lanes: Mapping[str, Lane] | None = None, minutes: int = MINUTES_KEPT) -> dict[str, Rates]:
    """Return the inflow, outflow and history of each lane.

    Args:
        lanes: The current result of `stats.lane_backlogs`, if the caller has it.
        minutes: Length of the history, at least 1.
    """
    now = _now(stats.lane_backlogs() if lanes is None else lanes)
    samples = _since(now.at_ms // _MS - max(minutes, WINDOW_MINUTES))
    recent = [sample for sample in samples if sample.at_ms >= now.at_ms - WINDOW_MINUTES * _MS] or samples[-1:]
    shown = [sample for sample in samples if sample.at_ms >= now.at_ms - minutes * _MS]
    return {lane: _rates(lane, now, recent, shown) for lane in now.depths}


def _now(lanes: Mapping[str, Lane]) -> _Sample:
    counters = metrics.read_worker_metrics()
    depths = {name: lane.depth for name, lane in lanes.items()}
    left = {name: counters.value(LEFT[name]) if name in LEFT else _jobs(counters, name) for name in lanes}
    return _Sample(backlog().now_ms(), depths, left)


def _jobs(held: metrics.WorkerMetrics, lane: str) -> int:
    return sum(held.value("jobs", (lane, outcome)) for outcome in metrics.JOB_OUTCOMES)


def _since(minute: int) -> list[_Sample]:
    stored = cast("list[Any]", client().zrangebyscore(LANE_SAMPLES, minute, "+inf"))
    return [msgspec.json.decode(sample, type=_Sample) for sample in stored]


def _rates(lane: str, now: _Sample, recent: Sequence[_Sample], shown: Sequence[_Sample]) -> Rates:
    samples = [sample for sample in shown if lane in sample.depths]
    history = [_between(lane, before, after) for before, after in pairwise(samples)]
    first = next((sample for sample in recent if lane in sample.depths and sample.at_ms < now.at_ms), None)
    depth = now.depths[lane]
    if first is None:
        return Rates(0.0, 0.0, None if depth else 0.0, history)
    recent_rates = _between(lane, first, now)
    shrinking_per_second = recent_rates.out_per_second - recent_rates.in_per_second
    drain_seconds = 0.0 if not depth else depth / shrinking_per_second if shrinking_per_second > 0 else None
    return Rates(recent_rates.in_per_second, recent_rates.out_per_second, drain_seconds, history)


def _between(lane: str, before: _Sample, after: _Sample) -> Minute:
    """Compute the rates between two samples.

    Inflow is outflow plus the growth in depth. If pending items were dropped, it would be negative and is clamped to 0.
    """
    seconds = (after.at_ms - before.at_ms) / 1000
    left = max(after.left[lane] - before.left[lane], 0)
    entered = max(left + after.depths[lane] - before.depths[lane], 0)
    return Minute(after.at_ms / 1000, after.depths[lane], entered / seconds, left / seconds)
