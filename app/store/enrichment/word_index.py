"""Maintain the full-text index: each memory's words, its context in the thread, and document frequencies.

In `memory_words`, the column `own` contains a memory's own words (date, speaker unless it only names a role, text). The
column `words` also contains the words of the neighbouring turns: up to two before and two after the memory in its
thread, excluding summaries. The table `words` contains each tenant's document frequencies: the number of memories whose
own words include a lexeme. The row of the empty lexeme contains the number of indexed memories.

Changes to one tenant's words are serialised by an advisory lock until the transaction ends. Neighbours that are indexed
concurrently therefore include each other's words, and the counts stay exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import Connection, TextClause, text

from app.domain.search.terms import QueryTerm
from app.store.core.binary_arrays import Uuids
from app.store.core.kept_plans import fetch_all
from app.store.enrichment.indexed_words import ascii_lexemes_sql, lexemes_sql
from app.store.memories.roles import NAME
from app.store.memories.turns import neighbours_sql, span_sql

LONG_LEXEMES: Final = 24
"""Memories with at most this many distinct lexemes are stored without positions; each lexeme then counts as occurring
once."""

_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")

# Reads the turns of the fresh memories and up to four turns around them (neighbours of neighbours), and writes the rows
# of all turns within two turns of a fresh memory. Fresh memories are read by id, and every join uses a primary key:
# without statistics, the planner would read all of the tenant's rows or loop over all pairs.
_SEW = """
  wanted AS MATERIALIZED (
    SELECT memory_id, CASE WHEN made_by = 'caller' THEN thread END AS thread, seq, text_version, speaker, text,
      occurred_at, created_at
    FROM memories
    WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[])) AND deleted_at IS NULL
      AND (SELECT true FROM memory_state WHERE tenant_id = :tenant AND memory_state.memory_id = memories.memory_id
        AND tier <> 'active') IS NULL
  ),
  span AS (
    SELECT thread, min(seq) AS first_seq, max(seq) AS last_seq FROM wanted WHERE thread IS NOT NULL GROUP BY thread
  ),
  near AS (
    SELECT turn.*, memory_id IN (SELECT memory_id FROM wanted) AS is_fresh
    FROM span CROSS JOIN LATERAL (
      {turns}
    ) AS turn
    UNION ALL
    SELECT wanted.*, true FROM wanted WHERE thread IS NULL
  ),
  marked AS (
    SELECT near.*, coalesce(thread, CAST(memory_id AS text)) AS place, bool_or(is_fresh) OVER (
      PARTITION BY thread ORDER BY seq, memory_id ROWS BETWEEN 4 PRECEDING AND 4 FOLLOWING) AS is_needed
    FROM near
  ),
  turns AS MATERIALIZED (
    SELECT memory_id, thread, place, seq, is_fresh,
           known.own AS own_before, {own} AS own, {version} AS version
    FROM marked LEFT JOIN LATERAL (
      SELECT own, text_version AS version FROM memory_words
      WHERE tenant_id = :tenant AND memory_words.memory_id = marked.memory_id OFFSET 0
    ) AS known ON true
    WHERE is_needed
  ),
  sewn AS (
    SELECT memory_id, version, own,
           bare || coalesce(lag(bare, 1) OVER places, '') || coalesce(lag(bare, 2) OVER places, '')
                || coalesce(lead(bare, 1) OVER places, '') || coalesce(lead(bare, 2) OVER places, '') AS words,
           bool_or(is_fresh) OVER (places ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING) AS is_near
    FROM (SELECT *, strip(own) AS bare FROM turns OFFSET 0) AS turns
    WINDOW places AS (PARTITION BY thread, place ORDER BY seq, memory_id)
  ),
  written AS (
    INSERT INTO memory_words AS known (tenant_id, memory_id, text_version, own, words)
    SELECT :tenant, memory_id, version, own, words FROM sewn
    WHERE is_near AND own IS NOT NULL ORDER BY memory_id
    ON CONFLICT (tenant_id, memory_id) DO UPDATE
    SET text_version = excluded.text_version, own = excluded.own, words = excluded.words
    WHERE known.text_version <= excluded.text_version
      AND (known.text_version, known.own, known.words)
        IS DISTINCT FROM (excluded.text_version, excluded.own, excluded.words)
  ),
  changes AS MATERIALIZED (
    SELECT word, CAST(sum(change) AS integer) AS change
    FROM (SELECT unnest(list) AS word, change FROM ({changes}) AS said (list, change)) AS each
    GROUP BY word HAVING sum(change) <> 0
  ),
  grown AS (
    INSERT INTO words (tenant_id, word, documents)
    SELECT :tenant, word, change FROM changes WHERE change > 0 ORDER BY word
    ON CONFLICT (tenant_id, word) DO UPDATE SET documents = words.documents + excluded.documents
  ),
  rarer AS (SELECT ARRAY(SELECT word FROM changes WHERE change < 0) AS list),
  shrunk AS (
    UPDATE words SET documents = documents + change FROM changes
    WHERE words.tenant_id = :tenant AND words.word = ANY (CAST((SELECT list FROM rarer) AS text[]))
      AND words.word = changes.word AND documents + change > 0
  ),
  vanished AS (
    DELETE FROM words USING changes
    WHERE words.tenant_id = :tenant AND words.word = ANY (CAST((SELECT list FROM rarer) AS text[]))
      AND words.word = changes.word AND documents + change <= 0
  )
