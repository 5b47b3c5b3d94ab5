"""Summarise the current state for the dashboard: what is wrong and what is pending.

Many pages request this often, above all during an outage. So each part is queried separately, an unreachable store
becomes a finding, and a process refreshes the result at most once a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Final
from uuid import UUID

from app import heartbeats
from app.domain import health_findings
from app.domain.evaluation.self_tests import is_recall_empty
from app.domain.health_findings import Finding
from app.services.jobs import schedule
from app.services.monitoring import fleet_gauges, lane_rates, probes, stats
from app.services.monitoring.lane_rates import Rates
from app.services.monitoring.stats import Lane
from app.services.passing import is_passing
from app.services.privacy import deadlines
from app.services.tenants import budget
from app.store import self_tests
from app.store.core import database
from app.store.ingest import dead_letters

FRESH_SECONDS: Final = 1.0
HISTORY_MINUTES: Final = 60
_KEPT: Final = 100


@dataclass(frozen=True)
class Status:
    """The current state of a tenant or of all tenants.

    Attributes:
        findings: Problems, worst first.
        lanes: Backlog by lane; empty if it can't be read.
        silent: Seconds since the last heartbeat of each lane's worker.
        rates: Inflow and outflow by lane; only for all tenants.
        letters: The tenant's dead letters; None if they can't be read.
        seconds: Time that the queries took.
    """

    findings: list[Finding]
    lanes: dict[str, Lane]
    silent: dict[str, float | None]
    letters: int | None
    seconds: float
    rates: dict[str, Rates] = field(default_factory=dict)

    def is_silent(self, lane: str) -> bool:
        """Return whether the lane's worker is overdue for a heartbeat."""
        return (self.silent.get(lane) or 0) >= health_findings.SILENT_SECONDS

    @property
    def line(self) -> str:
        """The verdict in one line."""
        return health_findings.line(self.findings)

    @property
    def state(self) -> str:
        """`well`, `attention` or `trouble`."""
        return self.findings[0].severity if self.findings else "well"

    @property
    def oldest_seconds(self) -> float | None:
        """Age of the oldest event that isn't stored yet."""
        lane = self.lanes.get("ingest")
        return lane.oldest_age_seconds if lane else None


@dataclass
class _Memo:
    lock: Lock = field(default_factory=Lock)
    held: dict[tuple[UUID, bool], tuple[float, Status]] = field(default_factory=dict)


_memo = _Memo()


def now(tenant_id: UUID, *, every: bool = False) -> Status:
    """Return the tenant's current state, at most `FRESH_SECONDS` old.

    Args:
        every: Report lanes and nights of all tenants.
    """
    with _memo.lock:
        held = _memo.held.get((tenant_id, every))
        if held is not None and time.monotonic() - held[0] < FRESH_SECONDS:
            return held[1]
        found = _asked(tenant_id, every=every)
        if len(_memo.held) >= _KEPT:
            _memo.held.clear()
        _memo.held[tenant_id, every] = (time.monotonic(), found)
        return found


def forget() -> None:
    """Discard cached results, so that the next call queries again."""
    with _memo.lock:
        _memo.held.clear()


@dataclass
class _Asked:
    findings: list[Finding] = field(default_factory=list)
    away: set[str] = field(default_factory=set)

    @contextmanager
    def of(self, *stores: str) -> Iterator[None]:
        """Mark these stores as unavailable if a query fails with a transient error."""
        try:
            yield
        except Exception as error:
            if not is_passing(error):
                raise
            self.away.update(stores)

    def part(self, ask: Callable[[], list[Finding]], *stores: str) -> None:
        """Add the findings of a part unless a store that it needs is unavailable."""
        if not self.away & set(stores):
            with self.of(*stores):
                self.findings += ask()


