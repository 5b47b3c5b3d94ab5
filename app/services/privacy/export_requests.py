"""Request, list and remove exports of a subject's data. An export ends when it expires or its subject is erased.

A job writes the data page by page into parts that are encrypted with a separate key per export. This key is wrapped by
the subject's key, so destroying the subject's key makes all copies of the parts unreadable. The zip is assembled during
the download.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

from app import queues
from app.clients.object_store import cold_store
from app.domain.jobs import Step
from app.domain.privacy.audit_chain import SYSTEM
from app.domain.privacy.export import MEMORIES_MAX, ExportKind, NewExport
from app.domain.privacy.requests import KEPT_MONTHS, PrivacyRequest
from app.domain.tiers import encryption
from app.errors import Conflict, Unavailable, require_found
from app.services.privacy import recorded_requests
from app.services.privacy.recorded_requests import RequestOptions
from app.services.security import audit, encryption_keys
from app.settings import settings
from app.store.core import database
from app.store.erasure import requests
from app.store.jobs import expired_rows, jobs
from app.store.privacy import exports, request_log, subject_data
from app.store.privacy.exports import Export
from app.store.tiers import wrapped_keys

KIND: Final = "export"
ROWS: Final = 500
NO_MASTER_KEY: Final = (
    "exports are stored encrypted, but EBBING_MASTER_KEY isn't set: set it (`ebbing run` creates a key itself)"
)
_DAYS_A_MONTH: Final = 31


class ExportPreview(NamedTuple):
    """An export that a request would create: its entry of the request log, and the number of memories."""

    entry: PrivacyRequest
    memories: int

    @property
    def kind(self) -> ExportKind:
        """The kind of the export, which follows from the right that its request exercises."""
        return "portable" if self.entry.nature == "portable" else "access"


def preview_export(tenant_id: UUID, given: NewExport) -> ExportPreview:
    """Return what a request would create, without writing anything. `request_export` refuses the same requests.

    Raises:
        Conflict: The subject is being erased or has more than `MEMORIES_MAX` memories, no master key is set, or the
            request in the log is answered or carried out already.
        Invalid: A text that is retained names the subject, or the request isn't in the log or has another type or law.
    """
    _check(tenant_id, given)
    with database.tenant(tenant_id) as tx:
        requests.lock_shared(tx, tenant_id)
        return ExportPreview(
            recorded_requests.find_entry(tx, tenant_id, _origin(given)), _count_memories(tx, tenant_id, given.subject)
        )


def request_export(tenant_id: UUID, given: NewExport, requested_by: str) -> Export:
    """Request an export and create the job that writes it.

    Raises:
        Conflict: The subject is being erased or has more than `MEMORIES_MAX` memories, no master key is set, or the
            request in the log is answered or carried out already.
        Unavailable: The subject's key has just been destroyed.
        Misconfigured: The master key has changed.
        Invalid: A text that is retained names the subject, or the request in the log has another type,
            law or person.
    """
    _check(tenant_id, given)
    owners = encryption_keys.load_owner_keys(tenant_id, {given.subject})
    owner = owners.by_subject[given.subject]
    export_id, key = given.request_id or uuid4(), os.urandom(encryption.KEY_BYTES)
    wrapped = encryption_keys.wrap_record(tenant_id, export_id, key, owner, owners.keys[owner])
    with database.tenant(tenant_id) as tx:
        requests.lock_shared(tx, tenant_id)
        memories = _count_memories(tx, tenant_id, given.subject)
        if wrapped_keys.read_owner_keys(tx, tenant_id, [owner], held=True).get(owner) != owners.wrapped[owner]:
            raise Unavailable("this subject was erased just now", retry_after_seconds=1)
        logged = recorded_requests.find_entry(tx, tenant_id, _origin(given), locked=True)
        wanted = ExportPreview(replace(logged, request_id=export_id), memories)
        if given.request_id is not None:  # a failed export may have this id; the new job deletes its objects
            wrapped_keys.remove_records(tx, tenant_id, [export_id])
            exports.remove(tx, tenant_id, export_id)
        wrapped_keys.add_records(tx, tenant_id, {export_id: wrapped})
        now = database.now(tx)
        job_id = uuid4()
        expires_at = now + timedelta(days=settings().export_days)
        fields = (wanted.kind, given.subject, given.reason, wanted.entry.law)
        new = Export(export_id, *fields, now, requested_by, job_id, expires_at)
        exports.add(tx, tenant_id, new)
        jobs.add(tx, job_id, tenant_id, KIND, {"export_id": str(export_id)}, lone=False)
        request_log.put(tx, tenant_id, wanted.entry)
        details = {"export": str(export_id), "kind": new.kind, "law": new.law}
        audit.append(
            tx, tenant_id, "export_requested", requested_by, items=memories, subject=given.subject, details=details
        )
    queues.nudge(queues.RIGHTS_TICK)
    return new


def _origin(given: NewExport) -> RequestOptions:
    """Return what the caller says about the request that the export answers."""
    return RequestOptions(
        *(given.kind, given.law, "law", given.request_id, given.received_at, given.controller, given.case_reference)
    )


def _check(tenant_id: UUID, given: NewExport) -> None:
    """Check what needs no lock.

    Raises:
        Conflict: No master key is set, or the request in the log is answered or carried out already.
        Invalid: A text that is retained names the subject, or the request isn't in the log or has another type or law.
    """
    recorded_requests.check_names(tenant_id, given.subject, _origin(given))
    if settings().master_key is None:
        raise Conflict(NO_MASTER_KEY)


def _count_memories(tx: database.Transaction, tenant_id: UUID, subject: str) -> int:
    """Return the number of memories that an export would contain.

    Raises:
        Conflict: The subject is being erased or has more than `MEMORIES_MAX` memories.
    """
    if not is_free(tx, tenant_id, subject):
        raise Conflict("this subject is being erased")
    memories = subject_data.count(tx, tenant_id, subject)
    if memories > MEMORIES_MAX:
        raise Conflict(f"this subject has {memories} memories, and an export has at most {MEMORIES_MAX}")
    return memories


def is_free(tx: database.Transaction, tenant_id: UUID, subject: str | None) -> bool:
    """Return whether no running erasure covers the subject. The transaction must hold the erasures' shared lock."""
    running = (erasure for erasure in requests.open_scopes(tx, tenant_id) if erasure.status == "running")
    return subject not in {erasure.scope.subject for erasure in running} - {None}


