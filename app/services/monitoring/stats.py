"""Collect a tenant's numbers for dashboards: memories, backlog, dead letters, nightly runs and self-tests."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from uuid import UUID

from app import heartbeats, queues
from app.clients.redis.stream import backlog
from app.domain.evaluation.self_test_rules import count_tests, empty_share
from app.domain.jobs import RIGHTS_KINDS
from app.domain.provider_health import ProviderHealth
from app.domain.salience import agreement
from app.domain.salience.agreement import Agreement
from app.domain.salience.llm_scoring import scorer_version
from app.services.embedding import spaces
from app.services.embedding.spaces import SearchedSpace
from app.services.monitoring import installation, provider_status
from app.services.night import night_run
from app.services.tenants import quota
from app.services.tenants.quota import QuotaUsage
from app.services.tiers import pca_fitting
from app.services.tiers.pca_fitting import ReducedVectors
from app.settings import settings
from app.store import self_tests
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.enrichment import rating_comparison, rating_queue, work_queue
from app.store.enrichment.work_queue import StageBacklog
from app.store.ingest import dead_letters
from app.store.jobs import jobs, schedules
from app.store.jobs.schedules import RunStatistics, ScheduleRun
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import TierCounts
from app.store.self_tests import SelfTestRun
from app.store.tenants import policies

TREND: Final = 8
"""Number of self-test runs shown."""


@dataclass(frozen=True)
class Lane:
    """A lane's backlog: pending memories (jobs in `rights` and `maintain`) and the age of the oldest in seconds."""

    depth: int
    oldest_age_seconds: float


@dataclass(frozen=True)
class LastNight:
    """The outcome or progress of a tenant's last nightly run.

    Attributes:
        status: Status of the run.
        late_seconds: Delay of the start, or delay so far if the run hasn't started.
        seconds: Duration; None before the run starts.
        failed_steps: Names of the steps that failed.
    """

    local_date: date
    status: str
    late_seconds: float
    seconds: float | None
    failed_steps: list[str]


@dataclass(frozen=True)
class SelfTested:
    """The results of a self-test run.

    Attributes:
        passed: Share of tests passed, by kind.
        tests: Number of tests, by kind.
        recall_empty: Share of recalls that returned nothing; None if there were no recalls.
    """

    as_of: datetime
    passed: dict[str, float]
    tests: dict[str, int]
    recall_empty: float | None
    p50_ms: float | None
    p95_ms: float | None
    target_ms: float


@dataclass(frozen=True)
class Stats:
    """A tenant's current numbers.

    Attributes:
        memories: Number of memories by tier.
        pending: Number of memories that await each stage: `ingest` (storing), the enrichment stages, and `rate` (rating
            by a model, 0 if none is configured).
        lanes: Backlog by lane.
        silent_seconds: Seconds since the last heartbeat of each lane's worker and of beat; None if there was none.
        room: Storage used, and the quota.
        embedding_space: The tenant's search space; None before its first vector.
        archive: Dimensionality reductions of archived vectors.
        last_night: The last nightly run that was due or was started manually.
        self_tests: The latest finished self-test runs, newest first.
        providers: State of the configured model providers; empty if none is configured.
        rating_agreement: Agreement of the last ratings by a model with the rules, by model and prompt version, the
            latest first; empty without ratings.
        installation: Kind of installation, a value of `EBBING_INSTALLATION`.
        worker_pids: Process ids of the workers and of beat, by lane or "beat"; only with `ebbing run`.
    """

    memories: dict[str, int]
    pending: dict[str, int]
    dead_letters: int
    lanes: dict[str, Lane]
    silent_seconds: dict[str, float | None]
    room: QuotaUsage
    embedding_space: SearchedSpace | None
    archive: list[ReducedVectors]
    last_night: LastNight | None
    self_tests: list[SelfTested]
    providers: list[ProviderHealth]
    rating_agreement: list[Agreement]
    installation: str
    worker_pids: dict[str, int]


def tenant_stats(tenant_id: UUID) -> Stats:
    """Return the numbers of one tenant."""
    unstored, age = _in_queue(tenant_id)
    with database.tenant(tenant_id) as tx:
        counts = tenant_counts.read(tx, tenant_id)
        room = quota.get_usage(tx, tenant_id, counts)
        stage_backlogs = work_queue.read_backlog(tx, tenant_id)
        unfinished = jobs.count_unfinished(tx, sorted(RIGHTS_KINDS), tenant_id)
        nights = schedules.list_runs(tx, tenant_id, night_run.KIND, None, 1)
        dead_letter_count = dead_letters.count(tx, tenant_id)
        tested = [_tested(run) for run in self_tests.list_runs(tx, tenant_id, None, TREND) if run.finished_at]
        tenant_spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        unrated = count_unrated(tx, tenant_id)
        compared = rating_comparison.list_last(tx, tenant_id, agreement.RATINGS_MAX)
    pending = {
        "ingest": unstored,
        **{stage: stage_backlog.memories for stage, stage_backlog in stage_backlogs.items()},
        "rate": unrated,
    }
    lanes = _lanes(unstored, age, stage_backlogs, unfinished)
    search_space = spaces.compare_with_settings(tenant_spaces.searched) if tenant_spaces else None
    last_night = _last_night(nights[0]) if nights else None
    archived = pca_fitting.list_in_use(tenant_id)
    silent = heartbeats.heartbeat_ages()
    here = installation.describe()
    return Stats(
        _by_tier(counts),
        pending,
        dead_letter_count,
        lanes,
        silent,
        room,
        search_space,
        archived,
        last_night,
        tested,
        provider_status.read_providers({"score": unrated, "embed": lanes[queues.EMBED].depth}),
        agreement.compare(compared),
        here.kind,
        dict(here.pids),
    )


