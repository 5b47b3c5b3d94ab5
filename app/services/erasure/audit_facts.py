"""Read what the audit log states about an erasure: the digest of the person's name, and the receipt of the request."""

from __future__ import annotations

from uuid import UUID

from app.domain.privacy import audit_chain
from app.store.core import database
from app.store.erasure.requests import Erasure
from app.store.privacy import audit_entries
from app.store.privacy.audit_entries import Recording


def find_digest(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> str | None:
    """Return the keyed digest by which the audit log refers to the person of an erasure; None if it names no person.

    The digest is computed while the erasure's scope names the person, and later read from the entry that the erasure's
    report cites; None if that entry was lost or altered.
    """
    if erasure.scope.subject is not None:
        key = audit_entries.read_subject_key(tx, tenant_id)
        return None if key is None else audit_chain.subject_digest(key, erasure.scope.subject).hex()
    cited = (erasure.report or {}).get("audit")
    if cited is None:
        return None
    for entry in audit_entries.list_entries(tx, tenant_id, None, None, 1, seq=cited["entry"]):
        if entry.hash.hex() == cited["hash"] and entry.subject is not None:
            return entry.subject.hex()
    return None


def find_recording(tx: database.Transaction, tenant_id: UUID, erasure: Erasure) -> Recording | None:
    """Return when and by whom the request of an erasure was recorded; None if the erasure itself recorded it."""
    if erasure.arrived_at is None:
        return None  # the deletion of a memory, which has no request
    return audit_entries.find_recording(tx, tenant_id, str(erasure.erasure_id))
