"""Summarise the current state for the dashboard: problems, backlog and worker heartbeats.

`app.domain.health_findings` decides which numbers are problems.

Many pages request this summary often, above all during an outage. So each part is queried separately, an unreachable
store becomes a finding, and a process refreshes the summary at most once a second.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Final
from uuid import UUID

from app import heartbeats, queues
from app.domain import health_findings
from app.domain.evaluation.self_test_rules import is_recall_empty
from app.domain.formatting import count_memories, count_of, format_span
from app.domain.health_findings import Finding, Restarts, StuckProcess
from app.domain.operator_advice import advise
from app.domain.provider_health import ProviderHealth, defer_reembedding, provider_findings, working_providers
from app.services.embedding import spaces
from app.services.jobs import schedule
from app.services.monitoring import (
    fleet_gauges,
    installation,
    lane_rates,
    probes,
    provider_status,
    stats,
    stuck_processes,
)
from app.services.monitoring.lane_rates import Rates
from app.services.monitoring.stats import Lane
from app.services.privacy import deadlines
from app.services.tenants import budget
from app.settings import settings
from app.store import self_tests
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.ingest import dead_letters
from app.store.tenants import tenants
from app.store.webhooks import turns

FRESH_SECONDS: Final = 1.0
COUNT_SECONDS: Final = 15.0
HISTORY_MINUTES: Final = 60
JOB_LANES: Final = frozenset({queues.RIGHTS, queues.MAINTAIN})
"""Lanes whose entries are jobs; those of the other lanes are memories."""
NAMED_TENANTS: Final = 5
"""Maximum number of tenants that a finding names."""
_KEPT: Final = 100


@dataclass(frozen=True)
class Status:
    """The current state of a tenant or of all tenants.

    Attributes:
        findings: Problems and warnings, problems first.
        passed: Findings of the probes that found no problem.
        lanes: Backlog by lane; empty if it can't be read.
        silent: Seconds since the last heartbeat, by lane or "beat"; None if there was none.
        stuck: Processes of the workers that make no progress.
        restarts: Restarts of the last hour by lane or "beat"; processes without restarts are omitted.
        rates: Inflow and outflow by lane; empty unless the state covers all tenants.
        providers: State of the configured model providers; empty if none is configured, or it can't be read.
        letters: The tenant's dead letters; None if they can't be read.
        seconds: Time that the queries took.
    """

    findings: list[Finding]
    lanes: dict[str, Lane]
    silent: dict[str, float | None]
    letters: int | None
    seconds: float
    rates: dict[str, Rates] = field(default_factory=dict)
    providers: list[ProviderHealth] = field(default_factory=list)
    stuck: list[StuckProcess] = field(default_factory=list)
    passed: list[Finding] = field(default_factory=list)
    restarts: dict[str, Restarts] = field(default_factory=dict)

    def is_silent(self, lane: str) -> bool:
        """Return whether the last heartbeat of the lane's worker is too old; False if there was none."""
        return (self.silent.get(lane) or 0) >= health_findings.SILENT_SECONDS

    def stuck_seconds(self, lane: str) -> float:
        """Return the longest time that a process of the lane's worker has made no progress; 0 if none is stuck."""
        return max((one.seconds for one in self.stuck if one.lane == lane), default=0.0)

    @property
    def line(self) -> str:
        """The overall state in one line."""
        return health_findings.line(self.findings)

    @property
    def state(self) -> str:
        """`well`, `attention` or `trouble`."""
        return self.findings[0].severity if self.findings else "well"

    @property
    def backlog_line(self) -> str:
        """The number of entries in each queue that isn't empty, with the age of the oldest, as one sentence."""
        if not self.lanes:
            return "What waits in the queues is unknown"
        waiting = [
            f"{_count_entries(name, lane.depth)} in {name} (the oldest for {format_span(lane.oldest_age_seconds)})"
            for name, lane in self.lanes.items()
            if lane.depth
        ]
        return f"Waiting: {', '.join(waiting)}" if waiting else "All queues are empty"


def _count_entries(lane: str, count: int) -> str:
    return count_of(count, "job", "jobs") if lane in JOB_LANES else count_memories(count)


