"""Store recorded searches: one row of ids and numbers per search.

A transaction that removes memories takes `lock` before it deletes records. A transaction that adds a record takes the
shared lock and checks that all candidates still exist. A record can therefore never name a removed memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.domain.search.search_record import COLUMNS, LAYOUT, RecordedCandidates
from app.store.core.binary_arrays import Longs, Timestamps, Uuids, driver_connection
from app.store.search.query_parts import vector_literal

RECORDS_MAX: Final = 10_000
"""Number of newest records retained per tenant; limited because each removal of memories scans all of them."""


@dataclass(frozen=True, slots=True)
class RecordedSearch:
    """A recorded search.

    Attributes:
        session: Digest as made by `domain.ingest.uses.session_digest`.
        subject: The subject filter.
        thread: The thread filter.
        request: The request's other fields, as from `search_record.request_fields`.
        space_id: The vector's embedding space.
        vector: The query vector in half precision, shape (dimensions,).
        terms: The query's lexemes; only the ids of lexemes in the tenant's `words` are stored.
        candidates: The best candidates, best first.
        results: Indexes of the results among the candidates, in the order of the response.
        used: Indexes of the candidates that were used afterwards.
    """

    search_id: UUID
    searched_at: datetime
    session: int
    subject: str | None
    thread: str | None
    request: Mapping[str, Any]
    space_id: int | None
    vector: NDArray[np.float32] | None
    terms: Sequence[str]
    candidates: RecordedCandidates
    results: Sequence[int]
    used: Sequence[int] = ()


def try_share(tx: Connection, tenant_id: UUID) -> bool:
    """Take the record lock in shared mode; return False if another transaction holds `lock`."""
    row = driver_connection(tx).execute(_TRY_SHARE, {"name": _name(tenant_id)}).fetchone()
    return bool(row and row[0])


def lock(tx: Connection, tenant_id: UUID) -> None:
    """Take the record lock exclusively until the transaction ends, so that no record is added.

    Lock order: after the memories' rows and the word index's lock, or before every other lock.
    """
    driver_connection(tx).execute(_LOCK, {"name": _name(tenant_id)})


def _name(tenant_id: UUID) -> str:
    return f"ebbing searches {tenant_id}"


_TRY_SHARE: Final = "SELECT pg_try_advisory_xact_lock_shared(hashtextextended(%(name)s, 0))"
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))"


def add(tx: Connection, tenant_id: UUID, search: RecordedSearch) -> bool:
    """Add a record unless the policy in force disables recording or a candidate no longer exists.

    Args:
        tx: The tenant's transaction, in which `try_share` returned True.

    Returns:
        True if the record was added.
    """
    candidates = search.candidates
    values = {
        "tenant": tenant_id,
        "search_id": search.search_id,
        "at": search.searched_at,
        "session": search.session,
        "subject": search.subject,
        "thread": search.thread,
        "request": msgspec.json.encode(search.request).decode(),
        "space": search.space_id,
        "vector": None if search.vector is None else vector_literal(search.vector),
        "terms": list(search.terms),
        "ids": Uuids(candidates.memory_ids),
        "count": len(candidates.memory_ids),
        "layout": LAYOUT,
        "parts": np.ascontiguousarray(candidates.columns, "<f8").tobytes(),
        "bases": sorted(candidates.bases),
        "results": list(search.results),
        "corrections": [place for pair in candidates.corrections for place in pair],
    }
    return driver_connection(tx).execute(_ADD, values).rowcount > 0


# `clock_timestamp()` isn't the transaction's start, so a policy set since then already applies.
_ADD: Final = """
INSERT INTO recorded_searches (tenant_id, search_id, searched_at, session, subject, thread, request,
  space_id, vector, term_ids, memory_ids, layout, parts, bases, results, corrections)
SELECT %(tenant)s, %(search_id)s, %(at)s, %(session)s, %(subject)s, %(thread)s,
  CAST(%(request)s AS jsonb), %(space)s, CAST(%(vector)s AS halfvec),
  ARRAY(SELECT word_id FROM words WHERE tenant_id = %(tenant)s AND word = ANY (CAST(%(terms)s AS text[]))
    AND word <> '' ORDER BY word_id),
  %(ids)s, %(layout)s, %(parts)s, CAST(%(bases)s AS text[]), CAST(%(results)s AS smallint[]),
  CAST(%(corrections)s AS smallint[])
