"""Read and rename files (memories whose external id is a path below a directory), and store their former texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from app.domain.ingest.memory import COLUMNS
from app.errors import Conflict
from app.store.core.binary_arrays import Uuids, driver_connection

PROTECTED_TAG: Final = "explicitly_saved"
"""Tag of files; the policy's `protection.never_forget_tags` contains it by default."""
VERSION_TAG: Final = "file_version"
"""Tag of the former texts of files."""


class StoredFile(NamedTuple):
    """A file: its memory, path, size in bytes, and tier."""

    memory_id: UUID
    path: str
    size: int
    tier: str


_FILES: Final = """
SELECT memory.memory_id, memory.external_id, octet_length(memory.text), state.tier
FROM memories AS memory
JOIN memory_state AS state ON state.tenant_id = %(tenant)s AND state.memory_id = memory.memory_id
WHERE memory.tenant_id = %(tenant)s AND memory.deleted_at IS NULL AND memory.external_id IS NOT NULL
"""


def list_below(tx: Connection, tenant_id: UUID, path: str, limit: int) -> list[StoredFile]:
    """Return the files with this path, and those in the directory of this path, by path."""
    values = {"tenant": tenant_id, "path": path, "below": f"{path}/", "limit": limit}
    return [StoredFile(*row) for row in driver_connection(tx).execute(_BELOW, values).fetchall()]


_BELOW: Final = f"""{_FILES} AND (memory.external_id = %(path)s OR starts_with(memory.external_id, %(below)s))
ORDER BY memory.external_id LIMIT %(limit)s"""


def find_first(tx: Connection, tenant_id: UUID, paths: Sequence[str]) -> str | None:
    """Return the shortest of these paths that is a file; None if none is."""
    values: dict[str, Any] = {"tenant": tenant_id, "paths": list(paths)}
    row = driver_connection(tx).execute(_FIRST, values).fetchone()
    return None if row is None else str(row[0])


_FIRST: Final = """
SELECT external_id FROM memories
WHERE tenant_id = %(tenant)s AND deleted_at IS NULL AND external_id = ANY (%(paths)s)
ORDER BY length(external_id) LIMIT 1
"""


def read_text(tx: Connection, tenant_id: UUID, memory_id: UUID) -> str | None:
    """Return a file's text; None if it was deleted."""
    row = tx.execute(_TEXT, {"tenant": tenant_id, "memory": memory_id}).one_or_none()
    return None if row is None else str(row.text)


_TEXT: Final = text("""
SELECT text FROM memories WHERE tenant_id = :tenant AND memory_id = :memory AND deleted_at IS NULL
""")


def lock(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Lock the rows of these memories in id order; return those that still exist."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return [row[0] for row in driver_connection(tx).execute(_LOCK, values).fetchall()]


_LOCK: Final = """
SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND deleted_at IS NULL
ORDER BY memory_id FOR UPDATE
"""


def rename(tx: Connection, tenant_id: UUID, names: Mapping[UUID, str]) -> None:
    """Set the external ids of memories that the caller has locked.

    Raises:
        Conflict: Another memory has one of these external ids.
    """
    values = {"tenant": tenant_id, "ids": list(names), "names": list(names.values())}
    try:
        tx.execute(_RENAME, values)
    except IntegrityError:
        raise Conflict("another memory has this external id") from None


_RENAME = text("""
UPDATE memories AS memory SET external_id = given.name, updated_at = now()
FROM unnest(CAST(:ids AS uuid[]), CAST(:names AS text[])) AS given (memory_id, name)
WHERE memory.tenant_id = :tenant AND memory.memory_id = given.memory_id
""")


def add_version(tx: Connection, tenant_id: UUID, memory_id: UUID, version_id: UUID) -> None:
    """Insert a memory with a file's present text and strength; it isn't a file and isn't protected from decay.

    The caller has locked the file's row, and adds a supersession of this memory by the file.
    """
    values = {
        "tenant": tenant_id,
        "memory": memory_id,
        "version": version_id,
        "kept": PROTECTED_TAG,
        "tag": VERSION_TAG,
    }
    driver_connection(tx).execute(_ADD_VERSION, values)
    driver_connection(tx).execute(_ADD_VERSION_STATE, values)


_OWN: Final = {
    "external_id": "NULL",
    "tags": "array_append(array_remove(tags, %(kept)s), %(tag)s)",
    "metadata": "coalesce(metadata, '{}') || jsonb_build_object('version_of', memory_id)",
}
"""Values of a version that differ from the file's."""
_COPIED: Final = [field.name for field in COLUMNS]
_ADD_VERSION: Final = f"""
INSERT INTO memories (tenant_id, memory_id, seq, made_by, created_at, says_change, written_by, {", ".join(_COPIED)})
SELECT tenant_id, %(version)s, seq, made_by, coalesce(updated_at, created_at), says_change, written_by,
  {", ".join(_OWN.get(name, name) for name in _COPIED)}
FROM memories WHERE tenant_id = %(tenant)s AND memory_id = %(memory)s
"""  # noqa: S608 - constants only
_STATE: Final = (
    "salience, salience_source, multiplier, access_count, accessed_at, anchored_at, kind, pace, suggested_multiplier, "
    "created_at, level, retrieval, stability, policy_version, cross_domain_count, keep_chance"
)
_ADD_VERSION_STATE: Final = f"""
INSERT INTO memory_state (tenant_id, memory_id, {_STATE})
SELECT tenant_id, %(version)s, {_STATE} FROM memory_state WHERE tenant_id = %(tenant)s AND memory_id = %(memory)s
"""  # noqa: S608 - constants only


def list_versions(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return the ids of the versions (memories with a former text) that these files supersede, in id order."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids), "tag": VERSION_TAG}
    return [row[0] for row in driver_connection(tx).execute(_VERSIONS, values).fetchall()]


_VERSIONS: Final = """
SELECT DISTINCT version.memory_id FROM supersessions AS made
JOIN memories AS version ON version.tenant_id = %(tenant)s AND version.memory_id = made.superseded_id
  AND version.deleted_at IS NULL AND %(tag)s = ANY (version.tags)
WHERE made.tenant_id = %(tenant)s AND made.memory_id = ANY (%(ids)s)
ORDER BY version.memory_id
"""