@dataclass
class _Memo:
    lock: Lock = field(default_factory=Lock)
    held: dict[tuple[UUID, bool], tuple[float, Status]] = field(default_factory=dict)
    unrated: dict[UUID, tuple[float, int]] = field(default_factory=dict)


_memo = _Memo()


def now(tenant_id: UUID, *, every: bool = False) -> Status:
    """Return the tenant's current state, at most `FRESH_SECONDS` old.

    Args:
        every: Report lanes, nightly runs and other findings of all tenants, not only of this tenant.
    """
    with _memo.lock:
        cached = _memo.held.get((tenant_id, every))
        if cached is not None and time.monotonic() - cached[0] < FRESH_SECONDS:
            return cached[1]
        status = _asked(tenant_id, every=every)
        if len(_memo.held) >= _KEPT:
            _memo.held.clear()
            _memo.unrated.clear()
        _memo.held[tenant_id, every] = (time.monotonic(), status)
        return status


def forget() -> None:
    """Discard cached results, so that the next call queries again."""
    with _memo.lock:
        _memo.held.clear()
        _memo.unrated.clear()


def _asked(tenant_id: UUID, *, every: bool) -> Status:
    started, probe_round = time.monotonic(), probes.Round()
    findings = probe_round.find(probes.readiness)
    silent = probe_round.read(heartbeats.heartbeat_ages, "redis") or {}
    stuck = probe_round.read(stuck_processes.list_stuck, "redis") or []
    backlogs = partial(stats.lane_backlogs, None if every else tenant_id)
    lanes = probe_round.read(backlogs, "postgresql", "redis", "schema") or {}
    rates = (
        probe_round.read(lambda: lane_rates.lane_rates(lanes, HISTORY_MINUTES), "redis") if every and lanes else None
    )
    restarts = probe_round.read(heartbeats.list_restarts, "redis") or {}
    letters = probe_round.read(lambda: _letters(tenant_id), "postgresql", "schema")
    findings += health_findings.silence_findings(silent, stuck, is_starting=probes.is_starting())
    findings += health_findings.restart_findings(restarts)
    # A lane in trouble has a finding already, so don't report the age of its queue as well.
    broken = {finding.code for finding in findings if finding.severity == "trouble"}
    ages = {name: lane.oldest_age_seconds for name, lane in lanes.items() if f"lane_{name}" not in broken}
    findings += health_findings.lane_findings(ages)
    findings += [health_findings.dead_letter_finding(letters)] if letters else []
    read_providers = partial(_providers, tenant_id, lanes.get(queues.EMBED), every=every)
    providers = probe_round.read(read_providers, "redis", "postgresql", "schema") or []
    findings += [
        *provider_findings(providers, is_starting=probes.is_starting()),
        *working_providers(providers),
    ]
    own = (_nights,) if every else (_own_nights, _own_webhooks)
    for probe in (*own, _requests, _recalls, _budget, _search_space):
        findings += probe_round.find(partial(probe, tenant_id), "postgresql", "schema")
    findings = defer_reembedding(findings, providers)
    findings += probe_round.find(probes.storage, "redis")
    if every:
        findings += probes.secret_files()
        others = partial(_letters_of_others, tenant_id, letters or 0)
        findings += probe_round.find(others, "redis", "postgresql", "schema")
        reported_codes = {finding.code for finding in findings}  # the cached figures are older than these findings
        findings += [finding for finding in probe_round.find(_of_all, "redis") if finding.code not in reported_codes]
    here = probe_round.read(installation.describe, "redis") or installation.describe_place()
    advised = [advise(finding, here) for finding in health_findings.ranked(findings)]
    passed = [finding for finding in findings if finding.severity == "ok"]
    seconds = time.monotonic() - started
    return Status(advised, lanes, silent, letters, seconds, rates or {}, providers, stuck, passed, restarts)


_letters = database.in_tenant(dead_letters.count)


