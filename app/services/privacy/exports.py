"""Exports of what is held on somebody: asked for, fetched, and gone when their time is over or the person is erased.

A job gathers what is held, page by page, into parts that are sealed by a key of the export's own, which the person's
key wraps: to destroy that makes the parts unreadable too, wherever copies of them lie. The zip is put together of them
while it is fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from app import queues
from app.clients.cold_store import cold_store
from app.domain.jobs import Step
from app.domain.privacy.audit import SYSTEM
from app.domain.privacy.clocks import clocks
from app.domain.privacy.export import MEMORIES_MAX, NewExport
from app.domain.privacy.requests import KEPT_MONTHS, Request
from app.domain.tiers import sealing
from app.errors import Conflict, NotFound, Unavailable
from app.services.security import audit, key_store
from app.settings import settings
from app.store.core import database
from app.store.erasure import erasures
from app.store.jobs import jobs
from app.store.privacy import exports as rows
from app.store.privacy import holdings, privacy_requests
from app.store.privacy.exports import Export
from app.store.tiers import key_store as keys

KIND: Final = "export"
ROWS: Final = 500
NO_MASTER_KEY: Final = (
    "an export is stored encrypted, and EBBING_MASTER_KEY isn't set: set it (`ebbing run` makes one by itself)"
)
_DAYS_A_MONTH: Final = 31


def request(tenant_id: UUID, given: NewExport, requested_by: str) -> Export:
    """Ask for an export; a job makes it.

    Args:
        tenant_id: The tenant.
        given: What of, and under which law.
        requested_by: Id of the caller's key.

    Raises:
        Conflict: The subject is being erased, has more than `MEMORIES_MAX` memories, or there is no master key.
        Unavailable: The subject's key was destroyed just now.
        Misconfigured: The master key is another one than before.
    """
    if settings().master_key is None:
        raise Conflict(NO_MASTER_KEY)
    owners = key_store.owners(tenant_id, {given.subject})
    owner = owners.by_subject[given.subject]
    export_id, key = uuid4(), os.urandom(sealing.KEY_BYTES)
    wrapped = key_store.wrap_record(tenant_id, export_id, key, owner, owners.keys[owner])
    with database.tenant(tenant_id) as tx:
        erasures.share(tx, tenant_id)
        if not is_free(tx, tenant_id, given.subject):
            raise Conflict("this subject is being erased")
        memories = holdings.count(tx, tenant_id, given.subject)
        if memories > MEMORIES_MAX:
            raise Conflict(f"this subject has {memories} memories, and an export has at most {MEMORIES_MAX}")
        if keys.owners(tx, tenant_id, [owner], held=True).get(owner) != owners.wrapped[owner]:
            raise Unavailable("this subject was erased just now", retry_after_seconds=1)
        keys.add_records(tx, tenant_id, {export_id: wrapped})
        now = database.now(tx)
        job_id = uuid4()
        until = now + timedelta(days=settings().export_days)
        asked = (given.kind, given.subject, given.reason, given.law)
        new = Export(export_id, *asked, now, requested_by, job_id, until)
        rows.add(tx, tenant_id, new)
        jobs.add(tx, job_id, tenant_id, KIND, {"export_id": str(export_id)}, lone=False)
        times = clocks(given.law, now)
        logged = Request(export_id, given.kind, given.law, "api", now, times.confirm_by, times.due_at)
        privacy_requests.add(tx, tenant_id, logged)
        details = {"export": str(export_id), "kind": given.kind, "law": given.law}
        audit.enter(
            tx, tenant_id, "export_requested", requested_by, items=memories, subject=given.subject, details=details
        )
    queues.nudge(queues.RIGHTS_TICK)
    return new


def is_free(tx: database.Transaction, tenant_id: UUID, subject: str | None) -> bool:
    """Whether a subject isn't being erased; the transaction shares the erasures' lock."""
    under_way = (each for each in erasures.open_scopes(tx, tenant_id) if each.status == "running")
    return subject not in {each.scope.subject for each in under_way} - {None}


def get(tenant_id: UUID, export_id: UUID) -> Export:
    """An export as it stands.

    Raises:
        NotFound: This tenant has no such export.
    """
    with database.tenant(tenant_id) as tx:
        return found(tx, tenant_id, export_id)


def found(tx: database.Transaction, tenant_id: UUID, export_id: UUID, *, locked: bool = False) -> Export:
    """The same within a transaction; its row locked if wanted."""
    there = rows.get(tx, tenant_id, export_id, locked=locked)
    if there is None:
        raise NotFound("this tenant has no such export")
    return there


def page(tenant_id: UUID, older_than: tuple[datetime, UUID] | None, limit: int) -> list[Export]:
    """Exports, those requested last first, after the one given by when it was requested and its id."""
    with database.tenant(tenant_id) as tx:
        return rows.page(tx, tenant_id, older_than, limit)


def folder(tenant_id: UUID, export_id: UUID | None = None) -> str:
    """Where the parts of a tenant's exports are in the store, or of one of them."""
    return f"exports/{tenant_id}" + (f"/{export_id}" if export_id else "")


