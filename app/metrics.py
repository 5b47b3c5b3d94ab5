"""Metric definitions: names, units and labels. No label contains a subject, an id or text.

The API counts in its own process. Workers, which are many and short-lived, count in Redis, so that their counters
survive restarts; `/metrics` shows both. `ops/metrics.md` is generated from this module.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter as Amounts
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import product
from typing import Final, NamedTuple

import structlog
from prometheus_client import Counter, Histogram, disable_created_metrics

from app.clients.redis.connection import BROKEN_AUDITS, COUNTERS, MARKS, RedisError
from app.clients.redis.stream import backlog, client
from app.domain import jobs
from app.domain.evaluation.self_test_rules import KINDS
from app.queues import LANES, TASKS

log = structlog.get_logger(__name__)

disable_created_metrics()  # type: ignore[no-untyped-call]  # no unused creation timestamp per counter

# --- Counters of the API process ---

ACCEPTED = Counter("ebbing_ingest_accepted", "Ingest requests by outcome.", ["outcome"])
ACCEPTED_MEMORIES = Counter("ebbing_ingest_memories", "Memories accepted.")
ACK_SECONDS = Histogram(
    "ebbing_ingest_ack_seconds",
    "Time from the start of an ingest request to its response.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
CLOSED_CONNECTIONS = Counter(
    "ebbing_http_connections_closed",
    "Connections that the API closed: `no_request` without the headers of a first request in time, `unread` whose "
    "client accepted nothing of a waiting response, `per_address` above the limit of their address.",
    ["reason"],
)
DROPPED_TOUCHES = Counter(
    "ebbing_search_touches_dropped", "Searches whose uses were dropped because the queue rejected them."
)
REQUESTS = Counter("ebbing_http_requests", "HTTP requests by status class.", ["status"])
RERANKS = Counter("ebbing_search_reranks", "Searches with reranking, by outcome.", ["outcome"])
SEARCH_SECONDS = Histogram(
    "ebbing_search_seconds",
    "Duration of a search or recall within the service.",
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
)
ROUTE_SECONDS = Histogram(
    "ebbing_http_route_seconds",
    "Time from a request to the start of its response, by method and route; `other`: no such route.",
    ["method", "route"],
    buckets=(0.005, 0.025, 0.1, 0.5, 2.5, 10),
)
OF_PROCESS: Final = (
    ACCEPTED,
    ACCEPTED_MEMORIES,
    ACK_SECONDS,
    CLOSED_CONNECTIONS,
    DROPPED_TOUCHES,
    REQUESTS,
    RERANKS,
    ROUTE_SECONDS,
    SEARCH_SECONDS,
)

OUTCOMES: Final = ("accepted", "repeated", "refused", "backlog_full", "unavailable")
CLOSE_REASONS: Final = ("no_request", "unread", "per_address")
RERANK_OUTCOMES: Final = ("reranked", "failed", "over_budget")
STATUSES: Final = ("2xx", "3xx", "4xx", "5xx")

# Start every series at 0, so that rates exist from the first scrape.
for _outcome in OUTCOMES:
    ACCEPTED.labels(outcome=_outcome)
for _reason in CLOSE_REASONS:
    CLOSED_CONNECTIONS.labels(reason=_reason)
for _outcome in RERANK_OUTCOMES:
    RERANKS.labels(outcome=_outcome)
for _status in STATUSES:
    REQUESTS.labels(status=_status)

# --- Counters of the workers, stored in Redis ---

WORK: Final[dict[str, str]] = {
    "stored_memories": "Memories stored.",
    "indexed_memories": "Memories indexed for word search.",
    "embedded_memories": "Memories embedded for semantic search.",
    "reinforced_uses": "Uses that reinforced a memory.",
    "late_uses": "Uses reported after a later use was recorded: counted without reinforcement.",
    "refractory_uses": "Uses ignored because the same session used the memory a moment before.",
    "unknown_uses": "Uses of unknown or deleted memories.",
    "scored_memories": "Memories scored for salience.",
    "rated_memories": "Memories whose salience was rated by a model.",
    "rating_cache_hits": "Ratings reused from an identical memory without a model call.",
    "rating_cues": "Cues accepted from model ratings.",
    "rating_cues_dropped": "Cues of model ratings rejected as malformed, not allowed or too many.",
    "rating_failures": "Memories whose rating failed: refused by the model, or deferred because the provider was "
    "failing.",
    "summaries_by_model": "Summaries written by a model.",
    "summaries_without_model": "Extractive summaries written because the model gave no usable response.",
    "summaries_made": "Summaries written by consolidation, including regenerated ones.",
    "merged_memories": "Memories merged into a summary.",
    "merged_characters": "Characters of memories merged into a summary.",
    "summary_characters": "Characters of summaries.",
    "merges_put_off": "Merges waiting for approval because their memories are not similar enough.",
    "merges_undone": "Merges undone.",
    "archived_memories": "Memories moved to the archive.",
    "reduced_vectors": "Vectors of archived memories compressed.",
    "repaired_vectors": "Vectors of archived memories computed again because their PCA basis was missing.",
    "expired_memories": "Memories deleted after their retention period, including their summaries.",
    "cold_moved": "Memories moved to cold storage.",
    "cold_restored": "Memories restored from cold storage.",
    "cold_damaged": "Reads of memories in cold storage that were missing or damaged.",
    "cold_orphans": "Unreferenced objects deleted from cold storage.",
    "dead_letters": "Dead letters written.",
    "ledger_purged_rows": "Ledger rows deleted because no replay can need them any more.",
    "runs_done": "Scheduled runs completed.",
    "runs_failed": "Scheduled runs that failed.",
    "budget_soft_reached": "Tenants close to a budget limit, counted once per day and process.",
    "budget_hard_reached": "Tenants at a budget limit, counted once per day and process.",
    "audits_broken": "Nightly verifications that found an altered or incomplete audit log.",
    "counts_corrected": "Tenants whose counters were corrected by a nightly run.",
    "quota_near": "Tenants found close to their quota by a nightly run.",
    "quota_over": "Tenants found over their quota by a nightly run.",
    "erased_on_arrival": "Memories dropped on arrival, because their subject or thread was erased after their writing.",
    "erased_delayed_writes": "Those of `ebbing_erased_on_arrival_total` that had waited at their sender.",
    "erasures_unfinished": "Verifications of erasures that found remaining data.",
    "dead_letters_replayed": "Dead letters replayed by an operator.",
    "dead_letters_discarded": "Dead letters discarded by an operator.",
    "webhook_deliveries_failed": "Deliveries of webhooks whose last attempt failed: they need a replay.",
    "webhooks_disabled": "Webhooks disabled because their receiver failed for days, or answered with 410.",
    "self_tests_recall_empty": "Recall self-tests that returned no memory.",
} | {
    f"self_tests_{kind}_{outcome}": f"Self-tests of the kind {kind} that {outcome}."
    for kind in KINDS
    for outcome in ("passed", "failed")
}

DELIVERY_OUTCOMES: Final = ("done", "failed", "put_off", "dead")
TASK_OUTCOMES: Final = ("succeeded", "failed", "put_off")
JOB_OUTCOMES: Final = ("done", "failed", "cancelled")
LLM_PURPOSES: Final = ("score", "embed", "query", "rerank", "summarise", "self_test", "contradict")
WEBHOOK_OUTCOMES: Final = ("delivered", "status", "redirect", "gone", "timeout", "connection", "address")
LLM_OUTCOMES: Final = ("answered", "failed", "over_budget")

JOBS: Final = dict(sorted((jobs.KINDS | jobs.STEPS).items()))
"""Kinds of jobs and nightly steps, with the row counts that each reports in addition to `done`."""

_LANE_OF: Final = {queue: lane for lane, queues in LANES.items() for queue in queues}
LANE_OF_TASK: Final = {task: _LANE_OF[queue] for task, queue in TASKS.items()}
JOB_LANES: Final = tuple(lane for task, lane in LANE_OF_TASK.items() if task.endswith(".job"))


class LabelledCounter(NamedTuple):
    """Labelled counter of the workers: label names and all series."""

    description: str
    labels: tuple[str, ...]
    series: tuple[tuple[str, ...], ...]


class TimedMetric(NamedTuple):
    """Labelled histogram of the workers, in seconds; `buckets` are upper bounds."""

    description: str
    labels: tuple[str, ...]
    series: tuple[tuple[str, ...], ...]
    buckets: tuple[float, ...]


LABELLED: Final[dict[str, LabelledCounter]] = {
    "deliveries": LabelledCounter(
        "Units of work handed to a lane, by outcome: requests and claimed batches in `ingest`, claimed batches in "
        "`embed` and `score`, job slices in `rights` and `maintain`. `put_off`: deferred because a dependency was "
        "down; "
        "`dead`: became a dead letter.",
        ("lane", "outcome"),
        tuple(product(LANES, DELIVERY_OUTCOMES)),
    ),
    "llm_requests": LabelledCounter(
        "Requests to models: answered and billed, failed after all attempts, or not sent because of the budget.",
        ("purpose", "outcome"),
        tuple(product(LLM_PURPOSES, LLM_OUTCOMES)),
    ),
    "webhook_attempts": LabelledCounter(
        "Requests to receivers of webhooks: accepted (`delivered`), refused with another `status`, a `redirect` or 410 "
        "(`gone`), no answer in time (`timeout`), no `connection`, or an `address` that isn't allowed.",
        ("outcome",),
        tuple((outcome,) for outcome in WEBHOOK_OUTCOMES),
    ),
    "llm_tokens": LabelledCounter(
        "Tokens sent to models (including cached ones) and received.", ("direction",), (("input",), ("output",))
    ),
    "jobs": LabelledCounter(
        "Jobs ended, by lane and outcome.", ("lane", "outcome"), tuple(product(JOB_LANES, JOB_OUTCOMES))
    ),
    "job_rows": LabelledCounter(
        "Rows processed by jobs and nightly steps (`done`), and the resulting actions.",
        ("job", "action"),
        tuple((job, action) for job, actions in JOBS.items() for action in ("done", *actions)),
    ),
    "tasks_started": LabelledCounter(
        "Celery tasks started. Tasks that started but haven't ended are running, or their worker was killed.",
        ("task", "lane"),
        tuple(LANE_OF_TASK.items()),
    ),
    "tasks_retried": LabelledCounter(
        "Celery tasks redelivered because their worker was lost; a task that failed isn't redelivered.",
        ("task", "lane"),
        tuple(LANE_OF_TASK.items()),
    ),
    "tasks": LabelledCounter(
        "Celery tasks ended, by outcome; `put_off`: PostgreSQL, Redis or a provider was unavailable.",
        ("task", "lane", "outcome"),
        tuple((task, lane, outcome) for task, lane in LANE_OF_TASK.items() for outcome in TASK_OUTCOMES),
    ),
}

TIMED: Final[dict[str, TimedMetric]] = {
    "event_store_seconds": TimedMetric(
        "Time from acceptance of a memory to its storage.",
        (),
        ((),),
        (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
    ),
    "job_duration_seconds": TimedMetric(
        "Time from start to end of a job, including pauses; for nightly steps, the working time only.",
        ("job",),
        tuple((job,) for job in JOBS),
        (0.1, 1, 10, 60, 600, 3600, 21_600),
    ),
    "task_seconds": TimedMetric(
        "Duration of Celery tasks.",
        ("task", "lane"),
        tuple(LANE_OF_TASK.items()),
        (0.01, 0.1, 1, 5, 30, 300),
    ),
}

_gathered: ContextVar[Amounts[str] | None] = ContextVar("gathered", default=None)


def count(name: str, amount: int = 1, **labels: str) -> None:
    """Add to a counter of the workers. Redis failures are logged, not raised: a lost count must not fail a task.

    Args:
        name: A key of `WORK` or `LABELLED`.
        amount: Increment, 0 or more.
        labels: Labels of an existing series.
    """
    field = name if name in WORK and not labels else _field(name, LABELLED[name], labels)
    if amount:
        _add({field: amount})


def observe_duration(name: str, seconds: float, weight: int = 1, **labels: str) -> None:
    """Record a duration in a histogram of the workers, `weight` times. Redis failures are logged, not raised."""
    timed = TIMED[name]
    field = _field(name, timed, labels)
    if weight:
        at = bisect_left(timed.buckets, seconds)
        _add({f"{field}|{at}": weight, f"{field}|us": round(max(seconds, 0) * 1_000_000) * weight})


def count_rows(job: str, rows: Mapping[str, int]) -> None:
    """Count the rows that a job or nightly step processed, for the actions listed in `JOBS`."""
    for action, amount in rows.items():
        if job in JOBS and action in ("done", *JOBS[job]):
            count("job_rows", amount, job=job, action=action)


def record_job(job: str, seconds: float, *, well: bool) -> None:
    """Record the duration of a job or nightly step and, if it succeeded, the time of its last success.

    Redis failures are logged, not raised; jobs not listed in `JOBS` are ignored.
    """
    if job not in JOBS:
        return
    observe_duration("job_duration_seconds", seconds, job=job)
    if well:
        try:
            client().hset(MARKS, job, backlog().now_ms())
        except RedisError as error:
            log.warning("mark_lost", job=job, error=type(error).__name__)


@contextmanager
def buffer_counts() -> Iterator[None]:
    """Buffer the counts of this thread and write them in one round trip at the end, even after an exception."""
    token = _gathered.set(Amounts())
    try:
        yield
    finally:
        amounts = _gathered.get()
        _gathered.reset(token)
        if amounts:
            _add(amounts)


def record_audit(tenant_id: str, *, broken: bool) -> None:
    """Record the result of a tenant's audit verification. Redis failures are logged, not raised."""
    try:
        (client().sadd if broken else client().srem)(BROKEN_AUDITS, tenant_id)
    except RedisError as error:
        log.warning("audit_note_lost", error=type(error).__name__)


