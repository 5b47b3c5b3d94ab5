"""Rewrite summaries whose sources were changed or deleted; delete summaries without any source left.

A summary edited by hand remains unchanged while all its sources exist. Once a source is deleted, the summary is
rewritten, since the source's content must be removed from it.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from app import failpoints, metrics, queues
from app.domain.changes.types import UPDATED
from app.domain.consolidation.group_types import Form, Source, Summary
from app.domain.ingest.sources import as_stored, lowest
from app.domain.jobs import Job, Step
from app.domain.privacy.audit_chain import Action
from app.services.consolidation import summaries, supersession_restore
from app.services.enrichment import reminders
from app.services.storage.memory_write import REDERIVE, MemoryWrite, continue_held, memory_write
from app.services.strength.rebase import STEP_SECONDS
from app.store.changes import feed
from app.store.consolidation import consolidation_runs, decayed_sources, edited_supersessions, merged_memories, merges
from app.store.consolidation.merged_memories import PresentMemory
from app.store.consolidation.merges import Ancestor, Merge
from app.store.core import database
from app.store.embedding import embeddings
from app.store.enrichment import cues, word_index, work_queue
from app.store.enrichment.work_queue import NIL
from app.store.erasure import hidden_memories, requests
from app.store.memories import memories
from app.store.memories.tenant_counts import NONE
from app.store.privacy import holds, quarantines
from app.store.strength import states
from app.store.tenants import policies

KIND: Final = REDERIVE
PAGE: Final = 20


@dataclass(frozen=True, slots=True)
class _StaleSummary:
    """A stale summary with its sources, as read from the database.

    Attributes:
        present: Remaining sources with their current texts.
        gone: Sources that are deleted, or assigned to a different subject.
        version: Version of the summary's text.
        tier: Tier of the summary; `aside` means hidden only until it is rewritten.
    """

    merge: Merge
    present: list[PresentMemory]
    gone: list[UUID]
    version: int | None
    tier: str | None

    @property
    def stays(self) -> bool:
        """True if the summary stays stale: edited by hand while all sources exist, or to be deleted by its erasure."""
        by_hand = self.version is not None and self.version != self.merge.summary_version and not self.gone
        return by_hand or (self.tier == "hidden" and not self.present)

    @property
    def goes(self) -> bool:
        """True if the summary must be deleted: it has no source left, or it is neither active nor hidden."""
        return not self.present or self.tier not in {"active", "hidden", "aside"}


def run_job_slice(job: Job) -> Step:
    """Rewrite stale summaries for a few seconds."""
    after = UUID(job.state.get("after", NIL.hex))
    counts, following = run_slice(job.tenant_id, None, after, time.monotonic() + STEP_SECONDS)
    state: dict[str, Any] = {} if following is None else {"after": following.hex}
    return Step(counts["summaries"], state, finished=following is None, counts=dict(counts))


def run_slice(tenant_id: UUID, run_id: UUID | None, after: UUID, until: float) -> tuple[Counter[str], UUID | None]:
    """Rewrite stale summaries of merges that follow an id; return counts, and the last merge's id (None at the end)."""
    counts: Counter[str] = Counter()
    while True:
        with database.tenant(tenant_id) as tx:
            page = merges.list_stale(tx, tenant_id, after, PAGE)
        for merge_id in page:
            counts += refresh_summary(tenant_id, run_id, merge_id)
            after = merge_id
            if time.monotonic() >= until:
                _nudge(counts)
                return counts, after
        if len(page) < PAGE:
            _nudge(counts)
            return counts, None


def _nudge(counts: Counter[str]) -> None:
    if counts:
        queues.nudge(queues.EMBED_MEMORIES)


def refresh_summary(tenant_id: UUID, run_id: UUID | None, merge_id: UUID) -> Counter[str]:
    """Rewrite or delete a stale summary and return counts, which are empty if nothing was changed.

    A summary remains unchanged if it is under legal hold, if it was edited by hand and all its sources exist, or if it
    changed while its new text was generated.
    """
    with database.tenant(tenant_id) as tx:
        case = _read(tx, tenant_id, merge_id)
    if case is None or case.stays:
        return Counter()
    form = case.merge.action
    summary = None if case.goes or form == "link" else _summary(tenant_id, case, form)
    failpoints.trigger("rederive.after_summary")
    with memory_write(tenant_id, "content", "rederive.before_commit") as write:
        tx = write.tx
        merge = merges.get(tx, tenant_id, merge_id)
        if merge is None or merge.summary_id is None:
            return Counter()
        involved = sorted({merge.summary_id, *(source.memory_id for source in case.present)})
        requests.lock_rows(tx, tenant_id, involved)
        states.lock(tx, tenant_id, [merge.summary_id])
        current = _read(tx, tenant_id, merge_id)
        if current != case or holds.list_by_memory(tx, tenant_id, [merge.summary_id]):
            return Counter()
        counts = _write(write, case, merge.summary_id, summary)
        if run_id is not None:
            consolidation_runs.count(tx, tenant_id, run_id, counts)
    metrics.count("summaries_made", counts["summaries"])
    return counts


