"""List dead letters without their content, and replay or discard them on an operator's decision.

A letter written by the drain contains a stream entry that isn't stored. A replay appends the entry to the stream like
any request and then deletes the letter. If the process crashes in between, the entry can be appended twice with the
same id base, and the ingest ledger rejects the second one. All other letters refer to stored memories, which a replay
queues for the failed stage.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import structlog

from app import failpoints, metrics, queues
from app.clients.redis import stream
from app.clients.redis.stream import StreamEntry
from app.domain.privacy.audit_chain import SYSTEM, Action
from app.errors import BacklogFull, Conflict, Unavailable, require_found
from app.services.security import audit
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.store.core import database
from app.store.core.paging import Page, Place
from app.store.enrichment import rating_queue, rating_turns, work_queue
from app.store.ingest import dead_letters
from app.store.ingest.dead_letters import DeadLetter, LetterFilter, ReasonCount, StoredWork, UnstoredEntry

# Limits for one call that replays or discards many letters.
ENTRIES_A_CALL: Final = 200
BYTES_A_CALL: Final = 16 << 20
LETTERS_A_CALL: Final = 1000
REPEAT_SECONDS: Final = 10.0
"""Time after which `replay_all` and `discard_all` start no further batch, so that a page can show the progress."""

_TASKS: Final = {
    work_queue.INDEX: queues.INDEX,
    work_queue.EMBED: queues.EMBED_MEMORIES,
    work_queue.SCORE: queues.SCORE_MEMORIES,
    rating_queue.STAGE: queues.RATE_MEMORIES,
}

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of one call on many letters.

    Attributes:
        letters: Number of letters processed.
        left: Number of matching letters still waiting.
        before: Only letters written before this time match, so that letters which fail again aren't processed twice.
        came_back: Number of the processed letters that had been replayed before and failed again.
    """

    letters: int
    left: int
    before: datetime
    came_back: int = 0


def list_letters(
    tenant_id: UUID, wanted: LetterFilter, *, discarded: bool, older_than: Place | None, limit: int
) -> tuple[Page[DeadLetter], list[ReasonCount]]:
    """Return a page of letters, newest first, and the number of letters by stage and reason."""
    with database.tenant(tenant_id) as tx:
        page = dead_letters.list_letters(tx, tenant_id, wanted, older_than, limit, discarded=discarded)
        return page, dead_letters.count_by_reason(tx, tenant_id, wanted, discarded=discarded)


def get(tenant_id: UUID, letter_id: UUID) -> DeadLetter:
    """Return a letter.

    Raises:
        NotFound: This tenant has no such letter.
    """
    with database.tenant(tenant_id) as tx:
        return require_found(dead_letters.get(tx, tenant_id, letter_id), "dead letter")


def replay_letter(tenant_id: UUID, letter_id: UUID, actor: str = SYSTEM) -> DeadLetter:
    """Retry a letter's entry or memories; return the letter as read before the replay.

    Raises:
        NotFound: This tenant has no such letter.
        Conflict: It was discarded, or written by an older version that didn't store enough for a replay.
        BacklogFull: This tenant's backlog limit is reached.
        Unavailable: The backlog limit of all tenants is reached, or Redis is full or unreachable.
    """
    letter = get(tenant_id, letter_id)
    if letter.discarded_at is not None:
        raise Conflict("this dead letter was discarded and its content deleted: send its data again")
    if not letter.replayable:
        raise Conflict(
            "this dead letter was written by an older version and can't be replayed: "
            "send its memories again, then discard it"
        )
    replayed = 0  # remains 0 if another call was quicker
    if letter.stage == dead_letters.DRAIN:
        with database.tenant(tenant_id) as tx:
            unstored = dead_letters.get_drain_content(tx, tenant_id, letter_id)
        if unstored is not None:
            replayed = len(_store_again(tenant_id, [(letter_id, unstored)], actor))
    else:
        with memory_write(tenant_id, "state") as write:
            claimed = dead_letters.claim(write.tx, tenant_id, letter_id)
            _queue_again(write, [claimed] if claimed else [])
            if claimed:
                replayed = 1
                write.audit("letters_replayed", actor, ids=[letter_id])
        queues.nudge(_TASKS[letter.stage])
    if replayed:
        _log("dead_letters_replayed", tenant_id, replayed)
    return letter


def replay_many(
    tenant_id: UUID, stage: str | None, reason: str, before: datetime | None = None, actor: str = SYSTEM
) -> BatchResult:
    """Replay the oldest letters with a reason, up to the limits per call; repeat with the returned `before`.

    Raises:
        BacklogFull: This tenant's backlog limit is reached, and nothing was replayed.
        Unavailable: The backlog limit of all tenants is reached, or Redis is full or unreachable; nothing was replayed.
    """
    letter_filter, before = _resolve_filter(tenant_id, stage, reason, before)
    with memory_write(tenant_id, "state") as write:
        requeued = dead_letters.claim_stored(write.tx, tenant_id, letter_filter, LETTERS_A_CALL)
        _queue_again(write, list(requeued.values()))
        unstored = dead_letters.list_drain_contents(
            write.tx, tenant_id, letter_filter, limit=ENTRIES_A_CALL, most_bytes=BYTES_A_CALL
        )
        if requeued:
            write.audit("letters_replayed", actor, ids=requeued)
    for task in {_TASKS[work.stage] for work in requeued.values()}:
        queues.nudge(task)
    try:
        appended = _store_again(tenant_id, unstored, actor)
    except (BacklogFull, Unavailable):
        if not requeued:
            raise
        appended = []
    replays = [work.replays for work in requeued.values()]
    replays += [entry.replays for letter_id, entry in unstored if letter_id in set(appended)]
    _log("dead_letters_replayed", tenant_id, len(replays))
    with database.tenant(tenant_id) as tx:
        remaining = dead_letters.count_replayable(tx, tenant_id, letter_filter)
    return BatchResult(len(replays), remaining, before, sum(count > 0 for count in replays))