class WorkerMetrics(NamedTuple):
    """Snapshot of the workers' metrics in Redis."""

    amounts: Mapping[str, int]
    marks: Mapping[str, float]
    broken_audits: int

    def value(self, name: str, labels: tuple[str, ...] = ()) -> int:
        """Return the value of a counter of `WORK`, or of a series of `LABELLED`."""
        return self.amounts.get("|".join((name, *labels)), 0)

    def buckets(self, name: str, labels: tuple[str, ...]) -> tuple[list[tuple[str, float]], float]:
        """Return a series of `TIMED` as a Prometheus histogram: cumulative counts by bound, and the sum in seconds."""
        field, so_far, found = "|".join((name, *labels)), 0, []
        for at, bound in enumerate([*TIMED[name].buckets, float("inf")]):
            so_far += self.amounts.get(f"{field}|{at}", 0)
            found.append(("+Inf" if bound == float("inf") else repr(float(bound)), float(so_far)))
        return found, self.amounts.get(f"{field}|us", 0) / 1_000_000


def read_worker_metrics() -> WorkerMetrics:
    """Read all metrics of the workers in one round trip."""
    with client().pipeline(transaction=False) as pipe:
        pipe.hgetall(COUNTERS)
        pipe.hgetall(MARKS)
        pipe.scard(BROKEN_AUDITS)
        amounts, marks, broken = pipe.execute()
    seconds = {job.decode(): int(at) / 1000 for job, at in marks.items()}
    return WorkerMetrics({field.decode(): int(amount) for field, amount in amounts.items()}, seconds, broken)


def read_counters() -> dict[str, int]:
    """Return the unlabelled counters of the workers, including zeros."""
    found = client().hmget(COUNTERS, list(WORK))
    return {name: int(value or 0) for name, value in zip(WORK, found, strict=True)}


def _field(name: str, described: LabelledCounter | TimedMetric, labels: Mapping[str, str]) -> str:
    values = tuple(labels[label] for label in described.labels)
    if values not in described.series or len(labels) != len(values):
        raise KeyError(f"{name} has no series {dict(labels)}")
    return "|".join((name, *values))


def _add(amounts: Mapping[str, int]) -> None:
    gathered = _gathered.get()
    if gathered is not None:
        gathered.update(amounts)
        return
    try:
        with client().pipeline(transaction=False) as pipe:
            for field, amount in amounts.items():
                pipe.hincrby(COUNTERS, field, amount)
            pipe.execute()
    except RedisError as error:
        log.warning("count_lost", metrics=len(amounts), error=type(error).__name__)
