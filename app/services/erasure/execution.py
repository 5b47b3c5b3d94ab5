"""Delete an erasure's data from every store once its grace period is over, following a plan written beforehand.

The watermark (`cut`) is the stream position up to which an erasure applies: data about its subject or thread accepted
up to the watermark is erased or dropped, however late it is processed; data accepted after it belongs to a new subject.
Every step can be repeated after a crash. An erasure is verified when the executed steps equal the planned ones and a
final scan of every store finds no residue.

A pass executes the plan once. An erasure under a legal hold needs another pass once the hold is released, and plan and
executed steps count all of them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog

from app import failpoints, metrics, queues
from app.clients.redis import stream_position
from app.domain.jobs import Job, Step
from app.domain.privacy.erasure import digest
from app.services.consolidation import summary_refresh
from app.services.erasure import batch
from app.services.erasure.plan import total_removed, write_plan
from app.services.erasure.report import build_report, schedule_rewrites
from app.services.erasure.requests import ERASE, adopt, get_or_404
from app.services.erasure.steps import (
    STEP_SECONDS,
    STEPS,
    Overtaken,
    is_waiting,
    names,
    next_step,
    step_transaction,
)
from app.services.security import audit
from app.services.tiers import pca_fitting
from app.store.consolidation import hidden_supersessions, merges
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.erasure import batch as batch_rows
from app.store.erasure import hidden_memories, requests, residue, tombstones
from app.store.erasure.requests import Erasure
from app.store.privacy import anonymisation, holds, request_log

TRIES: Final = 3
"""Maximum number of full passes over the plan while residue is found; after that an operator has to investigate."""

log = structlog.get_logger(__name__)


def run_slice(job: Job) -> Step:
    """Run an erasure for a few seconds: set the watermark, write the plan, execute its steps, then verify.

    Progress is stored in the erasure's row. Job state only holds the position within a step, so either a job or a
    nightly run can resume the erasure.
    """
    tenant_id, erasure_id = job.tenant_id, UUID(job.parameters["erasure_id"])
    with database.tenant(tenant_id) as tx:
        erasure = get_or_404(tx, tenant_id, erasure_id)
        combined = requests.get(tx, tenant_id, erasure.batch_id) if erasure.batch_id else None
    if combined is not None and combined.status == "running":
        erasure = combined
    if erasure.status in ("grace", "held"):
        return _start(tenant_id, erasure_id)
    if erasure.status != "running":
        return Step(0, {}, finished=True, notes=(f"it is {erasure.status}",))
    tries = job.state.get("tries", 1)
    if erasure.plan is None or job.state.get("phase") == "plan":
        return _plan(tenant_id, erasure, tries, UUID(job.state.get("summary", NIL.hex)))
    name = next_step(erasure)
    if name is None:
        return _verify(tenant_id, erasure, tries)
    begun = job.state if job.state.get("phase") == name else {"phase": name, "at": "", "removed": 0, "tries": tries}
    try:
        return _erase(tenant_id, erasure, begun)
    except Overtaken:
        return Step(0, {"tries": tries}, finished=False)


def run_night_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Carry out the erasures that are due for the nightly run: single deletions past their grace period, and leftovers.

    Args:
        as_of: The time of the nightly run.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one piece of work is always done.
    """
    adopted = 0
    while not state:
        more = adopt(tenant_id)
        adopted += more
        # The previous version reads `apart`.
        state = {} if more else {"erasure": None, "failed": [], "apart": [], "fold": True}
    done, counts = 0, Counter[str]({"adopted": adopted} if adopted else {})
    while True:
        if state["erasure"] is None:
            next_id = batch.fold(tenant_id, as_of) if state.get("fold", True) else None
            state = {**state, "fold": next_id is not None}
            if next_id is None:
                with database.tenant(tenant_id) as tx:
                    next_id = requests.due(tx, tenant_id, as_of, [UUID(each) for each in state["failed"]])
            if next_id is None:
                return Step(done, state, finished=True, counts=dict(counts))
            state = {**state, "erasure": str(next_id), "inner": {}}
        job = Job(UUID(int=0), tenant_id, ERASE, {"erasure_id": state["erasure"]}, state["inner"], None, 0)
        did = run_slice(job)
        done += did.done
        counts.update(did.counts)
        if did.finished:
            failed = [*state["failed"], state["erasure"]] if did.failure else state["failed"]
            state = {**state, "erasure": None, "failed": failed}
        else:
            state = {**state, "inner": did.state}
        if time.monotonic() >= until:
            return Step(done, state, finished=False, counts=dict(counts))


