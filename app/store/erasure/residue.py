"""Count the residue of an erasure: query the tables again instead of relying on the counts of the erasing steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from unicodedata import normalize
from uuid import UUID

import msgspec
from sqlalchemy import Connection

from app.domain.privacy.case_details import CLEARED, REDACTED
from app.domain.privacy.erasure import is_whole
from app.domain.privacy.subject_names import sought_names
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_value
from app.store.erasure import requests
from app.store.erasure.references import as_word
from app.store.erasure.requests import Erasure
from app.store.memories import subjects
from app.store.privacy.holds import HOLDS
from app.store.search import recorded_searches
from app.store.tiers import row_deletion

# The feed `changes` isn't counted: it keeps only the ids of erased memories, so that its readers delete their copies.
# By table: SQL for the memory ids in a row, and for the condition that at least one of them is among `ids`.
_BY_ID: Final = {
    **dict.fromkeys((*row_deletion.OWN, *row_deletion.BY_OTHERS), ("ARRAY[memory_id]", "memory_id = ANY (%(ids)s)")),
    **dict.fromkeys(
        ("links", "cold_links"),
        ("ARRAY[memory_id, other_id]", "(memory_id = ANY (%(ids)s) OR other_id = ANY (%(ids)s))"),
    ),
    "dead_letters": ("memory_ids", "memory_ids && %(ids)s"),
    "tenant_work": ("memory_ids", "memory_ids && %(ids)s"),
    "recorded_searches": ("memory_ids", recorded_searches.HOLDS),
    "merges": ("ARRAY[summary_id]", "summary_id = ANY (%(ids)s)"),
}

# By description: statements that count remaining rows by other criteria, mostly by the subject's name.
_BY_NAME: Final = {
    "copies of requests in the key store": """
SELECT count(*) FROM ebbing_keys.erasure_requests WHERE tenant_id = %(tenant)s AND (erasure_id = %(erasure)s
  OR erasure_id IN (SELECT erasure_id FROM erasures WHERE tenant_id = %(tenant)s AND batch_id = %(erasure)s))""",
    "names in samples of vectors": """
SELECT count(*) FROM pca_samples AS sample WHERE tenant_id = %(tenant)s AND subject = %(subject)s::text
  AND NOT EXISTS (
    SELECT FROM memories WHERE memories.tenant_id = %(tenant)s AND memories.memory_id = sample.memory_id)""",
    "names in dead letters": """
SELECT count(*) FROM dead_letters
WHERE tenant_id = %(tenant)s AND payload IS NOT NULL AND position(%(member)s::bytea IN payload) > 0
  AND CAST(split_part(entry_id, '-', 1) AS numeric) <= CAST(split_part(%(cut)s, '-', 1) AS numeric)""",
    "names in recorded searches": f"SELECT count(*) {recorded_searches.NAMED}",
    "notes on identity checks": """
SELECT count(*) FROM privacy_requests AS request
WHERE request.tenant_id = %(tenant)s AND request.identity_note IS NOT NULL AND (
  request.answer IS NOT NULL OR request.identity_note ~* %(word)s::text OR EXISTS (
    SELECT FROM exports WHERE exports.tenant_id = %(tenant)s AND exports.export_id = request.request_id
      AND exports.subject IS NULL))""",
    "names in texts of operators": f"""
SELECT count(*) FROM (
  SELECT unnest(ARRAY[controller, case_reference, legal_basis]) AS written FROM erasures
  WHERE tenant_id = %(tenant)s
  UNION ALL
  SELECT unnest(ARRAY[controller, case_reference, basis, extension_reason]) FROM privacy_requests
  WHERE tenant_id = %(tenant)s
  UNION ALL
  SELECT reason FROM erasures WHERE tenant_id = %(tenant)s AND erasure_id <> %(erasure)s
  UNION ALL
  SELECT item->>'ground' FROM erasures CROSS JOIN LATERAL jsonb_array_elements(report->'kept') AS item
  WHERE tenant_id = %(tenant)s AND jsonb_typeof(report->'kept') = 'array'
  UNION ALL
  SELECT unnest(ARRAY[reason, release_reason]) FROM holds WHERE tenant_id = %(tenant)s AND released_at IS NOT NULL
  UNION ALL
  SELECT reason FROM hold_changes WHERE tenant_id = %(tenant)s
  UNION ALL
  SELECT unnest(ARRAY[hold.reason, kept.placed->>'reason'])
  FROM holds AS hold
  LEFT JOIN ebbing_keys.kept_holds AS kept ON kept.tenant_id = %(tenant)s AND kept.hold_id = hold.hold_id
  WHERE hold.tenant_id = %(tenant)s AND hold.released_at IS NULL AND NOT EXISTS (
    SELECT FROM memories AS memory
    WHERE memory.tenant_id = %(tenant)s AND memory.subject = %(subject)s::text AND {HOLDS})
  UNION ALL
  SELECT unnest(ARRAY[
    asked->>'controller', asked->>'case_reference', asked->>'legal_basis', asked->>'reason',
    logged->>'controller', logged->>'case_reference', logged->>'basis', logged->>'extension_reason'])
  FROM ebbing_keys.erasure_requests WHERE tenant_id = %(tenant)s AND erasure_id <> %(erasure)s
  UNION ALL
  SELECT unnest(ARRAY[reason, target]) FROM operator_acts WHERE tenant_id = %(tenant)s
  UNION ALL
  SELECT discard_reason FROM dead_letters WHERE tenant_id = %(tenant)s
  UNION ALL
  SELECT reason FROM exports WHERE tenant_id = %(tenant)s
  UNION ALL
  SELECT ground FROM anonymised WHERE tenant_id = %(tenant)s
  UNION ALL
  SELECT description FROM webhooks WHERE tenant_id = %(tenant)s
) AS texts
WHERE written NOT IN ('{REDACTED}', '{CLEARED}') AND EXISTS (
  SELECT FROM unnest(%(spellings)s::text[]) AS name
  WHERE strpos(' ' || lower(normalize(written, NFKC)) || ' ', ' ' || name || ' ') > 0)