def part_path(tenant_id: UUID, export_id: UUID, number: int) -> str:
    """Where a part is in the store."""
    return f"{folder(tenant_id, export_id)}/{number:06}"


def forget(tenant_id: UUID, subject: str | None, memory_ids: Sequence[UUID] = ()) -> int:
    """Remove the exports on a subject who is erased, and on those whom erased memories are about. Again does nothing.

    A job that is making one of them finds it gone, and stops.

    Args:
        tenant_id: The tenant.
        subject: Who is erased; None where less is.
        memory_ids: Memories that are about to be erased: call it before their rows are gone.

    Returns:
        How many were removed.

    Raises:
        StoreFailed: The store is away. Their keys are destroyed all the same, and nobody can read them; the night
            deletes what is left of them.
    """
    with database.tenant(tenant_id) as tx:
        theirs = _over(tx, tenant_id, rows.of_subjects(tx, tenant_id, subject, memory_ids))
    _delete(tenant_id, theirs)
    return len(theirs)


def left(tx: database.Transaction, tenant_id: UUID, subject: str | None, memory_ids: Sequence[UUID] = ()) -> int:
    """How many exports `forget` would remove."""
    return len(rows.of_subjects(tx, tenant_id, subject, memory_ids))


def _over(tx: database.Transaction, tenant_id: UUID, export_ids: Sequence[UUID]) -> list[UUID]:
    """Let exports be over: last in the transaction. Their keys are destroyed, so that no copy can be read."""
    gone = rows.expire(tx, tenant_id, export_ids)
    if gone:
        keys.remove_records(tx, tenant_id, gone)
        audit.enter(tx, tenant_id, "export_removed", SYSTEM, ids=gone)
    return gone


def _delete(tenant_id: UUID, export_ids: Iterable[UUID]) -> None:
    for export_id in export_ids:
        for each in list(cold_store().under(folder(tenant_id, export_id))):
            cold_store().delete(each.path)


def carry_on(tenant_id: UUID, as_of: datetime, state: dict[str, Any], _until: float) -> Step:
    """Go on with a night's housekeeping: exports whose time is over, objects of none, rows and requests of long ago.

    Args:
        tenant_id: The tenant.
        as_of: The night's moment.
        state: As the step before left it; empty at first.

    Raises:
        StoreFailed: The store is away; the next night deletes what is left in it.
    """
    with database.tenant(tenant_id) as tx:
        over = _over(tx, tenant_id, rows.due(tx, tenant_id, as_of, ROWS))
    if over:
        return Step(len(over), {"any": True}, finished=False, counts={"expired": len(over)})
    purges: list[Callable[..., int]] = [rows.purge, privacy_requests.purge]
    purged = 0
    for purge in purges:
        with database.tenant(tenant_id) as tx:
            purged += purge(tx, tenant_id, as_of - timedelta(days=KEPT_MONTHS * _DAYS_A_MONTH), ROWS)
    if purged:
        return Step(purged, {"any": True}, finished=False, counts={"purged": purged})
    return Step(0, state, finished=True, counts={"objects": _sweep(tenant_id)})


def _sweep(tenant_id: UUID) -> int:
    """Delete the objects of exports that are over: of those whose writer was killed, too. Returns how many."""
    if settings().master_key is None:
        return 0  # nothing was ever written
    objects = list(cold_store().under(folder(tenant_id)))  # before the rows: what is new by then is left
    with database.tenant(tenant_id) as tx:
        known = {str(export_id) for export_id in rows.known(tx, tenant_id)}
    orphans = [each.path for each in objects if each.path.split("/")[2] not in known]
    for path in orphans:
        cold_store().delete(path)
    return len(orphans)
