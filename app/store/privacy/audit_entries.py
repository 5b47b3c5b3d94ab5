"""Store the audit log. A trigger rejects updates and deletions of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.privacy.audit_chain import NOTHING, START, AuditEntry, ChainPosition
from app.store.core.paging import Page, page_of


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The end of a tenant's audit chain.

    Attributes:
        place: Number and hash of the chain's last entry.
        subject_key: Key for the chain's digests of subjects, 32 bytes.
        now: The database's current time.
    """

    place: ChainPosition
    subject_key: bytes
    now: datetime


def lock(tx: Connection, tenant_id: UUID, fresh_key: bytes) -> ChainHead:
    """Lock the tenant's chain until the transaction ends and return its end.

    Args:
        tx: The tenant's transaction; it must already hold all its other locks.
        fresh_key: Key for digests of subjects; stored if the chain has no entries yet.
    """
    row = tx.execute(_LOCK, {"tenant": tenant_id}).one_or_none()
    if row is None:
        tx.execute(_BEGIN, {"tenant": tenant_id, "hash": NOTHING, "key": fresh_key})
        row = tx.execute(_LOCK, {"tenant": tenant_id}).one()
    return ChainHead(ChainPosition(row.seq, row.hash), row.subject_key, row.now)


_LOCK = text("""
SELECT seq, hash, subject_key, clock_timestamp() AS now FROM audit_heads
WHERE tenant_id = :tenant FOR NO KEY UPDATE
""")
_BEGIN = text("""
INSERT INTO audit_heads (tenant_id, seq, hash, subject_key) VALUES (:tenant, 0, :hash, :key) ON CONFLICT DO NOTHING
""")


def add(tx: Connection, entry: AuditEntry) -> None:
    """Append an entry to its tenant's chain, which the caller has locked."""
    values = {name: getattr(entry, name) for name in AuditEntry.__slots__}
    tx.execute(_ADD, values | {"details": msgspec.json.encode(entry.details).decode()})


_ADD = text("""
WITH entered AS (
  INSERT INTO audit (tenant_id, seq, at, actor, action, subject, items, digest, details, previous, hash)
  VALUES (:tenant_id, :seq, :at, :actor, :action, :subject, :items, :digest, CAST(:details AS jsonb), :previous, :hash)
)
UPDATE audit_heads SET seq = :seq, hash = :hash WHERE tenant_id = :tenant_id
""")


def read_head(tx: Connection, tenant_id: UUID) -> tuple[ChainPosition | None, int]:
    """Return the recorded end of a tenant's chain, or None, and the highest number of an existing entry, or 0."""
    row = tx.execute(_END, {"tenant": tenant_id}).one()
    return (None if row.seq is None else ChainPosition(row.seq, row.hash)), row.last_seq


_END = text("""
SELECT head.seq, head.hash, coalesce((SELECT max(seq) FROM audit WHERE tenant_id = :tenant), 0) AS last_seq
FROM (SELECT) AS one LEFT JOIN audit_heads AS head ON head.tenant_id = :tenant
""")


def read_position(tx: Connection, tenant_id: UUID, *, back: int) -> ChainPosition:
    """Return the position `back` entries before the chain's last entry, or the chain's start if it is shorter."""
    row = tx.execute(_PLACE, {"tenant": tenant_id, "back": back}).one_or_none()
    return START if row is None else ChainPosition(row.seq, row.hash)


_PLACE = text("SELECT seq, hash FROM audit WHERE tenant_id = :tenant ORDER BY seq DESC OFFSET :back LIMIT 1")

_ENTRY = """
SELECT tenant_id, seq, at, actor, action, subject, items, digest, details, previous, hash FROM audit
WHERE tenant_id = :tenant
"""


def list_after(tx: Connection, tenant_id: UUID, seq: int, up_to: int, limit: int) -> list[AuditEntry]:
    """Return entries with numbers above `seq` and up to `up_to`, in order."""
    return _read(tx.execute(_AFTER, {"tenant": tenant_id, "seq": seq, "up_to": up_to, "limit": limit}).all())


_AFTER = text(f"{_ENTRY} AND seq > :seq AND seq <= :up_to ORDER BY seq LIMIT :limit")


def list_entries(
    tx: Connection,
    tenant_id: UUID,
    action: str | None,
    below: int | None,
    limit: int,
    *,
    subject: bytes | None = None,
    target: str | None = None,
    seq: int | None = None,
) -> Page[AuditEntry]:
    """Return a page of entries, newest first; a filter that is None selects all entries.

    Args:
        below: Number of the previous page's last entry.
        subject: Keyed digest of the subject concerned.
        target: A value among the details, such as the id of an erasure, request, export or legal hold.
        seq: Number of the only entry to return.
    """
    values: dict[str, object] = {"tenant": tenant_id, "action": action, "below": below, "limit": limit}
    values |= {"subject": subject, "target": target, "seq": seq}
    return page_of(_read(tx.execute(_PAGE, values).all()), limit, lambda entry: entry.seq)


_PAGE = text(f"""
{_ENTRY} AND (CAST(:action AS text) IS NULL OR action = :action)
  AND (CAST(:below AS bigint) IS NULL OR seq < :below) AND (CAST(:seq AS bigint) IS NULL OR seq = :seq)
  AND (CAST(:subject AS bytea) IS NULL OR subject = :subject)
  AND (CAST(:target AS text) IS NULL
    OR jsonb_path_exists(details, '$.* ? (@ == $target)', jsonb_build_object('target', CAST(:target AS text))))
ORDER BY seq DESC LIMIT :limit
""")


def read_subject_key(tx: Connection, tenant_id: UUID) -> bytes | None:
    """Return the key of the chain's digests of subjects; None if the chain has no entries."""
    key = tx.execute(_SUBJECT_KEY, {"tenant": tenant_id}).scalar_one_or_none()
    return None if key is None else bytes(key)


_SUBJECT_KEY = text("SELECT subject_key FROM audit_heads WHERE tenant_id = :tenant")


def find_actor(tx: Connection, tenant_id: UUID, act: str, target: str, until: datetime) -> str | None:
    """Return the id of the API key that last took this manual action on a target, up to a time; None if none did."""
    return tx.execute(_ACTOR, {"tenant": tenant_id, "act": act, "target": target, "until": until}).scalar_one_or_none()


_ACTOR = text("""
SELECT actor FROM audit
WHERE tenant_id = :tenant AND action = 'operator_acted' AND at <= :until
  AND details->>'act' = :act AND details->>'target' = :target
ORDER BY seq DESC LIMIT 1
""")


class Recording(NamedTuple):
    """The entry of a request in the log of privacy requests, and the id of the API key that made it."""

    at: datetime
    by: str


def find_recording(tx: Connection, tenant_id: UUID, request_id: str) -> Recording | None:
    """Return when and by whom a request was recorded, or None if it was recorded with its erasure or export."""
    row = tx.execute(_RECORDING, {"tenant": tenant_id, "request_id": request_id}).one_or_none()
    return None if row is None else Recording(*row)


_RECORDING = text("""
SELECT at, actor FROM audit
WHERE tenant_id = :tenant AND action = 'request_recorded' AND details->>'request' = :request_id
ORDER BY seq LIMIT 1
""")


def _read(rows: Sequence[Any]) -> list[AuditEntry]:
    return [AuditEntry(*row) for row in rows]
