"""What is left of what was erased: asked of every table once more, apart from whatever erased it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection

from app.store import erasures, removal
from app.store.erasures import Erasure
from app.store.packed import Uuids, driver

_BY_ID: Final = {
    table: f"SELECT count(*) FROM {table} WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"  # noqa: S608 - constants
    for table in (*removal.OWN, *removal.BY_OTHERS)
} | {
    "links": """
SELECT count(*) FROM links WHERE tenant_id = %(tenant)s AND (memory_id = ANY (%(ids)s) OR other_id = ANY (%(ids)s))""",
    "dead_letters": "SELECT count(*) FROM dead_letters WHERE tenant_id = %(tenant)s AND memory_ids && %(ids)s",
    "tenant_work": "SELECT count(*) FROM tenant_work WHERE tenant_id = %(tenant)s AND memory_ids && %(ids)s",
    "merges": "SELECT count(*) FROM merges WHERE tenant_id = %(tenant)s AND summary_id = ANY (%(ids)s)",
}


def counts(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], erasure: Erasure) -> dict[str, int]:
    """How many rows of each table still have something of memories that were erased, or meet what was to be erased.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        memory_ids: What was erased.
        erasure: What was to be erased; what a legal hold is on may be left, and what came after its cut.
    """
    values: dict[str, Any] = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    left = {}
    for table, statement in _BY_ID.items():
        row = driver(tx).execute(statement.encode(), values).fetchone()
        left[table] = int(row[0]) if row else 0
    left["memories"] = max(left["memories"], len(erasures.ids(tx, tenant_id, erasure)))
    return left
