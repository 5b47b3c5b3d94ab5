"""Read open privacy requests, most urgent first, and the erasures that the request log contains."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.requests import PrivacyRequest
from app.store.core.paging import Latest, Page, Place
from app.store.erasure.requests import Erasure, as_erasure
from app.store.privacy.request_log import COLUMNS


def open_requests(tx: Connection, tenant_id: UUID, limit: int) -> list[PrivacyRequest]:
    """Return unanswered requests, ordered by the earliest pending deadline (confirmation of receipt or answer)."""
    return [PrivacyRequest(*row) for row in tx.execute(_OPEN, {"tenant": tenant_id, "limit": limit})]


_OPEN: Final = text(f"""
SELECT {COLUMNS} FROM privacy_requests WHERE tenant_id = :tenant AND answer IS NULL
ORDER BY least(
    CASE WHEN confirmed_at IS NULL THEN confirm_by END, CASE WHEN partial_sent_at IS NULL THEN due_at END
  ) NULLS LAST, received_at, request_id
LIMIT :limit
""")  # noqa: S608 - constants only


def filter_erasures(tx: Connection, tenant_id: UUID, request_ids: list[UUID]) -> set[UUID]:
    """Return the request ids to which an erasure belongs; an erasure answers its request and has the same id."""
    return set(tx.execute(_ERASURES_AMONG, {"tenant": tenant_id, "ids": request_ids}).scalars())


_ERASURES_AMONG: Final = text("""
SELECT erasure_id FROM erasures WHERE tenant_id = :tenant AND erasure_id = ANY (CAST(:ids AS uuid[]))
""")


def filter_exports(tx: Connection, tenant_id: UUID, request_ids: list[UUID]) -> set[UUID]:
    """Return the request ids to which an export belongs that hasn't failed."""
    return set(tx.execute(_EXPORTS_AMONG, {"tenant": tenant_id, "ids": request_ids}).scalars())


_EXPORTS_AMONG: Final = text("""
SELECT export_id FROM exports AS export
WHERE tenant_id = :tenant AND export_id = ANY (CAST(:ids AS uuid[])) AND NOT EXISTS (
  SELECT FROM jobs
  WHERE jobs.job_id = export.job_id AND export.status = 'running' AND jobs.status IN ('failed', 'cancelled'))
""")


def list_requested(tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int) -> Page[Erasure]:
    """Return a page of erasures in the request log, latest request first.

    Deletions of single memories, which may be very many, aren't in the log.
    """
    return _REQUESTED.read(tx, as_erasure, older_than, limit, tenant=tenant_id)


_REQUESTED: Final = Latest("""
SELECT erasure.*, received_at, request_id FROM privacy_requests AS request CROSS JOIN LATERAL (
  SELECT * FROM erasures WHERE tenant_id = :tenant AND erasure_id = request.request_id OFFSET 0) AS erasure
WHERE request.tenant_id = :tenant AND nature = 'erasure'
ORDER BY received_at DESC, request_id DESC""")


def hasten_jobs(tx: Connection, tenant_id: UUID, kind: str, erasure_id: UUID) -> int:
    """Make an erasure's postponed jobs of this kind due at once. Return the number of its unfinished jobs."""
    values = {"tenant": tenant_id, "kind": kind, "erasure": str(erasure_id)}
    return tx.execute(_HASTEN, values).rowcount


_HASTEN: Final = text("""
UPDATE jobs SET claimed_until = CASE WHEN claim IS NULL THEN least(claimed_until, now()) ELSE claimed_until END
WHERE tenant_id = :tenant AND kind = :kind AND status IN ('queued', 'running')
  AND parameters->>'erasure_id' = :erasure
""")
