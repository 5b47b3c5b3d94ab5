"""Append to a tenant's audit log in the transaction that performs the action, and verify the log's hash chain.

Entries contain no memory text, names, addresses or plain subjects.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

import structlog

from app import metrics
from app.domain.privacy import audit_chain, erasure
from app.domain.privacy.audit_chain import START, SYSTEM, Action, AuditEntry, BrokenEntry, ChainPosition, Detail
from app.store.core import database
from app.store.erasure import ledger
from app.store.privacy import audit_entries

PAGE_ENTRIES: Final = 5000
# Number of entries verified per night, which takes a few seconds. The whole chain is verified only on request.
NIGHT_ENTRIES: Final = 50_000

_OTHER_HASH: Final = (
    "its hash differs from that of the anchor: the anchor was copied wrongly or belongs to another tenant or "
    "installation, or the entries up to it were rewritten"
)

log = structlog.get_logger(__name__)


def append(
    tx: database.Transaction,
    tenant_id: UUID,
    action: Action,
    actor: str = SYSTEM,
    *,
    ids: Collection[UUID] = (),
    items: int | None = None,
    subject: str | None = None,
    details: Mapping[str, Detail] | None = None,
) -> ChainPosition:
    """Append one entry for all items of an action. Call this last in the transaction, because it locks the chain.

    Args:
        tx: The tenant's transaction, which must take no other locks afterwards.
        actor: Id of the key that requested the action, `SYSTEM` or `CLI`.
        ids: Ids of the affected items; only their digest and number are stored.
        items: Number of affected items; None if it is the number of ids.
        subject: The subject concerned; only a keyed digest is stored.
        details: Integers, ids and fixed words; never content.

    Returns:
        The entry's position in the chain.

    Raises:
        ValueError: The actor or a detail could contain content.
    """
    checked = audit_chain.check_details({"actor": actor, **(details or {})})
    del checked["actor"]
    head = audit_entries.lock(tx, tenant_id, os.urandom(32))
    entry = audit_chain.seal_entry(
        AuditEntry(
            tenant_id,
            head.place.seq + 1,
            head.now,
            actor,
            action,
            None if subject is None else audit_chain.subject_digest(head.subject_key, subject),
            len(ids) if items is None else items,
            audit_chain.digest_ids(ids) if ids else None,
            checked,
            head.place.hash,
        )
    )
    audit_entries.add(tx, entry)
    return entry.place


@dataclass(frozen=True, slots=True)
class ChainVerification:
    """The result of verifying a stretch of the chain.

    Attributes:
        place: Position of the last valid entry. A copy stored outside the database can serve as an anchor later.
        last_seq: Sequence number of the chain's last entry.
        broken: The first invalid entry; None if all verified entries are valid.
        finished: Whether the end of the chain or an invalid entry was reached.
    """

    place: ChainPosition
    last_seq: int
    broken: BrokenEntry | None
    finished: bool


def verify(
    tenant_id: UUID, after: ChainPosition = START, limit: int = PAGE_ENTRIES, anchor: ChainPosition | None = None
) -> ChainVerification:
    """Verify a stretch of a tenant's chain; to continue, call this again with the returned `place` until `finished`.

    Args:
        after: The `place` returned by the previous call.
        anchor: A position recorded earlier, whose entry must be unchanged.
    """
    with database.tenant(tenant_id) as tx:
        head, last_seq = audit_entries.read_head(tx, tenant_id)
        head = head or START
        entries = audit_entries.list_after(tx, tenant_id, after.seq, head.seq, limit)
    place, broken = audit_chain.find_broken(entries, after)
    finished = broken is not None or len(entries) < limit or place.seq == head.seq
    if finished and broken is None:
        broken = audit_chain.check_end(place, head, last_seq)
    if anchor is not None:
        broken = _at_anchor(anchor, after, entries, broken, finished=finished)
    return ChainVerification(place, max(head.seq, last_seq), broken, finished or broken is not None)


def _at_anchor(
    anchor: ChainPosition,
    after: ChainPosition,
    entries: Collection[AuditEntry],
    broken: BrokenEntry | None,
    *,
    finished: bool,
) -> BrokenEntry | None:
    """Return the first problem: the broken entry, or a mismatch at the anchor if the anchor is within this stretch."""
    if anchor.seq <= after.seq or (broken is not None and broken.seq <= anchor.seq):
        return broken
    anchored = [entry for entry in entries if entry.seq == anchor.seq]
    if anchored and anchored[0].hash != anchor.hash:
        return BrokenEntry(anchor.seq, _OTHER_HASH)
    if not anchored and finished:
        return BrokenEntry(anchor.seq, "the anchored entry and all later entries are missing")
    return broken


def verify_recent(tenant_id: UUID) -> ChainVerification:
    """Verify the last `NIGHT_ENTRIES` entries of a chain, and log its end as an anchor outside the database."""
    with database.tenant(tenant_id) as tx:
        verification = ChainVerification(
            audit_entries.read_position(tx, tenant_id, back=NIGHT_ENTRIES), 0, None, finished=False
        )
    while not verification.finished:
        verification = verify(tenant_id, verification.place)
    metrics.record_audit(str(tenant_id), broken=verification.broken is not None)
    if verification.broken is None:
        log.info("audit_verified", tenant=str(tenant_id), anchor=audit_chain.format_anchor(verification.place))
    else:
        metrics.count("audits_broken")
        log.error("audit_broken", tenant=str(tenant_id), seq=verification.broken.seq, why=verification.broken.why)
    return verification


list_entries = database.in_tenant(audit_entries.list_entries)
"""Return a page of entries, newest first, with the filters of `store.privacy.audit_entries.list_entries`."""


class SubjectDigests(NamedTuple):
    """The keyed digests of one subject in hexadecimal form; None for a list that has no entries and therefore no key.

    Attributes:
        audit_log: Digest in the entries of the audit log.
        erasure_list: Digest in the list of erasures.
    """

    audit_log: str | None
    erasure_list: str | None


def digest_subject(tenant_id: UUID, subject: str) -> SubjectDigests:
    """Return the digests by which the audit log and the list of erasures refer to a subject."""
    with database.tenant(tenant_id) as tx:
        log_key, list_key = audit_entries.read_subject_key(tx, tenant_id), ledger.digest_key(tx, tenant_id)
    return SubjectDigests(
        None if log_key is None else audit_chain.subject_digest(log_key, subject).hex(),
        None if list_key is None else erasure.digest(list_key, "subject", subject).hex(),
    )
