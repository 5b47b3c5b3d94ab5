"""Store imports: the uploaded file's objects, the progress, and the records that were skipped."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple
from uuid import UUID

import msgspec
from sqlalchemy import Connection, Row, text

from app.store.core.paging import Latest, Page, Place

Status = Literal["running", "done", "failed", "ended"]
REASONS_MAX: Final = 200
"""Maximum number of reasons that are counted separately; many differ, because they contain line numbers and lengths."""
OTHER_REASONS: Final = "another reason"
SKIPPED_MAX: Final = 1_000
"""Maximum number of skipped records that an import lists; `reasons` counts all of them."""


@dataclass(frozen=True, slots=True)
class Import:
    """An import with its progress.

    Attributes:
        requested_by: Id of the caller's API key.
        key_source: Source of that key; None if it is unknown.
        size_bytes: Size of the uploaded file.
        objects: Names of the encrypted objects, in order; the first one has the options. Empty once it has ended.
        status: `failed` if the file or the job failed, `ended` if an erasure or a cancellation ended it.
        position: Number of records that were read and processed.
        counts: Number of records by outcome.
        reasons: Number of skipped records by reason.
        skipped: The first skipped records: place in the file, and reason.
        failure: Why it failed or ended, a fixed phrase.
    """

    import_id: UUID
    job_id: UUID
    format: str
    dry_run: bool
    requested_at: datetime
    requested_by: str
    size_bytes: int
    objects: list[str]
    status: Status = "running"
    finished_at: datetime | None = None
    position: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, int] = field(default_factory=dict)
    skipped: list[tuple[int, str]] = field(default_factory=list)
    failure: str | None = None
    key_source: str | None = None


_GIVEN: Final = "import_id, job_id, format, dry_run, requested_at, requested_by, size_bytes, objects"
_COLUMNS: Final = f"""{_GIVEN}, finished_at, position, counts, reasons, skipped, failure,
  (SELECT source FROM api_keys WHERE api_keys.tenant_id = imports.tenant_id AND key_id = requested_by) AS key_source,
  CASE WHEN status = 'running' AND EXISTS (
    SELECT FROM jobs WHERE jobs.job_id = imports.job_id AND jobs.status IN ('failed', 'cancelled'))
  THEN 'failed' ELSE status END AS status"""  # noqa: S608 - constants only
_OWN_COLUMNS: Final = f"{_GIVEN}, finished_at, position, counts, reasons, skipped, failure, status, NULL AS key_source"


def add(tx: Connection, tenant_id: UUID, new: Import) -> None:
    """Insert an import with the status `running`."""
    tx.execute(_ADD, {"tenant": tenant_id} | {name: getattr(new, name) for name in _GIVEN.split(", ")})


_ADD: Final = text(f"""
INSERT INTO imports (tenant_id, status, {_GIVEN})
VALUES (:tenant, 'running', {", ".join(f":{name}" for name in _GIVEN.split(", "))})
""")  # noqa: S608 - constants only


def get(tx: Connection, tenant_id: UUID, import_id: UUID) -> Import | None:
    """Return an import by its id, or None if it doesn't exist."""
    row = tx.execute(_GET, {"tenant": tenant_id, "import_id": import_id}).one_or_none()
    return None if row is None else _import(row)


_GET: Final = text(f"SELECT {_COLUMNS} FROM imports WHERE tenant_id = :tenant AND import_id = :import_id")  # noqa: S608


def lock(tx: Connection, tenant_id: UUID, import_id: UUID) -> Import | None:
    """Lock an import's row and return it, or None if it doesn't exist. Also allowed to the role `ebbing_drain`."""
    row = tx.execute(_LOCK, {"tenant": tenant_id, "import_id": import_id}).one_or_none()
    return None if row is None else _import(row)


_LOCK: Final = text(
    f"SELECT {_OWN_COLUMNS} FROM imports WHERE tenant_id = :tenant AND import_id = :import_id FOR UPDATE"  # noqa: S608
)


def list_imports(tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int) -> Page[Import]:
    """Return a page of imports, latest first."""
    return _PAGES.read(tx, _import, older_than, limit, tenant=tenant_id)


_PAGES: Final = Latest(f"""
SELECT {_COLUMNS} FROM imports WHERE tenant_id = :tenant
ORDER BY requested_at DESC, import_id DESC""")  # noqa: S608 - constants only


def list_open(tx: Connection, tenant_id: UUID) -> list[Import]:
    """Return the imports whose file is still stored, also those whose job has failed, oldest first."""
    return [_import(row) for row in tx.execute(_OPEN, {"tenant": tenant_id})]


