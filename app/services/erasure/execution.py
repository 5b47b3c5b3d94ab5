"""Delete an erasure's data from every store once its grace period is over, following a plan written beforehand.

The watermark (`cut`) is the stream position up to which an erasure applies: data about its subject or thread accepted
up to the watermark is erased or dropped, however late it is processed. The erasure doesn't cover data accepted later.
Every step can be repeated after a crash. An erasure is verified when the executed steps equal the planned ones and a
final scan of every store finds no residue.

A pass executes the plan once, and is repeated if the final scan finds residue. Another pass follows when a legal hold
that delayed the erasure is released. The report doesn't count repetitions, but its counts of data include them.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import structlog

from app import failpoints, metrics, queues
from app.clients.redis import closed_tenants, stream_position
from app.domain.changes.types import ERASURE_COMPLETED
from app.domain.jobs import Job, Step
from app.domain.privacy.erasure import digest
from app.services.consolidation import summary_refresh
from app.services.erasure import batch, mentions
from app.services.erasure.plan import total_removed, write_plan
from app.services.erasure.report import build_report, schedule_rewrites
from app.services.erasure.requests import get_or_404
from app.services.erasure.steps import (
    STEP_SECONDS,
    Overtaken,
    is_waiting,
    names,
    next_step,
    step_transaction,
)
from app.services.erasure.tenant_steps import steps_for
from app.services.privacy import retained_texts
from app.services.security import audit
from app.services.tiers import pca_fitting
from app.store.changes import feed
from app.store.consolidation import decayed_sources, hidden_supersessions, merges
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.erasure import batch as batch_rows
from app.store.erasure import hidden_memories, request_backup, requests, residue, tombstones, whole_tenant
from app.store.erasure.requests import Erasure
from app.store.memories import tenant_counts
from app.store.privacy import anonymisation, holds, request_log
from app.store.tenants import tenants

TRIES: Final = 3
"""Maximum number of full passes over the plan while residue is found; after that an operator has to investigate."""
_NEWER_PLAN: Final = "a newer version has planned this erasure: the next night of that version continues it"
_RESIDUE_REMAINS: Final = f"residue remains after {TRIES} passes over the plan: see the log event erasure_residue"

log = structlog.get_logger(__name__)


def run_slice(job: Job) -> Step:
    """Run an erasure for a few seconds: set the watermark, write the plan, execute its steps, then verify.

    The plan and the executed steps are stored in the erasure's row. Job state holds only the progress of planning or
    of the current step, and the number of the pass, so either a job or a nightly run can resume the erasure.
    """
    tenant_id, erasure_id = job.tenant_id, UUID(job.parameters["erasure_id"])
    with database.tenant(tenant_id) as tx:
        erasure = get_or_404(tx, tenant_id, erasure_id)
        combined = requests.get(tx, tenant_id, erasure.batch_id) if erasure.batch_id else None
    if combined is not None and combined.status == "running":
        erasure = combined
    if erasure.status in ("grace", "held"):
        return _start(tenant_id, erasure_id, is_tenant=erasure.whole_tenant)
    if (ended := _end_without_work(erasure)) is not None:
        return ended
    tries = job.state.get("tries", 1)
    if erasure.plan is None or job.state.get("phase") == "plan":
        return _plan(tenant_id, erasure, tries, UUID(job.state.get("summary", NIL.hex)))
    name = next_step(erasure)
    if name is None:
        return _verify(tenant_id, erasure, tries)
    state = job.state if job.state.get("phase") == name else {"phase": name, "at": "", "removed": 0, "tries": tries}
    try:
        return _erase(tenant_id, erasure, state)
    except Overtaken:
        return Step(0, {"tries": tries}, finished=False)


def _end_without_work(erasure: Erasure) -> Step | None:
    """Return the last step of a job whose erasure isn't running, or has steps that this version doesn't know."""
    if erasure.status != "running":
        return Step(0, {}, finished=True, notes=(f"the erasure is {erasure.status}",))
    named = {step["step"] for step in (*(erasure.plan or ()), *erasure.executed)}
    if not named <= steps_for(erasure).keys():  # after a rollback, this version doesn't know all stores
        return Step(0, {}, finished=True, failure=_NEWER_PLAN)
    return None


def _start(tenant_id: UUID, erasure_id: UUID, *, is_tenant: bool = False) -> Step:
    """Set the watermark and start the erasure; it can't be cancelled afterwards."""
    if is_tenant:
        closed_tenants.close(tenant_id)  # from here on, nothing is accepted after the watermark
    # Read the watermark before taking the lock: once this transaction has the lock, each worker that stores data
    # accepted up to the watermark either has committed already or will see the tombstone.
    # Unless a tenant is deleted, take a new position, so that the erasure covers delayed writes accepted until now.
    cut = stream_position.stream_end(tenant_id) if is_tenant else stream_position.take_position(tenant_id)
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure_id, locked=True)
        if erasure.status in ("verified", "cancelled"):
            return Step(0, {}, finished=True, notes=(f"the erasure is {erasure.status}",))
        if erasure.status == "running":  # another worker was quicker
            return Step(0, {}, finished=False)
        cut = erasure.cut or cut  # a held erasure retains its watermark: it doesn't cover data accepted later
        tombstones.add(tx, tenant_id, erasure_id, _digests(tx, tenant_id, erasure), cut)
        now = database.now(tx)
        report = None if erasure.report is None else {**erasure.report, "resumed_at": now}
        fields: dict[str, Any] = {"cut": cut, "started_at": erasure.started_at or now, "report": report}
        requests.set_fields(tx, tenant_id, erasure_id, status="running", **fields)
        hidden_supersessions.discard_hidden(tx, tenant_id, [erasure_id])
        failpoints.trigger("erasing.cut")
    queues.nudge(queues.DRAIN)
    return Step(0, {"phase": "plan"}, finished=False)


