"""Store and resolve aliases: ids of sent memories that became updates of stored ones."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import Connection, text


def resolve_id(tx: Connection, tenant_id: UUID, memory_id: UUID) -> UUID:
    """Return the stored id of a memory: the target if the given id is an alias, otherwise the id itself."""
    target = tx.execute(_RESOLVE, {"tenant": tenant_id, "alias": memory_id}).scalar()
    return target or memory_id


_RESOLVE = text("SELECT memory_id FROM memory_aliases WHERE tenant_id = :tenant AND alias_id = :alias")


def add_aliases(tx: Connection, tenant_id: UUID, aliases: Mapping[UUID, UUID]) -> None:
    """Store aliases of memories.

    Args:
        aliases: The stored id by alias.
    """
    if aliases:
        values = {"tenant": tenant_id, "given": list(aliases), "stored": list(aliases.values())}
        tx.execute(_ADD_ALIASES, values)


_ADD_ALIASES = text("""
INSERT INTO memory_aliases (tenant_id, alias_id, memory_id)
SELECT :tenant, alias_id, memory_id
FROM unnest(CAST(:given AS uuid[]), CAST(:stored AS uuid[])) AS given (alias_id, memory_id)
ON CONFLICT DO NOTHING
""")