WHERE (
  SELECT coalesce((body->>'record_searches')::boolean, false) FROM policies
  WHERE tenant_id = %(tenant)s AND effective_at <= clock_timestamp() ORDER BY version DESC LIMIT 1
) AND %(count)s = (
  SELECT count(*) FROM unnest(%(ids)s) AS named (memory_id) CROSS JOIN LATERAL (
    SELECT FROM memories
    WHERE tenant_id = %(tenant)s AND memories.memory_id = named.memory_id AND deleted_at IS NULL OFFSET 0
  ) AS there)
"""


def trim_records(tx: Connection, tenant_id: UUID, most: int = RECORDS_MAX) -> int:
    """Delete the oldest records beyond `most`. Return the number deleted."""
    return driver_connection(tx).execute(_TRIM, {"tenant": tenant_id, "most": most}).rowcount


_TRIM: Final = """
DELETE FROM recorded_searches WHERE tenant_id = %(tenant)s AND search_id = ANY (ARRAY(
  SELECT search_id FROM recorded_searches WHERE tenant_id = %(tenant)s AND (searched_at, search_id) <= (
    SELECT searched_at, search_id FROM recorded_searches WHERE tenant_id = %(tenant)s
    ORDER BY searched_at DESC, search_id DESC OFFSET %(most)s LIMIT 1)
  ORDER BY searched_at, search_id FOR UPDATE SKIP LOCKED))
"""


def attach_uses(
    tx: Connection,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    sessions: Sequence[int],
    at: Sequence[float],
    *,
    sessionless: int,
    within: timedelta,
) -> int:
    """Record each use in one earlier search.

    A use is attributed to the latest search of its session whose results contained the memory. If there is none, it is
    attributed to the latest search of the same named session with the memory among its candidates.

    Args:
        memory_ids: The used memories.
        sessions: Session digest of each use.
        at: Time of each use in seconds since 1970.
        sessionless: Digest that stands for no session. A use without a session matches the results of any search,
            and the results of a search without a session match uses of any session.
        within: Maximum time between a search and a use attributed to it.

    Returns:
        The number of records changed.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "sessions": Longs(np.asarray(sessions, np.int64)),
        "at": Timestamps(at),
        "sessionless": sessionless,
        "within": within,
    }
    return driver_connection(tx).execute(_ATTACH, values).rowcount


# Records are locked in id order, as in `DELETE_WITH`, so that transactions don't deadlock.
_ATTACH: Final = """
WITH given AS MATERIALIZED (
  SELECT * FROM unnest(%(ids)s, %(sessions)s, %(at)s) WITH ORDINALITY AS use (memory_id, session, at, number)
), near AS MATERIALIZED (
  SELECT search_id, searched_at, session, memory_ids, results FROM recorded_searches
  WHERE tenant_id = %(tenant)s AND searched_at BETWEEN (SELECT min(at) FROM given) - %(within)s::interval
    AND (SELECT max(at) FROM given)
  ORDER BY search_id FOR UPDATE
), candidates AS MATERIALIZED (
  SELECT search_id, searched_at, session, each.memory_id, CAST(each.number - 1 AS smallint) AS place,
    CAST(each.number - 1 AS smallint) = ANY (results) AS is_result
  FROM near CROSS JOIN LATERAL unnest(memory_ids) WITH ORDINALITY AS each (memory_id, number)
), matched AS (
  SELECT DISTINCT ON (given.number) search_id, place
  FROM candidates AS known JOIN given USING (memory_id)
  WHERE at >= searched_at AND at <= searched_at + %(within)s::interval AND (
    (known.session = given.session AND (is_result OR known.session <> %(sessionless)s))
    OR (is_result AND %(sessionless)s IN (known.session, given.session)))
  ORDER BY given.number, is_result DESC, searched_at DESC, search_id
), grouped AS (
  SELECT search_id, array_agg(DISTINCT place) AS places FROM matched GROUP BY search_id
)
UPDATE recorded_searches AS known
SET used = ARRAY(SELECT DISTINCT unnest(known.used || places) AS place ORDER BY place)
FROM grouped
WHERE known.tenant_id = %(tenant)s AND known.search_id = grouped.search_id AND NOT known.used @> places
"""


