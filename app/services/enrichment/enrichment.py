"""Enrichment: take what waits for a stage in claimed batches, tenant by tenant, and see each to its end.

The stages don't know of one another: a slow model never holds the words. A claim lapses by itself when its
worker dies, and what fails is halved until the memory that can't be done stands alone and is set aside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Lock, Semaphore
from typing import Final
from uuid import UUID, uuid4

import structlog

from app import failpoints, metrics, queues
from app.clients.llm.resilience import ProviderFailed
from app.clients.redis.stream import backlog
from app.errors import Misconfigured, ProfileMissing
from app.services.embedding import graphs
from app.services.embedding.embed import embed as embed_memories
from app.services.enrichment.index import index as index_memories
from app.services.enrichment.score import score as score_memories
from app.services.passing import OverBudget, is_passing
from app.services.strength import policies
from app.settings import IN_PROCESS, settings
from app.store.core import database
from app.store.enrichment import work
from app.store.enrichment.work import Claim
from app.store.ingest import dead_letters

_LANE: Final = {work.INDEX: queues.INGEST, work.EMBED: queues.EMBED, work.SCORE: queues.SCORE}
KILLED = "its worker died each time"
RETRY_SECONDS = 5
# Of a worker: one batch is computed while another is read or written.
EMBED_THREADS = 2
# Of a model in the process, which may make a vector a second: a claim ends before its lease does.
SLOW_EMBED_ROWS = 100
# A provider that is ill as a whole, or a setting that is wrong: somebody has to see to it.
ILL_SECONDS = 60
OVER_BUDGET_SECONDS = 600
# The drain's lane is shared: while requests wait to be stored, indexing keeps to this much at a time, which is
# enough for a batch of each of many tenants.
SHARED_LANE_SECONDS = 1

log = structlog.get_logger(__name__)

Process = Callable[[UUID, Sequence[UUID]], int]

# Whose turn was the last of each stage in this process: the next slice goes on from there, so that slices which
# end early don't always serve the same tenants.
_last_turns: dict[str, UUID] = {}
_claiming = Lock()
_free = Semaphore(EMBED_THREADS)
_taking = Lock()


def index() -> int:
    """Index what waits, for one slice. Returns the memories indexed."""
    queues.nudged(queues.INDEX)
    return _slice(work.INDEX, _index, settings().index_rows, "indexed_memories", queues.INDEX)


def embed(threads: int = 1) -> int:
    """Embed what waits, for one slice. Returns the memories embedded.

    Args:
        threads: Batches at once, `EMBED_THREADS` at most.
    """
    queues.nudged(queues.EMBED_MEMORIES)
    with ThreadPoolExecutor(threads) as pool:
        slices = [pool.submit(_embed_slice) for _ in range(threads)]
    done = sum(each.result() for each in slices)
    if done:
        queues.nudge(queues.SCORE_MEMORIES)  # novelty is judged by vectors
    return done


def _embed_slice() -> int:
    return _slice(work.EMBED, _embed, _embed_rows(), "embedded_memories", queues.EMBED_MEMORIES)


def _embed_rows() -> int:
    """Return how many memories one claim for vectors holds: fewer of a model in the process, which may be slow."""
    config = settings()
    return min(config.embed_rows, SLOW_EMBED_ROWS) if config.embedder in IN_PROCESS else config.embed_rows


def score() -> int:
    """Score what waits, for one slice. Returns the memories looked at."""
    queues.nudged(queues.SCORE_MEMORIES)
    return _slice(work.SCORE, score_memories, settings().score_rows, "scored_memories", queues.SCORE_MEMORIES)


def _index(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    return index_memories(tenant_id, memory_ids, policies.current(tenant_id))


def _embed(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    done = embed_memories(tenant_id, memory_ids)
    graphs.ensure_job(tenant_id)
    return done


def _slice(stage: str, process: Process, limit: int, counter: str, task: str) -> int:
    began = time.monotonic()
    done = 0
    while (claim := _claim(stage, _last_turns.get(stage, work.NIL), limit)) is not None:
        if len(claim.memory_ids) > limit and stage == work.EMBED and settings().embedder in IN_PROCESS:
            with database.shared() as tx:
                work.divide(tx, claim, limit)
            continue
        _last_turns[stage] = claim.tenant_id
        # What was tried before may be what its worker died of: nobody shares the process with it.
        with _seats(EMBED_THREADS if claim.attempts > 1 else 1):
            done += _see_to(claim, process)
        took = time.monotonic() - began
        if took >= settings().slice_seconds or (
            stage == work.INDEX and took >= SHARED_LANE_SECONDS and backlog().entries()
        ):
            queues.nudge(task)
            break
    metrics.count(counter, done)
    return done


@contextmanager
def _seats(number: int) -> Iterator[None]:
    """So many of the process's `EMBED_THREADS` seats, taken by one after the other."""
    with _taking:
        for _ in range(number):
            _free.acquire()
    try:
        yield
    finally:
        _free.release(number)


