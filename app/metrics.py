"""Every metric by name, unit and labels. No label holds a tenant, a subject, an id or text.

What the API does is counted in its process. What workers do is counted in Redis, since they come and go and
are many; `/metrics` shows both, and a restart changes nothing. `ops/metrics.md` is written from here.
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

from app.clients.redis.redis import BROKEN_AUDITS, COUNTERS, MARKS, RedisError
from app.clients.redis.stream import backlog, client
from app.domain.evaluation.self_tests import KINDS
from app.queues import LANES, TASKS

log = structlog.get_logger(__name__)

disable_created_metrics()  # type: ignore[no-untyped-call]  # a moment for each counter, which nobody asks for

# --- Counted by the API, in its process ---

ACCEPTED = Counter("ebbing_ingest_accepted", "Ingest requests by what became of them.", ["outcome"])
ACCEPTED_MEMORIES = Counter("ebbing_ingest_memories", "Memories accepted.")
ACK_SECONDS = Histogram(
    "ebbing_ingest_ack_seconds",
    "Time from an ingest request's start to its answer.",
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5),
)
DROPPED_TOUCHES = Counter("ebbing_search_touches_dropped", "Searches whose uses the queue couldn't take.")
REQUESTS = Counter("ebbing_http_requests", "Requests by class of status.", ["status"])
RERANKS = Counter("ebbing_search_reranks", "Searches whose best results wanted a second look, by outcome.", ["outcome"])
SEARCH_SECONDS = Histogram(
    "ebbing_search_seconds",
    "Time of a search in the service.",
    buckets=(0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
)
OF_PROCESS: Final = (ACCEPTED, ACCEPTED_MEMORIES, ACK_SECONDS, DROPPED_TOUCHES, REQUESTS, RERANKS, SEARCH_SECONDS)

OUTCOMES: Final = ("accepted", "repeated", "refused", "backlog_full", "unavailable")
RERANK_OUTCOMES: Final = ("reranked", "failed", "over_budget")
STATUSES: Final = ("2xx", "3xx", "4xx", "5xx")

# Started at 0, so that a rate exists from the first scrape on.
for _outcome in OUTCOMES:
    ACCEPTED.labels(outcome=_outcome)
for _outcome in RERANK_OUTCOMES:
    RERANKS.labels(outcome=_outcome)
for _status in STATUSES:
    REQUESTS.labels(status=_status)

# --- Counted by workers, in Redis: by name ---

WORK: Final[dict[str, str]] = {
    "stored_memories": "Memories stored.",
    "indexed_memories": "Memories that can be found by their words.",
    "embedded_memories": "Memories that can be found by meaning.",
    "reinforced_uses": "Uses that made a memory stronger.",
    "late_uses": "Uses told of after a later one: counted, and nothing else.",
    "refractory_uses": "Uses left out, since the same session had used the memory a moment before.",
    "unknown_uses": "Uses of ids that are no memory's, or a deleted one's.",
    "scored_memories": "Memories whose salience was judged.",
    "rated_memories": "Memories whose salience a model has rated.",
    "rating_cache_hits": "Ratings taken from an equal memory's, without a call.",
    "rating_cues": "Cues that a model has named with its ratings, without those left out.",
    "rating_cues_dropped": "Cues that a model has named and that were left out: broken, not allowed, or too many.",
    "rating_failures": "Memories that a model was asked about in vain: refused, or put off by an ill provider.",
    "summaries_by_model": "Summaries of memories that a model has written.",
    "summaries_without_model": "Summaries of memories' own sentences, where a model was to be asked and wasn't heard.",
    "summaries_made": "Summaries that consolidation has written, those made again of changed sources included.",
    "merged_memories": "Memories that went into a summary.",
    "merged_characters": "Characters of the memories that went into a summary.",
    "summary_characters": "Characters of the summaries that they went into.",
    "merges_put_off": "Merges left to somebody's yes, since their memories aren't near enough.",
    "merges_undone": "Merges that were undone.",
    "archived_memories": "Memories moved to the archive.",
    "reduced_vectors": "Vectors of archived memories that were reduced.",
    "expired_memories": "Memories removed since privacy allows them no longer, with the summaries made of them.",
    "cold_moved": "Memories moved into cold storage.",
    "cold_restored": "Memories brought back from cold storage.",
    "cold_damaged": "Memories in cold storage found missing or damaged, each time that one is.",
    "cold_orphans": "Objects in cold storage that no memory needs, deleted.",
    "dead_letters": "Dead letters written.",
    "ledger_purged_rows": "Ledger rows deleted when no replay could need them.",
    "runs_done": "Scheduled runs that finished.",
    "runs_failed": "Scheduled runs that failed.",
    "budget_soft_reached": "Tenants that came close to a limit of their budget, once a day and process.",
    "budget_hard_reached": "Tenants that reached a limit of their budget, once a day and process.",
    "audits_broken": "Audits that were altered, or have lost entries, as often as a night has found it.",
    "counts_corrected": "Tenants whose numbers a night had to correct.",
    "quota_near": "Tenants that a night has found close to their quota.",
    "quota_over": "Tenants that a night has found over their quota.",
    "erased_on_arrival": "Memories that came too late, about somebody who had been erased: dropped.",
    "erasures_unfinished": "Verifying looks that found something left of what was erased.",
    "dead_letters_replayed": "Dead letters given another try by a person.",
    "dead_letters_discarded": "Dead letters discarded by a person.",
    "self_tests_recall_empty": "Self-tests of recall that brought no memory at all.",
} | {
    f"self_tests_{kind}_{outcome}": f"Self-tests of the kind {kind} that were {outcome}."
    for kind in KINDS
    for outcome in ("passed", "failed")
}

DELIVERY_OUTCOMES: Final = ("done", "failed", "put_off", "dead")
TASK_OUTCOMES: Final = ("succeeded", "failed", "put_off")
JOB_OUTCOMES: Final = ("done", "failed", "cancelled")
LLM_PURPOSES: Final = ("score", "embed", "query", "rerank", "summarise", "self_test", "contradict")
LLM_OUTCOMES: Final = ("answered", "failed", "over_budget")

_TIERS: Final = ("active", "archived", "cold", "deleted")
_SELF_TESTS: Final = (*(f"{kind}_{outcome}" for kind in KINDS for outcome in ("passed", "failed")), "recall_empty")
_MERGED: Final = ("linked", "waiting", "summaries", "by_model", "merged")

# Kinds of jobs and steps of a night, with what they count of their rows besides `done`; what isn't named isn't shown.
JOBS: Final[dict[str, tuple[str, ...]]] = {
    "approve": _MERGED,
    "archive": ("archived", "whole", "reduced"),
    "cold": ("cold",),
    "compact": ("dropped", "compacted", "orphans", "lost"),
    "consolidate": (*_MERGED, "looked_at", "clusters", "removed"),
    "contradictions": ("proposed", "unanswered"),
    "delete": ("deleted",),
    "erase": (),
    "erasures": ("adopted",),
    "expire": ("deleted", "summaries", "noticed"),
    "export": (),
    "exports": ("expired", "purged", "objects"),
    "figures": (),
    "graph": (),
    "graphs": (),
    "hide": (),
    "night": (),
    "rebase": _TIERS,
    "rederive": ("summaries", "by_model", "removed"),
    "reembed": ("removed_vectors", "set_aside"),
    "release": (),
    "restore": ("restored", "failed"),
    "retention": ("ledger", "runs", "jobs", "letters", "history", "self_tests", "names", "searches"),
    "segments": ("dropped", "compacted", "orphans", "lost"),
    "self_tests": _SELF_TESTS,
    "selftest": _SELF_TESTS,
    "sweep": _TIERS,
}

_LANE_OF: Final = {queue: lane for lane, queues in LANES.items() for queue in queues}
LANE_OF_TASK: Final = {task: _LANE_OF[queue] for task, queue in TASKS.items()}
JOB_LANES: Final = tuple(lane for task, lane in LANE_OF_TASK.items() if task.endswith(".job"))


class Labelled(NamedTuple):
    """A counter of the workers with labels: their names, and every series that there is."""

    description: str
    labels: tuple[str, ...]
    series: tuple[tuple[str, ...], ...]


class Timed(NamedTuple):
    """A histogram of the workers, in seconds, likewise; `buckets` are upper bounds."""

    description: str
    labels: tuple[str, ...]
    series: tuple[tuple[str, ...], ...]
    buckets: tuple[float, ...]


LABELLED: Final[dict[str, Labelled]] = {
    "deliveries": Labelled(
        "What a lane was handed, and how it went: requests, in `ingest` claimed batches too, in `embed` and `score` "
        "those alone, in `rights` and `maintain` slices of jobs. `put_off` failed for no fault of its own; `dead` is a "
        "dead letter.",
        ("lane", "outcome"),
        tuple(product(LANES, DELIVERY_OUTCOMES)),
    ),
    "llm_requests": Labelled(
        "Requests to models: answered and paid for, failed after all tries, or not made for want of budget.",
        ("purpose", "outcome"),
        tuple(product(LLM_PURPOSES, LLM_OUTCOMES)),
    ),
    "llm_tokens": Labelled(
        "Tokens sent to models, cached ones included, and answered by them.", ("direction",), (("input",), ("output",))
    ),
    "jobs": Labelled(
        "Jobs ended, by the lane that had them.", ("lane", "outcome"), tuple(product(JOB_LANES, JOB_OUTCOMES))
    ),
    "job_rows": Labelled(
        "Rows that jobs and steps of nights have dealt with (`done`), and what they made of them.",
        ("job", "action"),
        tuple((job, action) for job, actions in JOBS.items() for action in ("done", *actions)),
    ),
    "tasks_started": Labelled(
        "Celery tasks begun; less those ended, these are under way, or their worker was killed.",
        ("task", "lane"),
        tuple(LANE_OF_TASK.items()),
    ),
    "tasks_retried": Labelled(
        "Celery tasks whose message came again, since a worker was lost; failures aren't retried by message.",
        ("task", "lane"),
        tuple(LANE_OF_TASK.items()),
    ),
    "tasks": Labelled(
        "Celery tasks ended; `put_off` is what PostgreSQL, Redis or a provider being away has ended.",
        ("task", "lane", "outcome"),
        tuple((task, lane, outcome) for task, lane in LANE_OF_TASK.items() for outcome in TASK_OUTCOMES),
    ),
}

TIMED: Final[dict[str, Timed]] = {
    "event_store_seconds": Timed(
        "Time from when a memory was accepted to when it is stored.",
        (),
        ((),),
        (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
    ),
    "job_duration_seconds": Timed(
        "Time from a job's start to its end, waiting included; of a step of a night, the time at work.",
        ("job",),
        tuple((job,) for job in JOBS),
        (0.1, 1, 10, 60, 600, 3600, 21_600),
    ),
    "task_seconds": Timed(
        "Time that Celery tasks took.",
        ("task", "lane"),
        tuple(LANE_OF_TASK.items()),
        (0.01, 0.1, 1, 5, 30, 300),
    ),
}

_gathered: ContextVar[Amounts[str] | None] = ContextVar("gathered", default=None)


def count(name: str, amount: int = 1, **labels: str) -> None:
    """Add to a counter of the workers. Never raises for want of Redis: a count is not worth a task.

    Args:
        name: One of `WORK` or `LABELLED`.
        amount: 0 or more.
        labels: One of its series.
    """
    field = name if name in WORK and not labels else _field(name, LABELLED[name], labels)
    if amount:
        _add({field: amount})


def observe(name: str, seconds: float, weight: int = 1, **labels: str) -> None:
    """Enter a duration into a histogram of the workers, for so many at once. Never raises for want of Redis."""
    timed = TIMED[name]
    field = _field(name, timed, labels)
    if weight:
        at = bisect_left(timed.buckets, seconds)
        _add({f"{field}|{at}": weight, f"{field}|us": round(max(seconds, 0) * 1_000_000) * weight})


def count_rows(job: str, rows: Mapping[str, int]) -> None:
    """Count what a job or a step has done to rows, as far as `JOBS` names it."""
    for action, amount in rows.items():
        if job in JOBS and action in ("done", *JOBS[job]):
            count("job_rows", amount, job=job, action=action)


def job_ended(job: str, seconds: float, *, well: bool) -> None:
    """Enter how long a job, or a step of a night, has taken; and that one has ended well, if it has.

    Never raises for want of Redis, nor for one that `JOBS` doesn't name.
    """
    if job not in JOBS:
        return
    observe("job_duration_seconds", seconds, job=job)
    if well:
        try:
            client().hset(MARKS, job, backlog().now_ms())
        except RedisError as error:
            log.warning("mark_lost", job=job, error=type(error).__name__)


@contextmanager
def gathering() -> Iterator[None]:
    """Within this, in this thread, what is counted is written in one round trip at the end, however that comes."""
    token = _gathered.set(Amounts())
    try:
        yield
    finally:
        amounts = _gathered.get()
        _gathered.reset(token)
        if amounts:
            _add(amounts)


def note_audit(tenant_id: str, *, broken: bool) -> None:
    """Note how a look at a tenant's audit went. Never raises for want of Redis."""
    try:
        (client().sadd if broken else client().srem)(BROKEN_AUDITS, tenant_id)
    except RedisError as error:
        log.warning("audit_note_lost", error=type(error).__name__)


