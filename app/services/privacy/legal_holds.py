"""Place, list, correct and release legal holds.

The memories that a hold covers can't be deleted, merged, edited or moved to a lower tier.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final
from uuid import UUID, uuid4

from msgspec import UNSET, UnsetType

from app.clients.redis.stream import backlog
from app.domain.jobs import Job, Step
from app.domain.privacy.audit_chain import Action
from app.domain.privacy.legal_hold import HoldCorrection, HoldGround, Scope
from app.errors import Conflict, FieldError, Invalid, Unavailable, require_found
from app.services.erasure import requests
from app.services.privacy import retained_texts
from app.services.security import audit
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.jobs import jobs
from app.store.memories import links
from app.store.privacy import hold_changes, holds
from app.store.privacy.holds import Hold, HoldCounts, WaitingErasures
from app.store.tenants import tenants

KIND: Final = "release"
ROWS: Final = 5000
SUBJECTS_MAX: Final = 50
"""Maximum number of names of subjects that are searched for in a hold's reason."""
STEP_SECONDS: Final = 2.0


def place_hold(tenant_id: UUID, meant: Scope, reason: str, placed_by: str, ground: HoldGround | None = None) -> Hold:
    """Place a hold. From its commit on, no memory that it covers can be deleted.

    Args:
        meant: Conditions that memories must meet. An alias id covers the memory of which it is an alias.
        placed_by: Id of the operator or API key that places the hold.
        ground: Legal ground for retaining the memories.

    Raises:
        Invalid: Some ids don't match any memory of this tenant, or the reason names a subject of the memories.
        Conflict: The tenant is being deleted.
        Unavailable: A memory is still in the queue.
    """
    ids = meant.memory_ids or []
    missing: list[UUID] = []
    covered = 0 if ids else sum(preview_hold(tenant_id, meant))  # counted before the lock, which delays other writes
    with database.tenant(tenant_id) as tx:
        holds.lock_exclusive(tx, tenant_id)
        tenant = tenants.get(tx, tenant_id)
        if tenant is not None and tenant.deletion_id is not None:
            raise Conflict("this tenant is being deleted: cancel the deletion before you place a hold")
        if ids:
            stored = links.resolve_ids(tx, tenant_id, ids)  # the lock prevents removal of these memories
            missing = [memory_id for memory_id in ids if memory_id not in stored]
            meant = replace(meant, memory_ids=list(dict.fromkeys(stored.values())))
        if not missing:
            _check_reason(tx, tenant_id, meant, reason)
            placed = holds.insert_hold(tx, tenant_id, uuid4(), meant, reason, placed_by, ground=ground)
            audit_hold(tx, tenant_id, "hold_placed", placed, placed_by, covered)
            return placed
    # Query the queue outside the transaction.
    if backlog().find(tenant_id, *missing):
        raise Unavailable("a memory to be held is still in the queue", retry_after_seconds=1)
    raise Invalid(
        errors=[
            FieldError(f"ids[{ids.index(memory_id)}]", "doesn't match any memory of this tenant", str(memory_id))
            for memory_id in missing
        ]
    )


def preview_hold(tenant_id: UUID, meant: Scope, reason: str | None = None) -> HoldCounts:
    """Return how many memories a hold would cover now, without placing it.

    Raises:
        Invalid: The reason names a subject of the memories.
    """
    with database.tenant(tenant_id) as tx:
        _check_reason(tx, tenant_id, meant, reason)
        return holds.count_covered(tx, tenant_id, meant)


list_holds = database.in_tenant(holds.list_holds)
"""Return a page of holds, latest first, that begins after the hold with the given placement time and id."""


def get(tenant_id: UUID, hold_id: UUID) -> tuple[Hold, HoldCounts, WaitingErasures]:
    """Return a hold, the number of memories that it covers now, and the erasures that its release would continue.

    The numbers are zero after its release.

    Raises:
        NotFound: This tenant has no such hold.
    """
    with database.tenant(tenant_id) as tx:
        hold = _get_or_404(tx, tenant_id, hold_id)
        if hold.released_at is not None:
            return hold, HoldCounts(0, 0), WaitingErasures(0, 0)
        return hold, holds.count_covered(tx, tenant_id, hold.meant), holds.count_waiting(tx, tenant_id, hold)


