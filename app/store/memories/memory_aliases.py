"""Store aliases: ids returned for repeated external ids, each of which names the memory that was updated."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import Connection, text


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
