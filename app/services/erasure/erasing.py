"""Delete an erasure's data from every store once its grace period is over, following a plan written beforehand.

The watermark (`cut`) is the stream position up to which an erasure applies: data about its subject or thread accepted
up to the watermark is erased or dropped, however late it is processed; data accepted after it belongs to a new subject.
Every step can be repeated after a crash. An erasure is verified when the executed steps equal the planned ones and a
final scan of every store finds no residue.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog

from app import failpoints, metrics, queues
from app.clients.redis import cut as cut_at
from app.domain.jobs import Job, Step
from app.domain.privacy.erasure import digest
from app.services.consolidation import rederiving
from app.services.erasure import erasing_together
from app.services.erasure import erasure_reports as reports
from app.services.erasure import erasures as erasures_of
from app.services.erasure.erasing_steps import (
    STEP_SECONDS,
    STEPS,
    Overtaken,
    is_waiting,
    names,
    next_step,
    step_transaction,
)
from app.services.erasure.erasures import ERASE, get_or_404
from app.services.security import audit
from app.services.tiers import bases
from app.store.consolidation import hidden_supersessions, merges
from app.store.core import database
from app.store.enrichment.work import NIL
from app.store.erasure import erasures, hidden, residue, tombstones
from app.store.erasure.erasures import Erasure
from app.store.privacy import anonymous, holds, privacy_requests

TRIES: Final = 3
"""Maximum number of full passes over the plan while residue is found; after that an operator has to investigate."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Place:
    """Position within a step, the rows removed so far, and the number of the current full pass."""

    phase: str
    at: str
    removed: int
    tries: int

    def as_state(self) -> dict[str, Any]:
        """Return the JSON form stored as job state."""
        return {"phase": self.phase, "at": self.at, "removed": self.removed, "tries": self.tries}


def step(job: Job) -> Step:
    """Run an erasure for a few seconds: set the watermark, write the plan, execute its steps, then verify.

    Progress is stored in the erasure's row. Job state only holds the position within a step, so either a job or a
    nightly run can resume the erasure.
    """
    tenant_id, erasure_id = job.tenant_id, UUID(job.parameters["erasure_id"])
    with database.tenant(tenant_id) as tx:
        erasure = get_or_404(tx, tenant_id, erasure_id)
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
    begun = job.state if job.state.get("phase") == name else {}
    try:
        return _erase(tenant_id, erasure, _Place(name, begun.get("at", ""), begun.get("removed", 0), tries))
    except Overtaken:
        return Step(0, {"tries": tries}, finished=False)


