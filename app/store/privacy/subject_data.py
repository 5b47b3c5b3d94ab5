"""Read all data stored about a subject, table by table, in pages. Each line is JSON as PostgreSQL writes it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import msgspec
from psycopg.rows import dict_row
from sqlalchemy import Connection, text

from app.domain.ingest.memory import COLUMNS
from app.domain.privacy.export import GIVEN
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column
from app.store.privacy.holds import HOLDS
from app.store.tiers import row_deletion

_OWN_LINES: Final = frozenset({"memories", "memory_state", "scores", "memory_events"})
"""Tables whose rows are exported separately, not as an array in the memory's line."""
# For each table, the exported columns. Vectors and indexed words are omitted: vectors mean nothing to a person, and the
# words may be a neighbour's.
_TOLD: Final = {
    "embeddings": "space_id, text_version, by_caller",
    "memory_windows": "space_id, place, from_char, to_char",
    "archived_memories": "space_id, text_version, by_caller, archived_at",
    "hidden_vectors": "space_id, text_version",
    "pca_samples": "space_id",
    "memory_words": "text_version",
    "cold_memories": "text_version, moved_at",
}
_ROWS: Final = {
    table: f"""
SELECT coalesce(jsonb_agg(to_jsonb(own) - 'tenant_id' - 'memory_id'), '[]')
FROM (SELECT {_TOLD.get(table, "*")} FROM {table} WHERE tenant_id = %(tenant)s AND memory_id = wanted.id) AS own"""  # noqa: S608 - constants
    for table in (*row_deletion.OWN, *row_deletion.BY_OTHERS)
    if table not in _OWN_LINES
} | {
    "lineage": """
SELECT coalesce(jsonb_agg(to_jsonb(own)), '[]') FROM (
  SELECT merge_id, part, text_version, action, status, level, method, summary_id, key_points, is_stale, created_at
  FROM lineage JOIN merges USING (tenant_id, merge_id)
  WHERE tenant_id = %(tenant)s AND memory_id = wanted.id) AS own""",
    "summary_of": """
SELECT coalesce(jsonb_agg(to_jsonb(own)), '[]') FROM (
  SELECT merge_id, action, status, level, method, key_points, is_stale, created_at, ARRAY(
      SELECT memory_id FROM lineage AS source WHERE source.tenant_id = %(tenant)s AND source.merge_id = merges.merge_id
    ) AS sources
  FROM merges WHERE tenant_id = %(tenant)s AND summary_id = wanted.id) AS own""",
}
"""SQL for a memory's rows in other tables as an array, by name; tables in `row_deletion.OWN` needn't be listed."""


class HeldMemory(NamedTuple):
    """A memory, possibly hidden, with all data stored about it.

    Attributes:
        memory: The row in `memories` as JSON; a cold memory's text is truncated.
        state: The row in `memory_state` as JSON.
        score: The row in `scores` as JSON; `null` if there is none.
        others: The rows in other tables as JSON, by table.
        hidden: True if the memory is deleted or an erasure of it was requested.
        held: True if the memory is under a legal hold.
        tier: The memory's tier; for a hidden memory, its former tier.
        quarantined: True if a quarantine hides the memory.
    """

    memory_id: UUID
    memory: str
    state: str
    score: str
    others: str
    hidden: bool
    held: bool
    tier: str
    quarantined: bool


def count(tx: Connection, tenant_id: UUID, subject: str) -> int:
    """Count the stored memories about a subject, including hidden memories."""
    return int(tx.execute(_COUNT, {"tenant": tenant_id, "subject": subject}).scalar_one())


_COUNT: Final = text("SELECT count(*) FROM memories WHERE tenant_id = :tenant AND subject = :subject")

# Memories hidden by a running erasure aren't exported.
_GOING: Final = """
EXISTS (SELECT FROM hidden_memories AS hidden JOIN erasures USING (tenant_id, erasure_id)
  WHERE tenant_id = %(tenant)s AND hidden.memory_id = memory.memory_id AND erasures.status = 'running')
"""


def list_ids(
    tx: Connection, tenant_id: UUID, subject: str, after: UUID, limit: int, *, given: bool = False
) -> list[UUID]:
    """Return the ids of a page of a subject's memories, in id order; `given` excludes summaries.

    Hidden memories are included, unless the erasure that hides them is running.
    """
    values = {"tenant": tenant_id, "subject": subject, "after": after, "limit": limit, "given": given}
    return fetch_column(tx, _IDS, values)


_IDS: Final = f"""
SELECT memory_id FROM memories AS memory
WHERE tenant_id = %(tenant)s AND subject = %(subject)s AND memory_id > %(after)s
  AND (made_by = 'caller' OR NOT %(given)s) AND NOT {_GOING}
ORDER BY memory_id LIMIT %(limit)s
""".encode()  # noqa: S608 - constants only


