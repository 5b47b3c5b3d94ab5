"""Find and remove references to erased data outside `memories`: dead letters, rows with names, neighbours' vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.privacy.case_details import CLEARED
from app.domain.privacy.erasure import Named
from app.domain.text.embedding_input import CONTEXT_TURNS
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_value
from app.store.search import recorded_searches

LETTERS: Final = 10
"""Page size for dead letters with content; each may have several megabytes."""


class LetterContent(NamedTuple):
    """The content of a dead letter; `position` is the original stream position of its entry."""

    letter_id: UUID
    position: str
    header: bytes
    payload: bytes


def letters(tx: Connection, tenant_id: UUID, after: UUID) -> list[LetterContent]:
    """Return a page of dead letters with content, in id order, with their rows locked."""
    values = {"tenant": tenant_id, "later_than": after, "limit": LETTERS}
    rows = tx.execute(_LETTERS, values)
    return [
        LetterContent(row.letter_id, row.entry_id or "0-0", bytes(row.header or b""), bytes(row.payload))
        for row in rows
    ]


_LETTERS: Final = text("""
SELECT letter_id, entry_id, header, payload FROM dead_letters
WHERE tenant_id = :tenant AND payload IS NOT NULL AND letter_id > :later_than
ORDER BY letter_id LIMIT :limit FOR UPDATE
""")


def rewrite(tx: Connection, tenant_id: UUID, letter_id: UUID, header: bytes, payload: bytes | None) -> None:
    """Replace a dead letter's header and payload, or delete the letter if no payload is left."""
    values = {"tenant": tenant_id, "letter_id": letter_id, "header": header or None, "payload": payload}
    tx.execute(_DELETE if payload is None else _REWRITE, values)


_DELETE: Final = text("DELETE FROM dead_letters WHERE tenant_id = :tenant AND letter_id = :letter_id")
_REWRITE: Final = text("""
UPDATE dead_letters SET header = :header, payload = :payload WHERE tenant_id = :tenant AND letter_id = :letter_id
""")

_JOBS: Final = """
FROM jobs WHERE tenant_id = %(tenant)s AND status NOT IN ('queued', 'running') AND EXISTS (
  SELECT FROM jsonb_path_query(jsonb_build_array(parameters, state), '$.**') AS value
  WHERE value #>> '{}' = ANY (%(names)s::text[]))"""
_HOLDS: Final = """
FROM holds WHERE tenant_id = %(tenant)s AND released_at IS NOT NULL
  AND (subject = %(subject)s::text OR thread = %(thread)s::text)"""
# Selects notes on identity checks: of open requests if they contain the name, of answered requests (an older version
# left them there), and of requests whose export has expired.
_NOTES: Final = """
FROM privacy_requests AS request WHERE request.tenant_id = %(tenant)s AND request.identity_note IS NOT NULL AND (
  request.answer IS NOT NULL OR request.identity_note ~* %(word)s::text OR EXISTS (
    SELECT FROM exports WHERE exports.tenant_id = %(tenant)s AND exports.export_id = request.request_id
      AND exports.subject IS NULL))"""
_PERIODS: Final = "FROM subject_retention WHERE tenant_id = %(tenant)s AND subject = %(subject)s::text"


def count_records(
    tx: Connection, tenant_id: UUID, names: Mapping[Named, str], memory_ids: Sequence[UUID]
) -> dict[str, int]:
    """Count, by table, the rows that `clear_records` would change, with the same arguments."""
    values = _values(tenant_id, names, memory_ids)
    counts = {}
    tables = {
        "jobs": _JOBS,
        "holds": _HOLDS,
        "recorded_searches": recorded_searches.NAMED,
        "privacy_requests": _NOTES,
        "subject_retention": _PERIODS,
    }
    for table, rows in tables.items():
        counts[table] = int(fetch_value(tx, f"SELECT count(*) {rows}", values))
    return counts


def clear_records(tx: Connection, tenant_id: UUID, names: Mapping[Named, str], memory_ids: Sequence[UUID]) -> int:
    """Redact names in finished jobs and released holds, and delete recorded searches limited to a subject or thread.

    Finished jobs that contain the id of an erased memory are redacted too. A hold retains its dates and the ids of
    memories that no longer exist. The reasons of a hold on an erased thread are removed, because it isn't known whom
    they may name; those of a hold on an erased person are among the texts that `store.privacy.retained_texts` lists.
    Notes on identity checks that contain the subject are deleted, as are the subject's retention periods.

    Args:
        names: The completely erased subject or thread under the key `subject` or `thread`; empty if the erasure covers
            only a part of either.
        memory_ids: The erased memories.

    Returns:
        The number of rows changed or deleted.
    """
    values = _values(tenant_id, names, memory_ids)
    recorded_searches.lock(tx, tenant_id)
    driver_connection(tx).execute(_CLEAR_CHANGES.encode(), values)  # counted with their holds
    statements = (_CLEAR_JOBS, _CLEAR_HOLDS, _CLEAR_SEARCHES, _CLEAR_NOTES, f"DELETE {_PERIODS}")
    return sum(driver_connection(tx).execute(statement.encode(), values).rowcount for statement in statements)


