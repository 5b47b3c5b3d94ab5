"""Read memories as files, those whose external id is a path below a directory, and rename them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from app.errors import Conflict
from app.store.core.binary_arrays import Uuids, driver_connection


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
