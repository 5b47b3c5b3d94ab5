"""Store the log of privacy requests, which names no subjects and isn't part of the audit chain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.requests import Answer, PrivacyRequest, RequestStatistics
from app.store.core.paging import Latest, Page, Place, build_one

_NAMES: Final = tuple(PrivacyRequest.__slots__)
COLUMNS: Final = ", ".join(_NAMES)
"""The columns of a request, in the order of the fields of `PrivacyRequest`."""


def put(tx: Connection, tenant_id: UUID, new: PrivacyRequest) -> None:
    """Insert a request, or replace the request with the same id."""
    tx.execute(_PUT, {"tenant": tenant_id} | {name: getattr(new, name) for name in new.__slots__})


_PUT: Final = text(f"""
INSERT INTO privacy_requests (tenant_id, {COLUMNS}) VALUES (:tenant, {", ".join(f":{name}" for name in _NAMES)})
ON CONFLICT (tenant_id, request_id) DO UPDATE SET {", ".join(f"{name} = excluded.{name}" for name in _NAMES[1:])}
""")  # noqa: S608 - constants only


def get(tx: Connection, tenant_id: UUID, request_id: UUID, *, locked: bool = False) -> PrivacyRequest | None:
    """Return a request by its id, or None if it doesn't exist. A request's erasure or export has the same id."""
    values = {"tenant": tenant_id, "request_id": request_id}
    return build_one(PrivacyRequest, tx.execute(_GET_LOCKED if locked else _GET, values))


_GET: Final = text(f"SELECT {COLUMNS} FROM privacy_requests WHERE tenant_id = :tenant AND request_id = :request_id")  # noqa: S608
_GET_LOCKED: Final = text(f"{_GET.text} FOR UPDATE")


def list_requests(
    tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int, *, is_open: bool
) -> Page[PrivacyRequest]:
    """Return a page of requests, latest first; `is_open` restricts the page to open requests."""
    return _PAGES.read(tx, lambda row: PrivacyRequest(*row), older_than, limit, tenant=tenant_id, is_open=is_open)


_PAGES: Final = Latest(f"""
SELECT {COLUMNS} FROM privacy_requests
WHERE tenant_id = :tenant AND (answer IS NULL OR NOT :is_open)
ORDER BY received_at DESC, request_id DESC""")  # noqa: S608 - constants only


def store_answer(
    tx: Connection, tenant_id: UUID, request_ids: Sequence[UUID], answer: Answer, basis: str | None = None
) -> None:
    """Store the outcome of requests; answered requests remain unchanged and unknown ids are ignored.

    The note on the identity check is deleted.
    """
    tx.execute(_ANSWER, {"tenant": tenant_id, "ids": list(request_ids), "answer": answer, "basis": basis})


_ANSWER: Final = text("""
UPDATE privacy_requests SET answer = :answer, basis = :basis, answered_at = now(), identity_note = NULL
WHERE tenant_id = :tenant AND request_id = ANY (CAST(:ids AS uuid[])) AND answer IS NULL
""")


def store_confirmation(tx: Connection, tenant_id: UUID, request_id: UUID) -> None:
    """Record that the requester has received a confirmation of receipt; an earlier record remains unchanged."""
    tx.execute(_CONFIRM, {"tenant": tenant_id, "request_id": request_id})


_CONFIRM: Final = text("""
UPDATE privacy_requests SET confirmed_at = coalesce(confirmed_at, now())
WHERE tenant_id = :tenant AND request_id = :request_id
""")


def store_identity_check(tx: Connection, tenant_id: UUID, request_id: UUID, **fields: object) -> None:
    """Store the check of a requester's identity: `method`, `checked_at`, `checked_by` and `note`."""
    tx.execute(_CHECKED, {"tenant": tenant_id, "request_id": request_id} | fields)


_CHECKED: Final = text("""
UPDATE privacy_requests SET identity_method = :method, identity_checked_at = :checked_at,
  identity_checked_by = :checked_by, identity_note = :note
WHERE tenant_id = :tenant AND request_id = :request_id AND answer IS NULL
""")


def delete_identity_notes(tx: Connection, tenant_id: UUID, request_ids: Sequence[UUID]) -> None:
    """Delete the notes on the identity checks of these requests."""
    tx.execute(_DELETE_NOTES, {"tenant": tenant_id, "ids": list(request_ids)})


_DELETE_NOTES: Final = text("""
UPDATE privacy_requests SET identity_note = NULL
WHERE tenant_id = :tenant AND request_id = ANY (CAST(:ids AS uuid[])) AND identity_note IS NOT NULL
""")


