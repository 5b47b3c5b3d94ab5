"""Write memories in a unit of work, which takes locks at the beginning and writes the follow-up records at the end.

Within the block of `memory_write`, the caller reads and writes rows through the store and reports to the unit of work
which memories it inserts, updates, moves and deletes. At the end of the block, the unit of work marks summaries of
changed memories as stale, hides memories that now match an open erasure or a quarantine, queues enrichment work, adds
to the tenant's counts, its counters of tier moves and its feed of changes, and appends to the audit log. If the block
raises an error, nothing is written.

Transactions that only recompute columns of `memory_state` (sweep, rebase, index stage) need no unit of work.

Lock order (decision 0043): a transaction may skip steps but never returns to an earlier one. Within a step, rows are
locked in id order.

1. the advisory lock of legal holds, then that of erasures; `memory_write` takes them in shared mode; placing or
   releasing a hold takes the first in exclusive mode; starting, cancelling or executing an erasure locks the second
   in exclusive mode
2. rows of the ingest ledger (table `envelopes`, one row per request)
3. rows of `memories`, 4. rows of `memory_state`, then of `scores`, 5. the row of a merge that is approved, rejected or
   undone
6. the tenant's embedding spaces, 7. the word index, 8. segments and keys of cold storage, 9. supersessions
10. at the end of the block: merges that become stale and summaries that are hidden; then counts, counters of tier
    moves, and audit chain

The feed of changes needs no lock, but its rows must be written while the rows of the changed memories are locked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Literal
from uuid import UUID, uuid4

from app import failpoints
from app.domain.changes.types import DELETED, MOVED, RESTORED, STORED, UPDATED
from app.domain.ingest.ids import array_literal
from app.domain.privacy.audit_chain import SYSTEM, Action, Detail
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict
from app.services.security import audit
from app.services.strength import memory_strength
from app.settings import settings
from app.store.changes import feed
from app.store.consolidation import decayed_sources, hidden_supersessions, merged_memories, merges
from app.store.consolidation.merged_memories import SET_ASIDE, NewSummary
from app.store.core import database
from app.store.embedding import embeddings
from app.store.enrichment import word_index
from app.store.enrichment.work_queue import EMBED
from app.store.erasure import hidden_memories, requests
from app.store.erasure.hidden_memories import Hidden
from app.store.files import file_memories
from app.store.jobs import jobs
from app.store.memories import tenant_counts, writes
from app.store.memories.tenant_counts import NONE, TierCounts
from app.store.privacy import holds, quarantines
from app.store.tiers import row_deletion, tiers
from app.store.tiers.tier_moves import Counted, Move

REDERIVE: Final = "rederive"
"""Kind of the job that rewrites stale summaries."""
HIDE: Final = "hide"
"""Kind of the job that removes the hidden memories of an erasure or a quarantine from the indexes."""
NOTES: Final = "notes"
"""Kind of the job that writes, updates and removes the notes of promoted memories."""
_SHOWN: Final = 3

Details = Mapping[str, Detail]
Level = Literal["state", "tier", "content"]
"""The extent of a transaction's changes, which determines its first locks.

