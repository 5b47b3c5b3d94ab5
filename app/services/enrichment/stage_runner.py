"""Run the enrichment stages: claim queued memories in batches, tenant by tenant, and settle each claim.

The stages are independent, so a slow model never delays the full-text index. If a worker dies, its claim's lease
expires. A failing batch is halved until the memory that can't be processed is isolated and becomes a dead letter.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Lock, Semaphore
from typing import Final
from uuid import UUID, uuid4

import structlog

from app import failpoints, metrics, queues
from app.clients.llm.resilience import ProviderFailed
from app.clients.redis.stream import backlog
from app.domain.turns import REST_FACTOR, TurnSize
from app.errors import Misconfigured, ProfileMissing, stored_name
from app.services.embedding import tenant_indexes
from app.services.embedding.embed import embed_memories
from app.services.enrichment.index import index_memories
from app.services.enrichment.score_by_rules import score_memories
from app.services.strength import current_policy
from app.services.transient_errors import OverBudget, is_transient
from app.settings import IN_PROCESS, settings
from app.store.core import database
from app.store.enrichment import work_queue
from app.store.enrichment.work_queue import Sharing, WorkClaim
from app.store.ingest import dead_letters

_LANE: Final = {work_queue.INDEX: queues.INGEST, work_queue.EMBED: queues.EMBED, work_queue.SCORE: queues.SCORE}
KILLED = "its worker died each time"
RETRY_SECONDS = 5
# Number of concurrent batches per worker: one batch is computed while another is read or written.
EMBED_THREADS = 2
# Interval at which an idle thread looks for a nudge while another one works.
IDLE_SECONDS = 0.01
# Batch size for in-process models: they may compute only one vector per second, and a claim must finish in its lease.
SLOW_EMBED_ROWS = 100
# Least size of a shared turn with the bundled embedder.
FAST_EMBED_ROWS = 100
# Delay after a provider-wide failure, or with a wrong setting, which an operator has to correct.
ILL_SECONDS = 60
OVER_BUDGET_SECONDS = 600
# The drain shares the index stage's lane: while requests wait to be stored, an indexing slice is limited to this time,
# which is enough for one batch from each of several tenants.
SHARED_LANE_SECONDS = 0.1

log = structlog.get_logger(__name__)

Process = Callable[[UUID, Sequence[UUID]], int]

# Tenant of each stage's last turn in this process. The next slice starts after it, so that slices that end early don't
# always serve the same tenants.
_last_turns: dict[str, UUID] = {}


def start_turn_sizes() -> dict[str, TurnSize]:
    """Return the size of each stage's turns while tenants share it, before the speed of any turn is known.

    The minimum sizes make a turn's fixed time short compared with the time for its memories, even on an overloaded
    machine. The minimum for embedding is small, since slow embedders have hardly any fixed time.
    """
    return {
        work_queue.INDEX: TurnSize(least=200, first=200),
        work_queue.EMBED: TurnSize(least=4, first=100),
        work_queue.SCORE: TurnSize(least=200, first=200),
    }


_turn_sizes = start_turn_sizes()
_claiming = Lock()
_free = Semaphore(EMBED_THREADS)
_taking = Lock()


def run_index_stage() -> int:
    """Index queued memories for one slice; return the number processed."""
    queues.clear_nudge(queues.INDEX)
    return index_stored()


def index_stored() -> int:
    """Do as `run_index_stage`, in the task that stored the memories; a nudge for another task remains.

    A few memories become searchable sooner than by a message to another task.
    """
    return _run_slice(work_queue.INDEX, _index_claim, settings().index_rows, "indexed_memories", queues.INDEX)


def embed(threads: int = 1) -> int:
    """Embed queued memories for one slice; return the number processed.

    Args:
        threads: Number of concurrent batches, at most `EMBED_THREADS`.
    """
    queues.clear_nudge(queues.EMBED_MEMORIES)
    ended: set[Future[int]] = set()
    with ThreadPoolExecutor(threads) as pool:
        first = frozenset(pool.submit(_embed_slice) for _ in range(threads))
        running = set(first)
        while running:
            has_idle = len(running) < threads and not first.isdisjoint(running)
            done, running = wait(running, IDLE_SECONDS if has_idle else None, FIRST_COMPLETED)
            ended |= done
            is_well = all(each.exception() is None for each in ended)
            # Another tenant's new memories would otherwise wait until the working thread's turn or slice ends, which a
            # slow provider delays.
            if running and has_idle and is_well and queues.clear_nudge(queues.EMBED_MEMORIES):
                running.add(pool.submit(_embed_slice))
    embedded = sum(each.result() for each in ended)
    if embedded:
        queues.nudge(queues.SCORE_MEMORIES)  # novelty is computed from vectors
    return embedded


def _embed_slice() -> int:
    return _run_slice(work_queue.EMBED, embed_memories, _embed_rows(), "embedded_memories", queues.EMBED_MEMORIES)


def _embed_rows() -> int:
    """Return the batch size of embedding claims; smaller for in-process models, which may be slow."""
    config = settings()
    return min(config.embed_rows, SLOW_EMBED_ROWS) if config.embedder in IN_PROCESS else config.embed_rows


def run_score_stage() -> int:
    """Score queued memories for one slice; return the number processed."""
    queues.clear_nudge(queues.SCORE_MEMORIES)
    return _run_slice(work_queue.SCORE, score_memories, settings().score_rows, "scored_memories", queues.SCORE_MEMORIES)


def _index_claim(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    return index_memories(tenant_id, memory_ids, current_policy.read(tenant_id))


def _run_slice(stage: str, process: Process, limit: int, counter: str, task: str) -> int:
    started_at = time.monotonic()
    processed = 0
    while (claim := _claim(stage, _last_turns.get(stage, work_queue.NIL), limit)) is not None:
        _last_turns[stage] = claim.tenant_id
        # A claim that was tried before may have killed its worker, so it is processed without concurrent batches.
        with _occupy_seats(EMBED_THREADS if claim.attempts > 1 else 1):
            turn_started_at = time.monotonic()
            done = _process_claim(claim, process)
        seconds = time.monotonic() - turn_started_at
        _turn_sizes[stage].record(done, seconds)
        processed += done
        if done and stage == work_queue.EMBED:
            tenant_indexes.ensure_job(claim.tenant_id)
        if stage == work_queue.SCORE and claim.is_shared and _is_search_behind():
            _rest(min(REST_FACTOR * seconds, settings().slice_seconds))
        elapsed = time.monotonic() - started_at
        if elapsed >= settings().slice_seconds or (
            stage == work_queue.INDEX and elapsed >= SHARED_LANE_SECONDS and backlog().entries()
        ):
            queues.nudge(task)
            break
    metrics.count(counter, processed)
    return processed


def _is_search_behind() -> bool:
    with database.shared() as tx:
        return work_queue.is_search_behind(tx)


def _rest(seconds: float) -> None:
    """Leave the processors to the stages that search needs."""
    time.sleep(seconds)


@contextmanager
def _occupy_seats(number: int) -> Iterator[None]:
    """Occupy this many of the process's `EMBED_THREADS` seats; threads acquire in turn, which prevents a deadlock."""
    with _taking:
        for _ in range(number):
            _free.acquire()
    try:
        yield
    finally:
        _free.release(number)