AND NOT (normalize(written, NFC) !~ %(exact)s::text AND EXISTS (
  SELECT FROM unnest(%(namesakes)s::text[]) AS namesake WHERE normalize(written, NFC) ~ namesake))""",  # noqa: S608 - constants only
    "words without a memory": "SELECT count(*) FROM words WHERE tenant_id = %(tenant)s AND documents <= 0",
    "vectors compressed with a deleted basis": """
SELECT count(*) FROM archived_memories AS archived WHERE tenant_id = %(tenant)s AND basis_id IS NOT NULL
  AND basis_id <> ALL (%(shared)s::bigint[]) AND NOT EXISTS (
    SELECT FROM pca_bases AS basis WHERE basis.tenant_id = %(tenant)s AND basis.basis_id = archived.basis_id)""",
}


def by_id(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[str, int]:
    """Count the rows of each table that refer to these memories."""
    values: dict[str, Any] = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    return {
        table: _count(tx, f"SELECT count(*) FROM {table} WHERE tenant_id = %(tenant)s AND {condition}", values)  # noqa: S608
        for table, (_, condition) in _BY_ID.items()
    }


def by_memory(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, dict[str, int]]:
    """Count, for each of these memories, the rows of each table that refer to it."""
    values: dict[str, Any] = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    row_counts: dict[UUID, dict[str, int]] = {memory_id: dict.fromkeys(_BY_ID, 0) for memory_id in memory_ids}
    for table, (members, condition) in _BY_ID.items():
        statement = _BY_MEMORY.format(table=table, members=members, condition=condition)
        for memory_id, count in driver_connection(tx).execute(statement.encode(), values).fetchall():
            row_counts[memory_id][table] = count
    return row_counts


_BY_MEMORY: Final = """
SELECT member.id, count(*)
FROM (SELECT {members} AS members FROM {table} WHERE tenant_id = %(tenant)s AND {condition}) AS known
CROSS JOIN LATERAL (SELECT DISTINCT id FROM unnest(members) AS id WHERE id = ANY (%(ids)s)) AS member
GROUP BY member.id
"""


def counts(
    tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], erasure: Erasure, shared: Sequence[int] = ()
) -> dict[str, int]:
    """Count the rows of each table that still refer to erased memories or match the erasure's scope.

    Args:
        memory_ids: The erased memories.
        erasure: The erasure; data under a legal hold or after its watermark may remain.
        shared: Ids of the PCA bases that all tenants share.
    """
    residue = by_id(tx, tenant_id, memory_ids)
    residue["memories"] = max(residue["memories"], len(requests.ids(tx, tenant_id, erasure)))
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
        "word": None if subject is None else as_word(subject),
        "exact": None if subject is None else _as_exact_word(subject),
        "namesakes": []
        if subject is None
        else [_as_exact_word(name) for name in subjects.find_namesakes(tx, tenant_id, subject)],
        "spellings": [] if subject is None else sought_names([subject, *(erasure.aliases or ())]),
    }
    return residue | {name: _count(tx, statement, values) for name, statement in _BY_NAME.items()}


def _as_exact_word(name: str) -> str:
    """Return a regular expression that finds a name in texts in the same way as `subject_names.contains_exactly`."""
    return as_word(normalize("NFC", name.strip()))


def _count(tx: Connection, statement: str, values: dict[str, Any]) -> int:
    return int(fetch_value(tx, statement, values))