def _asked(tenant_id: UUID, *, every: bool) -> Status:
    began, asked = time.monotonic(), _Asked()
    for dependency in probes.dependencies():
        if not dependency.well:
            asked.away.add(dependency.name)
            todo = "start it, or see `ebbing doctor`"
            what = f"{dependency.name}: {dependency.detail}"
            asked.findings.append(Finding("trouble", f"{dependency.name}_away", what, todo))
    silent: dict[str, float | None] = {}
    lanes: dict[str, Lane] = {}
    speeds: dict[str, Rates] = {}
    letters: int | None = None
    if "redis" not in asked.away:
        with asked.of("redis"):
            silent = heartbeats.ages()
            asked.findings += health_findings.of_silence(silent)
    if not asked.away & {"postgresql", "redis", "schema"}:
        with asked.of("postgresql", "redis"):
            lanes = stats.lane_backlogs() if every else stats.tenant_lane_backlogs(tenant_id)
            if every:
                speeds = lane_rates.lane_rates(lanes, HISTORY_MINUTES)
            asked.findings += health_findings.lane_findings(
                {name: lane.oldest_age_seconds for name, lane in lanes.items()}
            )
    if not asked.away & {"postgresql", "schema"}:
        with asked.of("postgresql"):
            letters = _letters(tenant_id)
            if letters:
                what = f"{letters} dead {'letter needs' if letters == 1 else 'letters need'} a decision"
                asked.findings.append(Finding("attention", "dead_letters", what, "replay or discard them", "letters"))
        asked.part(lambda: _nights(tenant_id, every=every), "postgresql", "schema")
        asked.part(lambda: _requests(tenant_id), "postgresql", "schema")
        asked.part(lambda: _recalls(tenant_id), "postgresql", "schema")
        asked.part(lambda: _budget(tenant_id), "postgresql", "schema")
    asked.part(_room, "redis")
    if every:
        own = {one.code for one in asked.findings}  # newer than the cached figures
        asked.part(lambda: [one for one in _of_all() if one.code not in own], "redis")
    return Status(health_findings.ranked(asked.findings), lanes, silent, letters, time.monotonic() - began, speeds)


def _letters(tenant_id: UUID) -> int:
    with database.tenant(tenant_id) as tx:
        return dead_letters.count(tx, tenant_id)


def _nights(tenant_id: UUID, *, every: bool) -> list[Finding]:
    if every:
        found = stats.nights()
        return health_findings.of_nights(found.overdue_seconds, found.failed, found.cut_short)
    held = schedule.list_schedules(tenant_id)
    runs = [one.last_run for one in held if one.last_run]
    failed = {step: 1 for run in runs for step in stats.failed_steps(run)}
    overdue = max((one.late_seconds for one in held), default=0.0)
    return health_findings.of_nights(overdue, failed, sum(run.status == "cut_short" for run in runs))


def _recalls(tenant_id: UUID) -> list[Finding]:
    with database.tenant(tenant_id) as tx:
        run = self_tests.last_with_recalls(tx, tenant_id)
    return [health_findings.recall_empty(None)] if run is not None and is_recall_empty(run.results) else []


def _requests(tenant_id: UUID) -> list[Finding]:
    due = deadlines.next_deadlines(tenant_id)
    return [] if due.days_left is None else [health_findings.of_requests(due.requests, due.days_left)]


def _of_all() -> list[Finding]:
    """Return findings from the cached figures over all tenants, which are some seconds old."""
    kept = fleet_gauges.read()
    promised = kept.deadlines
    found = []
    if kept.unaccounted_requests:
        found.append(health_findings.lost(kept.unaccounted_requests))
    if promised.min_days_left is not None and promised.min_days_left < health_findings.DAYS_LEFT:
        found.append(health_findings.of_requests(None, promised.min_days_left))
    if kept.recall_empty:
        found.append(health_findings.recall_empty(kept.recall_empty))
    if promised.late_rewrites:
        found.append(health_findings.late_rewrites(promised.late_rewrites))
    return found


def _room() -> list[Finding]:
    used, limit = probes.redis_memory()
    return health_findings.storage_findings(used / limit if limit else 0.0, probes.disks_free())


def _budget(tenant_id: UUID) -> list[Finding]:
    state = budget.state(tenant_id)
    if state is budget.State.OK:
        return []
    hard = state is budget.State.HARD
    what = "the budget for models is used up" if hard else "the budget for models is almost used up"
    todo = "raise it in the policy or the settings; until then, rules replace models"
    return [Finding("trouble" if hard else "attention", "budget", what, todo, "money")]
