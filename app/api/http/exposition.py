"""What `/metrics` shows: the process's own metrics, what workers have counted, and gauges that are asked for now.

Gauges of the service are the same whichever of its API processes is asked; those of a process are its own. A scrape
costs a few queries, over what waits, and a few calls of Redis, however many tenants and memories there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Final, TypeAlias, get_args

from prometheus_client import REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from app import heartbeats, metrics, queues
from app.domain.privacy.requests import Nature
from app.services.monitoring import connections, figures, health, stats
from app.services.night import night
from app.services.night.steps import STEPS
from app.services.passing import is_passing

Series: TypeAlias = Iterable[tuple[tuple[str, ...], float]]

POOL_STATES: Final = ("limit", "open", "in_use")
TIERS: Final = ("active", "archived", "cold")
DISKS: Final = ("home", "postgresql", "cold")


@dataclass(frozen=True)
class Gauge:
    """A gauge: its labels and their values; `missing` says when a series is left out, where one may be."""

    description: str
    labels: dict[str, tuple[str, ...]] = field(default_factory=dict)
    missing: str = ""


_LANE: Final = {"lane": tuple(queues.LANES)}

GAUGES: Final[dict[str, Gauge]] = {
    "stores_reachable": Gauge("Whether PostgreSQL and Redis answered this scrape."),
    "lane_depth": Gauge("What waits in a lane: memories, in `rights` and `maintain` jobs.", _LANE),
    "lane_oldest_age_seconds": Gauge("Age of the oldest that waits in a lane.", _LANE),
    "lane_silent_seconds": Gauge("Since a lane's worker was last heard of.", _LANE, "never heard of"),
    "beat_silent_seconds": Gauge(
        "Since beat was last heard of, without which no night begins.", missing="never heard of"
    ),
    "memories": Gauge("Memories of all tenants.", {"tier": TIERS}),
    "quarantine_size": Gauge("Dead letters that wait for a person, 100,000 at most."),
    "salience_provisional": Gauge("Memories that only the rules have judged."),
    "ingest_unaccounted_requests": Gauge(
        "Requests that were accepted, and are neither settled (stored, dropped or a dead letter) nor waiting: 0, "
        "unless a stream was lost."
    ),
    "figures_timestamp_seconds": Gauge(
        "When the figures of all tenants together were last looked at: memories, quarantine, provisional salience, "
        "unaccounted requests, nights, privacy."
    ),
    "job_last_success_timestamp_seconds": Gauge(
        "When a job of this kind, or a step of a night, last ended well; of `night`, for the tenant for which that is "
        "the longest ago, counted from when it came where it never has.",
        {"job": tuple(metrics.JOBS)},
    ),
    "tenants_recall_empty": Gauge(
        "Tenants whose last run of self-tests had at least 5 recalls, of which 90 % or more brought no memory."
    ),
    "night_overdue_seconds": Gauge("Since the night was due that is overdue for longest."),
    "night_late_seconds": Gauge("How late the latest of the tenants' last nights began."),
    "night_seconds": Gauge("How long the longest of the tenants' last nights took."),
    "night_cut_short": Gauge("Tenants whose last night was cut short."),
    "night_failed": Gauge("Tenants whose last night failed at a step.", {"step": tuple(STEPS)}),
    "privacy_open": Gauge("Requests about personal data that aren't answered.", {"kind": get_args(Nature)}),
    "privacy_min_days_left": Gauge(
        "Days that the open request which is due first has left, below 0 when it is late; endless where none is due."
    ),
    "erasure_residual_rows": Gauge("Rows that erasures under way have found left when they looked again."),
    "erasure_rewrites_late": Gauge("Erasures whose segments in cold storage should be rewritten by now."),
    "audit_chain_ok": Gauge("Whether the last look at every tenant's audit found its chain to hold."),
    "backup_age_seconds": Gauge(
        "Since the last backup marked its end; endless where it never has.", missing="`EBBING_BACKUP_MARK` isn't set"
    ),
    "database_pool_connections": Gauge(
        "Connections to PostgreSQL of all processes of a kind: the most there may be, those there are, and the most "
        "in use at once lately.",
        {"process": connections.KINDS, "state": POOL_STATES},
    ),
    "database_pool_waiting": Gauge(
        "The most threads of a kind of process that lately waited for a connection at once.",
        {"process": connections.KINDS},
    ),
    "redis_memory_used_bytes": Gauge("Memory that Redis uses."),
    "redis_memory_limit_bytes": Gauge("Memory that Redis may use, 0 for any."),
    "redis_refuses_writes": Gauge("Whether Redis refuses to write: full, or unable to keep its file."),
    "disk_free_ratio": Gauge(
        "Share of a disk that is free, of those that the API's process sees: of the home, of the embedded PostgreSQL, "
        "of cold storage in a folder.",
        {"place": DISKS},
        "not on this machine",
    ),
}

OF_PROCESS: Final = ("disk_free_ratio", "stores_reachable")
"""Gauges that are each process's own."""