def _digests(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> dict[str, bytes]:
    """Return digests of the subject or thread that the erasure covers completely; empty for narrower scopes."""
    key = tombstones.digest_key(tx, tenant_id, os.urandom(32))
    return {what: digest(key, what, name) for what, name in names(erasure).items()}


def _plan(tenant_id: UUID, erasure: Erasure, tries: int, after: UUID) -> Step:
    """Write the plan, and enter the memory ids in the ledger, which a restore of the data doesn't overwrite.

    Args:
        after: Id of the last merge that earlier slices have processed; its summary was rewritten or left unchanged.
    """
    retry_state = {"phase": "plan", "tries": tries}
    if erasure.whole_tenant:
        _enter_tenant(tenant_id, erasure)
        return _write_plan(tenant_id, erasure, tries, [])
    if is_waiting(tenant_id, erasure.cut or "0-0"):
        return Step(0, retry_state | {"summary": after.hex}, finished=False)
    next_merge_id = _rewrite_summaries(tenant_id, erasure, after)
    if next_merge_id is not None:
        return Step(0, retry_state | {"summary": next_merge_id.hex}, finished=False)
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if erasure.status != "running":
            return Step(0, {}, finished=False)
        ids = requests.ids(tx, tenant_id, erasure)
        # Summaries that couldn't be rewritten from the remaining sources are erased with their sources; summaries under
        # a legal hold are left out until its release.
        summary_ids = merges.list_summaries(tx, tenant_id, ids)
        summary_ids += decayed_sources.list_summaries(tx, tenant_id, erasure.scope)
        newly_hidden = hidden_memories.reassign(tx, tenant_id, erasure.erasure_id, summary_ids)
        hidden_ids = {*summary_ids, *hidden_memories.list_hidden(tx, tenant_id, erasure.erasure_id)}
        ids = sorted({*ids, *hidden_ids}.difference(holds.list_by_memory(tx, tenant_id, sorted(hidden_ids))))
        digests = _digests(tx, tenant_id, erasure)
        entries = batch.ledger_entries(tx, tenant_id, erasure, ids)
        tombstones.enter_in_ledger(tx, tenant_id, entries, digests, erasure.cut or "")
        aliases = retained_texts.find_aliases(tx, tenant_id, erasure)  # while the memories are stored
        requests.set_fields(tx, tenant_id, erasure.erasure_id, aliases=aliases)
        erasure = replace(erasure, aliases=aliases)
        tenant_counts.add(tx, tenant_id, tenant_counts.NONE.less(newly_hidden))
        failpoints.trigger("erasing.entered")
    return _write_plan(tenant_id, erasure, tries, _ledger_ids(tenant_id, erasure))


def _enter_tenant(tenant_id: UUID, erasure: Erasure) -> None:
    """Enter the deletion of a tenant in the ledger, without the ids of its memories: all of them are erased."""
    with database.tenant(tenant_id) as tx:
        get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        entries: dict[UUID, list[UUID]] = {erasure.erasure_id: []}
        tombstones.enter_in_ledger(tx, tenant_id, entries, {}, erasure.cut or "", whole_tenant=True)
        failpoints.trigger("erasing.entered")


def _write_plan(tenant_id: UUID, erasure: Erasure, tries: int, ids: list[UUID]) -> Step:
    work_found = {name: step.find(tenant_id, erasure, ids) for name, step in steps_for(erasure).items()}
    singles = batch.plan_each(tenant_id, erasure, work_found) if erasure.is_batch else []
    with database.tenant(tenant_id) as tx:
        current = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if current.status != "running" or (current.plan, current.executed) != (erasure.plan, erasure.executed):
            return Step(0, {"tries": tries}, finished=False)  # another worker was quicker
        requests.set_fields(tx, tenant_id, erasure.erasure_id, plan=write_plan(work_found, current), executed=[])
        batch_rows.set_progress(tx, tenant_id, singles)
        failpoints.trigger("erasing.planned")
    return Step(0, {"tries": tries}, finished=False, total=len(ids))


def _rewrite_summaries(tenant_id: UUID, erasure: Erasure, after: UUID) -> UUID | None:
    """Rewrite affected summaries from their remaining sources, for merges with ids above `after`.

    Returns:
        Id of the last processed merge, or None once all are processed. The next slice continues after this id.
        Otherwise it would read again the summaries that stay stale: those under a legal hold, and those that the
        erasure deletes.
    """
    until = time.monotonic() + STEP_SECONDS
    with database.tenant(tenant_id) as tx:
        ids = requests.ids(tx, tenant_id, erasure) + decayed_sources.list_summaries(tx, tenant_id, erasure.scope)
        stale = merges.list_stale_by_memory(tx, tenant_id, ids)
    remaining = [merge_id for merge_id in stale if merge_id > after]
    for merge_id in remaining:
        summary_refresh.refresh_summary(tenant_id, None, merge_id)
        if time.monotonic() >= until and merge_id != remaining[-1]:
            return merge_id
    return None


def _held_ids(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> list[UUID]:
    """Return the erasure's memories under legal hold, including summaries hidden because of their sources."""
    hidden_ids = hidden_memories.list_hidden(tx, tenant_id, erasure.erasure_id)
    return sorted({*requests.ids(tx, tenant_id, erasure, held=True), *holds.list_by_memory(tx, tenant_id, hidden_ids)})


def _ledger_ids(tenant_id: UUID, erasure: Erasure) -> list[UUID]:
    """Return the ids that the erasure's ledger entry lists for deletion."""
    with database.tenant(tenant_id) as tx:
        return tombstones.erased_ids(tx, tenant_id, erasure.erasure_id)


def _erase(tenant_id: UUID, erasure: Erasure, state: dict[str, Any]) -> Step:
    """Run one piece of a step, and record the step as executed when it is complete.

    Args:
        state: Job state: the step, the position within the step, the rows removed so far, and the number of the pass.
    """
    name, ids = state["phase"], _ledger_ids(tenant_id, erasure)
    step, until = steps_for(erasure)[name], time.monotonic() + STEP_SECONDS
    position, removed_now = step.erase(tenant_id, erasure, ids, state["at"], until)
    removed = state["removed"] + removed_now
    if position is not None:
        return Step(
            removed_now, {**state, "at": position, "removed": removed}, finished=False, counts={name: removed_now}
        )
    failpoints.trigger(f"erasing.{name}")
    with step_transaction(tenant_id, erasure, name) as tx:
        current = get_or_404(tx, tenant_id, erasure.erasure_id)
        earlier = sum(
            planned_step.get("earlier", 0) for planned_step in current.plan or () if planned_step["step"] == name
        )
        executed_step = {"step": name, "removed": earlier + removed, "at": database.now(tx).isoformat()}
        requests.set_fields(tx, tenant_id, erasure.erasure_id, executed=[*current.executed, executed_step])
    return Step(removed_now, {"tries": state["tries"]}, finished=False, counts={name: removed_now})


def _verify(tenant_id: UUID, erasure: Erasure, tries: int) -> Step:
    """Scan every store for residue and mark the erasure verified or held; if residue is found, repeat the steps."""
    if is_waiting(tenant_id, erasure.cut or "0-0"):
        return Step(0, {"tries": tries}, finished=False)
    with database.tenant(tenant_id) as tx:
        held_ids = _held_ids(tx, tenant_id, erasure)
        ids = tombstones.erased_ids(tx, tenant_id, erasure.erasure_id)
    erased_ids = sorted(set(ids).difference(held_ids))
    work_found = {name: step.find(tenant_id, erasure, erased_ids) for name, step in steps_for(erasure).items()}
    counts = {name: each.count for name, each in work_found.items()}
    named = mentions.find_named(tenant_id, erasure)
    shared = pca_fitting.list_shared_ids()
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if erasure.status != "running":
            return Step(0, {}, finished=False)
        held_ids = _held_ids(tx, tenant_id, erasure)
        erased_ids = sorted(set(ids).difference(held_ids))
        request_backup.remove(tx, tenant_id, erasure.erasure_id)  # backup by an earlier pass: it can contain a name
        residue_counts = counts | _count_residue(tx, tenant_id, erasure, erased_ids, shared)
        planned, executed = [each["step"] for each in erasure.plan or ()], [each["step"] for each in erasure.executed]
        has_residue = sum(residue_counts.values()) > 0
        if planned == executed:
            remaining = work_found["memories"].more["tables"] if erasure.whole_tenant else {}
            if (held_ids or has_residue) and not erasure.whole_tenant:
                remaining = residue.by_id(tx, tenant_id, ids)
            erasure = replace(erasure, executed=total_removed(erasure, work_found, remaining))
            requests.set_fields(tx, tenant_id, erasure.erasure_id, executed=erasure.executed)
        if has_residue or planned != executed:
            log.error("erasure_residue", tenant=str(tenant_id), erasure=str(erasure.erasure_id), left=residue_counts)
            metrics.count("erasures_unfinished")
            requests.set_fields(tx, tenant_id, erasure.erasure_id, residue=sum(residue_counts.values()))
            if tries >= TRIES:
                if erasure.is_batch:  # from now on, the batch's deletions are executed and verified individually
                    batch_rows.close(tx, tenant_id, erasure.erasure_id)
                return Step(0, {}, finished=True, failure=_RESIDUE_REMAINS)
            state = {"phase": "plan", "tries": tries + 1}
            return Step(0, state, finished=False, notes=("residue was found: the plan is made and executed again",))
        if held_ids and not erasure.is_batch:
            report = {"memories": len(erased_ids), "left": residue_counts, "named": named}
            return _hold(tx, tenant_id, erasure, held_ids, **report)
        _finish(tx, tenant_id, erasure, held_ids, ids, left=residue_counts, named=named)
    return Step(0, {}, finished=True, notes=("verified: no residue was found",))


def _count_residue(
    tx: database.Transaction, tenant_id: UUID, erasure: Erasure, erased_ids: list[UUID], shared: list[int]
) -> dict[str, int]:
    """Count the remaining rows; for a tenant's deletion, in every table of the catalogue except `whole_tenant.KEPT`."""
    found = residue.counts(tx, tenant_id, erased_ids, erasure, shared)
    return found | (whole_tenant.count_left(tx, tenant_id, erasure.erasure_id) if erasure.whole_tenant else {})


def _finish(
    tx: database.Transaction, tenant_id: UUID, erasure: Erasure, held_ids: list[UUID], ids: list[UUID], **found: Any
) -> None:
    """Mark an erasure, or the deletions of a batch, as verified, and write the reports.

    Args:
        held_ids: Memories under legal hold, whose deletions leave the batch.
        ids: The erased memories.
        found: Further arguments of `build_report`.
    """
    now = database.now(tx)
    finished = batch.settle(tx, tenant_id, erasure, held_ids) if erasure.is_batch else [erasure]
    count = 1 if erasure.is_batch else len(ids)
    if erasure.whole_tenant:
        count = sum(step["removed"] for step in erasure.executed if step["step"] == "memories")
    reports = build_report(tx, tenant_id, finished, memories=count, now=now, **found)
    rewrite_by = schedule_rewrites(tx, tenant_id, finished, now)
    anonymisation.delete_counts(tx, tenant_id, tombstones.names_of(tx, tenant_id, erasure.erasure_id).values())
    request_log.store_answer(tx, tenant_id, list(reports), "done")
    if erasure.whole_tenant:
        _leave_tombstone(tx, tenant_id)
    else:
        feed.record(tx, tenant_id, ERASURE_COMPLETED, [each.erasure_id for each in finished])
    for each in finished:
        details = {"erasure": str(each.erasure_id), "law": each.kind}
        erased = each.scope.memory_ids or () if erasure.is_batch else ids
        items, subject = count if erasure.whole_tenant else None, each.scope.subject
        entry = audit.append(
            tx, tenant_id, "erasure_verified", ids=erased, items=items, subject=subject, details=details
        )
        reports[each.erasure_id]["audit"] = {"entry": entry.seq, "hash": entry.hash.hex()}
    requests.finish(tx, tenant_id, reports, now, rewrite_by)
    if erasure.is_batch:
        batch_rows.close(tx, tenant_id, erasure.erasure_id)


def _leave_tombstone(tx: database.Transaction, tenant_id: UUID) -> None:
    """Replace a deleted tenant's name with its id, delete the texts of its request log, and replace its digest key."""
    whole_tenant.settle_requests(tx, tenant_id)
    whole_tenant.replace_subject_key(tx, tenant_id, os.urandom(32))
    tenants.leave_tombstone(tx, tenant_id)


def _hold(tx: database.Transaction, tenant_id: UUID, erasure: Erasure, held: list[UUID], **report: Any) -> Step:
    """Mark an erasure as held: the memories under a legal hold remain until the hold's release creates a job.

    Args:
        report: Further arguments of `build_report`.
    """
    now = database.now(tx)
    reports = build_report(tx, tenant_id, [erasure], now=now, held=held, **report)
    rewrite_by = schedule_rewrites(tx, tenant_id, [erasure], now)
    dates: dict[str, Any] = {"finished_at": now, "rewrite_by": rewrite_by, "rewritten_at": None, "residue": 0}
    requests.set_fields(tx, tenant_id, erasure.erasure_id, status="held", report=reports[erasure.erasure_id], **dates)
    if not names(erasure):  # an erasure of a whole subject or thread needs no copy: the ledger contains its digest
        request_backup.add_held(tx, tenant_id, erasure.erasure_id)
    return Step(0, {}, finished=True, notes=(f"{len(held)} memories are under legal hold",))
