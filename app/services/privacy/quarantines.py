"""Quarantine what an API key or a source wrote: hide it from every read, reversibly.

The memories are hidden in the same way as those of an open erasure. Their summaries are hidden until they are rewritten
without these memories. The first slice runs within the request, and a job runs the others. Each slice takes the
erasures' lock exclusively, so that no other transaction stores a matching memory during the slice; memories that match
only later are hidden when they are written (`memory_write.hide_matching`). Holds, erasures and expiry apply to memories
in quarantine.
"""

from __future__ import annotations

import time
from typing import Final
from uuid import UUID, uuid4

from app import failpoints, queues
from app.domain.ingest.quarantine import NewQuarantine, Terms, read_terms
from app.domain.jobs import Job, Step
from app.domain.privacy.audit_chain import SYSTEM
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict, FieldError, Invalid, require_found
from app.services.consolidation import supersession_restore
from app.services.security import audit
from app.services.storage.memory_write import (
    hide_matching,
    hide_summaries,
    queue_notes,
    queue_removal,
    refresh_summaries,
)
from app.store.consolidation import hidden_supersessions
from app.store.core import database
from app.store.enrichment import scores, work_queue
from app.store.enrichment.work_queue import NIL
from app.store.erasure import hidden_memories, requests
from app.store.jobs import jobs
from app.store.memories import tenant_counts
from app.store.privacy import holds, quarantines
from app.store.privacy.quarantines import Covered, Quarantine
from app.store.tiers import tier_moves

KIND: Final = "quarantine"
ROWS: Final = 1000
STEP_SECONDS: Final = 2.0


def preview(tenant_id: UUID, given: NewQuarantine) -> tuple[Terms, Covered]:
    """Return a quarantine's conditions and how many memories it would hide now.

    Raises:
        Invalid: The conditions are invalid, or the tenant has no such key.
    """
    with database.tenant(tenant_id) as tx:
        terms = _read(tx, tenant_id, given)
        return terms, quarantines.count(tx, tenant_id, terms)


def _read(tx: database.Transaction, tenant_id: UUID, given: NewQuarantine) -> Terms:
    terms = read_terms(given, database.now(tx))
    if terms.key_id is not None and not quarantines.has_key(tx, tenant_id, terms.key_id):
        raise Invalid(errors=[FieldError("key_id", "isn't the id of an API key of this tenant", terms.key_id)])
    return terms


def place(tenant_id: UUID, given: NewQuarantine, placed_by: str) -> Quarantine:
    """Place a quarantine. This call spends at most `STEP_SECONDS` on hiding its memories; a job hides the rest.

    A quarantine in force with the same conditions is returned unchanged.

    Args:
        placed_by: Id of the caller's API key.

    Raises:
        Invalid: The conditions are invalid, or the tenant has no such key.
    """
    with database.tenant(tenant_id) as tx:
        _lock(tx, tenant_id)
        terms = _read(tx, tenant_id, given)
        same = quarantines.find_same(tx, tenant_id, terms)
        if same is not None:
            return same
        new = Quarantine(uuid4(), terms, "placing", database.now(tx), placed_by)
        quarantines.add(tx, tenant_id, new)
        _queue(tx, tenant_id, new.quarantine_id)
        details = {"quarantine": str(new.quarantine_id), "key": terms.key_id, "source": terms.source}
        audit.append(tx, tenant_id, "quarantine_placed", placed_by, details=details)
        failpoints.trigger("quarantine.before_commit")
    _work_off(tenant_id, new.quarantine_id, NIL)
    return get(tenant_id, new.quarantine_id)


def lift(tenant_id: UUID, quarantine_id: UUID, lifted_by: str) -> Quarantine:
    """Lift a quarantine. This call spends at most `STEP_SECONDS` on showing its memories; a job shows the rest.

    Each memory returns to its tier unless an open erasure or another quarantine covers it. Lifting twice has no effect.

    Args:
        lifted_by: Id of the caller's API key.

    Raises:
        NotFound: This tenant has no such quarantine.
        Conflict: Some of its memories aren't hidden yet.
    """
    with database.tenant(tenant_id) as tx:
        _lock(tx, tenant_id)
        found = require_found(quarantines.get(tx, tenant_id, quarantine_id, locked=True), "quarantine")
        if found.status == "placing":
            raise Conflict("some memories of this quarantine aren't hidden yet: lift it when its status is `placed`")
        if found.status == "placed":
            quarantines.set_status(tx, tenant_id, quarantine_id, "lifting", lifted_by)
            _queue(tx, tenant_id, quarantine_id)
            details = {"quarantine": str(quarantine_id)}
            audit.append(tx, tenant_id, "quarantine_lifted", lifted_by, items=found.memories, details=details)
    _work_off(tenant_id, quarantine_id, NIL)
    for task in (queues.INDEX, queues.EMBED_MEMORIES, queues.RIGHTS_TICK):
        queues.nudge(task)
    return get(tenant_id, quarantine_id)


def get(tenant_id: UUID, quarantine_id: UUID) -> Quarantine:
    """Return a quarantine.

    Raises:
        NotFound: This tenant has no such quarantine.
    """
    with database.tenant(tenant_id) as tx:
        return require_found(quarantines.get(tx, tenant_id, quarantine_id), "quarantine")


