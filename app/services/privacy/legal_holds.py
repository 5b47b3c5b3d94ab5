"""Place, list and release legal holds, which prevent removing, moving and editing the memories they cover."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any, Final
from uuid import UUID, uuid4

from app.clients.redis.stream import backlog
from app.domain.jobs import Job, Step
from app.domain.privacy.audit_chain import Action
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict, FieldError, Invalid, Unavailable, require_found
from app.services.erasure import requests
from app.services.security import audit
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.jobs import jobs
from app.store.memories import links
from app.store.privacy import holds
from app.store.privacy.holds import Hold, HoldCounts

KIND: Final = "release"
ROWS: Final = 5000
STEP_SECONDS: Final = 2.0


def place_hold(tenant_id: UUID, meant: Scope, reason: str, placed_by: str) -> Hold:
    """Place a hold. Memories that it covers at commit time still exist when this returns.

    Args:
        meant: Conditions that memories must meet; an alias id covers the memory that it stands for.
        placed_by: Id of the caller's key.

    Raises:
        Invalid: Some ids belong to no memory of this tenant.
        Unavailable: A memory is still in the queue.
    """
    ids = meant.memory_ids or []
    missing: list[UUID] = []
    with database.tenant(tenant_id) as tx:
        holds.lock_exclusive(tx, tenant_id)
        if ids:
            stored = links.resolve_ids(tx, tenant_id, ids)  # the lock prevents their removal
            missing = [given for given in ids if given not in stored]
            meant = replace(meant, memory_ids=list(dict.fromkeys(stored.values())))
        if not missing:
            placed = holds.insert_hold(tx, tenant_id, uuid4(), meant, reason, placed_by)
            audit_hold(tx, tenant_id, "hold_placed", placed, placed_by)
            return placed
    # Query the queue outside the transaction.
    if backlog().find(tenant_id, *missing):
        raise Unavailable("a memory to be held is still in the queue", retry_after_seconds=1)
    raise Invalid(
        errors=[
            FieldError(f"memory_ids[{ids.index(given)}]", "names no memory of this tenant", str(given))
            for given in missing
        ]
    )


preview_hold = database.in_tenant(holds.count_covered)
"""Return how many memories a hold would cover now, without placing it."""


list_holds = database.in_tenant(holds.list_holds)
"""Return a page of holds, latest first, after the given placement time and id; see `store.holds.list_holds`."""


def get(tenant_id: UUID, hold_id: UUID) -> tuple[Hold, HoldCounts]:
    """Return a hold and how many memories it covers now; zero if it was released.

    Raises:
        NotFound: This tenant has no such hold.
    """
    with database.tenant(tenant_id) as tx:
        found = _get_or_404(tx, tenant_id, hold_id)
        counts = holds.count_covered(tx, tenant_id, found.meant) if found.released_at is None else HoldCounts(0, 0)
    return found, counts


def release_hold(tenant_id: UUID, hold_id: UUID, released_by: str) -> Hold:
    """Release a hold and make the memories that it covered due for the next sweep, by a job if there are many.

    Raises:
        NotFound: This tenant has no such hold.
        Conflict: The hold was already released.
    """
    with database.tenant(tenant_id) as tx:
        holds.lock_exclusive(
            tx, tenant_id
        )  # otherwise an erasure that has just seen the hold could wait for it forever
        found = _get_or_404(tx, tenant_id, hold_id)
        if not holds.release_hold(tx, tenant_id, hold_id, released_by):
            raise Conflict("this hold is already released")
        _, last = holds.make_due(tx, tenant_id, found.meant, NIL, ROWS)
        if last is not None:  # sent by the next tick
            parameters = {"hold_id": str(hold_id), "after": str(last)}
            jobs.add(tx, uuid4(), tenant_id, KIND, parameters, lone=False)
        requests.queue_waiting(tx, tenant_id)
        audit_hold(tx, tenant_id, "hold_released", found, released_by)
        return _get_or_404(tx, tenant_id, hold_id)


def run_job_slice(job: Job) -> Step:
    """Make memories that a released hold covered due for the sweep, for `STEP_SECONDS`."""
    until = time.monotonic() + STEP_SECONDS
    after: UUID | None = UUID(job.state.get("after", job.parameters["after"]))
    done = 0
    while after is not None and time.monotonic() < until:
        with database.tenant(job.tenant_id) as tx:
            found = _get_or_404(tx, job.tenant_id, UUID(job.parameters["hold_id"]))
            looked_at, after = holds.make_due(tx, job.tenant_id, found.meant, after, ROWS)
        done += looked_at
    state: dict[str, Any] = {} if after is None else {"after": str(after)}
    return Step(done, state, finished=after is None)


def audit_hold(tx: database.Transaction, tenant_id: UUID, action: Action, hold: Hold, actor: str) -> None:
    """Write a hold's change to the audit log."""
    meant, details = hold.meant, {"hold": str(hold.hold_id)}
    audit.append(tx, tenant_id, action, actor, ids=meant.memory_ids or (), subject=meant.subject, details=details)


def _get_or_404(tx: database.Transaction, tenant_id: UUID, hold_id: UUID) -> Hold:
    return require_found(holds.get(tx, tenant_id, hold_id), "hold")