def replay_all(
    tenant_id: UUID, stage: str | None, reason: str, before: datetime | None = None, actor: str = SYSTEM
) -> BatchResult:
    """Replay the letters with a reason, batch by batch, for `REPEAT_SECONDS`; repeat with the returned `before`.

    It ends early if a backlog limit is reached. Raises like `replay_many` if nothing was replayed.
    """
    return _repeat(lambda since: replay_many(tenant_id, stage, reason, since, actor), before)


def discard_all(
    tenant_id: UUID,
    stage: str | None,
    reason: str,
    because: str,
    before: datetime | None = None,
    actor: str = SYSTEM,
) -> BatchResult:
    """Discard the letters with a reason, batch by batch, for `REPEAT_SECONDS`; repeat with the returned `before`."""
    return _repeat(lambda since: discard_many(tenant_id, stage, reason, because, since, actor), before)


def _repeat(process: Callable[[datetime | None], BatchResult], before: datetime | None) -> BatchResult:
    """Process batches until no letter is left, none can be processed, or the time is over; return their sum."""
    until = time.monotonic() + REPEAT_SECONDS
    done = process(before)
    batch = done
    while batch.letters and batch.left and time.monotonic() < until:
        try:
            batch = process(done.before)
        except (BacklogFull, Unavailable):
            break
        done = BatchResult(done.letters + batch.letters, batch.left, done.before, done.came_back + batch.came_back)
    return done


def discard_letter(tenant_id: UUID, letter_id: UUID, because: str, actor: str = SYSTEM) -> DeadLetter:
    """Delete a letter's content, and keep its metadata and the reason for 90 days; return the discarded letter.

    Raises:
        NotFound: This tenant has no such letter.
        Conflict: It was discarded before.
    """
    with database.tenant(tenant_id) as tx:
        is_discarded = dead_letters.discard_letter(tx, tenant_id, letter_id, because)
        _audit(tx, tenant_id, "letters_discarded", actor, [letter_id] if is_discarded else [])
    letter = get(tenant_id, letter_id)
    if not is_discarded:
        raise Conflict("this dead letter is discarded already")
    _log("dead_letters_discarded", tenant_id, 1)
    return letter


def discard_many(
    tenant_id: UUID,
    stage: str | None,
    reason: str,
    because: str,
    before: datetime | None = None,
    actor: str = SYSTEM,
) -> BatchResult:
    """Discard the oldest letters with a reason, up to the limit per call; repeat with the returned `before`."""
    letter_filter, before = _resolve_filter(tenant_id, stage, reason, before)
    with database.tenant(tenant_id) as tx:
        discarded = dead_letters.discard_letters(tx, tenant_id, letter_filter, because, LETTERS_A_CALL)
        remaining = dead_letters.count_waiting(tx, tenant_id, letter_filter)
        _audit(tx, tenant_id, "letters_discarded", actor, discarded)
    _log("dead_letters_discarded", tenant_id, len(discarded))
    return BatchResult(len(discarded), remaining, before)


def _store_again(tenant_id: UUID, letters: Sequence[tuple[UUID, UnstoredEntry]], actor: str) -> list[UUID]:
    """Append entries to the stream, then delete their letters; stop early if the stream refuses one.

    Returns:
        The ids of the deleted letters; they exclude letters that another call replayed at the same time.

    Raises:
        BacklogFull: Not even the first entry was accepted.
        Unavailable: Not even the first entry was accepted.
    """
    appended: list[UUID] = []
    nudge = False
    try:
        for letter_id, unstored in letters:
            entry = StreamEntry(unstored.position, str(unstored.memories).encode(), unstored.header, unstored.payload)
            nudge |= stream.append_again(tenant_id, entry, unstored.replays + 1)
            appended.append(letter_id)
    except (BacklogFull, Unavailable):
        if not appended:
            raise
    if not appended:
        return []
    failpoints.trigger("replay.before_delete")
    with database.tenant(tenant_id) as tx:
        deleted = dead_letters.delete(tx, tenant_id, appended)
        _audit(tx, tenant_id, "letters_replayed", actor, deleted)
    if nudge:
        queues.send_nudge(queues.DRAIN)
    return deleted


def _audit(tx: database.Transaction, tenant_id: UUID, action: Action, actor: str, letter_ids: Collection[UUID]) -> None:
    if letter_ids:  # otherwise another call was quicker
        audit.append(tx, tenant_id, action, actor, ids=letter_ids)


def _queue_again(write: MemoryWrite, taken: Sequence[StoredWork]) -> None:
    """Queue letters' memories for the letters' stages again."""
    by_stage: dict[str, set[UUID]] = {}
    for work in taken:
        by_stage.setdefault(work.stage, set()).update(work.memory_ids)
    for stage, ids in by_stage.items():
        if stage == rating_queue.STAGE:
            rating_queue.reset_ratings(write.tx, write.tenant_id, list(ids))
            rating_turns.add(write.tx, write.tenant_id)
        else:
            write.queue([stage], ids)


def _resolve_filter(
    tenant_id: UUID, stage: str | None, reason: str, before: datetime | None
) -> tuple[LetterFilter, datetime]:
    if before is None:
        with database.tenant(tenant_id) as tx:
            before = database.now(tx)
    return LetterFilter(stage, reason, before), before


def _log(event: str, tenant_id: UUID, letters: int) -> None:
    metrics.count(event, letters)
    log.info(event, tenant=str(tenant_id), letters=letters)