list_quarantines = database.in_tenant(quarantines.list_quarantines)
"""Return a page of quarantines, latest first; `lifted` includes lifted ones."""

find_hiding = database.in_tenant(quarantines.find_hiding)
"""Return the quarantine that hides a memory, and the memory's source; None if no quarantine hides it."""


def run_job_slice(job: Job) -> Step:
    """Continue to hide or show the memories of a quarantine."""
    after = UUID(job.state.get("after", NIL.hex))
    done, following = _work_off(job.tenant_id, UUID(job.parameters["quarantine_id"]), after)
    return Step(done, {} if following is None else {"after": following.hex}, finished=following is None)


def _queue(tx: database.Transaction, tenant_id: UUID, quarantine_id: UUID) -> None:
    jobs.add(tx, uuid4(), tenant_id, KIND, {"quarantine_id": str(quarantine_id)}, lone=False)


def _lock(tx: database.Transaction, tenant_id: UUID) -> None:
    holds.lock_shared(tx, tenant_id)
    requests.lock_exclusive(tx, tenant_id)


def _work_off(tenant_id: UUID, quarantine_id: UUID, after: UUID) -> tuple[int, UUID | None]:
    """Spend `STEP_SECONDS` on hiding or showing memories; return their number, and the last id if there may be more."""
    until, done = time.monotonic() + STEP_SECONDS, 0
    while True:
        with database.tenant(tenant_id) as tx:
            _lock(tx, tenant_id)
            found = quarantines.get(tx, tenant_id, quarantine_id, locked=True)
            if found is None or found.status in {"placed", "lifted"}:
                return done, None
            ids = _hide(tx, tenant_id, found, after) if found.status == "placing" else _show(tx, tenant_id, found)
            failpoints.trigger("quarantine.before_slice_commit")
        done += len(ids)
        after = ids[-1] if ids else after
        if ids and time.monotonic() >= until:
            return done, after


def _hide(tx: database.Transaction, tenant_id: UUID, found: Quarantine, after: UUID) -> list[UUID]:
    """Hide a page of matching memories with their summaries; return the ids of the page.

    After the last page, hide summaries of matching memories that decay has deleted, and return an empty list.
    """
    quarantine_id = found.quarantine_id
    ids = quarantines.page_matching(tx, tenant_id, found.terms, after, ROWS)
    if not ids:
        decayed = quarantines.list_summaries_of_decayed(tx, tenant_id, found.terms)
        summaries = hidden_memories.hide(tx, tenant_id, quarantine_id, Scope(memory_ids=decayed))
        refresh_summaries(tx, tenant_id, [], decayed)
        gone, hidden_ids = summaries.counts, summaries.ids
        quarantines.set_status(tx, tenant_id, quarantine_id, "placed")
        queue_removal(tx, tenant_id, quarantine_id)
        queue_notes(tx, tenant_id)
    else:
        hidden = hidden_memories.hide(tx, tenant_id, quarantine_id, Scope(memory_ids=ids))
        summaries = hide_summaries(tx, tenant_id, quarantine_id, hidden.ids)
        gone, hidden_ids = hidden.counts.plus(summaries.counts), [*hidden.ids, *summaries.ids]
    hidden_supersessions.hide_supersessions(tx, tenant_id, quarantine_id, hidden_ids)
    tenant_counts.add(tx, tenant_id, tenant_counts.NONE.less(gone))
    tier_moves.add(tx, tenant_id, {("hidden", "quarantine"): gone.memories})
    if hidden_ids:
        details = {"quarantine": str(quarantine_id)}
        audit.append(tx, tenant_id, "memories_quarantined", SYSTEM, ids=hidden_ids, details=details)
    return ids


def _show(tx: database.Transaction, tenant_id: UUID, found: Quarantine) -> list[UUID]:
    """Show a page of hidden memories again and return their ids; once none is left, restore their supersessions."""
    ids = hidden_memories.page_hidden(tx, tenant_id, found.quarantine_id, NIL, ROWS)
    if not ids:
        supersession_restore.restore_for_erasure(tx, tenant_id, found.quarantine_id)
        quarantines.set_status(tx, tenant_id, found.quarantine_id, "lifted")
        queue_notes(tx, tenant_id)
        return ids
    back = hidden_memories.unhide(tx, tenant_id, among=ids)
    again = hide_matching(tx, tenant_id, back.ids, also_by_id=True)
    active = hidden_memories.active_among(tx, tenant_id, back.ids)
    hidden_memories.restore_vectors(tx, tenant_id, active)
    work_queue.add(tx, [work_queue.INDEX, work_queue.EMBED], tenant_id, active)
    work_queue.add(tx, [work_queue.SCORE], tenant_id, scores.list_unscored(tx, tenant_id, active))
    refresh_summaries(tx, tenant_id, back.ids, back.ids)
    tenant_counts.add(tx, tenant_id, back.counts.less(again))
    tier_moves.add(tx, tenant_id, {("restored", "quarantine"): back.counts.less(again).memories})
    return ids
