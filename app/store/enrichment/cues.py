"""Store cues in the rating rows of memories, and find memories whose cues match the lexemes of messages.

`inferred_cues` contains each cue as the model worded it. `cue_stems` contains the lexemes of each cue, sorted and
joined with spaces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.search.request import SearchRequest
from app.domain.text.words import content_words
from app.store.core.binary_arrays import driver_connection
from app.store.enrichment.indexed_words import lexemes_sql
from app.store.enrichment.reminders import FlagHolders
from app.store.enrichment.scores import Assessment
from app.store.search.query_parts import allowed_one_sql, filter_conditions

HOLDERS_MAX: Final = 1_000
"""Maximum number of memories, over all tiers, that have a cue; `find_holders` ignores more common cues."""


def write(tx: Connection, tenant_id: UUID, rated: Sequence[Assessment], language: str) -> None:
    """Write the cues of ratings that `scores.write` has just written.

    Args:
        tx: The transaction of the ratings.
        rated: Ratings; those that weren't written because their text has changed are skipped.
        language: Text search configuration that produces the lexemes.
    """
    rows = [
        {
            "memory_id": rating.memory_id,
            "text_version": rating.text_version,
            "version": rating.version,
            "cues": rating.inferred_cues,
            "contents": [" ".join(content_words(cue)) for cue in rating.inferred_cues],
        }
        for rating in rated
        if rating.inferred_cues
    ]
    if rows:
        values = {"tenant": tenant_id, "language": language, "rows": msgspec.json.encode(rows).decode()}
        tx.execute(_WRITE, values)


_WRITE = text(f"""
UPDATE scores SET inferred_cues = given.cues, cue_stems = ARRAY(
    SELECT DISTINCT stem FROM unnest(given.contents) AS content
    CROSS JOIN LATERAL (SELECT array_to_string(tsvector_to_array({lexemes_sql("content")}), ' ') AS stem OFFSET 0)
            AS read
    WHERE stem <> '' ORDER BY stem)
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS given (
  memory_id uuid, text_version integer, version text, cues text[], contents text[])
WHERE scores.tenant_id = :tenant AND scores.memory_id = given.memory_id AND scores.scorer = 'llm'
  AND scores.text_version = given.text_version AND scores.version = given.version
""")  # noqa: S608 - built from constants


def delete_outdated(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Delete cues that were inferred from former texts of these memories; the caller has locked their states."""
    tx.execute(_DELETE_OUTDATED, {"tenant": tenant_id, "ids": list(memory_ids)})


_DELETE_OUTDATED = text("""
UPDATE scores SET inferred_cues = '{}', cue_stems = '{}'
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[])) AND inferred_cues <> '{}'
  AND text_version < (
    SELECT memory.text_version FROM memories AS memory
    WHERE memory.tenant_id = :tenant AND memory.memory_id = scores.memory_id)
""")


def find_holders(
    tx: Connection, tenant_id: UUID, asked: Sequence[str], request: SearchRequest, most: int
) -> dict[str, FlagHolders]:
    """Return, by cue stem, the active memories with a cue whose lexemes all occur in `asked`.

    Cues of more than `HOLDERS_MAX` memories are omitted.

    Args:
        asked: Lexemes of a conversation.
        request: Supplies the filters; only the active tier is searched.
        most: Maximum number of memories over all cues; memories with the rarest cues are selected first.
    """
    values: dict[str, Any] = {"tenant": tenant_id, "asked": list(asked), "most": most, "holders": HOLDERS_MAX}
    filter_conditions(request, values)
    statement = _HOLDERS.format(allowed=allowed_one_sql("rarest.memory_id", request, values))
    return {stem: FlagHolders(*row) for stem, *row in driver_connection(tx).execute(statement, values, binary=True)}


# Looks memories up one by one, in order, so that the filters are evaluated for no more memories than needed.
_HOLDERS: Final = """
WITH
  found AS MATERIALIZED (SELECT memory_id, cue FROM cues_held(%(asked)s::text[])),
  held AS MATERIALIZED (
    SELECT memory_id, cue, count(*) OVER (PARTITION BY cue) AS holders
    FROM (SELECT *, count(*) OVER (PARTITION BY cue) AS holders FROM found OFFSET 0) AS counted
    WHERE holders <= %(holders)s AND (
      SELECT tier FROM memory_state WHERE tenant_id = %(tenant)s AND memory_state.memory_id = counted.memory_id
    ) = 'active'
  ),
  joining AS MATERIALIZED (
    SELECT memory_id, cue FROM (SELECT * FROM held ORDER BY holders, memory_id DESC OFFSET 0) AS rarest
    WHERE {allowed} LIMIT %(most)s
  )
SELECT cue, max(holders), coalesce(
  (SELECT array_agg(memory_id ORDER BY memory_id DESC) FROM joining WHERE joining.cue = held.cue), '{{}}')
FROM held GROUP BY cue
"""