def _start(tenant_id: UUID, erasure_id: UUID) -> Step:
    """Set the watermark and start the erasure; it can't be cancelled afterwards."""
    # Read before taking the lock: any worker storing data accepted up to here either sees the tombstone or has
    # committed.
    cut = stream_position.stream_end(tenant_id)
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure_id, locked=True)
        if erasure.status in ("verified", "cancelled"):
            return Step(0, {}, finished=True, notes=(f"it is {erasure.status}",))
        if erasure.status == "running":  # another worker was quicker
            return Step(0, {}, finished=False)
        cut = erasure.cut or cut  # a resumed held erasure retains its watermark: later data is a new subject's
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
        after: Id of the last merge whose summary earlier steps have rewritten or left as it is.
    """
    again = {"phase": "plan", "tries": tries}
    if is_waiting(tenant_id, erasure.cut or "0-0"):
        return Step(0, again | {"summary": after.hex}, finished=False)
    reached = _rewrite_summaries(tenant_id, erasure, after)
    if reached is not None:
        return Step(0, again | {"summary": reached.hex}, finished=False)
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if erasure.status != "running":
            return Step(0, {}, finished=False)
        ids = requests.ids(tx, tenant_id, erasure)
        # Summaries that couldn't be rewritten from the remaining sources are erased with their sources; held ones wait.
        made_of = merges.list_summaries(tx, tenant_id, ids)
        hidden_memories.reassign(tx, tenant_id, erasure.erasure_id, made_of)
        ours = {*made_of, *hidden_memories.list_hidden(tx, tenant_id, erasure.erasure_id)}
        ids = sorted({*ids, *ours}.difference(holds.list_by_memory(tx, tenant_id, sorted(ours))))
        digests = _digests(tx, tenant_id, erasure)
        entries = batch.ledger_entries(tx, tenant_id, erasure, ids)
        tombstones.enter_in_ledger(tx, tenant_id, entries, digests, erasure.cut or "")
        failpoints.trigger("erasing.entered")
    ids = _ledger_ids(tenant_id, erasure)
    found = {name: work.find(tenant_id, erasure, ids) for name, work in STEPS.items()}
    singles = batch.plan_each(tenant_id, erasure, found) if erasure.is_batch else []
    with database.tenant(tenant_id) as tx:
        there = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if there.status != "running" or (there.plan, there.executed) != (erasure.plan, erasure.executed):
            return Step(0, {"tries": tries}, finished=False)  # another worker was quicker
        requests.set_fields(tx, tenant_id, erasure.erasure_id, plan=write_plan(found, there), executed=[])
        batch_rows.set_progress(tx, tenant_id, singles)
        failpoints.trigger("erasing.planned")
    return Step(0, {"tries": tries}, finished=False, total=len(ids))


def _rewrite_summaries(tenant_id: UUID, erasure: Erasure, after: UUID) -> UUID | None:
    """Rewrite affected summaries that follow a merge's id from their remaining sources.

    Returns:
        Id of the merge to continue after, or None once all are done. Held summaries and those that the erasure deletes
        stay stale: without the id, each step would read them again.
    """
    until = time.monotonic() + STEP_SECONDS
    with database.tenant(tenant_id) as tx:
        stale = merges.list_stale_by_source(tx, tenant_id, requests.ids(tx, tenant_id, erasure))
    left = [merge_id for merge_id in stale if merge_id > after]
    for merge_id in left:
        summary_refresh.refresh_summary(tenant_id, None, merge_id)
        if time.monotonic() >= until and merge_id != left[-1]:
            return merge_id
    return None


def _held_ids(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> list[UUID]:
    """Return the erasure's memories under legal hold, including summaries hidden because of their sources."""
    ours = hidden_memories.list_hidden(tx, tenant_id, erasure.erasure_id)
    return sorted({*requests.ids(tx, tenant_id, erasure, held=True), *holds.list_by_memory(tx, tenant_id, ours)})


def _ledger_ids(tenant_id: UUID, erasure: Erasure) -> list[UUID]:
    """Return the ids that the erasure's ledger entry lists for deletion."""
    with database.tenant(tenant_id) as tx:
        return tombstones.erased_ids(tx, tenant_id, erasure.erasure_id)


def _erase(tenant_id: UUID, erasure: Erasure, state: dict[str, Any]) -> Step:
    """Run one piece of a step, and record the step as executed when it is complete.

    Args:
        state: Job state: the step, the position within it, the rows removed so far, and the number of the full pass.
    """
    name, ids = state["phase"], _ledger_ids(tenant_id, erasure)
    left, more = STEPS[name].erase(tenant_id, erasure, ids, state["at"], time.monotonic() + STEP_SECONDS)
    removed = state["removed"] + more
    if left is not None:
        return Step(more, {**state, "at": left, "removed": removed}, finished=False, counts={name: more})
    failpoints.trigger(f"erasing.{name}")
    with step_transaction(tenant_id, erasure, name) as tx:
        there = get_or_404(tx, tenant_id, erasure.erasure_id)
        earlier = sum(each.get("earlier", 0) for each in there.plan or () if each["step"] == name)
        done = {"step": name, "removed": earlier + removed, "at": database.now(tx).isoformat()}
        requests.set_fields(tx, tenant_id, erasure.erasure_id, executed=[*there.executed, done])
    return Step(more, {"tries": state["tries"]}, finished=False, counts={name: more})