`state`: strength, salience and restores, which are always allowed; no lock. `tier`: also moves to a lower tier, merges
and deletions, which legal holds prevent; locks the holds. `content`: also texts and labels, which open erasures may
match; locks the holds and the erasures.
"""


class MemoryWrite:
    """A unit of work: collects a transaction's changes to memories, and writes the follow-up records at the end."""

    def __init__(self, tx: database.Transaction, tenant_id: UUID) -> None:
        """Begin without any changes."""
        self.tx: Final = tx
        self.tenant_id: Final = tenant_id
        self._counts = NONE
        self._measured: set[UUID] = set()
        self._deleted: set[UUID] = set()
        self._moves: Counter[tuple[Move, str]] = Counter()
        self._work: list[tuple[str, Collection[UUID]]] = []
        self._sources: list[UUID] = []
        self._changed: list[UUID] = []
        self._inserted: set[UUID] = set()
        self._reported: list[feed.Batch] = []
        self._entries: list[tuple[Action, str, dict[str, Any]]] = []

    def insert(self, summaries: Sequence[NewSummary]) -> None:
        """Insert summaries as active memories, and queue them for embedding."""
        merged_memories.add_summaries(self.tx, self.tenant_id, summaries)
        text_bytes = sum(len(summary.text.encode()) for summary in summaries)
        self._counts = self._counts.plus(TierCounts(active=len(summaries), text_bytes=text_bytes))
        self.queue([EMBED], [summary.memory_id for summary in summaries])
        self.report(STORED, [summary.memory_id for summary in summaries])

    def keep_version(self, file_id: UUID, version_id: UUID) -> None:
        """Insert a copy of a file that is about to change, and queue the copy for embedding."""
        file_memories.add_version(self.tx, self.tenant_id, file_id, version_id)
        self.measure_inserted([version_id])
        self.queue([EMBED], [version_id])

    def update(self, memory_ids: Sequence[UUID]) -> AbstractContextManager[None]:
        """Return a context manager that locks the states and preserves current strengths while memories are edited."""
        return memory_strength.preserve_strength(self.tx, self.tenant_id, memory_ids)

    def check_free(self, memory_ids: Sequence[UUID]) -> None:
        """Check that no memory is under a legal hold; call this only at levels `tier` and `content`.

        Raises:
            Conflict: Some memories are under a legal hold; the message names the holds.
        """
        holds_by_memory = holds.list_by_memory(self.tx, self.tenant_id, memory_ids)
        if holds_by_memory:
            distinct_holds = list(
                dict.fromkeys(hold for memory_holds in holds_by_memory.values() for hold in memory_holds)
            )
            named = ", ".join(f"{hold.hold_id} of {hold.placed_at:%Y-%m-%d}" for hold in distinct_holds[:_SHOWN])
            more = f" and {len(distinct_holds) - _SHOWN} more" if len(distinct_holds) > _SHOWN else ""
            raise Conflict(
                "a memory under legal hold can't be edited, merged, deleted or moved to a lower tier: "
                f"release legal hold {named}{more} first"
            )

    def changed(self, memory_ids: Sequence[UUID]) -> None:
        """Report new or changed memories; those that match an open erasure or a quarantine are hidden.

        Call this only at level `content`.
        """
        self._changed += memory_ids

    def sources_changed(self, memory_ids: Sequence[UUID]) -> None:
        """Report changed memories whose summaries must be rewritten."""
        self._sources += memory_ids

    def move(self, memory_ids: Sequence[UUID], target: Move, change: TierCounts, rules: Counted) -> None:
        """Move locked memories to a lower tier.

        Args:
            memory_ids: At least one memory.
            target: The new tier, `archived` or `cold`.
            change: Change of the tenant's counts.
            rules: The number of memories by move and deciding rule.
        """
        tiers.write(self.tx, self.tenant_id, memory_ids, target)
        self.count(change, rules)
        self.report(MOVED, memory_ids)

    def restored(self, memory_ids: Sequence[UUID], source: str, rule: str, actor: str | None = SYSTEM) -> None:
        """Count memories that the block has made active again, and append an audit entry.

        Args:
            memory_ids: The memories; if there are none, nothing is recorded.
            source: The memories' former tier.
            rule: The reason, a fixed word: `use`, `edit`, `hand`.
            actor: Id of the requesting key; `SYSTEM` after a use or an edit, and for a restore by a job; None if the
                block appends its own audit entry.
        """
        if memory_ids:
            count = sum(memory_id not in self._measured for memory_id in memory_ids)
            self.count(TierCounts(**{source: -count})._replace(active=count), {("restored", rule): len(memory_ids)})
            self.report(RESTORED, memory_ids)
            if actor is not None:
                self.audit("memories_restored", actor, ids=memory_ids, details={"from": source})

    def delete(self, memory_ids: Sequence[UUID], rules: Counted) -> None:
        """Permanently delete locked memories and all their data, in slices.

        Args:
            memory_ids: Memories that aren't under a legal hold; may be empty.
            rules: The number of memories by move and deciding rule.
        """
        self.measure(memory_ids)
        self._deleted.update(memory_ids)
        self.count(NONE, rules)
        self.report(DELETED, memory_ids)
        for start in range(0, len(memory_ids), row_deletion.MOST):
            row_deletion.remove(self.tx, self.tenant_id, memory_ids[start : start + row_deletion.MOST])

    def set_aside(self, summary_ids: Sequence[UUID], gone: Sequence[UUID]) -> list[UUID]:
        """Hide active summaries that lose some of their sources, until they are rewritten from the remaining sources.

        Args:
            summary_ids: Locked summaries that aren't under a legal hold.
            gone: Memories that the block is about to delete.

        Returns:
            The hidden summaries. The other summaries have no source left, or aren't active.
        """
        remaining = merged_memories.with_sources(self.tx, self.tenant_id, summary_ids, gone)
        refresh_summaries(self.tx, self.tenant_id, gone)
        if not remaining:
            return []
        hidden = hidden_memories.hide(self.tx, self.tenant_id, SET_ASIDE, Scope(memory_ids=remaining))
        self.count(NONE.less(hidden.counts), {})
        to_embed = embeddings.remove(self.tx, self.tenant_id, hidden.ids)
        word_index.remove(self.tx, self.tenant_id, hidden.ids)
        self.queue([EMBED], sorted(to_embed.difference(hidden.ids, gone)))
        return hidden.ids

    def measure(self, memory_ids: Sequence[UUID]) -> None:
        """Count these memories now and at the end of the block, and add the difference to the tenant's counts.

        Call this before writing memories if the block can't compute the difference itself. A memory that doesn't
        exist yet counts as 0 at the time of the call. Later calls for the same memory have no effect.
        """
        new = [memory_id for memory_id in memory_ids if memory_id not in self._measured]
        self._counts = self._counts.less(tenant_counts.count_memories(self.tx, self.tenant_id, new))
        self._measured.update(new)

    def measure_inserted(self, memory_ids: Collection[UUID]) -> None:
        """Count and report memories that the block has inserted, as they are at the end of the block."""
        self._measured.update(memory_ids)
        self._inserted.update(memory_ids)

    def report(self, change_type: str, memory_ids: Collection[UUID]) -> None:
        """Add changes to the tenant's feed, in addition to the changes that the other methods add."""
        self._reported += feed.batches(change_type, memory_ids)

    def count(self, change: TierCounts, moves: Counted) -> None:
        """Add differences computed by the block to the tenant's counts and to its counters of tier moves."""
        self._counts = self._counts.plus(change)
        self._moves.update(moves)

    def queue(self, stages: Sequence[str], memory_ids: Collection[UUID]) -> None:
        """Queue memories for these enrichment stages; memories that the block deletes are left out."""
        self._work.append((" ".join(stages), memory_ids))

    def audit(
        self, action: Action, actor: str = SYSTEM, *, ids: Collection[UUID] = (), details: Details | None = None
    ) -> None:
        """Append an entry to the audit log at the end of the block, after the entries of earlier calls."""
        self._entries.append((action, actor, {"ids": ids, "details": details}))

    def finish(self) -> None:
        """Write the follow-up records of all reported changes, in the lock order."""
        tx, tenant_id = self.tx, self.tenant_id
        refresh_summaries(tx, tenant_id, self._sources)
        if self._deleted:
            queue_notes(tx, tenant_id)
        self.report(STORED, sorted(self._inserted))
        self.report(UPDATED, [memory_id for memory_id in self._changed if memory_id not in self._inserted])
        if self._changed:  # so that the feed lists these changes before `hide_matching` reports memories as deleted
            feed.record_batches(tx, tenant_id, self._reported)
            self._reported = []
        remaining = sorted(self._measured - self._deleted)
        counts = self._counts.plus(tenant_counts.count_memories(tx, tenant_id, remaining))
        hidden = hide_matching(tx, tenant_id, self._changed, also_by_id=False)
        self._moves["hidden", "erasure"] += hidden.memories
        queued = [
            (stages, [str(memory_id) for memory_id in ids if memory_id not in self._deleted])
            for stages, ids in self._work
        ]
        work = [(stages, array_literal(ids)) for stages, ids in queued if ids]
        writes.record(tx, tenant_id, counts.less(hidden), self._moves, work, self._reported)
        for action, actor, entry in self._entries:
            audit.append(tx, tenant_id, action, actor, **entry)


