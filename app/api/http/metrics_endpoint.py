"""Content of `/metrics`: metrics of this process, counters of the workers, and gauges measured at each scrape.

Service-wide gauges are identical in every API process; per-process gauges are not. A scrape costs a few queries over
pending work and a few Redis calls, regardless of the number of tenants and memories.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from math import inf
from platform import python_version
from typing import Final, TypeAlias, get_args

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from app import heartbeats, metrics, queues
from app.domain.privacy.requests import Nature
from app.domain.provider_health import KINDS, USES
from app.domain.salience.agreement import RATINGS_MAX, RATINGS_MIN, Agreement
from app.domain.salience.llm_scoring import PROMPT_VERSIONS
from app.errors import NotReplayed
from app.metric_groups import GROUPS
from app.services.erasure import ledger
from app.services.ingest import witness
from app.services.monitoring import (
    fleet_gauges,
    pool_usage,
    probes,
    provider_status,
    stats,
    stuck_processes,
    tenant_comparison,
)
from app.services.night import night_run
from app.services.night.steps import STEPS
from app.settings import settings
from app.software_version import software_version

Series: TypeAlias = Iterable[tuple[tuple[str, ...], float]]

POOL_STATES: Final = ("limit", "open", "in_use")
TIERS: Final = ("active", "archived", "cold")
_DAY_SECONDS: Final = 86_400
DISKS: Final = ("home", "postgresql", "cold")


@dataclass(frozen=True)
class Gauge:
    """Gauge with the values of each label (empty: any value); `missing` describes when a series is omitted."""

    description: str
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    missing: str = ""


_NO_TENANTS: Final = "`EBBING_METRICS_TENANTS` is 0, or the tenant isn't one of those with the longest queues"
_LANE: Final = {"lane": tuple(queues.LANES)}
_USE: Final = {"use": tuple(USES)}
_PROMPT: Final[dict[str, tuple[str, ...]]] = {"prompt": PROMPT_VERSIONS}
WEBHOOK_STATES: Final = ("enabled", "failing", "paused", "disabled")
_UNUSED: Final = "the settings don't configure this use"

GAUGES: Final[dict[str, Gauge]] = {
    "build_info": Gauge(
        "Always 1; the labels are the versions of the service and of Python.", {"version": (), "python": ()}
    ),
    "public_url_info": Gauge("Always 1; the label is `EBBING_PUBLIC_URL`, empty if it isn't set.", {"url": ()}),
    "stores_reachable": Gauge("1 if PostgreSQL and Redis responded during this scrape, otherwise 0."),
    "lane_depth": Gauge("Pending work in a lane: memories; for `rights` and `maintain`, jobs.", _LANE),
    "lane_oldest_age_seconds": Gauge("Age of the oldest pending entry in a lane.", _LANE),
    "lane_silent_seconds": Gauge("Time since the last heartbeat of a lane's worker.", _LANE, "no heartbeat yet"),
    "lane_stuck_seconds": Gauge(
        "Longest time for which a process of a lane's worker has been stopped or has hung in a task; 0 if none.",
        _LANE,
    ),
    "beat_silent_seconds": Gauge(
        "Time since the last heartbeat of beat, which starts the nightly runs.", missing="no heartbeat yet"
    ),
    "memories": Gauge("Number of memories of all tenants.", {"tier": TIERS}),
    "dead_letters_waiting": Gauge("Dead letters waiting for a decision, capped at 100,000."),
    "quarantine_size": Gauge("Dead letters waiting for a decision, capped at 100,000."),
    "salience_provisional": Gauge("Memories that have only a rule-based score so far."),
    "rating_rank_correlation": Gauge(
        "Spearman's rank correlation of the salience by a model and by the rules, over the last "
        f"{RATINGS_MAX:,} ratings of all tenants, by prompt version.",
        _PROMPT,
        f"fewer than {RATINGS_MIN} ratings with this prompt version",
    ),
    "rating_mean_difference": Gauge(
        f"Mean salience by a model minus the rules', over the last {RATINGS_MAX:,} ratings of all tenants, by prompt "
        "version.",
        _PROMPT,
        "no rating with this prompt version",
    ),
    "rating_compared_memories": Gauge(
        "Ratings behind `ebbing_rating_rank_correlation` and `ebbing_rating_mean_difference`.", _PROMPT
    ),
    "provider_failing": Gauge(
        "1 if a use of a model provider fails or its connection can't be verified, otherwise 0.", _USE, _UNUSED
    ),
    "provider_failures_in_row": Gauge("Failed calls since the last success, over all processes.", _USE, _UNUSED),
    "provider_breaker_open": Gauge("1 unless the circuit breaker is closed, otherwise 0.", _USE, _UNUSED),
    "provider_paused_until_timestamp_seconds": Gauge(
        "End of the pause that the provider requested; the label `kind` names the failure that caused it.",
        _USE | {"kind": tuple(KINDS)},
        "no pause",
    ),
    "provider_last_success_timestamp_seconds": Gauge("Time of the last successful call.", _USE, "no success yet"),
    "provider_last_failure_timestamp_seconds": Gauge(
        "Time of the last failed call, with its kind.", _USE | {"kind": tuple(KINDS)}, "no failure yet, or another kind"
    ),
    "ingest_unaccounted_requests": Gauge(
        "Accepted requests that are neither settled (stored, dropped or a dead letter) nor queued; above 0 only if a "
        "stream was lost."
    ),
    "figures_timestamp_seconds": Gauge(
        "Time of the last update of the aggregated figures: memories, quarantine, provisional salience, unaccounted "
        "requests, nights, privacy."
    ),
    "job_last_success_timestamp_seconds": Gauge(
        "Time of the last success of a job or a nightly step. For `night`: the oldest value over all tenants (tenant "
        "creation if it never ran).",
        {"job": tuple(metrics.JOBS)},
    ),
    "tenants_recall_empty": Gauge(
        "Tenants whose last self-tests made at least 5 recalls, 90 % or more of which returned no memory."
    ),
    "night_overdue_seconds": Gauge("Age of the longest overdue nightly run."),
    "night_late_seconds": Gauge("Largest start delay among the tenants' last nightly runs."),
    "night_seconds": Gauge("Longest duration among the tenants' last nightly runs."),
    "night_cut_short": Gauge("Tenants whose last nightly run reached its time limit."),
    "night_failed": Gauge("Tenants whose last nightly run failed at this step.", {"step": tuple(STEPS)}),
    "webhooks": Gauge(
        "Webhooks of all tenants: `enabled`, `failing` (enabled, but the receiver failed last), `paused` by a caller, "
        "or `disabled` after days of failures or a 410.",
        {"state": WEBHOOK_STATES},
    ),
    "privacy_open": Gauge("Open data-subject requests.", {"kind": get_args(Nature)}),
    "privacy_deadline_seconds": Gauge(
        "Time left until the earliest deadline of an open request; negative if overdue, +Inf if there is none."
    ),
    "privacy_min_days_left": Gauge(
        "Days left until the earliest deadline of an open request; negative if overdue, +Inf if there is none."
    ),
    "erasure_replay_due": Gauge(
        "1 if the database is an older copy, or its key store is missing or older: the service refuses all requests "
        "until the erasures are replayed. Otherwise 0."
    ),
    "erasure_residual_rows": Gauge("Rows that running erasures found left over during verification."),
    "erasure_rewrites_late": Gauge("Erasures with cold-storage segments past their rewrite deadline."),
    "audit_chain_ok": Gauge("1 if the last verification found every tenant's audit chain intact, otherwise 0."),
    "backup_age_seconds": Gauge(
        "Time since the last completed backup; +Inf if there was none.", missing="`EBBING_BACKUP_MARK` isn't set"
    ),
    "database_pool_connections": Gauge(
        "PostgreSQL connections of all processes of a kind: the pool limit, open connections, and the recent maximum "
        "of connections in use.",
        {"process": pool_usage.KINDS, "state": POOL_STATES},
    ),
    "database_pool_waiting": Gauge(
        "Recent maximum of threads waiting for a connection, by kind of process.",
        {"process": pool_usage.KINDS},
    ),
    "tenant_memories": Gauge("Memories of a tenant by tier.", {"tenant": (), "tier": TIERS}, _NO_TENANTS),
    "tenant_waiting_memories": Gauge(
        "Memories of a tenant that wait to be stored, or for a later stage.", {"tenant": ()}, _NO_TENANTS
    ),
    "tenant_oldest_age_seconds": Gauge("Age of a tenant's oldest waiting memory.", {"tenant": ()}, _NO_TENANTS),
    "tenant_dead_letters_waiting": Gauge(
        "Dead letters of a tenant that wait for a decision, capped at 10,000.", {"tenant": ()}, _NO_TENANTS
    ),
    "redis_memory_used_bytes": Gauge("Memory used by Redis."),
    "redis_memory_limit_bytes": Gauge("Memory limit of Redis; 0 means no limit."),
    "redis_refuses_writes": Gauge(
        "1 if Redis rejects writes because it is full or can't persist its data, otherwise 0."
    ),
    "redis_replaced": Gauge(
        "1 if Redis was emptied or replaced, belongs to another installation or is an older copy: the service refuses "
        "it until an operator decides. Otherwise 0.",
        missing="PostgreSQL or Redis didn't respond",
    ),
    "disk_free_ratio": Gauge(
        "Free share of the disks visible to the API process: home, embedded PostgreSQL, and cold storage in a local "
        "folder.",
        {"place": DISKS},
        "not on this machine",
    ),
}

OF_PROCESS: Final = ("build_info", "disk_free_ratio", "public_url_info", "stores_reachable")
"""Per-process gauges."""


def text() -> bytes:
    """Return all metrics in the Prometheus text format."""
    registry = CollectorRegistry()
    registry.register(_Shared())
    return generate_latest(REGISTRY) + generate_latest(registry)


class _Shared(Collector):
    """Collector of values from Redis and PostgreSQL; omits them while a store is down and reports this."""

    def collect(self) -> Iterator[Metric]:
        pool_usage.publish_pool_usage(pool_usage.API)
        parts: list[Callable[[], list[Metric]]] = [
            partial(list, part())
            for part in (_counted, _of_redis, _of_mark, _of_ledger, _kept, _lanes, _providers, _tenants)
        ]
        found = [families for families in map(probes.Round().read, parts) if families is not None]
        yield _gauge("stores_reachable", [((), float(len(found) == len(parts)))])
        for families in found:
            yield from families
        yield _gauge("build_info", [((software_version(), python_version()), 1.0)])
        yield _gauge("public_url_info", [(((settings().public_url or "").rstrip("/"),), 1.0)])
        yield _gauge("disk_free_ratio", [((name,), share) for name, share in probes.disks_free().items()])
        age = probes.backup_age_seconds()
        if age is not None:
            yield _gauge("backup_age_seconds", [((), age)])


def _counted() -> Iterator[Metric]:
    """Yield the counters and histograms of the workers."""
    held = metrics.read_worker_metrics()
    for name, description in metrics.WORK.items():
        yield CounterMetricFamily(f"ebbing_{name}", description, value=held.value(name))
    for name, group in GROUPS.items():
        family = CounterMetricFamily(f"ebbing_{name}", group.description, labels=group.labels)
        for values, member in group.members.items():
            family.add_metric(values, held.value(member))
        yield family
    for name, counter in metrics.LABELLED.items():
        family = CounterMetricFamily(f"ebbing_{name}", counter.description, labels=counter.labels)
        for series in counter.series:
            family.add_metric(series, held.value(name, series))
        yield family
    for name, timed in metrics.TIMED.items():
        histogram = HistogramMetricFamily(f"ebbing_{name}", timed.description, labels=timed.labels)
        for series in timed.series:
            histogram.add_metric(series, *held.buckets(name, series))
        yield histogram
    successes = {(job,): held.marks.get(job, 0.0) for job in metrics.JOBS}
    successes[night_run.KIND,] = fleet_gauges.read().night_success_at
    yield _gauge("job_last_success_timestamp_seconds", successes.items())
    yield _gauge("audit_chain_ok", [((), float(not held.broken_audits))])


def _of_redis() -> Iterator[Metric]:
    """Yield the state of Redis, heartbeats and connection pools."""
    room = probes.redis_room()
    yield _gauge("redis_memory_used_bytes", [((), room.used)])
    yield _gauge("redis_memory_limit_bytes", [((), room.limit)])
    yield _gauge("redis_refuses_writes", [((), float(room.refuses))])
    ages = heartbeats.heartbeat_ages()
    beat = ages.pop(heartbeats.BEAT)
    yield _gauge("lane_silent_seconds", [((lane,), age) for lane, age in ages.items() if age is not None])
    stuck = dict.fromkeys(queues.LANES, 0.0)
    for one in stuck_processes.list_stuck():
        stuck[one.lane] = max(stuck.get(one.lane, 0.0), one.seconds)
    yield _gauge("lane_stuck_seconds", [((lane,), seconds) for lane, seconds in stuck.items()])
    yield _gauge("beat_silent_seconds", [] if beat is None else [((), beat)])
    pools = pool_usage.pool_usage_by_kind()
    states = {(kind, state): getattr(pool, state) for kind, pool in pools.items() for state in POOL_STATES}
    yield _gauge("database_pool_connections", states.items())
    yield _gauge("database_pool_waiting", [((kind,), pool.waiting) for kind, pool in pools.items()])


def _of_mark() -> Iterator[Metric]:
    """Yield whether Redis is refused because of its mark. Read separately: with a refused Redis, other parts fail."""
    yield _gauge("redis_replaced", [((), float(witness.diagnose_queue() is not None))])


def _of_ledger() -> Iterator[Metric]:
    """Yield whether requests are refused until erasures are replayed; runs no query once the process knows."""
    try:
        ledger.check()
    except NotReplayed:
        yield _gauge("erasure_replay_due", [((), 1.0)])
    else:
        yield _gauge("erasure_replay_due", [((), 0.0)])


def _kept() -> Iterator[Metric]:
    """Yield figures aggregated over all tenants."""
    kept = fleet_gauges.read()
    yield _gauge("figures_timestamp_seconds", [((), kept.at_ms / 1000)])
    yield _gauge("memories", [((tier,), kept.memories[tier]) for tier in TIERS])
    yield _gauge("dead_letters_waiting", [((), kept.dead_letters)])
    yield _gauge("quarantine_size", [((), kept.dead_letters)])
    yield _gauge("salience_provisional", [((), kept.provisional)])
    yield from _agreements(kept.rating_agreement)
    yield _gauge("ingest_unaccounted_requests", [((), kept.unaccounted_requests)])
    for name in ("overdue_seconds", "late_seconds", "seconds", "cut_short"):
        yield _gauge(f"night_{name}", [((), getattr(kept.nights, name))])
    yield _gauge("tenants_recall_empty", [((), kept.recall_empty)])
    yield _gauge("webhooks", [((state,), kept.webhooks.get(state, 0)) for state in WEBHOOK_STATES])
    asked = kept.deadlines
    left = inf if asked.min_days_left is None else asked.min_days_left
    yield _gauge("privacy_open", [((kind,), asked.open.get(kind, 0)) for kind in get_args(Nature)])
    yield _gauge("privacy_deadline_seconds", [((), left * _DAY_SECONDS)])
    yield _gauge("privacy_min_days_left", [((), left)])
    yield _gauge("erasure_residual_rows", [((), asked.residue)])
    yield _gauge("erasure_rewrites_late", [((), asked.late_rewrites)])
    yield _gauge("night_failed", [((step,), kept.nights.failed.get(step, 0)) for step in STEPS])


def _agreements(found: Iterable[Agreement]) -> Iterator[Metric]:
    """Yield, for each current prompt version, how far the model with the most ratings agrees with the rules."""
    by_size = sorted(found, key=lambda each: each.ratings)
    by_prompt = {each.prompt_version: each for each in by_size if each.prompt_version in PROMPT_VERSIONS}
    ranked = [((name,), each.rank_correlation) for name, each in by_prompt.items() if each.rank_correlation is not None]
    yield _gauge("rating_rank_correlation", ranked)
    yield _gauge("rating_mean_difference", [((name,), each.mean_difference) for name, each in by_prompt.items()])
    compared = dict.fromkeys(PROMPT_VERSIONS, 0) | {name: each.ratings for name, each in by_prompt.items()}
    yield _gauge("rating_compared_memories", [((name,), number) for name, number in compared.items()])


def _providers() -> Iterator[Metric]:
    """Yield the state of the configured model providers."""
    found, now = provider_status.read_providers({"score": fleet_gauges.read().unrated}), time.time()
    yield _gauge("provider_failing", [((one.use,), float(one.state in {"failing", "unknown"})) for one in found])
    yield _gauge("provider_failures_in_row", [((one.use,), one.failures_in_row) for one in found])
    yield _gauge("provider_breaker_open", [((one.use,), float(one.breaker != "closed")) for one in found])
    pauses = [((one.use, one.failure), one.paused_until.timestamp()) for one in found if one.paused_until is not None]
    yield _gauge("provider_paused_until_timestamp_seconds", pauses)
    successes = [((one.use,), now - one.success_seconds) for one in found if one.success_seconds is not None]
    yield _gauge("provider_last_success_timestamp_seconds", successes)
    failures = [((one.use, one.failure), now - one.failure_seconds) for one in found if one.failure_seconds is not None]
    yield _gauge("provider_last_failure_timestamp_seconds", failures)


def _lanes() -> Iterator[Metric]:
    """Yield the backlog of each lane."""
    lanes = stats.lane_backlogs()
    yield _gauge("lane_depth", [((name,), lane.depth) for name, lane in lanes.items()])
    yield _gauge("lane_oldest_age_seconds", [((name,), lane.oldest_age_seconds) for name, lane in lanes.items()])


def _tenants() -> Iterator[Metric]:
    """Yield the queues and sizes of the tenants with the longest queues, if the operator permits their names."""
    shown = settings().metrics_tenants
    tenants = tenant_comparison.waiting_longest()[:shown] if shown else []
    names = [(tenant.numbers.name,) for tenant in tenants]
    by_tier = [((tenant.numbers.name, tier), getattr(tenant.numbers, tier)) for tenant in tenants for tier in TIERS]
    yield _gauge("tenant_memories", by_tier)
    waiting = [tenant.queue.memories + tenant.numbers.enriching for tenant in tenants]
    yield _gauge("tenant_waiting_memories", zip(names, waiting, strict=True))
    oldest = [tenant.oldest_seconds or 0.0 for tenant in tenants]
    yield _gauge("tenant_oldest_age_seconds", zip(names, oldest, strict=True))
    letters = [tenant.numbers.dead_letters for tenant in tenants]
    yield _gauge("tenant_dead_letters_waiting", zip(names, letters, strict=True))


def _gauge(name: str, series: Series) -> Metric:
    described = GAUGES[name]
    family = GaugeMetricFamily(f"ebbing_{name}", described.description, labels=tuple(described.labels))
    for values, value in series:
        family.add_metric(values, value)
    return family