def rating_agreement(tenant_id: UUID) -> list[Agreement]:
    """Return the agreement of a tenant's last ratings by a model with the rules, by model and prompt version."""
    with database.tenant(tenant_id) as tx:
        return agreement.compare(rating_comparison.list_last(tx, tenant_id, agreement.RATINGS_MAX))


def count_unrated(tx: database.Transaction, tenant_id: UUID) -> int:
    """Return the number of memories that await a rating by a model; 0 if no provider is configured."""
    config = settings()
    if not config.has_provider:
        return 0
    cues = policies.read_current(tx, tenant_id).recall.cues
    return rating_queue.count_unrated(tx, tenant_id, scorer_version(config.salience_model, cues=cues))


@dataclass(frozen=True)
class TenantUsage:
    """A tenant's memories and storage use, read from its counters alone."""

    memories: dict[str, int]
    room: QuotaUsage


def count_usage(tenant_id: UUID) -> TenantUsage:
    """Return the memories and storage use that `tenant_stats` reports, without reading any memory."""
    with database.tenant(tenant_id) as tx:
        counts = tenant_counts.read(tx, tenant_id)
        return TenantUsage(_by_tier(counts), quota.get_usage(tx, tenant_id, counts))


def lane_backlogs(tenant_id: UUID | None = None) -> dict[str, Lane]:
    """Return the backlog of a tenant, or of all tenants, in each lane."""
    unstored, age = _in_queue(tenant_id)
    with database.shared() as tx:
        stage_backlogs = work_queue.read_backlog(tx, tenant_id)
        unfinished = jobs.count_unfinished(tx, sorted(RIGHTS_KINDS), tenant_id)
    return _lanes(unstored, age, stage_backlogs, unfinished)


def _lanes(
    unstored: int, age: float, waiting: dict[str, StageBacklog], unfinished: dict[bool, tuple[int, float]]
) -> dict[str, Lane]:
    index, embed, score = (waiting[stage] for stage in (work_queue.INDEX, work_queue.EMBED, work_queue.SCORE))
    return {
        queues.INGEST: Lane(unstored + index.memories, max(age, index.oldest_age_seconds)),
        queues.EMBED: Lane(embed.memories, embed.oldest_age_seconds),
        queues.SCORE: Lane(score.memories, score.oldest_age_seconds),
        queues.RIGHTS: Lane(*unfinished[True]),
        queues.MAINTAIN: Lane(*unfinished[False]),
    }


def _by_tier(counts: TierCounts) -> dict[str, int]:
    return {tier: getattr(counts, tier) for tier in ("active", "archived", "cold")}


def nights() -> RunStatistics:
    """Return statistics of the last nightly runs of all tenants."""
    with database.shared() as tx:
        return schedules.read_statistics(tx, night_run.KIND)


def failed_steps(run: ScheduleRun) -> list[str]:
    """Return the names of a run's failed steps."""
    return list(run.failed) or ([run.step] if run.status == "failed" and run.step else [])


def _last_night(run: ScheduleRun) -> LastNight:
    return LastNight(run.local_date, run.status, run.late_seconds, run.seconds, failed_steps(run))


def _tested(run: SelfTestRun) -> SelfTested:
    tests = {kind: count_tests(results) for kind, results in run.results.items()}
    passed = {kind: run.results[kind]["passed"] / count for kind, count in tests.items()}
    return SelfTested(run.as_of, passed, tests, empty_share(run.results), run.p50_ms, run.p95_ms, run.target_ms)


def _in_queue(tenant_id: UUID | None = None) -> tuple[int, float]:
    """Return the number of queued memories of a tenant, or of all tenants, and the age of the oldest in seconds.

    Call this before reading the database: memories move from the queue to the database, so the reverse order could miss
    memories that move between the two reads.
    """
    queue = backlog()
    oldest_ms = queue.oldest_ms([tenant_id] if tenant_id else None)
    return queue.memories(tenant_id), 0.0 if oldest_ms is None else max(queue.now_ms() - oldest_ms, 0) / 1000