def text() -> bytes:
    """All metrics, in Prometheus's format."""
    registry = CollectorRegistry()
    registry.register(_Shared())
    return generate_latest(REGISTRY) + generate_latest(registry)


class _Shared(Collector):
    """What is known from Redis and PostgreSQL; left out, and said so, while they are away."""

    def collect(self) -> Iterator[Metric]:
        connections.publish_pool_usage(connections.API)
        parts = (_counted, _of_redis, _kept, _lanes)
        found = [part for part in map(_tried, parts) if part is not None]
        yield _gauge("stores_reachable", [((), float(len(found) == len(parts)))])
        for families in found:
            yield from families
        yield _gauge("disk_free_ratio", [((name,), share) for name, share in health.disks_free().items()])
        age = health.backup_age_seconds()
        if age is not None:
            yield _gauge("backup_age_seconds", [((), age)])


def _tried(part: Callable[[], Iterator[Metric]]) -> list[Metric] | None:
    """A part, or None where what it asks is away."""
    try:
        return list(part())
    except Exception as error:
        if not is_passing(error):
            raise
        return None


def _counted() -> Iterator[Metric]:
    """What workers have counted."""
    held = metrics.held()
    for name, description in metrics.WORK.items():
        yield CounterMetricFamily(f"ebbing_{name}", description, value=held.amount(name))
    for name, counter in metrics.LABELLED.items():
        family = CounterMetricFamily(f"ebbing_{name}", counter.description, labels=counter.labels)
        for series in counter.series:
            family.add_metric(series, held.amount(name, series))
        yield family
    for name, timed in metrics.TIMED.items():
        histogram = HistogramMetricFamily(f"ebbing_{name}", timed.description, labels=timed.labels)
        for series in timed.series:
            histogram.add_metric(series, *held.buckets(name, series))
        yield histogram
    successes = {(job,): held.marks.get(job, 0.0) for job in metrics.JOBS}
    successes[night.KIND,] = figures.read().night_success_at
    yield _gauge("job_last_success_timestamp_seconds", successes.items())
    yield _gauge("audit_chain_ok", [((), float(not held.broken_audits))])


def _of_redis() -> Iterator[Metric]:
    """How Redis is, and who was heard of through it."""
    room = health.redis_room()
    yield _gauge("redis_memory_used_bytes", [((), room.used)])
    yield _gauge("redis_memory_limit_bytes", [((), room.limit)])
    yield _gauge("redis_refuses_writes", [((), float(room.refuses))])
    ages = heartbeats.ages()
    beat = ages.pop(heartbeats.BEAT)
    yield _gauge("lane_silent_seconds", [((lane,), age) for lane, age in ages.items() if age is not None])
    yield _gauge("beat_silent_seconds", [] if beat is None else [((), beat)])
    pools = connections.pool_usage_by_kind()
    states = {(kind, state): getattr(pool, state) for kind, pool in pools.items() for state in POOL_STATES}
    yield _gauge("database_pool_connections", states.items())
    yield _gauge("database_pool_waiting", [((kind,), pool.waiting) for kind, pool in pools.items()])


def _kept() -> Iterator[Metric]:
    """Figures of all tenants together; no label names one."""
    kept = figures.read()
    yield _gauge("figures_timestamp_seconds", [((), kept.at_ms / 1000)])
    yield _gauge("memories", [((tier,), kept.memories[tier]) for tier in TIERS])
    yield _gauge("quarantine_size", [((), kept.dead_letters)])
    yield _gauge("salience_provisional", [((), kept.provisional)])
    yield _gauge("ingest_unaccounted_requests", [((), kept.unaccounted_requests)])
    for name in ("overdue_seconds", "late_seconds", "seconds", "cut_short"):
        yield _gauge(f"night_{name}", [((), getattr(kept.nights, name))])
    yield _gauge("tenants_recall_empty", [((), kept.recall_empty)])
    asked = kept.deadlines
    left = inf if asked.min_days_left is None else asked.min_days_left
    yield _gauge("privacy_open", [((kind,), asked.open.get(kind, 0)) for kind in get_args(Nature)])
    yield _gauge("privacy_min_days_left", [((), left)])
    yield _gauge("erasure_residual_rows", [((), asked.residue)])
    yield _gauge("erasure_rewrites_late", [((), asked.late_rewrites)])
    yield _gauge("night_failed", [((step,), kept.nights.failed.get(step, 0)) for step in STEPS])


def _lanes() -> Iterator[Metric]:
    """What waits."""
    lanes = stats.lane_backlogs()
    yield _gauge("lane_depth", [((name,), lane.depth) for name, lane in lanes.items()])
    yield _gauge("lane_oldest_age_seconds", [((name,), lane.oldest_age_seconds) for name, lane in lanes.items()])


def _gauge(name: str, series: Series) -> Metric:
    described = GAUGES[name]
    family = GaugeMetricFamily(f"ebbing_{name}", described.description, labels=tuple(described.labels))
    for values, value in series:
        family.add_metric(values, value)
    return family
