"""Numbers for dashboards: what is kept, what waits, what failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from uuid import UUID

from app import heartbeats, queues
from app.clients.redis.stream import backlog
from app.domain.evaluation.self_tests import empty_share, tested
from app.domain.salience.scoring import version
from app.services.embedding import spaces
from app.services.embedding.spaces import Searched
from app.services.jobs.jobs import RIGHTS_KINDS
from app.services.night import night
from app.services.tenants import quota
from app.services.tenants.quota import Room
from app.services.tiers import bases
from app.services.tiers.bases import Reduced
from app.settings import settings
from app.store import self_tests
from app.store.core import database
from app.store.embedding import spaces as space_rows
from app.store.enrichment import ratings, work
from app.store.enrichment.work import Waiting
from app.store.ingest import dead_letters
from app.store.jobs import jobs, schedules
from app.store.jobs.schedules import Figures, Run
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import Counts
from app.store.self_tests import Run as TestRun
from app.store.tenants import policies

TREND: Final = 8
"""Runs of self-tests that are shown."""


@dataclass(frozen=True)
class Lane:
    """What waits in a lane: memories (in `rights` and `maintain`: jobs), and the seconds since the oldest came."""

    depth: int
    oldest_age_seconds: float


@dataclass(frozen=True)
class LastNight:
    """How a tenant's last night went, or goes.

    Attributes:
        status: As its run's.
        late_seconds: How late it began, or hasn't begun yet.
        seconds: How long it took; None before it begins.
        failed_steps: Those that failed, by name.
    """

    local_date: date
    status: str
    late_seconds: float
    seconds: float | None
    failed_steps: list[str]


@dataclass(frozen=True)
class SelfTested:
    """What a run of self-tests has come to.

    Attributes:
        passed: By kind, the share of its tests that have passed.
        tests: By kind, how many there were.
        recall_empty: Share of the recalls that brought nothing at all; None where there were none.
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
    """A tenant's numbers, now.

    Attributes:
        memories: By tier.
        pending: Memories that wait for each stage; `ingest` is to be stored, `rate` is to be rated by a model where
            there is one.
        lanes: By lane.
        silent_seconds: By lane, and for beat, since a process of it was last heard of; None for never.
        room: What they take up, and the quota.
        embedding_space: Where it is searched by meaning; None before its first vector.
        archive: What archived vectors are reduced by.
        last_night: The last one that was due, or was run by hand.
        self_tests: The last runs of self-tests that are finished, the newest first.
    """

    memories: dict[str, int]
    pending: dict[str, int]
    dead_letters: int
    lanes: dict[str, Lane]
    silent_seconds: dict[str, float | None]
    room: Room
    embedding_space: Searched | None
    archive: list[Reduced]
    last_night: LastNight | None
    self_tests: list[SelfTested]


def of_tenant(tenant_id: UUID) -> Stats:
    """The numbers of one tenant."""
    unstored, age = _in_queue(tenant_id)
    with database.tenant(tenant_id) as tx:
        counts = tenant_counts.read(tx, tenant_id)
        room = quota.of(tx, tenant_id, counts)
        waiting = work.waiting(tx, tenant_id)
        unfinished = jobs.unfinished(tx, sorted(RIGHTS_KINDS), tenant_id)
        nights = schedules.page(tx, tenant_id, night.KIND, None, 1)
        letters = dead_letters.count(tx, tenant_id)
        trend = [_tested(run) for run in self_tests.page(tx, tenant_id, None, TREND) if run.finished_at]
        there = space_rows.of_tenant(tx, tenant_id)
        unrated = _unrated(tx, tenant_id)
    pending = {
        "ingest": unstored,
        **{stage: held.memories for stage, held in waiting.items()},
        "rate": unrated,
    }
    lanes = _lanes(unstored, age, waiting, unfinished)
    compared = spaces.compared(there.searched) if there else None
    last = _last_night(nights[0]) if nights else None
    archived = bases.in_use(tenant_id)
    silent = heartbeats.ages()
    return Stats(_by_tier(counts), pending, letters, lanes, silent, room, compared, archived, last, trend)


