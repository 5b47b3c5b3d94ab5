"""The audit: what was done to a tenant's memories and rights, entered in the transaction that does it, and verified.

No entry holds text, a name, an address or a subject as it is.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import structlog

from app import metrics
from app.domain.privacy import audit
from app.domain.privacy.audit import START, SYSTEM, Action, Broken, Detail, Entry, Place
from app.store.core import database
from app.store.privacy import audit as rows

PAGE_ENTRIES: Final = 5000
# A few seconds of a night. All of a chain is looked at when somebody asks for it.
NIGHT_ENTRIES: Final = 50_000

log = structlog.get_logger(__name__)


def enter(
    tx: database.Transaction,
    tenant_id: UUID,
    action: Action,
    actor: str = SYSTEM,
    *,
    ids: Collection[UUID] = (),
    items: int | None = None,
    subject: str | None = None,
    details: Mapping[str, Detail] | None = None,
) -> Place:
    """Enter what a transaction has done: once for a batch, and last, since the chain is locked from here on.

    Args:
        tx: The tenant's transaction; it locks nothing after this.
        tenant_id: The tenant.
        action: What was done.
        actor: Id of the key that asked for it, `SYSTEM` or `CLI`.
        ids: What it was done to; only their digest and number are kept.
        items: How many it was done to, where they have no ids, or other than those.
        subject: Whom it was about; only a keyed digest is kept.
        details: Whole numbers, ids and fixed words.

    Returns:
        Where the entry stands.

    Raises:
        ValueError: The actor, or a detail, could be content.
    """
    said = audit.checked({"actor": actor, **(details or {})})
    del said["actor"]
    head = rows.lock(tx, tenant_id, os.urandom(32))
    entry = audit.sealed(
        Entry(
            tenant_id,
            head.place.seq + 1,
            head.now,
            actor,
            action,
            None if subject is None else audit.subject_digest(head.subject_key, subject),
            len(ids) if items is None else items,
            audit.digest_of(ids) if ids else None,
            said,
            head.place.hash,
        )
    )
    rows.add(tx, entry)
    return entry.place


@dataclass(frozen=True, slots=True)
class Verified:
    """How far a chain was found to hold.

    Attributes:
        place: The last entry that holds; note it elsewhere, and it is an anchor.
        last_seq: The number of the chain's last entry.
        broken: The first entry that doesn't.
        finished: Whether there is nothing left to look at.
    """

    place: Place
    last_seq: int
    broken: Broken | None
    finished: bool


def verify(tenant_id: UUID, after: Place = START, limit: int = PAGE_ENTRIES, anchor: Place | None = None) -> Verified:
    """Look at a stretch of a tenant's chain, from after a place on; again from the place it answers, until finished.

    Args:
        tenant_id: The tenant.
        after: The `place` that the call before has answered.
        limit: Most entries.
        anchor: A place that somebody has noted: its entry must still be the same.
    """
    with database.tenant(tenant_id) as tx:
        head, last_seq = rows.end(tx, tenant_id)
        head = head or START
        entries = rows.after(tx, tenant_id, after.seq, head.seq, limit)
    place, broken = audit.first_broken(entries, after)
    finished = broken is not None or len(entries) < limit or place.seq == head.seq
    if finished and broken is None:
        broken = audit.at_end(place, head, last_seq)
    if anchor is not None:
        broken = _at_anchor(anchor, after, entries, broken, finished=finished)
    return Verified(place, max(head.seq, last_seq), broken, finished or broken is not None)


def _at_anchor(
    anchor: Place, after: Place, entries: Collection[Entry], broken: Broken | None, *, finished: bool
) -> Broken | None:
    """What comes first: the entry found broken, or that at the anchor, where it lies in this stretch."""
    if anchor.seq <= after.seq or (broken is not None and broken.seq <= anchor.seq):
        return broken
    noted = [entry for entry in entries if entry.seq == anchor.seq]
    if noted and noted[0].hash != anchor.hash:
        return Broken(anchor.seq, "it isn't the one that was noted: the chain was written anew up to it")
    if not noted and finished:
        return Broken(anchor.seq, "it was noted, and is missing with all that came after")
    return broken


def watch(tenant_id: UUID) -> Verified:
    """Verify the last entries of a chain at night, and note its end in the log: outside of the database, an anchor."""
    with database.tenant(tenant_id) as tx:
        found = Verified(rows.place(tx, tenant_id, back=NIGHT_ENTRIES), 0, None, finished=False)
    while not found.finished:
        found = verify(tenant_id, found.place)
    metrics.note_audit(str(tenant_id), broken=found.broken is not None)
    if found.broken is None:
        log.info("audit_verified", tenant=str(tenant_id), anchor=audit.anchor_of(found.place))
    else:
        metrics.count("audits_broken")
        log.error("audit_broken", tenant=str(tenant_id), seq=found.broken.seq, why=found.broken.why)
    return found


def page(tenant_id: UUID, action: str | None, below: int | None, limit: int) -> list[Entry]:
    """Entries from the newest on, those under a number alone where it is given."""
    with database.tenant(tenant_id) as tx:
        return rows.page(tx, tenant_id, action, below, limit)
