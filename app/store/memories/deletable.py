"""List the memories that a deletion of several memories names."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.ingest.deletion import DeletionOfMany


def list_deletable(tx: Connection, tenant_id: UUID, wanted: DeletionOfMany, after: UUID, limit: int) -> list[UUID]:
    """Return ids of the named memories above `after` that aren't deleted yet, in ascending order.

    An id may be an alias: the id of a sent memory that became an update of a stored one.
    """
    [name] = [name for name in _CONDITIONS if getattr(wanted, name) is not None]
    given = getattr(wanted, name)
    values: dict[str, Any] = {"tenant": tenant_id, "after": after, "limit": limit}
    values["given"] = list(given) if isinstance(given, tuple) else given
    return list(tx.execute(_STATEMENTS[name], values).scalars())


_CONDITIONS: Final = {
    "ids": """memory_id = ANY (ARRAY(
  SELECT coalesce(alias.memory_id, given.id) FROM unnest(CAST(:given AS uuid[])) AS given (id)
  LEFT JOIN memory_aliases AS alias ON alias.tenant_id = :tenant AND alias.alias_id = given.id))""",
    "external_ids": "external_id = ANY (CAST(:given AS text[]))",
    "thread": "thread = :given",
}
_STATEMENTS: Final = {
    name: text(f"""
SELECT memory_id FROM memories
WHERE tenant_id = :tenant AND deleted_at IS NULL AND memory_id > :after AND {condition}
ORDER BY memory_id LIMIT :limit
""")  # noqa: S608 - constants only
    for name, condition in _CONDITIONS.items()
}