"""

_GONE = "memory_id <> ALL (CAST(:gone AS uuid[]))"
_SPAN = span_sql(
    "memory_id, thread, seq, text_version, speaker, text, occurred_at, created_at",
    before="4",
    after="4",
    counted=_GONE,
)
_SAID = f"""concat_ws(' ',
  to_char(coalesce(occurred_at, created_at) AT TIME ZONE :time_zone, 'FMDD FMMonth YYYY'), {NAME}, text)"""

# Ranking uses term frequency in long texts, so their lexemes are stored with positions.
_OWN = f"""(
  SELECT CASE WHEN length(said) > {LONG_LEXEMES} THEN said ELSE strip(said) END
  FROM (SELECT {lexemes_sql(_SAID)} AS said OFFSET 0) AS parsed)"""  # noqa: S608 - built from constants

# Parses the words of fresh memories; the words of the turns around them are read from `memory_words`.
_INDEX = text(
    "WITH"  # noqa: S608 - built from constants
    + _SEW.format(
        turns=_SPAN,
        own=f"CASE WHEN is_fresh THEN {_OWN} ELSE known.own END",
        version="CASE WHEN is_fresh THEN text_version ELSE known.version END",
        changes="""
      SELECT tsvector_to_array(own) || CASE WHEN own_before IS NULL THEN ARRAY[''] END, 1
      FROM turns WHERE is_fresh AND own IS DISTINCT FROM own_before
      UNION ALL
      SELECT tsvector_to_array(own_before), -1 FROM turns WHERE is_fresh AND own <> own_before
    """,
    )
    + "SELECT count(*) FROM turns WHERE is_fresh"
)


def _removal(ids: str, own: str) -> TextClause:
    """Return the statement that removes the words of memories.

    The statement treats the neighbours of the removed memories as fresh: it rebuilds their context and keeps their own
    words.

    Args:
        ids: Name of the parameter with the ids of the removed memories.
        own: SQL for a turn's own words, which its neighbours include as context.
    """
    deletion = f"""WITH
  removed AS (
    DELETE FROM memory_words
    WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:{ids} AS uuid[])) RETURNING own
  ),"""  # noqa: S608 - built from constants
    changes = """
      SELECT tsvector_to_array(own) || ARRAY[''], -1 FROM removed
    """
    rebuild = _SEW.format(turns=_SPAN, own=own, version="known.version", changes=changes)
    return text(f"{deletion}{rebuild}SELECT count(*) FROM removed")  # noqa: S608 - built from constants


_REMOVE = _removal("gone", "known.own")
# A memory that leaves the active tier retains its position in the thread, without words. If it lost the position,
# adding a turn after a long run of archived turns would scan the whole run.
_TAKE_OUT = _removal("out", "CASE WHEN marked.memory_id <> ALL (CAST(:out AS uuid[])) THEN known.own END")
_BESIDE = text(neighbours_sql("2", returned="turn.memory_id <> ALL (CAST(:ids AS uuid[]))"))
_NEIGHBOURS = text(neighbours_sql("2", counted="memory_id <> ALL (CAST(:ids AS uuid[]))"))


def _terms_sql(lexemes: Callable[[str], str]) -> str:
    """Return SQL for the lexemes of a query and of spellings, with their document frequencies.

    The rows refer to spellings by number, because a spelling may be very long. Each lexeme is looked up by primary key,
    whatever the planner's settings are, so that the statement may use a kept plan.
    """
    statement = f"""
