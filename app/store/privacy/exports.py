"""Store exports: the requests, their progress, and the list of written parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, text

from app.domain.privacy.export import ExportKind, count_lines
from app.domain.privacy.legal_deadlines import Law
from app.store.core.binary_arrays import Uuids, fetch_column
from app.store.core.paging import Latest, Page, Place

Status = Literal["running", "ready", "failed", "expired"]


@dataclass(frozen=True, slots=True)
class Export:
    """An export with its progress.

    Attributes:
        subject: The subject; None once the export has expired.
        law: The law under which the export was requested.
        requested_by: Id of the caller's API key.
        place: The job's position (`section`; `after`: last written entry), and `objects`: names of the parts' objects.
        parts: File and number of lines of each written part, in order.
        counts: Number of exported rows by file, and other numbers such as `hidden` and `damaged`.
        status: The status; `failed` if the export's job failed or was cancelled.
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

    @property
    def lines(self) -> int:
        """The number of lines in all files."""
        return sum(count_lines(self.counts).values())

    @property
    def objects(self) -> list[str]:
        """The names of the parts' objects. Objects written by earlier versions are named by the part's number."""
        stored_names: list[str] = self.place.get("objects", [])
        return [*stored_names, *(f"{number:06}" for number in range(len(stored_names), len(self.parts)))]


_GIVEN: Final = "export_id, kind, subject, reason, law, requested_at, requested_by, job_id, expires_at"
_COLUMNS: Final = f"""{_GIVEN}, finished_at, place, parts, counts, CASE WHEN status = 'running' AND EXISTS (
    SELECT FROM jobs WHERE jobs.job_id = exports.job_id AND jobs.status IN ('failed', 'cancelled'))
  THEN 'failed' ELSE status END AS status"""


def add(tx: Connection, tenant_id: UUID, new: Export) -> None:
    """Insert an export with the status `running`."""
    tx.execute(_ADD, {"tenant": tenant_id} | {name: getattr(new, name) for name in _GIVEN.split(", ")})


_ADD: Final = text(f"""
INSERT INTO exports (tenant_id, status, {_GIVEN})
VALUES (:tenant, 'running', {", ".join(f":{name}" for name in _GIVEN.split(", "))})
""")  # noqa: S608 - constants only


def remove(tx: Connection, tenant_id: UUID, export_id: UUID) -> None:
    """Delete an export's row, if there is one."""
    tx.execute(_REMOVE, {"tenant": tenant_id, "export_id": export_id})


_REMOVE: Final = text("DELETE FROM exports WHERE tenant_id = :tenant AND export_id = :export_id")


def get(tx: Connection, tenant_id: UUID, export_id: UUID, *, locked: bool = False) -> Export | None:
    """Return an export by its id, optionally with its row locked, or None if it doesn't exist."""
    row = tx.execute(_GET_LOCKED if locked else _GET, {"tenant": tenant_id, "export_id": export_id}).one_or_none()
    return None if row is None else _export(row)


_GET: Final = text(f"SELECT {_COLUMNS} FROM exports WHERE tenant_id = :tenant AND export_id = :export_id")  # noqa: S608
_GET_LOCKED: Final = text(f"{_GET.text} FOR UPDATE")


def list_exports(tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int) -> Page[Export]:
    """Return a page of exports, latest request first."""
    return _PAGES.read(tx, _export, older_than, limit, tenant=tenant_id)


_PAGES: Final = Latest(f"""
SELECT {_COLUMNS} FROM exports WHERE tenant_id = :tenant
ORDER BY requested_at DESC, export_id DESC""")  # noqa: S608 - constants only


def record_progress(
    tx: Connection,
    tenant_id: UUID,
    export_id: UUID,
    *,
    place: dict[str, Any],
    parts: Sequence[tuple[str, int]],
    counts: dict[str, int],
) -> None:
    """Store an export's progress; the caller has locked its row."""
    values = {name: msgspec.json.encode(value).decode() for name, value in (("place", place), ("parts", parts))}
    values["counts"] = msgspec.json.encode(counts).decode()
    tx.execute(_NOTE, {"tenant": tenant_id, "export_id": export_id} | values)


_NOTE: Final = text("""
UPDATE exports SET place = CAST(:place AS jsonb), parts = CAST(:parts AS jsonb), counts = CAST(:counts AS jsonb)
WHERE tenant_id = :tenant AND export_id = :export_id
""")


def finish_export(tx: Connection, tenant_id: UUID, export_id: UUID, days: float) -> None:
    """Mark an export as ready for download for this many days."""
    tx.execute(_FINISH, {"tenant": tenant_id, "export_id": export_id, "seconds": days * 86_400})


_FINISH: Final = text("""
UPDATE exports SET status = 'ready', finished_at = now(), expires_at = now() + make_interval(secs => :seconds)
WHERE tenant_id = :tenant AND export_id = :export_id
""")


def list_due(tx: Connection, tenant_id: UUID, as_of: datetime, limit: int) -> list[UUID]:
    """Return exports whose retention period has ended, longest ago first."""
    return list(tx.execute(_DUE, {"tenant": tenant_id, "as_of": as_of, "limit": limit}).scalars())


_DUE: Final = text("""
SELECT export_id FROM exports WHERE tenant_id = :tenant AND status <> 'expired' AND expires_at <= :as_of
ORDER BY expires_at LIMIT :limit
""")


def list_by_subjects(tx: Connection, tenant_id: UUID, subject: str | None, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return the unexpired exports about this subject or about the subjects of these memories."""
    return fetch_column(tx, _OF_SUBJECTS, {"tenant": tenant_id, "subject": subject, "ids": Uuids(memory_ids)})


_OF_SUBJECTS: Final = """
SELECT export_id FROM exports
WHERE tenant_id = %(tenant)s AND subject IS NOT NULL AND status <> 'expired' AND (subject = %(subject)s::text
  OR subject IN (SELECT subject FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)))
"""


def expire_exports(tx: Connection, tenant_id: UUID, export_ids: Sequence[UUID]) -> list[UUID]:
    """Mark exports as expired and remove the subject from their rows. Return the exports that weren't expired yet."""
    return fetch_column(tx, _EXPIRE, {"tenant": tenant_id, "ids": Uuids(export_ids)})


_EXPIRE: Final = """
UPDATE exports SET status = 'expired', subject = NULL, reason = NULL, place = '{}', parts = '[]'
WHERE tenant_id = %(tenant)s AND export_id = ANY (%(ids)s) AND status <> 'expired' RETURNING export_id
"""


def list_with_objects(tx: Connection, tenant_id: UUID) -> set[UUID]:
    """Return the exports that may have objects in the object store: all except expired ones."""
    return set(tx.execute(_KNOWN, {"tenant": tenant_id}).scalars())


_KNOWN: Final = text("SELECT export_id FROM exports WHERE tenant_id = :tenant AND status <> 'expired'")


def _export(row: Row[Any]) -> Export:
    fields = {name: getattr(row, name) for name in Export.__slots__}
    return Export(**fields | {"parts": [(file, lines) for file, lines in row.parts]})