def list_memories(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[HeldMemory]:
    """Return these memories with all data stored about each of them, in id order."""
    rows = driver_connection(tx).execute(_MEMORIES, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return [HeldMemory(*row) for row in rows]


_OTHERS: Final = ", ".join(f"'{name}', ({rows})" for name, rows in _ROWS.items())
_MEMORIES: Final = f"""
SELECT wanted.id, memory.held::text, state.held::text, coalesce(score.held, 'null')::text,
  jsonb_build_object({_OTHERS})::text, memory.deleted_at IS NOT NULL, memory.is_held, coalesce(hidden.tier, state.tier),
  coalesce(hidden.quarantined, false)
FROM (SELECT id FROM unnest(%(ids)s) AS id ORDER BY id) AS wanted
CROSS JOIN LATERAL (
  SELECT to_jsonb(memory) - 'tenant_id' - 'deleted_at' AS held, deleted_at, EXISTS (
    SELECT FROM holds AS hold WHERE hold.tenant_id = %(tenant)s AND {HOLDS}) AS is_held
  FROM memories AS memory WHERE tenant_id = %(tenant)s AND memory_id = wanted.id OFFSET 0
) AS memory
CROSS JOIN LATERAL (
  SELECT to_jsonb(memory_state) - 'tenant_id' - 'memory_id' AS held, tier FROM memory_state
  WHERE tenant_id = %(tenant)s AND memory_id = wanted.id OFFSET 0
) AS state
LEFT JOIN LATERAL (
  SELECT to_jsonb(scores) - ARRAY['tenant_id', 'memory_id', 'digest', 'cue_stems'] AS held FROM scores
  WHERE tenant_id = %(tenant)s AND memory_id = wanted.id OFFSET 0
) AS score ON true
LEFT JOIN LATERAL (
  SELECT tier, EXISTS (
      SELECT FROM quarantines WHERE quarantines.tenant_id = %(tenant)s AND quarantine_id = erasure_id) AS quarantined
  FROM hidden_memories WHERE tenant_id = %(tenant)s AND memory_id = wanted.id OFFSET 0
) AS hidden ON true
ORDER BY wanted.id
""".encode()  # noqa: S608 - constants only


def list_given(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return, by id and in id order, the fields of these memories as callers submitted them.

    JSON fields are `msgspec.Raw` with the text that PostgreSQL writes. `occurred_at` is the time of acceptance if the
    caller gave none.
    """
    with driver_connection(tx).cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_GIVEN_BY, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    for row in rows:
        row |= {name: msgspec.Raw(row[name].encode()) for name in _JSON if row[name] is not None}
    return {row.pop("id"): row for row in rows}


_JSON: Final = [field.name for field in COLUMNS if field.value_type == "json"]
_AS_GIVEN: Final = {
    "occurred_at": "coalesce(occurred_at, memory.created_at)",
    "salience": "CASE WHEN salience_source = 'caller' THEN state.salience::text::float8 END",
    "multiplier": "CASE WHEN multiplier <> 1 THEN multiplier::text::float8 END",
    **{name: f"{name}::text" for name in _JSON},
}
_GIVEN_BY: Final = f"""
SELECT id, {", ".join(f"{_AS_GIVEN.get(name, f'memory.{name}')} AS {name}" for name in GIVEN)}
FROM unnest(%(ids)s) AS id
CROSS JOIN LATERAL (SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0) AS memory
CROSS JOIN LATERAL (
  SELECT salience, salience_source, multiplier FROM memory_state
  WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0) AS state
ORDER BY id
""".encode()  # noqa: S608 - constants only


def list_events(
    tx: Connection, tenant_id: UUID, subject: str, after: tuple[UUID, datetime, int], limit: int
) -> list[tuple[UUID, datetime, int, str]]:
    """Return a page of the events of a subject's memories: memory id, time, event id, and the event as JSON.

    Args:
        after: Memory id, time and event id of the previous page's last event.
    """
    values = {"tenant": tenant_id, "subject": subject, "limit": limit}
    values |= dict(zip(("memory_id", "at", "event_id"), after, strict=True))
    return [(*row[:3], row[3]) for row in driver_connection(tx).execute(_HISTORY, values).fetchall()]


_HISTORY: Final = f"""
SELECT memory.memory_id, event.at, event.event_id, (to_jsonb(event) - 'tenant_id' - 'event_id')::text
FROM memories AS memory
CROSS JOIN LATERAL (
  SELECT * FROM memory_events AS event
  WHERE event.tenant_id = %(tenant)s AND event.memory_id = memory.memory_id AND (memory.memory_id > %(memory_id)s
    OR (event.at, event.event_id) > (%(at)s, %(event_id)s))
  ORDER BY at, event_id LIMIT %(limit)s
) AS event
WHERE memory.tenant_id = %(tenant)s AND memory.subject = %(subject)s AND memory.memory_id >= %(memory_id)s
  AND NOT {_GOING}
ORDER BY memory.memory_id, event.at, event.event_id LIMIT %(limit)s
""".encode()  # noqa: S608 - constants only


def list_letters(tx: Connection, tenant_id: UUID, subject: str, after: UUID, limit: int) -> list[tuple[UUID, str]]:
    """Return a page of dead letters that refer to stored memories about a subject: id, and the letter as JSON."""
    values = {"tenant": tenant_id, "subject": subject, "after": after, "limit": limit}
    return [(letter_id, letter) for letter_id, letter in driver_connection(tx).execute(_LETTERS, values).fetchall()]


_LETTERS: Final = """
SELECT letter_id, jsonb_build_object('letter_id', letter_id, 'stage', stage, 'reason', reason, 'attempts', attempts,
  'created_at', created_at, 'memory_ids', about)::text
FROM dead_letters
CROSS JOIN LATERAL (
  SELECT array_agg(memory_id) AS about FROM memories
  WHERE tenant_id = %(tenant)s AND memory_id = ANY (memory_ids) AND subject = %(subject)s) AS theirs
WHERE tenant_id = %(tenant)s AND letter_id > %(after)s AND about IS NOT NULL
ORDER BY letter_id LIMIT %(limit)s
"""


def list_unstored(
    tx: Connection, tenant_id: UUID, after: UUID, limit: int
) -> list[tuple[UUID, str, bytes, bytes, int]]:
    """Return a page of dead letters with unstored content: id, stream position, header, payload, number of memories."""
    values = {"tenant": tenant_id, "after": after, "limit": limit}
    rows = driver_connection(tx).execute(_UNSTORED, values).fetchall()
    return [(row[0], row[1] or "", bytes(row[2] or b""), bytes(row[3]), row[4]) for row in rows]


_UNSTORED: Final = """
SELECT letter_id, entry_id, header, payload, memories FROM dead_letters
WHERE tenant_id = %(tenant)s AND payload IS NOT NULL AND letter_id > %(after)s ORDER BY letter_id LIMIT %(limit)s
"""


def list_service_data(tx: Connection, tenant_id: UUID, subject: str) -> list[str]:
    """Return data that doesn't belong to a single memory, each item as a line of JSON.

    The items are the recipients of the tenant's data, the policy in force, erasures, holds and exports of the subject,
    checks of the requester's identity for these, and recorded searches that were limited to the subject or had the
    subject's memories among their candidates.
    """
    values = {"tenant": tenant_id, "subject": subject}
    return [str(row[0]) for row in driver_connection(tx).execute(_SERVICE, values).fetchall()]


_SERVICE: Final = """
SELECT jsonb_build_object('recipient', host, 'purpose', purpose, 'model', model, 'first', min(day), 'last', max(day),
  'calls', sum(calls))::text
FROM usage WHERE tenant_id = %(tenant)s GROUP BY host, purpose, model
UNION ALL
(SELECT jsonb_build_object('policy', body, 'version', version, 'since', effective_at)::text
FROM policies WHERE tenant_id = %(tenant)s AND effective_at <= now() ORDER BY version DESC LIMIT 1)
UNION ALL
SELECT (jsonb_build_object('erasure', erasure_id, 'law', kind, 'status', status, 'requested_at', requested_at,
  'due_at', due_at, 'erase_after', erase_after) || jsonb_strip_nulls(jsonb_build_object(
  'controller', controller, 'case_reference', case_reference, 'legal_basis', legal_basis)))::text
FROM erasures WHERE tenant_id = %(tenant)s AND scope->>'subject' = %(subject)s
UNION ALL
SELECT jsonb_build_object('request', request_id, 'identity_method', identity_method, 'identity_checked_at',
  identity_checked_at, 'identity_note', identity_note)::text
FROM privacy_requests WHERE tenant_id = %(tenant)s AND identity_method IS NOT NULL AND request_id IN (
  SELECT erasure_id FROM erasures WHERE tenant_id = %(tenant)s AND scope->>'subject' = %(subject)s
  UNION ALL SELECT export_id FROM exports WHERE tenant_id = %(tenant)s AND subject = %(subject)s)
UNION ALL
SELECT jsonb_build_object('hold', hold_id, 'placed_at', placed_at)::text
FROM holds WHERE tenant_id = %(tenant)s AND subject = %(subject)s AND released_at IS NULL
UNION ALL
SELECT jsonb_build_object('export', export_id, 'kind', kind, 'requested_at', requested_at)::text
FROM exports WHERE tenant_id = %(tenant)s AND subject = %(subject)s
UNION ALL
SELECT jsonb_build_object('recorded_search', search_id, 'searched_at', searched_at, 'about_the_subject',
  subject IS NOT DISTINCT FROM %(subject)s, 'memory_ids', coalesce(theirs.ids, '{}'))::text
FROM recorded_searches
CROSS JOIN LATERAL (
  SELECT array_agg(id) AS ids FROM unnest(memory_ids) AS id
  WHERE id = ANY (ARRAY(SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND subject = %(subject)s))
) AS theirs
WHERE tenant_id = %(tenant)s AND (subject = %(subject)s OR theirs.ids IS NOT NULL)
"""