def store_extension(
    tx: Connection, tenant_id: UUID, request_id: UUID, *, due_at: datetime, reason: str, actor: str
) -> None:
    """Move the deadline of a request, and of the erasure with the same id, to the end of an extension."""
    values = {"tenant": tenant_id, "request_id": request_id, "due_at": due_at}
    tx.execute(_EXTEND, values | {"reason": reason, "actor": actor})
    tx.execute(_EXTEND_ERASURE, values)


_EXTEND: Final = text("""
UPDATE privacy_requests SET first_due_at = due_at, due_at = :due_at, extended_at = now(),
  extension_reason = :reason, extended_by = :actor
WHERE tenant_id = :tenant AND request_id = :request_id
""")
_EXTEND_ERASURE: Final = text("""
UPDATE erasures SET due_at = :due_at WHERE tenant_id = :tenant AND erasure_id = :request_id
""")


def store_notice(tx: Connection, tenant_id: UUID, request_id: UUID, sent_at: datetime, recorded_by: str) -> None:
    """Store that the notice of an extension was sent, also in the backup of an erasure in its grace period."""
    values = {"tenant": tenant_id, "request_id": request_id}
    tx.execute(_NOTIFIED, values | {"sent_at": sent_at, "recorded_by": recorded_by})
    tx.execute(_BACK_UP, values)


_NOTIFIED: Final = text("""
UPDATE privacy_requests SET notice_sent_at = :sent_at, notice_recorded_at = now(), notice_recorded_by = :recorded_by
WHERE tenant_id = :tenant AND request_id = :request_id
""")
# A no-op update fires the trigger that updates the backup.
_BACK_UP: Final = text("""
UPDATE erasures SET status = status WHERE tenant_id = :tenant AND erasure_id = :request_id AND status = 'grace'
""")


def store_partial_answer(
    tx: Connection, tenant_id: UUID, request_id: UUID, sent_at: datetime, recorded_by: str
) -> None:
    """Store that the requester was sent the answer to an erasure that a legal hold delays."""
    values = {"tenant": tenant_id, "request_id": request_id, "sent_at": sent_at, "recorded_by": recorded_by}
    tx.execute(_PARTLY_ANSWERED, values)


_PARTLY_ANSWERED: Final = text("""
UPDATE privacy_requests SET partial_sent_at = :sent_at, partial_recorded_at = now(), partial_recorded_by = :recorded_by
WHERE tenant_id = :tenant AND request_id = :request_id
""")


def count_by_nature(tx: Connection, tenant_id: UUID, after: datetime, before: datetime) -> list[RequestStatistics]:
    """Return statistics of the requests received in a period, by nature and law."""
    return [
        RequestStatistics(*row) for row in tx.execute(_TALLIES, {"tenant": tenant_id, "after": after, "before": before})
    ]


_TALLIES: Final = text("""
SELECT nature, law, count(*), count(*) FILTER (WHERE answer IS NULL), count(*) FILTER (WHERE answer = 'done'),
  count(*) FILTER (WHERE answer = 'denied'), count(*) FILTER (WHERE answer = 'cancelled'),
  count(*) FILTER (WHERE late), count(*) FILTER (WHERE confirmed_late),
  percentile_cont(0.5) WITHIN GROUP (ORDER BY days) FILTER (WHERE answer <> 'cancelled'),
  avg(days) FILTER (WHERE answer <> 'cancelled'),
  percentile_cont(0.5) WITHIN GROUP (ORDER BY days_to_confirm)
FROM privacy_request_days
WHERE tenant_id = :tenant AND received_at >= :after AND received_at < :before
GROUP BY nature, law ORDER BY nature, law
""")


def count_by_category(tx: Connection, tenant_id: UUID, limit: int) -> tuple[dict[str, int], int]:
    """Count stored memories by category; inferred categories count for memories without categories from the caller.

    Returns:
        The number of memories in each of the `limit` most frequent categories, and the number of other categories.
    """
    rows = tx.execute(_CATEGORIES, {"tenant": tenant_id, "limit": limit}).all()
    return {row.category: row.memories for row in rows}, rows[0].categories - len(rows) if rows else 0


_CATEGORIES: Final = text("""
SELECT category, count(*) AS memories, count(*) OVER () AS categories FROM memories AS memory
LEFT JOIN scores AS score ON score.tenant_id = :tenant AND score.memory_id = memory.memory_id
  AND score.text_version = memory.text_version
CROSS JOIN LATERAL unnest(
  CASE WHEN memory.categories = '{}' THEN coalesce(score.inferred_categories, '{}') ELSE memory.categories END
) AS category
WHERE memory.tenant_id = :tenant AND memory.deleted_at IS NULL
GROUP BY category ORDER BY memories DESC, category LIMIT :limit
""")