_OPEN: Final = text(f"""
SELECT {_COLUMNS} FROM imports WHERE tenant_id = :tenant AND status = 'running' ORDER BY requested_at, import_id
""")  # noqa: S608 - constants only


def record_progress(
    tx: Connection,
    tenant_id: UUID,
    found: Import,
    *,
    records: int,
    counts: Mapping[str, int],
    skipped: Sequence[tuple[int, str]],
) -> None:
    """Add the outcome of further records to a locked import. Also allowed to the role `ebbing_drain`.

    Args:
        found: The import as it was locked.
        records: Number of records processed.
        counts: Number of records by outcome.
        skipped: Place and reason of each skipped record.
    """
    totals = dict(found.counts)
    for name, number in counts.items():
        totals[name] = totals.get(name, 0) + number
    reasons = dict(found.reasons)
    for _, reason in skipped:
        name = reason if reason in reasons or len(reasons) < REASONS_MAX else OTHER_REASONS
        reasons[name] = reasons.get(name, 0) + 1
    listed = [*found.skipped, *skipped][:SKIPPED_MAX]
    values = {"counts": totals, "reasons": reasons, "skipped": listed}
    encoded = {name: msgspec.json.encode(value).decode() for name, value in values.items()}
    place = {"tenant": tenant_id, "import_id": found.import_id, "position": found.position + records}
    tx.execute(_PROGRESS, place | encoded)


_PROGRESS: Final = text("""
UPDATE imports SET position = :position, counts = CAST(:counts AS jsonb), reasons = CAST(:reasons AS jsonb),
  skipped = CAST(:skipped AS jsonb)
WHERE tenant_id = :tenant AND import_id = :import_id
""")


class EndedImport(NamedTuple):
    """An import that ended, with its number of records by outcome; for a dry run, the outcomes of a real import."""

    import_id: UUID
    dry_run: bool
    counts: dict[str, int]


def end(
    tx: Connection, tenant_id: UUID, import_ids: Collection[UUID], status: Status, failure: str | None = None
) -> list[EndedImport]:
    """End running imports and drop the names of their objects. Return those that were running."""
    values = {"tenant": tenant_id, "ids": list(import_ids), "status": status, "failure": failure}
    return [EndedImport(*row) for row in tx.execute(_END, values)]


_END: Final = text("""
UPDATE imports SET status = :status, failure = :failure, finished_at = now(), objects = '{}'
WHERE tenant_id = :tenant AND import_id = ANY (CAST(:ids AS uuid[])) AND status = 'running'
RETURNING import_id, dry_run, counts
""")


def delete_before(tx: Connection, tenant_id: UUID, before: datetime) -> int:
    """Delete imports that ended before a time. Return their number."""
    return tx.execute(_DELETE, {"tenant": tenant_id, "before": before}).rowcount


_DELETE: Final = text("DELETE FROM imports WHERE tenant_id = :tenant AND finished_at < :before")


def find_external(tx: Connection, tenant_id: UUID, external_ids: Sequence[str]) -> set[str]:
    """Return those of these external ids that a stored memory has, or that a missing link names."""
    return set(tx.execute(_FIND, {"tenant": tenant_id, "names": list(external_ids)}).scalars())


_FIND: Final = text("""
SELECT external_id FROM memories
WHERE tenant_id = :tenant AND external_id = ANY (CAST(:names AS text[])) AND deleted_at IS NULL
UNION
SELECT named FROM missing_links WHERE tenant_id = :tenant AND named = ANY (CAST(:names AS text[]))
""")


def list_external_of(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[str]:
    """Return the external ids of these memories, including deleted and hidden ones."""
    return set(tx.execute(_EXTERNAL_OF, {"tenant": tenant_id, "ids": list(memory_ids)}).scalars())


_EXTERNAL_OF: Final = text("""
SELECT external_id FROM memories
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[])) AND external_id IS NOT NULL
""")


def list_inserted(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[UUID]:
    """Return those of these ids that are ids of stored memories, not of records that updated an existing memory."""
    return set(tx.execute(_INSERTED, {"tenant": tenant_id, "ids": list(memory_ids)}).scalars())


_INSERTED: Final = text("""
SELECT memory_id FROM memories WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[]))
""")


def _import(row: Row[Any]) -> Import:
    fields = {name: getattr(row, name) for name in Import.__slots__}
    return Import(**fields | {"skipped": [(place, reason) for place, reason in row.skipped]})
