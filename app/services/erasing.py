"""Erasing: once an erasure's grace is over, what it is of goes from every store, by a plan that is written first.

A cut says how far in the stream it reaches: what came up to there about a person, or in a thread, is erased or dropped,
however late it turns up; what comes after is somebody new. Each step may be run again after a crash. Done means that
the steps executed are the steps planned, and that another look finds nothing left.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog

from app import failpoints, metrics, queues
from app.clients import cut as cut_at
from app.domain.jobs import Job, Step
from app.domain.privacy.erasure import digest, is_whole
from app.services import audit, key_store
from app.services import erasures as erasures_of
from app.services.erasures import ERASE, ROWS, STEP_SECONDS, found
from app.store import database, erasures, holds, removal, residue, states, tenant_counts, tombstones
from app.store.erasures import Erasure

TRIES: Final = 3
"""How often all is done when something is found left, before a person is asked to look."""
_POLL_SECONDS: Final = 0.05

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Work:
    """A step of erasing.

    Attributes:
        store: What it is erased from, for the report.
        find: How much there is to do, asked when the plan is written.
        erase: Does a piece of it from where it was left (0 at first) until a moment of the monotonic clock. Returns
            where it was left, None once it is done, and how much it removed.
    """

    store: str
    find: Callable[[database.Transaction, UUID, Erasure], int]
    erase: Callable[[UUID, Erasure, int, float], tuple[int | None, int]]


@dataclass
class _Place:
    """Where the steps are: which, where it left off, what it has removed; and how often all was done."""

    phase: str
    at: int
    removed: int
    tries: int


def step(job: Job) -> Step:
    """A few seconds of erasing: the cut, what is still on its way, the plan, its steps, and another look."""
    tenant_id, erasure_id = job.tenant_id, UUID(job.parameters["erasure_id"])
    phase = job.state.get("phase", "cut")
    if phase == "cut":
        return _cut(tenant_id, erasure_id)
    with database.tenant(tenant_id) as tx:
        erasure = found(tx, tenant_id, erasure_id)
    if erasure.status != "running":
        return Step(0, {}, finished=True, notes=(f"it is {erasure.status}",))
    tries = job.state.get("tries", 1)
    if phase == "wait":
        return _wait(tenant_id, erasure)
    if phase == "plan":
        return _plan(tenant_id, erasure, tries)
    if phase == "verify":
        return _verify(tenant_id, erasure, tries)
    place = _Place(phase, job.state["at"], job.state["removed"], tries)
    return _erase(tenant_id, erasure, place)


def carry_on(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Go on with what a night has to erase: deletions of memories whose grace is over, and what was left undone.

    Args:
        tenant_id: The tenant.
        as_of: The night's moment.
        state: As the step before left it; empty at first.
        until: When to leave off, by the monotonic clock; a piece is always done.
    """
    adopted = 0
    while not state:
        more = erasures_of.adopt(tenant_id)
        adopted += more
        state = {} if more else {"erasure": None, "failed": []}
    done, counts = 0, Counter[str]({"adopted": adopted} if adopted else {})
    while True:
        if state["erasure"] is None:
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
            state = {"erasure": None, "failed": failed}
        else:
            state = {**state, "inner": did.state}
        if time.monotonic() >= until:
            return Step(done, state, finished=False, counts=dict(counts))


def _cut(tenant_id: UUID, erasure_id: UUID) -> Step:
    """Say how far it reaches; from then on it can't be cancelled."""
    # Before the lock: whoever stores what came up to here sees the tombstone, or is done.
    cut = cut_at.end(tenant_id)
    with database.tenant(tenant_id) as tx:
        holds.share(tx, tenant_id)
        erasures.lock(tx, tenant_id)
        erasure = found(tx, tenant_id, erasure_id, locked=True)
        if erasure.status in ("verified", "cancelled"):
            return Step(0, {}, finished=True, notes=(f"it is {erasure.status}",))
        cut = erasure.cut or cut  # a held one that goes on keeps its cut: who came back since is somebody new
        tombstones.bury(tx, tenant_id, erasure_id, _names(tx, tenant_id, erasure), cut)
        started = erasure.started_at or database.now(tx)
        erasures.set_fields(tx, tenant_id, erasure_id, status="running", cut=cut, started_at=started)
        failpoints.reach("erasing.cut")
    queues.nudge(queues.DRAIN)
    return Step(0, {"phase": "wait"}, finished=False)