WITH asked AS (
  SELECT CAST(NULL AS bigint) AS number, unnest(tsvector_to_array({lexemes("CAST(:query AS text)")})) AS lexeme
  UNION ALL
  SELECT number, unnest(tsvector_to_array({lexemes("spelling")}))
  FROM unnest(CAST(:spellings AS text[])) WITH ORDINALITY AS each (spelling, number)
  UNION ALL
  SELECT NULL, ''
)
SELECT lexeme, coalesce(documents, 0), number
FROM (
  SELECT lexeme, number,
         (SELECT documents FROM words WHERE words.tenant_id = :tenant AND words.word = asked.lexeme) AS documents
  FROM asked OFFSET 0
) AS counted
WHERE number IS NOT NULL OR documents IS NOT NULL OR CAST(:every AS boolean)
"""  # noqa: S608 - built from constants
    return re.sub(r":(query|spellings|language|tenant|every)\b", r"%(\1)s", statement)


_TERMS: Final = _terms_sql(lexemes_sql)
_ASCII_TERMS: Final = _terms_sql(ascii_lexemes_sql)

_SAID_WORDS = text("""
SELECT memory_id,
       ARRAY(SELECT lexeme FROM unnest(own) WHERE lexeme = ANY (CAST(:lexemes AS text[]))),
       ARRAY(SELECT lexeme FROM unnest(words) WHERE lexeme = ANY (CAST(:lexemes AS text[])))
FROM (
  SELECT memory_id, own, words FROM memory_words
  WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[]))
  UNION ALL
  SELECT memory_id, own, own FROM archived_memories
  WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[]))
) AS known
""")


def index_words(tx: Connection, tenant_id: UUID, ids: Sequence[UUID], language: str, time_zone: str) -> int:
    """Write the words of these memories and of the neighbours whose context changes, and update the counts.

    Deleted and inactive memories are skipped. The call is idempotent. After a memory has moved to another thread, pass
    its former neighbours (`list_neighbours`) too.

    Args:
        ids: New or edited memories.
        language: Text search configuration.
        time_zone: IANA name of the time zone that determines a memory's date.

    Returns:
        The number of these memories that were indexed.
    """
    _lock(tx, tenant_id)
    values = {"tenant": tenant_id, "ids": Uuids(ids), "gone": Uuids(()), "language": language, "time_zone": time_zone}
    return int(tx.execute(_INDEX, values).scalar_one())


def remove(tx: Connection, tenant_id: UUID, ids: Sequence[UUID]) -> int:
    """Remove these memories' words from the index, from the context of their neighbours, and from the counts.

    Call it in the transaction that deletes the memories, while their rows in `memories` still exist.

    Returns:
        The number of memories that had words.
    """
    _lock(tx, tenant_id)
    values = {"tenant": tenant_id, "gone": list(ids), "ids": list_neighbours(tx, tenant_id, ids)}
    return int(tx.execute(_REMOVE, values).scalar_one())


def delete_words(tx: Connection, tenant_id: UUID, ids: Sequence[UUID]) -> int:
    """Remove the words of memories that leave the active tier; the memories retain their positions in their threads.

    Returns:
        The number of memories that had words.
    """
    _lock(tx, tenant_id)
    neighbours = list(tx.execute(_BESIDE, {"tenant": tenant_id, "ids": list(ids)}).scalars())
    values = {"tenant": tenant_id, "out": list(ids), "gone": [], "ids": neighbours}
    return int(tx.execute(_TAKE_OUT, values).scalar_one())


def list_neighbours(tx: Connection, tenant_id: UUID, ids: Sequence[UUID]) -> list[UUID]:
    """Return the other memories within two turns of these memories in their threads, in id order."""
    return list(tx.execute(_NEIGHBOURS, {"tenant": tenant_id, "ids": list(ids)}).scalars())


def count_terms(
    tx: Connection, tenant_id: UUID, query: str, spellings: Sequence[str], language: str, *, every: bool = False
) -> tuple[list[QueryTerm], int]:
    """Return lexemes of a query and of spellings with their document frequencies, and the number of active memories.

    Args:
        spellings: Words whose lexemes are returned with a reference to the word, even if they occur in no memory.
        language: Text search configuration.
        every: Return the query's own lexemes even if they occur in no memory.
    """
    values = {"tenant": tenant_id, "query": query, "spellings": list(spellings), "language": language, "every": every}
    statement = _ASCII_TERMS if query.isascii() and all(map(str.isascii, spellings)) else _TERMS
    rows = fetch_all(tx, statement, values)
    terms = [
        QueryTerm(lexeme, documents, None if number is None else spellings[number - 1])
        for lexeme, documents, number in rows
    ]
    total = sum(term.documents for term in terms if not term.lexeme)
    return [term for term in terms if term.lexeme], total


def find_lexemes(
    tx: Connection, tenant_id: UUID, ids: Sequence[UUID], lexemes: Sequence[str]
) -> dict[UUID, tuple[frozenset[str], frozenset[str]]]:
    """Return, by memory, which of these lexemes occur in its own words, and which only in its neighbours' words."""
    rows = tx.execute(_SAID_WORDS, {"tenant": tenant_id, "ids": list(ids), "lexemes": list(lexemes)})
    return {memory_id: (frozenset(own), frozenset(words) - frozenset(own)) for memory_id, own, words in rows}


def _lock(tx: Connection, tenant_id: UUID) -> None:
    tx.execute(_LOCK, {"name": f"ebbing words {tenant_id}"})