def get_or_404(tx: database.Transaction, tenant_id: UUID, export_id: UUID, *, locked: bool = False) -> Export:
    """Return an export within a transaction, optionally locking its row.

    Raises:
        NotFound: This tenant has no such export.
    """
    return require_found(exports.get(tx, tenant_id, export_id, locked=locked), "export")


get = database.in_tenant(get_or_404)
"""Return an export.

Raises:
    NotFound: This tenant has no such export.
"""


list_exports = database.in_tenant(exports.list_exports)
"""Return a page of exports, latest request first, after the given request time and id."""


def export_folder(tenant_id: UUID, export_id: UUID | None = None) -> str:
    """Return the object store path of a tenant's exports, or of one export."""
    return f"exports/{tenant_id}" + (f"/{export_id}" if export_id else "")


def part_path(tenant_id: UUID, export_id: UUID, name: str) -> str:
    """Return the object store path of a part, whose object name is in `Export.objects`."""
    return f"{export_folder(tenant_id, export_id)}/{name}"


def forget(tenant_id: UUID, subject: str | None, memory_ids: Sequence[UUID] = ()) -> int:
    """Remove the exports of an erased subject and of the subjects of erased memories. Idempotent.

    A job that is still writing a removed export stops.

    Args:
        subject: The erased subject; None if the erasure covers less than a subject.
        memory_ids: Memories about to be erased, whose rows must still exist.

    Returns:
        The number of exports removed.

    Raises:
        StoreFailed: The object store is unreachable. The exports' keys are destroyed already, so the exports are
            unreadable; the nightly sweep deletes the remaining objects.
    """
    with database.tenant(tenant_id) as tx:
        removed = _end_exports(tx, tenant_id, exports.list_by_subjects(tx, tenant_id, subject, memory_ids))
    _delete(tenant_id, removed)
    return len(removed)


def count_forgettable(
    tx: database.Transaction, tenant_id: UUID, subject: str | None, memory_ids: Sequence[UUID] = ()
) -> int:
    """Return how many exports `forget` would remove."""
    return len(exports.list_by_subjects(tx, tenant_id, subject, memory_ids))


def _end_exports(tx: database.Transaction, tenant_id: UUID, export_ids: Sequence[UUID]) -> list[UUID]:
    """End exports and destroy their keys, so that no copy can be read; return the ids of the ended exports.

    Call this last in the transaction.
    """
    ended = exports.expire_exports(tx, tenant_id, export_ids)
    if ended:
        request_log.delete_identity_notes(tx, tenant_id, ended)
        wrapped_keys.remove_records(tx, tenant_id, ended)
        audit.append(tx, tenant_id, "export_removed", SYSTEM, ids=ended)
    return ended


def _delete(tenant_id: UUID, export_ids: Iterable[UUID]) -> None:
    for export_id in export_ids:
        for stored in list(cold_store().list_folder(export_folder(tenant_id, export_id))):
            cold_store().delete(stored.path)


def run_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], _until: float) -> Step:
    """Run a slice of the nightly housekeeping: end expired exports, then delete old rows and orphaned objects.

    Args:
        as_of: The reference time of the nightly run.
        state: State returned by the previous slice; empty at first.

    Raises:
        StoreFailed: The object store is unreachable; the next nightly run deletes the remaining objects.
    """
    with database.tenant(tenant_id) as tx:
        ended = _end_exports(tx, tenant_id, exports.list_due(tx, tenant_id, as_of, ROWS))
    if ended:
        return Step(len(ended), {"any": True}, finished=False, counts={"expired": len(ended)})
    purged = 0
    for name in ("exports", "requests"):
        with database.tenant(tenant_id) as tx:
            before = as_of - timedelta(days=KEPT_MONTHS * _DAYS_A_MONTH)
            purged += expired_rows.delete_expired(tx, tenant_id, name, before, ROWS)
    if purged:
        return Step(purged, {"any": True}, finished=False, counts={"purged": purged})
    return Step(0, state, finished=True, counts={"objects": _sweep(tenant_id)})


def _sweep(tenant_id: UUID) -> int:
    """Delete the objects of ended exports and of killed jobs; return the number of deleted objects."""
    if settings().master_key is None:
        return 0  # without a master key, no export was ever written
    # List objects before reading rows, so that objects of newer exports aren't deleted.
    objects = list(cold_store().list_folder(export_folder(tenant_id)))
    with database.tenant(tenant_id) as tx:
        current_ids = {str(export_id) for export_id in exports.list_with_objects(tx, tenant_id)}
    orphans = [stored.path for stored in objects if stored.path.split("/")[2] not in current_ids]
    for path in orphans:
        cold_store().delete(path)
    return len(orphans)