def _claim(stage: str, after: UUID, limit: int) -> Claim | None:
    # One at a time in a process: a thread would pass over what another has only locked to look at.
    with _claiming, database.shared() as tx:
        return work.claim(tx, stage, claim_id=uuid4(), after=after, limit=limit, lease_seconds=_lease_seconds(stage))


def _lease_seconds(stage: str) -> float:
    """How long a claim holds: with models that answer slowly, as long as all tries of one may take."""
    config = settings()
    if stage != work.EMBED or (config.embedder == "local" and not config.has_provider):
        return config.lease_seconds
    return config.lease_seconds + config.llm_tries_seconds


def _see_to(claim: Claim, process: Process) -> int:
    """Do claimed work and take it off the list. Returns the memories done."""
    most = settings().deliveries_max
    if claim.attempts > most:
        _give_up(claim, KILLED)
        return 0
    try:
        failpoints.reach(f"{claim.stage}.before", str(claim.tenant_id))
        process(claim.tenant_id, claim.memory_ids)
        failpoints.reach(f"{claim.stage}.before_finish")
    except (OverBudget, ProfileMissing) as error:
        over_budget = isinstance(error, OverBudget)
        seconds = OVER_BUDGET_SECONDS if over_budget else ILL_SECONDS
        with database.shared() as tx:
            work.give_back(tx, claim, forgive=True, delay_seconds=seconds)
            work.put_off(tx, claim.stage, claim.tenant_id, seconds)
        _delivered(claim, "put_off")
        event = "over_budget" if over_budget else "dynamics_missing"
        log.warning(event, stage=claim.stage, tenant=str(claim.tenant_id))
        return 0
    except Exception as error:
        if (delay := _delay_seconds(error)) is not None:
            with database.shared() as tx:
                work.give_back(tx, claim, forgive=True, delay_seconds=delay)
            _delivered(claim, "put_off")
            raise
        _delivered(claim, "failed")
        reason = type(error).__name__
        log.warning(
            "stage_failed",
            stage=claim.stage,
            tenant=str(claim.tenant_id),
            memories=len(claim.memory_ids),
            attempt=claim.attempts,
            error=reason,
            exc_info=error,
        )
        if claim.attempts >= most or (len(claim.memory_ids) > 1 and claim.attempts > 1):
            _give_up(claim, reason)
        else:
            with database.shared() as tx:
                work.give_back(tx, claim, forgive=False)
        return 0
    with database.shared() as tx:
        work.finish(tx, claim)
    _delivered(claim, "done")
    return len(claim.memory_ids)


def _delivered(claim: Claim, outcome: str) -> None:
    metrics.count("deliveries", lane=_LANE[claim.stage], outcome=outcome)


def _delay_seconds(error: Exception) -> float | None:
    """When to try again what isn't the memories' fault; None where one of them may be the cause."""
    if database.is_too_slow(error):
        return None  # the same batch would take as long again; its halves don't
    if is_passing(error):
        return RETRY_SECONDS
    if isinstance(error, Misconfigured) or (isinstance(error, ProviderFailed) and not error.treatment.halve):
        return ILL_SECONDS
    return None


def _give_up(claim: Claim, reason: str) -> None:
    """Halve what failed too often; a single memory is set aside."""
    if len(claim.memory_ids) > 1:
        with database.shared() as tx:
            work.split(tx, claim)
        return
    with database.tenant(claim.tenant_id) as tx:
        dead_letters.add(
            tx,
            claim.tenant_id,
            stage=claim.stage,
            reason=reason,
            attempts=min(claim.attempts, settings().deliveries_max),
            memory_ids=claim.memory_ids,
        )
        work.finish(tx, claim)
    metrics.count("dead_letters")
    _delivered(claim, "dead")
    log.error("dead_letter", stage=claim.stage, tenant=str(claim.tenant_id), reason=reason)