def _verify(tenant_id: UUID, erasure: Erasure, tries: int) -> Step:
    """Scan every store for residue and mark the erasure verified or held; if residue is found, repeat the steps."""
    if is_waiting(tenant_id, erasure.cut or "0-0"):
        return Step(0, {"tries": tries}, finished=False)
    with database.tenant(tenant_id) as tx:
        held = _held_ids(tx, tenant_id, erasure)
        ids = tombstones.erased_ids(tx, tenant_id, erasure.erasure_id)
    gone = sorted(set(ids).difference(held))
    found = {name: work.find(tenant_id, erasure, gone) for name, work in STEPS.items()}
    again = {name: each.count for name, each in found.items()}
    shared = pca_fitting.list_shared_ids()
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if erasure.status != "running":
            return Step(0, {}, finished=False)
        held = _held_ids(tx, tenant_id, erasure)
        gone = sorted(set(ids).difference(held))
        left = again | residue.counts(tx, tenant_id, gone, erasure, shared)
        planned, executed = [each["step"] for each in erasure.plan or ()], [each["step"] for each in erasure.executed]
        has_residue = sum(left.values()) > 0
        if planned == executed:
            remaining = residue.by_id(tx, tenant_id, ids) if held or has_residue else {}
            erasure = replace(erasure, executed=total_removed(erasure, found, remaining))
            requests.set_fields(tx, tenant_id, erasure.erasure_id, executed=erasure.executed)
        if has_residue or planned != executed:
            log.error("erasure_residue", tenant=str(tenant_id), erasure=str(erasure.erasure_id), left=left)
            metrics.count("erasures_unfinished")
            requests.set_fields(tx, tenant_id, erasure.erasure_id, residue=sum(left.values()))
            if tries >= TRIES:
                if erasure.is_batch:  # each of its deletions is carried out and verified individually
                    batch_rows.close(tx, tenant_id, erasure.erasure_id)
                return Step(0, {}, finished=True, failure="something is left of what was to be erased")
            state = {"phase": "plan", "tries": tries + 1}
            return Step(0, state, finished=False, notes=("something is left: it is done again",))
        if held and not erasure.is_batch:
            return _hold(tx, tenant_id, erasure, len(gone), left, held)
        now = database.now(tx)
        done = batch.settle(tx, tenant_id, erasure, held) if erasure.is_batch else [erasure]
        reports = build_report(tx, tenant_id, done, memories=1 if erasure.is_batch else len(ids), left=left, now=now)
        rewrite_by = schedule_rewrites(tx, tenant_id, done, now)
        anonymisation.delete_counts(tx, tenant_id, tombstones.names_of(tx, tenant_id, erasure.erasure_id).values())
        request_log.store_answer(tx, tenant_id, list(reports), "done")
        for each in done:
            details = {"erasure": str(each.erasure_id), "law": each.kind}
            erased = each.scope.memory_ids or () if erasure.is_batch else ids
            subject = each.scope.subject
            place = audit.append(tx, tenant_id, "erasure_verified", ids=erased, subject=subject, details=details)
            reports[each.erasure_id]["audit"] = {"entry": place.seq, "hash": place.hash.hex()}
        requests.finish(tx, tenant_id, reports, now, rewrite_by)
        if erasure.is_batch:
            batch_rows.close(tx, tenant_id, erasure.erasure_id)
    return Step(0, {}, finished=True, notes=("verified: nothing is left",))


def _hold(
    tx: database.Transaction, tenant_id: UUID, erasure: Erasure, erased: int, left: dict[str, int], held: list[UUID]
) -> Step:
    """Finish an erasure except for its memories under a legal hold; releasing the hold creates a job for the rest."""
    now = database.now(tx)
    reports = build_report(tx, tenant_id, [erasure], memories=erased, left=left, now=now, held=held)
    rewrite_by = schedule_rewrites(tx, tenant_id, [erasure], now)
    dates: dict[str, Any] = {"finished_at": now, "rewrite_by": rewrite_by, "rewritten_at": None, "residue": 0}
    requests.set_fields(tx, tenant_id, erasure.erasure_id, status="held", report=reports[erasure.erasure_id], **dates)
    return Step(0, {}, finished=True, notes=(f"{len(held)} memories are under legal hold",))