_CLEAR_JOBS: Final = f"""
UPDATE jobs SET parameters = '{{}}', state = '{{}}' WHERE job_id IN (SELECT job_id {_JOBS})
"""  # noqa: S608 - constants only
_CLEAR_HOLDS: Final = f"""
UPDATE holds SET subject = CASE WHEN subject IS NULL THEN NULL ELSE '{CLEARED}' END,
  thread = CASE WHEN thread IS NULL THEN NULL ELSE '{CLEARED}' END,
  reason = CASE WHEN thread = %(thread)s::text THEN '{CLEARED}' ELSE reason END
WHERE tenant_id = %(tenant)s AND hold_id IN (SELECT hold_id {_HOLDS})
"""  # noqa: S608 - constants only

# Earlier reasons of the holds on a thread that `_CLEAR_HOLDS` clears next.
_CLEAR_CHANGES: Final = f"""
UPDATE hold_changes SET reason = '{CLEARED}'
WHERE tenant_id = %(tenant)s AND hold_id IN (SELECT hold_id {_HOLDS} AND thread = %(thread)s::text)
"""  # noqa: S608 - constants only

_CLEAR_SEARCHES: Final = f"DELETE {recorded_searches.NAMED}"
_CLEAR_NOTES: Final = f"""
UPDATE privacy_requests SET identity_note = NULL
WHERE tenant_id = %(tenant)s AND request_id IN (SELECT request.request_id {_NOTES})
"""  # noqa: S608 - constants only


def _values(tenant_id: UUID, names: Mapping[Named, str], memory_ids: Sequence[UUID]) -> dict[str, Any]:
    return {
        "tenant": tenant_id,
        "names": [*names.values(), *map(str, memory_ids)],
        "subject": names.get("subject"),
        "thread": names.get("thread"),
        "word": as_word(names["subject"]) if "subject" in names else None,
    }


def as_word(name: str) -> str:
    """Return a PostgreSQL regular expression that matches a name, but not as a part of a longer word."""
    literal = "".join(sign if sign.isalnum() or sign.isspace() else f"\\{sign}" for sign in name)
    return rf"(^|\W){literal}(\W|$)"


def is_cold(tx: Connection, tenant_id: UUID, subject: str) -> bool:
    """Return True if any of a subject's memories is in cold storage."""
    return bool(tx.execute(_IS_COLD, {"tenant": tenant_id, "subject": subject}).scalar_one())


_IS_COLD: Final = text("""
SELECT EXISTS (
  SELECT FROM memories AS memory CROSS JOIN LATERAL (
    SELECT FROM cold_memories AS cold WHERE cold.tenant_id = :tenant AND cold.memory_id = memory.memory_id OFFSET 0
  ) AS there
  WHERE memory.tenant_id = :tenant AND memory.subject = :subject)
""")


def segments_by_memory(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Return the cold storage segment of each of these memories; memories in other tiers are omitted."""
    return dict(
        driver_connection(tx).execute(_SEGMENTS_BY_MEMORY, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    )


_SEGMENTS_BY_MEMORY: Final = """
SELECT memory_id, segment_id FROM cold_memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""


def forget_context(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Delete the archived vectors of neighbouring turns whose context includes these memories. Return their number.

    A memory's vector is computed from its text and the turns before it; the bundled embedder also uses the turns after
    it. Until these neighbours are restored and embedded again, searches find them only by their words. Vectors supplied
    by callers contain no context and are retained.
    """
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids), "turns": CONTEXT_TURNS, "near": _NEAR}
    return driver_connection(tx).execute(_FORGET_CONTEXT, values).rowcount


_NEAR: Final = 50


def _turns(beside: str, order: str) -> str:
    """Return a SELECT of the turns on one side of the memory `centre`, with the number of visible turns in between."""
    return f"""
    SELECT memory_id, coalesce(sum((deleted_at IS NULL)::int) OVER (
      ORDER BY seq {order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS between
    FROM (
      SELECT memory_id, seq, deleted_at FROM memories
      WHERE tenant_id = %(tenant)s AND thread = centre.thread AND seq {beside} centre.seq
      ORDER BY seq {order} LIMIT %(near)s
    ) AS near"""  # noqa: S608 - constants only


# A turn that is hidden now may have been visible when the vector was computed, or may become visible again with its own
# vector. Therefore `between` counts only visible turns, and the vectors of hidden turns are deleted too.
_FORGET_CONTEXT: Final = f"""
UPDATE archived_memories SET vector = NULL, space_id = NULL, basis_id = NULL
WHERE tenant_id = %(tenant)s AND vector IS NOT NULL AND NOT by_caller AND memory_id = ANY (ARRAY(
  SELECT turn.memory_id
  FROM memories AS centre CROSS JOIN LATERAL (
    ({_turns(">", "ASC")}) UNION ALL ({_turns("<", "DESC")})
  ) AS turn
  WHERE centre.tenant_id = %(tenant)s AND centre.memory_id = ANY (%(ids)s) AND turn.between < %(turns)s))
"""  # noqa: S608 - constants only
