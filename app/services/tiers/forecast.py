"""Forecast a tenant's memories by tier, under the current policy and optionally under a changed one. Read-only."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.profiles import rebase
from app.domain.dynamics.state import State
from app.domain.dynamics.timeline import Era
from app.domain.policy.policy_diff import amend_policy
from app.domain.tiers import forecast
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.forecast import Counts
from app.domain.tiers.keep_calibration import FoundThreshold
from app.domain.tiers.tier_decision import TierFacts
from app.errors import FieldError, Invalid
from app.services.strength import keep_threshold, memory_strength
from app.store.core import database

PAGE_ROWS: Final = 20_000
SHOWN_MAX: Final = 20
"""Number of ids listed per move."""
SECONDS_MAX: Final = 45.0
"""Time limit of a forecast; clients time out after a minute."""


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """The parameters of a forecast.

    Attributes:
        days: Number of days to forecast, 0 to `forecast.DAYS_MAX`.
        changes: Policy fields to change, with their JSON values; None for no what-if analysis.
        one_in: Without a subject, sample one memory out of this many, and extrapolate; 1 for all memories.
    """

    days: int
    changes: Mapping[str, Any] | None = None
    subject: str | None = None
    one_in: int = 1


@dataclass(slots=True)
class ImmediateMove:
    """Memories that a policy change would move immediately.

    Attributes:
        source: The tier decided under the current policy.
        target: The tier decided under the changed policy.
        memories: Number of memories.
        ids: The first `SHOWN_MAX` of these memories.
    """

    source: str
    target: str
    memories: int = 0
    ids: list[UUID] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TierForecast:
    """A forecast.

    Attributes:
        as_of: Time of the forecast.
        dates: Today and the following days, in the tenant's time zone.
        counts: Number of memories by day and tier: now for today, and at the start of each later day.
        changed: Number of memories by day and tier under the changed policy; None without one.
        moves: Moves that the changed policy would cause immediately.
        keep_above: Threshold of the keep chance in force; None if the policy decides by salience.
        found: Threshold found for the changed policy's `tiers.target_active_share`; None if that isn't set.
    """

    as_of: datetime
    dates: list[date]
    counts: Counts
    changed: Counts | None
    moves: list[ImmediateMove]
    keep_above: float | None
    found: FoundThreshold | None


def forecast_tiers(tenant_id: UUID, wish: ForecastOptions) -> TierForecast:
    """Forecast the memories of a tenant.

    Each page of memories is read in its own transaction. Concurrent changes may or may not be included; a memory that
    was used or changed after `as_of` is counted with its new state.

    Raises:
        Invalid: The changed policy is invalid, or the forecast reaches too far.
    """
    began = time.monotonic()

    def check() -> None:
        if time.monotonic() - began > SECONDS_MAX:
            raise _check_horizon(wish.days, f"takes more than {SECONDS_MAX:g} s for so many memories")

    with database.tenant(tenant_id) as tx:
        as_of, times = database.now(tx), memory_strength.load_timeline(tx, tenant_id)
    now = as_of.timestamp()
    policy = times.at(now).policy
    changed = None if wish.changes is None else amend_policy(policy, wish.changes)
    for checked_policy in (policy, changed):
        if checked_policy is not None and wish.days * 86_400 > forecast.horizon_seconds(checked_policy.model):
            raise _check_horizon(
                wish.days, "takes too many ticks", int(forecast.horizon_seconds(checked_policy.model) // 86_400)
            )
    threshold = None
    if changed is not None:
        changed, threshold = keep_threshold.resolve_target(tenant_id, changed, as_of, wish.one_in)
    dates, moments = _days(as_of, ZoneInfo(policy.time_zone), wish.days)
    eras = [times.at(now), *(era for era in times.after(now) if era.since <= moments[-1])]
    as_is, as_changed = np.zeros((2, len(dates), len(DECAY_TIERS)), np.int64)
    moves: dict[tuple[int, int], ImmediateMove] = {}
    rules_in_use = [era.policy.rules for era in eras] + ([] if changed is None else [changed.rules])
    for stored, standings in memory_strength.iterate_pages(
        tenant_id, PAGE_ROWS, rules_in_use, wish.subject, wish.one_in
    ):
        state = memory_strength.advance_to_era(stored, times, now).state
        as_is += _counts(eras, state, standings[: len(eras)], moments, check)
        if changed is not None:
            converted = rebase(state, now, policy.model, changed.model)
            as_changed += forecast.count_tiers(changed, converted, standings[-1], moments, check)
            before = forecast.tiers_by_time(policy, state, standings[0], now)
            after = forecast.tiers_by_time(changed, converted, standings[-1], now)
            _add_moves(moves, stored.ids, before, after)
    sorted_moves = [moves[pair] for pair in sorted(moves)]
    what_if = None if changed is None else as_changed * wish.one_in
    keep_above = keep_threshold.read_threshold(tenant_id, policy)
    return TierForecast(as_of, dates, as_is * wish.one_in, what_if, sorted_moves, keep_above, threshold)


def _counts(
    eras: Sequence[Era], state: State, standings: Sequence[TierFacts], moments: Floats, check: forecast.Check
) -> Counts:
    """Count memories by tier with each policy for its own period; each period starts with the tiers of the one before.

    Args:
        eras: The era of the first moment and the following eras.
        state: States, advanced to the first era.
        standings: The tier facts under each era's rules.
        moments: Ascending, in seconds since 1970.
        check: See `forecast.count_tiers`.
    """
    parts, tiers = [], standings[0].tiers
    starts = np.searchsorted(moments, [era.since for era in eras[1:]])
    for era, following, era_facts, era_moments in zip(
        eras, [*eras[1:], None], standings, np.split(moments, starts), strict=True
    ):
        facts = replace(era_facts, tiers=tiers)
        if era_moments.size:
            parts.append(forecast.count_tiers(era.policy, state, facts, era_moments, check))
        if following is not None:
            tiers = forecast.tiers_by_time(era.policy, state, facts, following.since)
            state = rebase(state, following.since, era.policy.model, following.policy.model)
    return np.concatenate(parts)


def _check_horizon(days: int, why: str, limit: int | None = None) -> Invalid:
    return Invalid(errors=[FieldError("days", why, days, limit)])


def _days(as_of: datetime, zone: ZoneInfo, days: int) -> tuple[list[date], npt.NDArray[np.float64]]:
    today = as_of.astimezone(zone).date()
    dates = [today + timedelta(days=ahead) for ahead in range(days + 1)]
    midnights = [datetime(day.year, day.month, day.day, tzinfo=zone).timestamp() for day in dates]
    return dates, np.array([as_of.timestamp(), *midnights[1:]])


def _add_moves(
    moves: dict[tuple[int, int], ImmediateMove],
    ids: list[UUID],
    before: npt.NDArray[np.int8],
    after: npt.NDArray[np.int8],
) -> None:
    pairs = before * len(DECAY_TIERS) + after
    for pair in np.unique(pairs[before != after]):
        source, target = divmod(int(pair), len(DECAY_TIERS))
        rows = np.flatnonzero(pairs == pair)
        move = moves.setdefault((source, target), ImmediateMove(DECAY_TIERS[source], DECAY_TIERS[target]))
        move.memories += len(rows)
        move.ids += [ids[row] for row in rows[: SHOWN_MAX - len(move.ids)]]