def _claim(stage: str, after: UUID, limit: int) -> WorkClaim | None:
    """Claim a turn: at most `limit` memories, or about `TURN_SECONDS` of work while tenants share the stage.

    While they share the index stage or the bundled embedder, a tenant has one turn at a time, so that another process
    or thread is free for the memories of other tenants. Calls to a provider leave the processors free, and turns of
    other models in the process take seconds, so both aren't limited.
    """
    size, lease_seconds = _turn_sizes[stage], _lease_seconds(stage)
    shared_limit = min(max(size.memories, _least_memories(stage)), limit)
    # If several tenants' memories are being stored, they will soon be queued for this stage.
    is_shared = size.is_shared(time.monotonic()) or backlog().is_shared()
    # One claim at a time per process: a thread would skip rows that another has locked but won't claim.
    with _claiming, database.shared() as tx:
        claim = work_queue.claim(
            tx,
            stage,
            claim_id=uuid4(),
            after=after,
            limit=limit,
            lease_seconds=lease_seconds,
            sharing=Sharing(shared_limit, is_shared, one_turn=_has_one_turn(stage)),
        )
        if claim is None:
            return None
        if claim.are_several:
            size.note_sharing(time.monotonic())
        most = shared_limit if claim.is_shared else limit if _is_slow(stage) else len(claim.memory_ids)
        # An item of up to 1.5 times the limit isn't divided, unless each memory may take a second.
        if len(claim.memory_ids) > (most if _is_slow(stage) else most + most // 2):
            claim = work_queue.narrow_claim(tx, claim, most, lease_seconds)
        return claim


def _has_one_turn(stage: str) -> bool:
    return stage == work_queue.INDEX or (stage == work_queue.EMBED and settings().embedder == "local")


def _is_slow(stage: str) -> bool:
    return stage == work_queue.EMBED and settings().embedder in IN_PROCESS


def _least_memories(stage: str) -> int:
    """Return a lower limit of a shared turn's size, as well as that of `TurnSize`; 1 for slow models and other stages.

    A provider gets whole batches, since each call takes a while.
    """
    if stage != work_queue.EMBED or _is_slow(stage):
        return 1
    config = settings()
    return config.embed_batch_memories if config.embedder == "openai" else FAST_EMBED_ROWS


def _lease_seconds(stage: str) -> float:
    """Return the lease of a claim in seconds; if the model may respond slowly, it includes all attempts of a call."""
    config = settings()
    if stage != work_queue.EMBED or (config.embedder == "local" and not config.has_provider):
        return config.lease_seconds
    return config.lease_seconds + config.llm_tries_seconds


def _process_claim(claim: WorkClaim, process: Process) -> int:
    """Process a claim and settle it; return the number of memories processed."""
    attempts_max = settings().deliveries_max
    if claim.attempts > attempts_max:
        _split_or_bury(claim, KILLED)
        return 0
    try:
        failpoints.trigger(f"{claim.stage}.before", str(claim.tenant_id))
        process(claim.tenant_id, claim.memory_ids)
        failpoints.trigger(f"{claim.stage}.before_finish")
    except (OverBudget, ProfileMissing) as error:
        over_budget = isinstance(error, OverBudget)
        seconds = OVER_BUDGET_SECONDS if over_budget else ILL_SECONDS
        with database.shared() as tx:
            work_queue.release(tx, claim, forgive=True, delay_seconds=seconds)
            work_queue.postpone(tx, claim.stage, claim.tenant_id, seconds)
        _count_delivery(claim, "put_off")
        event = "over_budget" if over_budget else "dynamics_missing"
        log.warning(event, stage=claim.stage, tenant=str(claim.tenant_id))
        return 0
    except Exception as error:
        if (delay := _delay_seconds(error)) is not None:
            with database.shared() as tx:
                work_queue.release(tx, claim, forgive=True, delay_seconds=delay)
            _count_delivery(claim, "put_off")
            raise
        _count_delivery(claim, "failed")
        reason = stored_name(error)
        log.warning(
            "stage_failed",
            stage=claim.stage,
            tenant=str(claim.tenant_id),
            memories=len(claim.memory_ids),
            attempt=claim.attempts,
            error=reason,
            exc_info=error,
        )
        if claim.attempts >= attempts_max or (len(claim.memory_ids) > 1 and claim.attempts > 1):
            _split_or_bury(claim, reason)
        else:
            with database.shared() as tx:
                work_queue.release(tx, claim, forgive=False)
        return 0
    with database.shared() as tx:
        work_queue.finish_claim(tx, claim)
    _count_delivery(claim, "done")
    return len(claim.memory_ids)


def _count_delivery(claim: WorkClaim, outcome: str) -> None:
    metrics.count("deliveries", lane=_LANE[claim.stage], outcome=outcome)


def _delay_seconds(error: Exception) -> float | None:
    """Return the delay before a retry, or None if one of the memories may have caused the failure."""
    if database.is_too_slow(error):
        return None  # the whole batch would be as slow again, but its halves may be fast enough
    if is_transient(error):
        return RETRY_SECONDS
    if isinstance(error, Misconfigured) or (isinstance(error, ProviderFailed) and not error.treatment.halve):
        return ILL_SECONDS
    return None


def _split_or_bury(claim: WorkClaim, reason: str) -> None:
    """Split a claim that failed too often; a single memory becomes a dead letter."""
    if len(claim.memory_ids) > 1:
        with database.shared() as tx:
            work_queue.split_claim(tx, claim)
        return
    with database.tenant(claim.tenant_id) as tx:
        if not work_queue.finish_claim(tx, claim):
            return  # the lease expired: the worker that claimed the items next sets the memory aside
        dead_letters.add(
            tx,
            claim.tenant_id,
            stage=claim.stage,
            reason=reason,
            attempts=min(claim.attempts, settings().deliveries_max),
            memory_ids=claim.memory_ids,
        )
    metrics.count("dead_letters")
    _count_delivery(claim, "dead")
    log.error("dead_letter", stage=claim.stage, tenant=str(claim.tenant_id), reason=reason)