def _names(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> dict[str, bytes]:
    """Digests of whom, or which thread, it is of; none where it is of less."""
    scope, key = erasure.scope, tombstones.digest_key(tx, tenant_id, os.urandom(32))
    if scope.subject is not None and is_whole(scope, "subject"):
        return {"subject": digest(key, "subject", scope.subject)}
    if scope.thread is not None and is_whole(scope, "thread"):
        return {"thread": digest(key, "thread", scope.thread)}
    return {}


def _wait(tenant_id: UUID, erasure: Erasure) -> Step:
    """Until nothing up to the cut is on its way."""
    until = time.monotonic() + STEP_SECONDS
    while cut_at.is_waiting(tenant_id, erasure.cut or "0-0"):
        if time.monotonic() >= until:
            queues.nudge(queues.DRAIN)
            return Step(0, {"phase": "wait"}, finished=False)
        time.sleep(_POLL_SECONDS)
    return Step(0, {"phase": "plan"}, finished=False)


def _plan(tenant_id: UUID, erasure: Erasure, tries: int) -> Step:
    """Write down what is to be erased, and in the ledger that a restore doesn't reach."""
    with database.tenant(tenant_id) as tx:
        holds.share(tx, tenant_id)
        erasures.lock(tx, tenant_id)
        erasure = found(tx, tenant_id, erasure.erasure_id, locked=True)
        ids = erasures.ids(tx, tenant_id, erasure)
        ids = sorted({*ids, *erasures.summaries_of(tx, tenant_id, ids)})
        names = _names(tx, tenant_id, erasure)
        tombstones.enter_in_ledger(tx, tenant_id, erasure.erasure_id, names, ids, erasure.cut or "")
        plan = [
            {"step": name, "store": work.store, "found": work.find(tx, tenant_id, erasure)}
            for name, work in STEPS.items()
        ]
        erasures.set_fields(tx, tenant_id, erasure.erasure_id, plan=plan, executed=[])
        failpoints.reach("erasing.planned")
    return Step(0, vars(_Place(next(iter(STEPS)), 0, 0, tries)), finished=False, total=len(ids))


def _erase(tenant_id: UUID, erasure: Erasure, place: _Place) -> Step:
    """A piece of one of the steps; when it is done, on to the next."""
    name = place.phase
    left, more = STEPS[name].erase(tenant_id, erasure, place.at, time.monotonic() + STEP_SECONDS)
    removed = place.removed + more
    if left is not None:
        return Step(more, vars(_Place(name, left, removed, place.tries)), finished=False, counts={name: more})
    with database.tenant(tenant_id) as tx:
        there = found(tx, tenant_id, erasure.erasure_id, locked=True)
        done = [each for each in there.executed if each["step"] != name]
        done.append({"step": name, "removed": removed, "at": database.now(tx).isoformat()})
        erasures.set_fields(tx, tenant_id, erasure.erasure_id, executed=done)
        failpoints.reach(f"erasing.{name}")
    names = [*STEPS, "verify"]
    following = names[names.index(name) + 1]
    return Step(more, vars(_Place(following, 0, 0, place.tries)), finished=False, counts={name: more})


def _verify(tenant_id: UUID, erasure: Erasure, tries: int) -> Step:
    """Look everywhere once more. What is left is told, and the steps are done again."""
    with database.tenant(tenant_id) as tx:
        holds.share(tx, tenant_id)
        erasure = found(tx, tenant_id, erasure.erasure_id, locked=True)
        held = erasures.ids(tx, tenant_id, erasure, held=True)
        ids = tombstones.erased_ids(tx, tenant_id, erasure.erasure_id)
        left = residue.counts(tx, tenant_id, sorted(set(ids).difference(held)), erasure)
        planned, executed = [each["step"] for each in erasure.plan or ()], [each["step"] for each in erasure.executed]
        if sum(left.values()) or planned != executed:
            log.error("erasure_residue", tenant=str(tenant_id), erasure=str(erasure.erasure_id), left=left)
            metrics.count("erasures_unfinished")
            if tries >= TRIES:
                return Step(0, {}, finished=True, failure="something is left of what was to be erased")
            again = {"phase": "plan", "tries": tries + 1}
            return Step(0, again, finished=False, notes=("something is left: it is done again",))
        now = database.now(tx)
        if held:
            erasures.set_fields(tx, tenant_id, erasure.erasure_id, status="held", finished_at=now)
            return Step(0, {}, finished=True, notes=(f"{len(held)} memories are under legal hold",))
        report = {"left": left, "stores": _stores(erasure), "memories": len(ids), "cut": erasure.cut}
        done: dict[str, Any] = {"status": "verified", "finished_at": now, "verified_at": now, "scope": {}}
        erasures.set_fields(tx, tenant_id, erasure.erasure_id, **done, reason=None, report=report)
        details = {"erasure": str(erasure.erasure_id), "law": erasure.kind}
        subject = erasure.scope.subject
        audit.enter(tx, tenant_id, "erasure_verified", ids=ids, subject=subject, details=details)
    return Step(0, {}, finished=True, notes=("verified: nothing is left",))


def _stores(erasure: Erasure) -> list[dict[str, Any]]:
    """What was found in each store, and what was removed from it."""
    removed = {each["step"]: each for each in erasure.executed}
    return [planned | {"removed": removed[planned["step"]]["removed"]} for planned in erasure.plan or ()]


# --- Steps ---


def _find_memories(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> int:
    return len(tombstones.erased_ids(tx, tenant_id, erasure.erasure_id))


def _erase_memories(tenant_id: UUID, erasure: Erasure, at: int, until: float) -> tuple[int | None, int]:
    """Remove memories with all that is of them; those that came under a hold meanwhile stay."""
    removed = 0
    with database.tenant(tenant_id) as tx:
        ids = tombstones.erased_ids(tx, tenant_id, erasure.erasure_id)
    while at < len(ids):
        with database.tenant(tenant_id) as tx:
            holds.share(tx, tenant_id)
            there = erasures.lock_rows(tx, tenant_id, ids[at : at + ROWS])
            held = holds.on(tx, tenant_id, there)
            gone = [memory_id for memory_id in there if memory_id not in held]
            states.lock(tx, tenant_id, gone)
            if gone:
                with tenant_counts.changing(tx, tenant_id, gone):
                    removal.remove(tx, tenant_id, gone)
                details = {"erasure": str(erasure.erasure_id)}
                audit.enter(tx, tenant_id, "memories_erased", ids=gone, details=details)
            failpoints.reach("erasing.before_commit")
        removed += len(gone)
        at += ROWS
        if time.monotonic() >= until:
            break
    queues.nudge(queues.EMBED_MEMORIES)
    return (at if at < len(ids) else None), removed


def _find_keys(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> int:
    del tx, tenant_id
    return int(is_whole(erasure.scope, "subject"))


def _erase_keys(tenant_id: UUID, erasure: Erasure, _at: int, _until: float) -> tuple[int | None, int]:
    """Destroy the subject's key, unless something of it is held: then what is cold of that must stay readable."""
    subject = erasure.scope.subject
    if subject is None or not is_whole(erasure.scope, "subject"):
        return None, 0
    with database.tenant(tenant_id) as tx:
        holds.share(tx, tenant_id)
        if erasures.ids(tx, tenant_id, erasure, held=True):
            return None, 0
        return None, key_store.destroy(tx, tenant_id, subject)


STEPS: Final[dict[str, Work]] = {
    "memories": Work("memories, with words, vectors, links, reviews and histories", _find_memories, _erase_memories),
    "keys": Work("keys of what is in cold storage", _find_keys, _erase_keys),
}