class Held(NamedTuple):
    """What workers have counted, as it is in Redis."""

    amounts: Mapping[str, int]
    marks: Mapping[str, float]
    broken_audits: int

    def amount(self, name: str, labels: tuple[str, ...] = ()) -> int:
        """A counter of `WORK`, or a series of `LABELLED`."""
        return self.amounts.get("|".join((name, *labels)), 0)

    def buckets(self, name: str, labels: tuple[str, ...]) -> tuple[list[tuple[str, float]], float]:
        """A series of `TIMED`, as Prometheus has it: counts up to each bound, and the sum of seconds."""
        field, so_far, found = "|".join((name, *labels)), 0, []
        for at, bound in enumerate([*TIMED[name].buckets, float("inf")]):
            so_far += self.amounts.get(f"{field}|{at}", 0)
            found.append(("+Inf" if bound == float("inf") else repr(float(bound)), float(so_far)))
        return found, self.amounts.get(f"{field}|us", 0) / 1_000_000


def held() -> Held:
    """All that workers have counted so far, in one round trip."""
    with client().pipeline(transaction=False) as pipe:
        pipe.hgetall(COUNTERS)
        pipe.hgetall(MARKS)
        pipe.scard(BROKEN_AUDITS)
        amounts, marks, broken = pipe.execute()
    seconds = {job.decode(): int(at) / 1000 for job, at in marks.items()}
    return Held({field.decode(): int(amount) for field, amount in amounts.items()}, seconds, broken)


def counts() -> dict[str, int]:
    """What the workers have counted so far by name alone, every name included."""
    found = client().hmget(COUNTERS, list(WORK))
    return {name: int(value or 0) for name, value in zip(WORK, found, strict=True)}


def _field(name: str, described: Labelled | Timed, labels: Mapping[str, str]) -> str:
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