def release_hold(
    tenant_id: UUID, hold_id: UUID, released_by: str, reason: str | None = None
) -> tuple[Hold, WaitingErasures]:
    """Release a hold and mark its memories as due for the next sweep, which decides their tiers again.

    If there are more than `ROWS` memories, a job marks the remaining ones. Held erasures continue at once with
    the memories that no other hold covers.

    Args:
        reason: The reason, stored with the hold.

    Returns:
        The hold, and the numbers of erasures that continue and of memories that they erase.

    Raises:
        NotFound: This tenant has no such hold.
        Conflict: The hold was already released.
        Invalid: The reason names a subject of the memories.
    """
    with database.tenant(tenant_id) as tx:
        covered = sum(holds.count_covered(tx, tenant_id, _get_or_404(tx, tenant_id, hold_id).meant))
    with database.tenant(tenant_id) as tx:
        # Without the lock, an erasure that has just read the hold could wait for its release forever.
        holds.lock_exclusive(tx, tenant_id)
        hold = _get_or_404(tx, tenant_id, hold_id)
        _check_reason(tx, tenant_id, hold.meant, reason)
        waiting = holds.count_waiting(tx, tenant_id, hold)
        if not holds.release_hold(tx, tenant_id, hold_id, released_by, reason):
            raise Conflict("this hold is already released")
        _, last = holds.make_due(tx, tenant_id, hold.meant, NIL, ROWS)
        if last is not None:  # the next tick sends the job
            parameters = {"hold_id": str(hold_id), "after": str(last)}
            jobs.add(tx, uuid4(), tenant_id, KIND, parameters, lone=False)
        requests.queue_waiting(tx, tenant_id)
        audit_hold(tx, tenant_id, "hold_released", hold, released_by, covered)
        return _get_or_404(tx, tenant_id, hold_id), waiting


def correct_hold(tenant_id: UUID, hold_id: UUID, given: HoldCorrection, changed_by: str) -> Hold:
    """Add or correct the ground and the reason of a hold, in force or released. The previous values are retained.

    Letters and reports that are read from now on state the new ground. Repeating a correction changes nothing.

    Raises:
        NotFound: This tenant has no such hold.
        Invalid: Nothing is given, or the reason names a subject of the memories.
    """
    if given.ground is UNSET and given.reason is UNSET:
        raise Invalid(errors=[FieldError("ground", "is missing: give a ground, a reason, or both")])
    with database.tenant(tenant_id) as tx:
        holds.lock_exclusive(tx, tenant_id)
        hold = _get_or_404(tx, tenant_id, hold_id)
        ground = hold.ground if isinstance(given.ground, UnsetType) else given.ground
        reason = hold.reason if isinstance(given.reason, UnsetType) else given.reason
        if (ground, reason) == (hold.ground, hold.reason):
            return hold
        _check_reason(tx, tenant_id, hold.meant, reason)
        hold_changes.correct_hold(tx, tenant_id, hold_id, ground=ground, reason=reason, changed_by=changed_by)
        audit_hold(tx, tenant_id, "hold_corrected", hold, changed_by)
        return _get_or_404(tx, tenant_id, hold_id)


list_changes = database.in_tenant(hold_changes.list_changes)
"""Return the corrections of holds, oldest first; see `store.privacy.hold_changes.list_changes`."""


def run_job_slice(job: Job) -> Step:
    """For `STEP_SECONDS`, make memories due for the sweep.

    These are the memories that a released hold covered or, if the job has a subject whose retention period was set or
    removed, the memories about this subject.
    """
    deadline = time.monotonic() + STEP_SECONDS
    after: UUID | None = UUID(job.state.get("after", job.parameters["after"]))
    processed = 0
    while after is not None and time.monotonic() < deadline:
        with database.tenant(job.tenant_id) as tx:
            if "subject" in job.parameters:
                meant = Scope(subject=job.parameters["subject"])
            else:
                meant = _get_or_404(tx, job.tenant_id, UUID(job.parameters["hold_id"])).meant
            count, after = holds.make_due(tx, job.tenant_id, meant, after, ROWS)
        processed += count
    state: dict[str, Any] = {} if after is None else {"after": str(after)}
    return Step(processed, state, finished=after is None)


def audit_hold(
    tx: database.Transaction, tenant_id: UUID, action: Action, hold: Hold, actor: str, covered: int = 0
) -> None:
    """Write a hold's change to the audit log.

    Args:
        covered: Number of memories that meet the hold's conditions; ignored if the hold lists ids.
    """
    ids, details = hold.meant.memory_ids or (), {"hold": str(hold.hold_id)}
    items = len(ids) or covered
    audit.append(tx, tenant_id, action, actor, ids=ids, items=items, subject=hold.meant.subject, details=details)


def _check_reason(tx: database.Transaction, tenant_id: UUID, meant: Scope, reason: str | None) -> None:
    """Check that a reason names neither the subject of a hold nor a subject in its thread or of its listed memories.

    Holds on other conditions, such as a category, can cover very many subjects: their names aren't looked for.

    Raises:
        Invalid: The reason contains a name.
    """
    if not reason:
        return
    subjects = [meant.subject] if meant.subject else []
    if meant.thread or meant.memory_ids:
        subjects += holds.list_subjects(tx, tenant_id, meant, SUBJECTS_MAX)
    for subject in dict.fromkeys(subjects):
        retained_texts.check_within(tx, tenant_id, subject, reason=reason)


def _get_or_404(tx: database.Transaction, tenant_id: UUID, hold_id: UUID) -> Hold:
    return require_found(holds.get(tx, tenant_id, hold_id), "hold")