def _read(tx: database.Transaction, tenant_id: UUID, merge_id: UUID) -> _StaleSummary | None:
    merge = merges.get(tx, tenant_id, merge_id)
    if merge is None or merge.summary_id is None or not merge.is_stale:
        return None
    ids = [memory.memory_id for memory in merges.list_ancestors(tx, tenant_id, [merge_id]) if memory.part == "source"]
    stored_summary = merged_memories.list_present(tx, tenant_id, [merge.summary_id])
    stored_summary = stored_summary or merged_memories.read_hidden_summary(tx, tenant_id, merge.summary_id)
    present = _of_one_subject(merged_memories.list_present(tx, tenant_id, ids), stored_summary)
    present_ids = {memory.memory_id for memory in present}
    missing_ids = [memory_id for memory_id in ids if memory_id not in present_ids]
    if len(ids) < merge.sources and not missing_ids:
        missing_ids = [NIL]  # the lineage no longer lists a permanently deleted source
    return _StaleSummary(
        merge,
        present,
        missing_ids,
        stored_summary[0].text_version if stored_summary else None,
        stored_summary[0].tier if stored_summary else None,
    )


def _of_one_subject(present: list[PresentMemory], own: list[PresentMemory]) -> list[PresentMemory]:
    """Return the sources with the summary's subject; sources reassigned to another subject count as deleted."""
    subjects = [source.subject for source in present]
    subject = own[0].subject if own and own[0].subject in subjects else next(iter(subjects), None)
    return [source for source in present if source.subject == subject]


def _summary(tenant_id: UUID, case: _StaleSummary, form: Form) -> Summary:
    sources = [Source(memory.memory_id, memory.text, memory.speaker, memory.said_at, 0.0) for memory in case.present]
    ordered = sorted(sources, key=lambda source: (source.said_at, source.memory_id))
    return summaries.summarise_one(tenant_id, ordered, form, case.merge.level)


def _write(write: MemoryWrite, case: _StaleSummary, summary_id: UUID, summary: Summary | None) -> Counter[str]:
    tx, tenant_id, merge_id = write.tx, write.tenant_id, case.merge.merge_id
    write.measure([summary_id])
    is_hidden = case.tier in {"hidden", "aside"}
    if is_hidden:  # an erasure hid it because of source content that the rewrite removes
        hidden_memories.unhide(tx, tenant_id, among=[summary_id])
    if summary is None:
        write.delete([summary_id], {("deleted", "sources_gone"): 1})
        merges.update_merge(tx, tenant_id, merge_id, {"is_stale": False})
    else:
        _rewrite(write, case, summary_id, summary)
        edited_supersessions.settle_edited(tx, tenant_id, [summary_id])
        supersession_restore.restore_for_memory(tx, tenant_id, summary_id)
        feed.record(tx, tenant_id, UPDATED, [summary_id])  # before it may be hidden again
        if not _hidden_by_itself(tx, tenant_id, summary_id) and is_hidden:
            write.count(NONE, {("restored", "made_again"): 1})
    # Sources in quarantine stay in the lineage, so that the summary includes them again once the quarantine is lifted.
    in_quarantine = quarantines.filter_hidden(tx, tenant_id, case.gone)
    merges.forget(tx, tenant_id, merge_id, [source for source in case.gone if source not in in_quarantine])
    decayed_sources.forget(tx, tenant_id, summary_id)
    action: Action = "memories_deleted" if summary is None else "memories_merged"
    write.audit(action, ids=[summary_id], details={"merge": str(merge_id), "again": True})
    if summary is None:
        return Counter(removed=1)
    return Counter(summaries=1, by_model=int(summary.method == "llm"))


def _hidden_by_itself(tx: database.Transaction, tenant_id: UUID, summary_id: UUID) -> bool:
    """Hide the rewritten summary again if an open erasure matches the summary itself; return True if it is hidden."""
    hidden_ids, _ = hidden_memories.hide_matching(tx, tenant_id, [summary_id], also_by_id=True)
    continue_held(tx, tenant_id, hidden_ids)
    if hidden_ids:
        embeddings.remove(tx, tenant_id, [summary_id])
        word_index.remove(tx, tenant_id, [summary_id])
    return bool(hidden_ids)


def _rewrite(write: MemoryWrite, case: _StaleSummary, summary_id: UUID, summary: Summary) -> None:
    tx, tenant_id = write.tx, write.tenant_id
    policy = policies.read_current(tx, tenant_id)
    embeddings.remove(tx, tenant_id, [summary_id])
    categories = {label for source in case.present for label in source.categories}
    strictest = sorted(categories.difference(policy.protection.never_forget_categories))
    fields = {"text": summary.text, "categories": strictest, "subject": case.present[0].subject}
    fields["source"] = as_stored(lowest(source.source for source in case.present))
    memories.update_memory(tx, tenant_id, summary_id, fields)
    reminders.refresh_flags(tx, tenant_id, [summary_id])
    cues.delete_outdated(tx, tenant_id, [summary_id])
    word_index.index_words(tx, tenant_id, [summary_id], policy.language, policy.time_zone)
    columns = {
        "is_stale": False,
        "summary_version": (case.version or 0) + 1,
        "sources": len(case.present),
        "method": summary.method,
        "model": summary.model,
        "key_points": list(summary.key_points),
        "characters_before": sum(len(source.text) for source in case.present),
        "characters_after": len(summary.text),
    }
    merges.update_merge(tx, tenant_id, case.merge.merge_id, columns)
    ancestors = [
        Ancestor(case.merge.merge_id, source.memory_id, source.text_version, "source") for source in case.present
    ]
    merges.add_lineage(tx, tenant_id, ancestors)
    write.queue([work_queue.EMBED], [summary_id])
