"""Every metric by name, unit and labels. No label holds a tenant, a subject, an id or text.

What the API does is counted in its process. What workers do is counted in Redis, since they come and go and
are many; `/metrics` shows both, and a restart changes nothing.
"""

from __future__ import annotations

from typing import Final

import structlog
from prometheus_client import Counter, Histogram

from app.clients.redis import COUNTERS, RedisError
from app.clients.stream import client
from app.domain.self_tests import KINDS

log = structlog.get_logger(__name__)

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

OUTCOMES: Final = ("accepted", "repeated", "refused", "backlog_full", "unavailable")
RERANK_OUTCOMES: Final = ("reranked", "failed", "over_budget")
STATUSES: Final = ("2xx", "3xx", "4xx", "5xx")

# Counted by workers: field in Redis → help.
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
    "rating_failures": "Memories that a model was asked about in vain: refused, or put off by an ill provider.",
    "summaries_by_model": "Summaries of memories that a model has written.",
    "summaries_without_model": "Summaries of memories' own sentences, where a model was to be asked and wasn't heard.",
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
    "model_calls": "Answers of models that were paid for.",
    "model_input_tokens": "Tokens sent to models, cached ones included.",
    "model_output_tokens": "Tokens answered by models.",
    "budget_soft_reached": "Tenants that came close to a limit of their budget, once a day and process.",
    "budget_hard_reached": "Tenants that reached a limit of their budget, once a day and process.",
    "jobs_done": "Jobs that finished.",
    "jobs_failed": "Jobs that failed.",
    "audits_broken": "Audits that were altered, or have lost entries, as often as a night has found it.",
    "counts_corrected": "Tenants whose numbers a night had to correct.",
    "quota_near": "Tenants that a night has found close to their quota.",
    "quota_over": "Tenants that a night has found over their quota.",
    "erased_on_arrival": "Memories that came too late, about somebody who had been erased: dropped.",
    "erasures_unfinished": "Verifying looks that found something left of what was erased.",
    "dead_letters_replayed": "Dead letters given another try by a person.",
    "dead_letters_discarded": "Dead letters discarded by a person.",
} | {
    f"self_tests_{kind}_{outcome}": f"Self-tests of the kind {kind} that were {outcome}."
    for kind in KINDS
    for outcome in ("passed", "failed")
}

# Started at 0, so that a rate exists from the first scrape on.
for _outcome in OUTCOMES:
    ACCEPTED.labels(outcome=_outcome)
for _outcome in RERANK_OUTCOMES:
    RERANKS.labels(outcome=_outcome)
for _status in STATUSES:
    REQUESTS.labels(status=_status)


def count(name: str, amount: int = 1) -> None:
    """Add to a counter of the workers. Never raises: a count is not worth a task.

    Args:
        name: One of `WORK`.
        amount: 0 or more.
    """
    if name not in WORK:
        raise KeyError(name)
    if amount:
        try:
            client().hincrby(COUNTERS, name, amount)
        except RedisError as error:
            log.warning("count_lost", metric=name, error=type(error).__name__)


def counts() -> dict[str, int]:
    """What the workers have counted so far, every name included."""
    held = client().hmget(COUNTERS, list(WORK))
    return {name: int(value or 0) for name, value in zip(WORK, held, strict=True)}