@contextmanager
def memory_write(tenant_id: UUID, level: Level, failpoint: str | None = None) -> Iterator[MemoryWrite]:
    """Open a transaction that writes memories; commit at the end, roll back on an error.

    Args:
        level: The extent of the block's changes.
        failpoint: Name of the failpoint to trigger before the commit.
    """
    with database.tenant(tenant_id) as tx:
        if level == "content":
            writes.lock_holds_and_erasures(tx, tenant_id)
        elif level == "tier":
            holds.lock_shared(tx, tenant_id)
        write = MemoryWrite(tx, tenant_id)
        yield write
        write.finish()
        if failpoint is not None:
            failpoints.trigger(failpoint)


def refresh_summaries(
    tx: database.Transaction, tenant_id: UUID, source_ids: Sequence[UUID], summary_ids: Sequence[UUID] = ()
) -> None:
    """Mark summaries of changed or deleted memories as stale, and create the job that rewrites them.

    Call this in the transaction that changes the memories, with their rows locked. The next run of the task `tick`
    sends the job to a worker.

    Args:
        summary_ids: Summaries that are also rewritten, from the sources that they still have.
    """
    if (source_ids or summary_ids) and merges.make_stale(tx, tenant_id, source_ids, summary_ids):
        jobs.add(tx, uuid4(), tenant_id, REDERIVE, {}, lone=True)


