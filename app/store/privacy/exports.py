"""Exports: what was asked for, how far it is, and where its parts are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, text

from app.domain.privacy.clocks import Law
from app.domain.privacy.export import ExportKind
from app.store.core.packed import Uuids, driver

Status = Literal["running", "ready", "failed", "expired"]


@dataclass(frozen=True, slots=True)
class Export:
    """An export as it stands.

    Attributes:
        subject: On whom; None once it has expired.
        law: What it was asked under.
        requested_by: Id of the caller's key.
        place: Where the job is: which section, and after what in it.
        parts: The file and the number of lines of each part that is written, in order.
        counts: What it holds, by name.
        status: `failed` where its job has failed or was cancelled.
    """

    export_id: UUID
    kind: ExportKind
    subject: str | None
    reason: str | None
    law: Law
    requested_at: datetime
    requested_by: str
    job_id: UUID
    expires_at: datetime
    status: Status = "running"
    finished_at: datetime | None = None
    place: dict[str, Any] = field(default_factory=lambda: {"section": 0, "after": None})
    parts: list[tuple[str, int]] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


_GIVEN: Final = "export_id, kind, subject, reason, law, requested_at, requested_by, job_id, expires_at"
_COLUMNS: Final = f"""{_GIVEN}, finished_at, place, parts, counts, CASE WHEN status = 'running' AND EXISTS (
    SELECT FROM jobs WHERE jobs.job_id = exports.job_id AND jobs.status IN ('failed', 'cancelled'))
  THEN 'failed' ELSE status END AS status"""


def add(tx: Connection, tenant_id: UUID, new: Export) -> None:
    """Enter an export that is to be made."""
    tx.execute(_ADD, {"tenant": tenant_id} | {name: getattr(new, name) for name in _GIVEN.split(", ")})


_ADD: Final = text(f"""
INSERT INTO exports (tenant_id, status, {_GIVEN})
VALUES (:tenant, 'running', {", ".join(f":{name}" for name in _GIVEN.split(", "))})
""")  # noqa: S608 - constants only


def get(tx: Connection, tenant_id: UUID, export_id: UUID, *, locked: bool = False) -> Export | None:
    """An export by its id; None where there is none."""
    row = tx.execute(_GET_LOCKED if locked else _GET, {"tenant": tenant_id, "export_id": export_id}).one_or_none()
    return None if row is None else _export(row)


_GET: Final = text(f"SELECT {_COLUMNS} FROM exports WHERE tenant_id = :tenant AND export_id = :export_id")  # noqa: S608
_GET_LOCKED: Final = text(f"{_GET.text} FOR UPDATE")


def page(tx: Connection, tenant_id: UUID, older_than: tuple[datetime, UUID] | None, limit: int) -> list[Export]:
    """Exports, those requested last first, after the one given by when it was requested and its id."""
    requested_at, export_id = older_than or (None, None)
    values = {"tenant": tenant_id, "requested_at": requested_at, "export_id": export_id, "limit": limit}
    return [_export(row) for row in tx.execute(_PAGE, values)]


_PAGE: Final = text(f"""
SELECT {_COLUMNS} FROM exports
WHERE tenant_id = :tenant AND (CAST(:requested_at AS timestamptz) IS NULL OR
  (requested_at, export_id) < (:requested_at, CAST(:export_id AS uuid)))
ORDER BY requested_at DESC, export_id DESC LIMIT :limit
""")  # noqa: S608 - constants only


def note(
    tx: Connection,
    tenant_id: UUID,
    export_id: UUID,
    *,
    place: dict[str, Any],
    parts: Sequence[tuple[str, int]],
    counts: dict[str, int],
) -> None:
    """Enter how far an export is; its row is locked."""
    values = {name: msgspec.json.encode(value).decode() for name, value in (("place", place), ("parts", parts))}
    values["counts"] = msgspec.json.encode(counts).decode()
    tx.execute(_NOTE, {"tenant": tenant_id, "export_id": export_id} | values)


_NOTE: Final = text("""
UPDATE exports SET place = CAST(:place AS jsonb), parts = CAST(:parts AS jsonb), counts = CAST(:counts AS jsonb)
WHERE tenant_id = :tenant AND export_id = :export_id
""")


def finish(tx: Connection, tenant_id: UUID, export_id: UUID, days: float) -> None:
    """Let an export be fetched for so many days."""
    tx.execute(_FINISH, {"tenant": tenant_id, "export_id": export_id, "seconds": days * 86_400})


_FINISH: Final = text("""
UPDATE exports SET status = 'ready', finished_at = now(), expires_at = now() + make_interval(secs => :seconds)
WHERE tenant_id = :tenant AND export_id = :export_id
""")


def due(tx: Connection, tenant_id: UUID, as_of: datetime, limit: int) -> list[UUID]:
    """Exports whose time is over by a moment."""
    return list(tx.execute(_DUE, {"tenant": tenant_id, "as_of": as_of, "limit": limit}).scalars())


_DUE: Final = text("""
SELECT export_id FROM exports WHERE tenant_id = :tenant AND status <> 'expired' AND expires_at <= :as_of
ORDER BY expires_at LIMIT :limit
""")


def of_subjects(tx: Connection, tenant_id: UUID, subject: str | None, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Exports on this subject, or on those whom these memories are about."""
    values = {"tenant": tenant_id, "subject": subject, "ids": Uuids(memory_ids)}
    return [export_id for (export_id,) in driver(tx).execute(_OF_SUBJECTS, values).fetchall()]


_OF_SUBJECTS: Final = """
SELECT export_id FROM exports
WHERE tenant_id = %(tenant)s AND subject IS NOT NULL AND status <> 'expired' AND (subject = %(subject)s::text
  OR subject IN (SELECT subject FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)))
"""


def expire(tx: Connection, tenant_id: UUID, export_ids: Sequence[UUID]) -> list[UUID]:
    """Let exports be over: nothing in their rows says any more on whom they were. Returns those that weren't before."""
    found = driver(tx).execute(_EXPIRE, {"tenant": tenant_id, "ids": Uuids(export_ids)}).fetchall()
    return [export_id for (export_id,) in found]


_EXPIRE: Final = """
UPDATE exports SET status = 'expired', subject = NULL, reason = NULL, place = '{}', parts = '[]'
WHERE tenant_id = %(tenant)s AND export_id = ANY (%(ids)s) AND status <> 'expired' RETURNING export_id
"""


def purge(tx: Connection, tenant_id: UUID, before: datetime, limit: int) -> int:
    """Delete the rows of exports that expired before a moment. Returns how many."""
    return int(tx.execute(_PURGE, {"tenant": tenant_id, "before": before, "limit": limit}).rowcount)


_PURGE: Final = text("""
DELETE FROM exports WHERE tenant_id = :tenant AND export_id IN (
  SELECT export_id FROM exports
  WHERE tenant_id = :tenant AND status = 'expired' AND expires_at < :before LIMIT :limit)
""")


def known(tx: Connection, tenant_id: UUID) -> set[UUID]:
    """Exports that have objects in the store, or may be writing some."""
    return set(tx.execute(_KNOWN, {"tenant": tenant_id}).scalars())


_KNOWN: Final = text("SELECT export_id FROM exports WHERE tenant_id = :tenant AND status <> 'expired'")


def _export(row: Row[Any]) -> Export:
    fields = {name: getattr(row, name) for name in Export.__slots__}
    return Export(**fields | {"parts": [(file, lines) for file, lines in row.parts]})
