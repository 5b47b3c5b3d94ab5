"""Count the residue of an erasure: query every table again, independently of the code that erased."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Connection

from app.domain.privacy.erasure import is_whole
from app.store.core.packed import Uuids, driver
from app.store.erasure import erasures
from app.store.erasure.erasures import Erasure
from app.store.search import searches
from app.store.tiers import removal

_BY_ID: Final = {
    table: f"SELECT count(*) FROM {table} WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"  # noqa: S608 - constants
    for table in (*removal.OWN, *removal.BY_OTHERS)
} | {
    "links": """
SELECT count(*) FROM links WHERE tenant_id = %(tenant)s AND (memory_id = ANY (%(ids)s) OR other_id = ANY (%(ids)s))""",
    "dead_letters": "SELECT count(*) FROM dead_letters WHERE tenant_id = %(tenant)s AND memory_ids && %(ids)s",
    "tenant_work": "SELECT count(*) FROM tenant_work WHERE tenant_id = %(tenant)s AND memory_ids && %(ids)s",
    "recorded_searches": f"""
SELECT count(*) FROM recorded_searches WHERE tenant_id = %(tenant)s AND {searches.HOLDS}""",  # noqa: S608 - constants
    "merges": "SELECT count(*) FROM merges WHERE tenant_id = %(tenant)s AND summary_id = ANY (%(ids)s)",
}

# Rows that may contain a name or words of the subject without a memory id.
_BY_NAME: Final = {
    "requests kept beside the keys": """
SELECT count(*) FROM ebbing_keys.erasure_requests WHERE tenant_id = %(tenant)s AND erasure_id = %(erasure)s""",
    "names in samples": """
SELECT count(*) FROM pca_samples AS sample WHERE tenant_id = %(tenant)s AND subject = %(subject)s::text
  AND NOT EXISTS (
    SELECT FROM memories WHERE memories.tenant_id = %(tenant)s AND memories.memory_id = sample.memory_id)""",
    "names in dead letters": """
SELECT count(*) FROM dead_letters
WHERE tenant_id = %(tenant)s AND payload IS NOT NULL AND position(%(member)s::bytea IN payload) > 0
  AND CAST(split_part(entry_id, '-', 1) AS numeric) <= CAST(split_part(%(cut)s, '-', 1) AS numeric)""",
    "names in recorded searches": f"SELECT count(*) {searches.NAMED}",
    "words without a memory": "SELECT count(*) FROM words WHERE tenant_id = %(tenant)s AND documents <= 0",
    "vectors by a basis that is gone": """
SELECT count(*) FROM archived_memories AS archived WHERE tenant_id = %(tenant)s AND basis_id IS NOT NULL
  AND basis_id <> ALL (%(shared)s::bigint[]) AND NOT EXISTS (
    SELECT FROM pca_bases AS basis WHERE basis.tenant_id = %(tenant)s AND basis.basis_id = archived.basis_id)""",
}


def by_id(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[str, int]:
    """Count the rows of each table that refer to these memories."""
    values: dict[str, Any] = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return {table: _count(tx, statement, values) for table, statement in _BY_ID.items()}


def counts(
    tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], erasure: Erasure, shared: Sequence[int] = ()
) -> dict[str, int]:
    """Count the rows of each table that still refer to erased memories or match the erasure's scope.

    Args:
        memory_ids: The erased memories.
        erasure: The erasure; data under a legal hold or after its watermark may remain.
        shared: The bases that every tenant may use.
    """
    left = by_id(tx, tenant_id, memory_ids)
    left["memories"] = max(left["memories"], len(erasures.ids(tx, tenant_id, erasure)))
    subject = erasure.scope.subject if is_whole(erasure.scope, "subject") else None
    thread = erasure.scope.thread if subject is None and is_whole(erasure.scope, "thread") else None
    member = b"\0" if subject is None else b'"subject":' + msgspec.json.encode(subject)
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "shared": list(shared),
        "subject": subject,
        "thread": thread,
        "member": member,
        "cut": erasure.cut,
        "erasure": erasure.erasure_id,
    }
    return left | {name: _count(tx, statement, values) for name, statement in _BY_NAME.items()}


def _count(tx: Connection, statement: str, values: dict[str, Any]) -> int:
    row = driver(tx).execute(statement.encode(), values).fetchone()
    return int(row[0]) if row else 0