def _providers(tenant_id: UUID, embed: Lane | None, *, every: bool) -> list[ProviderHealth]:
    waiting = {"embed": embed.depth if embed else None}
    if settings().has_provider:
        waiting["score"] = fleet_gauges.read().unrated if every else _count_unrated(tenant_id)
    return provider_status.read_providers(waiting)


def _count_unrated(tenant_id: UUID) -> int:
    """Return the number of the tenant's memories that wait for a rating, at most `COUNT_SECONDS` old.

    While a provider is away, counting takes long, and pages ask every two seconds.
    """
    counted_at, unrated = _memo.unrated.get(tenant_id, (float("-inf"), 0))
    if time.monotonic() - counted_at >= COUNT_SECONDS:
        with database.tenant(tenant_id) as tx:
            unrated = stats.count_unrated(tx, tenant_id)
        _memo.unrated[tenant_id] = (time.monotonic(), unrated)
    return unrated


def _nights(_tenant_id: UUID) -> list[Finding]:
    statistics = stats.nights()
    return health_findings.night_findings(statistics.overdue_seconds, statistics.failed, statistics.cut_short)


def _own_nights(tenant_id: UUID) -> list[Finding]:
    schedules = schedule.list_schedules(tenant_id)
    runs = [entry.last_run for entry in schedules if entry.last_run]
    failed = {step: 1 for run in runs for step in stats.failed_steps(run)}
    overdue = max((entry.late_seconds for entry in schedules), default=0.0)
    return health_findings.night_findings(overdue, failed, sum(run.status == "cut_short" for run in runs))


def _recalls(tenant_id: UUID) -> list[Finding]:
    with database.tenant(tenant_id) as tx:
        run = self_tests.read_last_with_recalls(tx, tenant_id)
    return [health_findings.recall_finding(None)] if run is not None and is_recall_empty(run.results) else []


def _own_webhooks(tenant_id: UUID) -> list[Finding]:
    with database.tenant(tenant_id) as tx:
        return health_findings.webhook_findings(turns.count_states(tx, tenant_id))


def _requests(tenant_id: UUID) -> list[Finding]:
    due = deadlines.next_deadlines(tenant_id)
    return [] if due.days_left is None else [health_findings.request_finding(due.requests, due.days_left)]


def _of_all() -> Iterator[Finding]:
    """Yield findings from the cached figures over all tenants, which are some seconds old."""
    figures = fleet_gauges.read()
    days_left = figures.deadlines.min_days_left
    if figures.unaccounted_requests:
        yield health_findings.loss_finding(figures.unaccounted_requests)
    if days_left is not None and days_left < health_findings.DAYS_LEFT:
        yield health_findings.request_finding(None, days_left)
    if figures.recall_empty:
        yield health_findings.recall_finding(figures.recall_empty)
    if figures.deadlines.late_rewrites:
        yield health_findings.rewrite_finding(figures.deadlines.late_rewrites)
    yield from health_findings.webhook_findings(figures.webhooks)


def _letters_of_others(tenant_id: UUID, letters: int) -> list[Finding]:
    """Report the dead letters of the other tenants, with the names of the tenants that have the most."""
    others, tenant_count, total = fleet_gauges.read().count_other_letters(tenant_id, letters)
    if tenant_count <= 0:
        return []
    with database.shared() as tx:
        names = tenants.read_names(tx, list(others)[:NAMED_TENANTS])
    named = {name: others[tenant] for tenant, name in names.items()}
    return [health_findings.other_dead_letters_finding(named, tenant_count, total)]


def _search_space(tenant_id: UUID) -> list[Finding]:
    with database.tenant(tenant_id) as tx:
        found = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    return spaces.judge_search_space(found.searched) if found else []


def _budget(tenant_id: UUID) -> Iterator[Finding]:
    state = budget.budget_state(tenant_id)
    if state is not budget.BudgetState.OK:
        is_hard = state is budget.BudgetState.HARD
        what = "the budget for models is used up" if is_hard else "the budget for models is almost used up"
        todo = "raise it in the policy or the settings; otherwise, once the budget is used up, word-based rules rate "
        todo += "memories until midnight UTC"
        yield Finding("trouble" if is_hard else "attention", "budget", what, todo, "money")