def _unrated(tx: database.Transaction, tenant_id: UUID) -> int:
    """Return how many memories wait for a model's rating; 0 where there is no provider."""
    config = settings()
    if not config.has_provider:
        return 0
    cues = policies.current(tx, tenant_id).recall.cues
    return ratings.count_unrated(tx, tenant_id, version(config.salience_model, cues=cues))


@dataclass(frozen=True)
class Taken:
    """What a tenant has and takes up, from its counters alone."""

    memories: dict[str, int]
    room: Room


def taken(tenant_id: UUID) -> Taken:
    """The same as `of_tenant` says of it, without a look at any memory."""
    with database.tenant(tenant_id) as tx:
        counts = tenant_counts.read(tx, tenant_id)
        return Taken(_by_tier(counts), quota.of(tx, tenant_id, counts))


def of_lanes() -> dict[str, Lane]:
    """What waits in each lane, of all tenants."""
    unstored, age = _in_queue()
    with database.shared() as tx:
        waiting = work.waiting(tx)
        unfinished = jobs.unfinished(tx, sorted(RIGHTS_KINDS))
    return _lanes(unstored, age, waiting, unfinished)


def lanes_of(tenant_id: UUID) -> dict[str, Lane]:
    """What waits of one tenant in each lane."""
    unstored, age = _in_queue(tenant_id)
    with database.tenant(tenant_id) as tx:
        waiting, unfinished = work.waiting(tx, tenant_id), jobs.unfinished(tx, sorted(RIGHTS_KINDS), tenant_id)
    return _lanes(unstored, age, waiting, unfinished)


def _lanes(
    unstored: int, age: float, waiting: dict[str, Waiting], unfinished: dict[bool, tuple[int, float]]
) -> dict[str, Lane]:
    index, embed, score = (waiting[stage] for stage in (work.INDEX, work.EMBED, work.SCORE))
    return {
        queues.INGEST: Lane(unstored + index.memories, max(age, index.oldest_age_seconds)),
        queues.EMBED: Lane(embed.memories, embed.oldest_age_seconds),
        queues.SCORE: Lane(score.memories, score.oldest_age_seconds),
        queues.RIGHTS: Lane(*unfinished[True]),
        queues.MAINTAIN: Lane(*unfinished[False]),
    }


def _by_tier(counts: Counts) -> dict[str, int]:
    return {tier: getattr(counts, tier) for tier in ("active", "archived", "cold")}


def nights() -> Figures:
    """How the last nights of all tenants went."""
    with database.shared() as tx:
        return schedules.figures(tx, night.KIND)


def failed_steps(run: Run) -> list[str]:
    """The steps at which a run failed, by name."""
    return list(run.failed) or ([run.step] if run.status == "failed" and run.step else [])


def _last_night(run: Run) -> LastNight:
    return LastNight(run.local_date, run.status, run.late_seconds, run.seconds, failed_steps(run))


def _tested(run: TestRun) -> SelfTested:
    tests = {kind: tested(found) for kind, found in run.results.items()}
    passed = {kind: run.results[kind]["passed"] / count for kind, count in tests.items()}
    return SelfTested(run.as_of, passed, tests, empty_share(run.results), run.p50_ms, run.p95_ms, run.target_ms)


def _in_queue(tenant_id: UUID | None = None) -> tuple[int, float]:
    """Memories of a tenant, or of all, that are to be stored, and the seconds since the oldest came.

    To be read before the database: a memory goes there from the queue, and would be in neither the other way round.
    """
    queue = backlog()
    oldest_ms = queue.oldest_ms([tenant_id] if tenant_id else None)
    return queue.memories(tenant_id), 0.0 if oldest_ms is None else max(queue.now_ms() - oldest_ms, 0) / 1000