def hide_summaries(
    tx: database.Transaction,
    tenant_id: UUID,
    erasure_id: UUID,
    source_ids: Sequence[UUID],
    decayed: Scope | None = None,
) -> Hidden:
    """Hide summaries derived from these memories until they are rewritten from their remaining sources.

    Args:
        decayed: Scope for sources that were deleted because they decayed: if such a source matches this scope, its
            summary is hidden, too. A summary without remaining sources isn't rewritten.
    """
    of_decayed = [] if decayed is None else decayed_sources.list_summaries(tx, tenant_id, decayed)
    summary_ids = sorted({*merges.list_summaries(tx, tenant_id, source_ids), *of_decayed})
    hidden = hidden_memories.hide(tx, tenant_id, erasure_id, Scope(memory_ids=summary_ids))
    refresh_summaries(tx, tenant_id, source_ids, of_decayed)
    return hidden


def hide_matching(
    tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], *, also_by_id: bool
) -> TierCounts:
    """Hide memories that open erasures or quarantines cover, with their summaries; return the counts of all hidden."""
    ids_by_erasure, hidden = hidden_memories.hide_matching(tx, tenant_id, memory_ids, also_by_id=also_by_id)
    for erasure_id, ids in ids_by_erasure.items():
        summaries = hide_summaries(tx, tenant_id, erasure_id, ids)
        hidden_supersessions.hide_supersessions(tx, tenant_id, erasure_id, summaries.ids)
        hidden = hidden.plus(summaries.counts)
        queue_removal(tx, tenant_id, erasure_id)
    continue_held(tx, tenant_id, ids_by_erasure)
    return hidden.plus(_hide_quarantined(tx, tenant_id, memory_ids))


def continue_held(tx: database.Transaction, tenant_id: UUID, ids_by_erasure: Mapping[UUID, Sequence[UUID]]) -> None:
    """Queue a job for each held erasure that has just hidden a memory without a legal hold.

    All other memories without a hold are already erased. Without the job, this memory would be retained until the
    release of a hold that doesn't cover it.
    """
    for erasure_id in requests.filter_held(tx, tenant_id, list(ids_by_erasure)):
        hidden_ids = ids_by_erasure[erasure_id]
        if len(holds.list_by_memory(tx, tenant_id, hidden_ids)) < len(hidden_ids):
            requests.queue_job(tx, tenant_id, erasure_id)


def _hide_quarantined(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> TierCounts:
    """Hide memories that a quarantine in force covers, with their summaries; return the counts of both."""
    counts = NONE
    by_quarantine = quarantines.find_matching(tx, tenant_id, memory_ids) if memory_ids else {}
    for quarantine_id, ids in by_quarantine.items():
        hidden = hidden_memories.hide(tx, tenant_id, quarantine_id, Scope(memory_ids=ids))
        summaries = hide_summaries(tx, tenant_id, quarantine_id, hidden.ids)
        hidden_supersessions.hide_supersessions(tx, tenant_id, quarantine_id, [*hidden.ids, *summaries.ids])
        counts = counts.plus(hidden.counts).plus(summaries.counts)
        queue_removal(tx, tenant_id, quarantine_id)
    return counts


def queue_notes(tx: database.Transaction, tenant_id: UUID) -> None:
    """Create the job that updates the notes of promoted memories, if notes are written."""
    if settings().notes_dir is not None:
        jobs.add(tx, uuid4(), tenant_id, NOTES, {}, lone=True)


def queue_removal(tx: database.Transaction, tenant_id: UUID, erasure_id: UUID) -> None:
    """Create the job that removes the memories hidden by an erasure or a quarantine from the indexes.

    Args:
        erasure_id: Id of the erasure or the quarantine.
    """
    jobs.add(tx, uuid4(), tenant_id, HIDE, {"erasure_id": str(erasure_id)}, lone=False)