def carry_on(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Carry out the erasures that are due for the nightly run: single deletions past their grace period, and leftovers.

    Args:
        as_of: The time of the nightly run.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one piece of work is always done.
    """
    adopted = 0
    while not state:
        more = erasures_of.adopt(tenant_id)
        adopted += more
        state = {} if more else {"erasure": None, "failed": [], "apart": []}
    done, counts = 0, Counter[str]({"adopted": adopted} if adopted else {})
    while True:
        if state["erasure"] is None:
            apart = [UUID(each) for each in state["apart"]]
            together = erasing_together.run_batch(tenant_id, as_of, apart)
            done += together.verified
            counts.update({"memories": together.verified} if together.verified else {})
            state = {**state, "apart": [*state["apart"], *map(str, together.apart)]}
            if together.verified:
                if time.monotonic() >= until:
                    return Step(done, state, finished=False, counts=dict(counts))
                continue
            with database.tenant(tenant_id) as tx:
                found_one = erasures.due(tx, tenant_id, as_of, [UUID(each) for each in state["failed"]])
            if found_one is None:
                return Step(done, state, finished=True, counts=dict(counts))
            state = {**state, "erasure": str(found_one), "inner": {}}
        job = Job(UUID(int=0), tenant_id, ERASE, {"erasure_id": state["erasure"]}, state["inner"], None, 0)
        did = step(job)
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
    cut = cut_at.end(tenant_id)
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        erasures.lock_exclusive(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure_id, locked=True)
        if erasure.status in ("verified", "cancelled"):
            return Step(0, {}, finished=True, notes=(f"it is {erasure.status}",))
        if erasure.status == "running":  # another worker was quicker
            return Step(0, {}, finished=False)
        cut = erasure.cut or cut  # a resumed held erasure retains its watermark: later data is a new subject's
        tombstones.add(tx, tenant_id, erasure_id, _digests(tx, tenant_id, erasure), cut)
        started = erasure.started_at or database.now(tx)
        erasures.set_fields(tx, tenant_id, erasure_id, status="running", cut=cut, started_at=started)
        hidden_supersessions.discard(tx, tenant_id, [erasure_id])
        failpoints.reach("erasing.cut")
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
        erasures.lock_exclusive(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if erasure.status != "running":
            return Step(0, {}, finished=False)
        ids = erasures.ids(tx, tenant_id, erasure)
        # Summaries that couldn't be rewritten from the remaining sources are erased with their sources; held ones wait.
        made_of = merges.summaries_of(tx, tenant_id, ids)
        hidden.take_over(tx, tenant_id, erasure.erasure_id, made_of)
        ours = {*made_of, *hidden.all_of(tx, tenant_id, erasure.erasure_id)}
        ids = sorted({*ids, *ours}.difference(holds.on(tx, tenant_id, sorted(ours))))
        digests = _digests(tx, tenant_id, erasure)
        tombstones.enter_in_ledger(tx, tenant_id, erasure.erasure_id, digests, ids, erasure.cut or "")
        failpoints.reach("erasing.entered")
    ids = _ledger_ids(tenant_id, erasure)
    asked = {name: work.find(tenant_id, erasure, ids) for name, work in STEPS.items()}
    plan = [
        {"step": name, "store": STEPS[name].store, "method": STEPS[name].method, "found": each.count} | each.more
        for name, each in asked.items()
    ]
    with database.tenant(tenant_id) as tx:
        there = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if there.status != "running" or (there.plan, there.executed) != (erasure.plan, erasure.executed):
            return Step(0, {"tries": tries}, finished=False)  # another worker was quicker
        erasures.set_fields(tx, tenant_id, erasure.erasure_id, plan=plan, executed=[])
        failpoints.reach("erasing.planned")
    return Step(0, {"tries": tries}, finished=False, total=len(ids))


def _rewrite_summaries(tenant_id: UUID, erasure: Erasure, after: UUID) -> UUID | None:
    """Rewrite affected summaries that follow a merge's id from their remaining sources.

    Returns:
        Id of the merge to continue after, or None once all are done. Held summaries and those that the erasure deletes
        stay stale: without the id, each step would read them again.
    """
    until = time.monotonic() + STEP_SECONDS
    with database.tenant(tenant_id) as tx:
        stale = merges.stale_of(tx, tenant_id, erasures.ids(tx, tenant_id, erasure))
    left = [merge_id for merge_id in stale if merge_id > after]
    for merge_id in left:
        rederiving.rederive(tenant_id, None, merge_id)
        if time.monotonic() >= until and merge_id != left[-1]:
            return merge_id
    return None


def _held_ids(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> list[UUID]:
    """Return the erasure's memories under legal hold, including summaries hidden because of their sources."""
    ours = hidden.all_of(tx, tenant_id, erasure.erasure_id)
    return sorted({*erasures.ids(tx, tenant_id, erasure, held=True), *holds.on(tx, tenant_id, ours)})


def _ledger_ids(tenant_id: UUID, erasure: Erasure) -> list[UUID]:
    """Return the ids that the erasure's ledger entry lists for deletion."""
    with database.tenant(tenant_id) as tx:
        return tombstones.erased_ids(tx, tenant_id, erasure.erasure_id)


def _erase(tenant_id: UUID, erasure: Erasure, place: _Place) -> Step:
    """Run one piece of a step, and record the step as executed when it is complete."""
    name = place.phase
    left, more = STEPS[name].erase(tenant_id, erasure, place.at, time.monotonic() + STEP_SECONDS)
    removed = place.removed + more
    if left is not None:
        there = _Place(name, left, removed, place.tries)
        return Step(more, there.as_state(), finished=False, counts={name: more})
    failpoints.reach(f"erasing.{name}")
    with step_transaction(tenant_id, erasure, name) as tx:
        executed = get_or_404(tx, tenant_id, erasure.erasure_id).executed
        done = [*executed, {"step": name, "removed": removed, "at": database.now(tx).isoformat()}]
        erasures.set_fields(tx, tenant_id, erasure.erasure_id, executed=done)
    return Step(more, {"tries": place.tries}, finished=False, counts={name: more})


def _verify(tenant_id: UUID, erasure: Erasure, tries: int) -> Step:
    """Scan every store for residue and mark the erasure verified or held; if residue is found, repeat the steps."""
    if is_waiting(tenant_id, erasure.cut or "0-0"):
        return Step(0, {"tries": tries}, finished=False)
    with database.tenant(tenant_id) as tx:
        held = _held_ids(tx, tenant_id, erasure)
        ids = tombstones.erased_ids(tx, tenant_id, erasure.erasure_id)
    gone = sorted(set(ids).difference(held))
    again = {name: work.find(tenant_id, erasure, gone).count for name, work in STEPS.items()}
    shared = bases.shared_ids()
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure.erasure_id, locked=True)
        if erasure.status != "running":
            return Step(0, {}, finished=False)
        held = _held_ids(tx, tenant_id, erasure)
        gone = sorted(set(ids).difference(held))
        left = again | residue.counts(tx, tenant_id, gone, erasure, shared)
        planned, executed = [each["step"] for each in erasure.plan or ()], [each["step"] for each in erasure.executed]
        if sum(left.values()) or planned != executed:
            log.error("erasure_residue", tenant=str(tenant_id), erasure=str(erasure.erasure_id), left=left)
            metrics.count("erasures_unfinished")
            erasures.set_fields(tx, tenant_id, erasure.erasure_id, residue=sum(left.values()))
            if tries >= TRIES:
                return Step(0, {}, finished=True, failure="something is left of what was to be erased")
            state = {"phase": "plan", "tries": tries + 1}
            return Step(0, state, finished=False, notes=("something is left: it is done again",))
        now = database.now(tx)
        report = reports.build(tx, tenant_id, erasure, ids=ids, left=left, held=held)
        rewrite_by = reports.schedule_rewrites(tx, tenant_id, [erasure], now)
        dates: dict[str, Any] = {"finished_at": now, "rewrite_by": rewrite_by, "rewritten_at": None, "residue": 0}
        if held:
            erasures.set_fields(tx, tenant_id, erasure.erasure_id, status="held", report=report, **dates)
            return Step(0, {}, finished=True, notes=(f"{len(held)} memories are under legal hold",))
        anonymous.clear(tx, tenant_id, tombstones.names_of(tx, tenant_id, erasure.erasure_id).values())
        privacy_requests.answer(tx, tenant_id, [erasure.erasure_id], "done")
        details = {"erasure": str(erasure.erasure_id), "law": erasure.kind}
        subject = erasure.scope.subject
        place = audit.append(tx, tenant_id, "erasure_verified", ids=ids, subject=subject, details=details)
        report["audit"] = {"entry": place.seq, "hash": place.hash.hex()}
        done: dict[str, Any] = {"status": "verified", "verified_at": now, "scope": {}, "reason": None, "report": report}
        erasures.set_fields(tx, tenant_id, erasure.erasure_id, **dates, **done)
    return Step(0, {}, finished=True, notes=("verified: nothing is left",))