def list_newest(tx: Connection, tenant_id: UUID, most: int) -> tuple[list[RecordedSearch], dict[str, int]]:
    """Return the newest records, oldest first, with those of their terms that still exist.

    Records with a deleted or hidden candidate, or with a different layout version, are omitted.

    Returns:
        The records, and the number omitted by reason.
    """
    values: dict[str, Any] = {"tenant": tenant_id, "most": most}
    rows = driver_connection(tx).execute(_NEWEST, values, binary=True).fetchall()
    readable = [row for row in rows if row[_LAYOUT_AT] == LAYOUT]
    ids = {memory_id for row in readable for memory_id in row[_IDS_AT]}
    existing = driver_connection(tx).execute(_THERE, values | {"ids": Uuids(list(ids))}, binary=True).fetchall()
    alive = {memory_id for (memory_id,) in existing}
    complete = [row for row in readable if alive.issuperset(row[_IDS_AT])]
    term_ids = {number for row in complete for number in row[_TERMS_AT]}
    words = (
        driver_connection(tx)
        .execute(_WORDS, values | {"numbers": Longs(np.array(sorted(term_ids), np.int64))})
        .fetchall()
    )
    left_out = {"other_layout": len(rows) - len(readable), "hidden_memories": len(readable) - len(complete)}
    return [_search(row, dict(words)) for row in reversed(complete)], left_out


_LAYOUT_AT, _IDS_AT, _TERMS_AT = 0, 1, 2
_NEWEST: Final = """
SELECT layout, memory_ids, term_ids, search_id, searched_at, session, subject, thread,
  CAST(request AS text), space_id, CAST(CAST(vector AS real[]) AS float8[]), parts, bases, results, corrections, used
FROM recorded_searches WHERE tenant_id = %(tenant)s ORDER BY searched_at DESC, search_id DESC LIMIT %(most)s
"""
_THERE: Final = """
SELECT memory_id FROM memories
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND deleted_at IS NULL
"""
_WORDS: Final = "SELECT word_id, word FROM words WHERE tenant_id = %(tenant)s AND word_id = ANY (%(numbers)s)"


def _search(row: Sequence[Any], words: Mapping[int, str]) -> RecordedSearch:
    _, ids, terms, search_id, searched_at, session, subject, thread, request, *rest = row
    space_id, vector, parts, bases, results, corrections, used = rest
    columns = np.frombuffer(parts, "<f8").reshape(len(COLUMNS), len(ids))
    pairs = list(zip(corrections[::2], corrections[1::2], strict=True))
    candidates = RecordedCandidates(ids, columns, frozenset(bases), vector is not None, pairs)
    return RecordedSearch(
        search_id,
        searched_at,
        session,
        subject,
        thread,
        msgspec.json.decode(request),
        space_id,
        None if vector is None else np.array(vector, np.float32),
        [words[number] for number in terms if number in words],
        candidates,
        results,
        used,
    )


def delete_all(tx: Connection, tenant_id: UUID) -> int:
    """Delete every record of a tenant. Return the number deleted.

    Args:
        tx: The tenant's transaction, which holds `lock`.
    """
    return driver_connection(tx).execute(_DELETE_ALL, {"tenant": tenant_id}).rowcount


_DELETE_ALL: Final = "DELETE FROM recorded_searches WHERE tenant_id = %(tenant)s"


HOLDS: Final = "EXISTS (SELECT FROM unnest(memory_ids) AS id WHERE id = ANY (%(ids)s))"
"""SQL condition for records with any of these memories; for many ids faster than `&&`, which compares all pairs."""
DELETE_WITH: Final = f"""
DELETE FROM recorded_searches WHERE tenant_id = %(tenant)s AND search_id = ANY (ARRAY(
  SELECT search_id FROM recorded_searches WHERE tenant_id = %(tenant)s AND {HOLDS} ORDER BY search_id FOR UPDATE))"""  # noqa: S608
"""SQL that deletes records with any of these memories among the candidates; take `lock` first."""


def delete_with(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Delete records with any of these memories among the candidates. Return the number deleted."""
    lock(tx, tenant_id)
    return driver_connection(tx).execute(DELETE_WITH, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).rowcount


NAMED: Final = """
FROM recorded_searches WHERE tenant_id = %(tenant)s
  AND (subject = %(subject)s::text OR thread = %(thread)s::text)"""
"""SQL for records whose filters name a subject or thread."""
