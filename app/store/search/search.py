"""The one statement that finds a search's candidates, by words and by meaning at once.

A tenant of not too many memories has all of them compared: row-level security keeps PostgreSQL from using a GIN index
for `@@`, and no index finds all that a comparison does. Of more, `pruned` finds what is worth comparing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.search import modes
from app.domain.search.candidates import Candidate
from app.domain.search.ranking import Ranking
from app.domain.search.request import SearchRequest
from app.store.core.packed import driver
from app.store.embedding import windows
from app.store.enrichment import corrections
from app.store.memories import roles
from app.store.search import archived, circumstances, pruned
from app.store.search.probe import MEASURED, Probe, allowed, allowed_one, literal, quoted, superseded, word_scores
from app.store.strength import states
from app.store.strength.states import Held

__all__ = ["CANDIDATES", "Found", "Probe", "allowed", "candidates"]

CANDIDATES: Final = 200
CANDIDATES_OF_MANY: Final = 150
_COLUMNS: Final = len(fields(Candidate))

# Loops over all pairs, which the planner likes while it has no statistics of a new tenant, took seconds. And no table
# is read through, so that a search takes no longer for what other tenants have.
_PLAN: Final = "SELECT set_config('enable_nestloop', 'off', true), set_config('enable_seqscan', 'off', true)"


class Found(NamedTuple):
    """The outcome of the statement.

    Attributes:
        candidates: Best first.
        held: Their states, from which their strengths are computed, in their order.
        now: By the database's clock, in seconds since 1970, after the rows were written; 0 without candidates.
        mark: Of the tenant's circumstances as the rows were read, as of `circumstances.MARK`; empty without candidates.
        has_corrections: Whether any memory of the tenant corrects another one.
    """

    candidates: list[Candidate]
    held: Held
    now: float = 0.0
    mark: str = ""
    has_corrections: bool = False


def candidates(
    tx: Connection,
    tenant_id: UUID,
    probe: Probe,
    request: SearchRequest,
    ranking: Ranking,
    limit: int | None = None,
) -> Found:
    """The memories that pass the request's filters, by `modes.selection`: words·W + relevance·R, best first.

    They are `limit` at most, or else `CANDIDATES`, of a large tenant `CANDIDATES_OF_MANY` where few results are wanted.
    A memory without a vector yet is found by its words, one without words by its vector; deleted ones never.
    Both scores are divided by the best memory's, so that they are 0 to 1.
    """
    if not probe.lexemes and not probe.has_vector and not probe.archived:
        return Found([], states.held(b""))
    words_weight, relevance_weight = modes.selection(ranking)
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "limit": limit or _most(probe, request),
        "words_weight": words_weight,
        "relevance_weight": relevance_weight,
    }
    found, every = _active(tx, probe, request, ranking, values), "found"
    if "archived" in request.tiers:
        found, every = archived.joined(found, probe, request, values), "every"
    rows = (
        driver(tx)
        .execute(_statement(found, every, _related(request, values), _before(ranking)), values, binary=True)
        .fetchall()
    )
    if not rows:
        return Found([], states.held(b""))
    held = states.held(b"".join([row[_COLUMNS] for row in rows]))
    clock, mark, has_corrections = rows[0][_COLUMNS + 1 :]
    best = [Candidate(*row[:_COLUMNS]) for row in rows]
    return Found(best, held, circumstances.now_of(tx, clock), mark, has_corrections)


def _most(probe: Probe, request: SearchRequest) -> int:
    is_short = probe.among is not None and request.limit <= pruned.SHORT_LIST
    return CANDIDATES_OF_MANY if is_short else CANDIDATES


def _active(tx: Connection, probe: Probe, request: SearchRequest, ranking: Ranking, values: dict[str, Any]) -> str:
    """Active memories with their scores, as parts of a WITH, and the plan set for them."""
    if "active" not in request.tiers or not (probe.lexemes or probe.has_vector):
        driver(tx).execute(_PLAN)
        return archived.NOBODY
    prunes = pruned.prunes(probe, request)
    ids = pruned.few(tx, request, values) if prunes else None
    if prunes and ids is None:
        driver(tx).execute(pruned.PLAN, pruned.plan(probe, request))
        return pruned.found(probe, request, ranking, values)
    driver(tx).execute(_PLAN)
    return _compared(probe, request, ranking, values, ids)


def _compared(
    probe: Probe, request: SearchRequest, ranking: Ranking, values: dict[str, Any], ids: Sequence[UUID] | None
) -> str:
    """Memories with their scores, each compared: all of the tenant's, or those of these ids.

    As parts of a WITH, the last of which is `found (memory_id, words, relevance)`. Among those without any of the
    words, no more than the nearest can be among the best.
    """
    words = _words(probe, request, ranking, values, ids) if probe.lexemes else pruned.NOTHING
    vectors = _vectors(probe, request, values, ids) if probe.has_vector else pruned.NOTHING
    return f"""
  by_words AS MATERIALIZED ({words}),
  by_vector AS MATERIALIZED ({vectors}),
  nearest AS MATERIALIZED (
    SELECT memory_id, score FROM by_vector WHERE score > 0 ORDER BY score DESC, memory_id DESC LIMIT %(limit)s
  ),
  found AS MATERIALIZED (
    SELECT memory_id, by_words.score AS words, by_vector.score AS relevance
    FROM by_words LEFT JOIN by_vector USING (memory_id)
    UNION ALL
    SELECT memory_id, NULL, score FROM nearest WHERE memory_id NOT IN (SELECT memory_id FROM by_words)
  )"""  # noqa: S608 - built from constants and bound values


def _words(
    probe: Probe, request: SearchRequest, ranking: Ranking, values: dict[str, Any], ids: Sequence[UUID] | None
) -> str:
    values["any_lexeme"] = " | ".join(map(quoted, probe.lexemes))
    score = word_scores(probe.lexemes, ranking.context, values)
    matching = f"{'words' if ranking.context else 'own'} @@ CAST(%(any_lexeme)s AS tsquery)"
    measured = _each("memory_words", "own, words", MEASURED, matching, _which(request, values, ids))
    return f"SELECT memory_id, {score} AS score FROM ({measured} OFFSET 0) AS measured"  # noqa: S608 - as above


def _vectors(probe: Probe, request: SearchRequest, values: dict[str, Any], ids: Sequence[UUID] | None) -> str:
    """Cosine to every vector of the space: the inner product, as they are unit vectors (`<#>` negates it).

    A long memory counts by the best of its windows where that is nearer.
    """
    values |= {"space": probe.space_id, "vector": literal(probe.vector)}
    score = "-(embedding <#> CAST(%(vector)s AS halfvec)) AS score"
    whole = _each("embeddings", "embedding, space_id", score, "space_id = %(space)s", _which(request, values, ids))
    return windows.lift(whole) if probe.has_windows else whole


def _which(request: SearchRequest, values: dict[str, Any], ids: Sequence[UUID] | None) -> tuple[str, bool]:
    """Which memories, as a condition on `memory_id`, and whether they are named."""
    if ids is None:
        return f"memory_id {allowed(request, values)}", False
    values["ids"] = list(ids)
    return allowed_one("named.memory_id", request, values), True


def _each(table: str, columns: str, score: str, condition: str, which: tuple[str, bool]) -> str:
    """A score of each row of a table; where the memories are named, they are looked up one by one."""
    whose, are_named = which
    if not are_named:
        return f"SELECT memory_id, {score} FROM {table} WHERE tenant_id = %(tenant)s AND {condition} AND {whose}"  # noqa: S608 - as above
    return f"""
    SELECT named.memory_id, {score} FROM unnest(CAST(%(ids)s AS uuid[])) AS named (memory_id) CROSS JOIN LATERAL (
      SELECT {columns} FROM {table} WHERE tenant_id = %(tenant)s AND {table}.memory_id = named.memory_id
        AND {condition} OFFSET 0
    ) AS known WHERE {whose}"""  # noqa: S608 - as above


def _related(request: SearchRequest, values: dict[str, Any]) -> str:
    """Columns of what a candidate supersedes and what supersedes it; where there are none at all, none are looked up.

    Nothing supersedes a candidate, unless such are wanted as well.
    """
    older = superseded(request, values)
    newer = older.replace("superseded_id", "memory_id", 1)
    some = f"CASE WHEN (SELECT EXISTS ({older})) THEN"
    by_others = f"{some} ARRAY({newer} AND superseded_id = top.memory_id) END" if request.superseded else "NULL"
    return f"{some} ARRAY({older} AND supersessions.memory_id = top.memory_id) END, {by_others}"


def _before(ranking: Ranking) -> str:
    """A column of the turn before a candidate in its thread, where neighbours count."""
    if not ranking.neighbours or ranking.mode != "hybrid":
        return "CAST(NULL AS uuid)"
    return """(
    SELECT turn.memory_id FROM memories AS turn
    WHERE turn.tenant_id = %(tenant)s AND turn.thread = memory.thread AND turn.seq < memory.seq
      AND turn.made_by = 'caller' AND turn.deleted_at IS NULL
    ORDER BY turn.seq DESC LIMIT 1)"""


def _statement(parts: str, found: str, related: str, before: str) -> str:
    """Of parts of a WITH, the last of which has this name: the best by the base score.

    Args:
        parts: The parts.
        found: The name.
        related: Columns of what a candidate supersedes, and what supersedes it.
        before: The column of the turn before it.
    """
    return f"""
WITH {parts},
  most AS MATERIALIZED (
    SELECT nullif(greatest(max(words), 0), 0) AS words, nullif(greatest(max(relevance), 0), 0) AS relevance FROM {found}
  ),
  scored AS (
    SELECT memory_id, found.relevance IS NOT NULL AS is_embedded, greatest(found.relevance, 0) AS cosine,
           coalesce(found.words / most.words, 0) AS words,
           coalesce(greatest(found.relevance, 0) / most.relevance, 0) AS relevance
    FROM {found} AS found CROSS JOIN most WHERE found.words > 0 OR found.relevance > 0
  ),
  top AS MATERIALIZED (
    SELECT memory_id, words, relevance, cosine, is_embedded,
           words * CAST(%(words_weight)s AS float8) + relevance * CAST(%(relevance_weight)s AS float8) AS score
    FROM scored ORDER BY score DESC, memory_id DESC LIMIT %(limit)s
  )
SELECT top.memory_id, text, subject, thread, speaker, external_id, kind, tags, occurred_at, created_at,
       tier, top.words, top.relevance, top.cosine, {related}, role, {before}, is_embedded, record,
       {circumstances.CLOCK}, {circumstances.MARK}, {corrections.ANY}
FROM top CROSS JOIN LATERAL (
  SELECT text, subject, thread, speaker, external_id, kind, tags, occurred_at, created_at, seq,
    {roles.EFFECTIVE} AS role
  FROM memories
  WHERE tenant_id = %(tenant)s AND memories.memory_id = top.memory_id AND deleted_at IS NULL OFFSET 0
) AS memory CROSS JOIN LATERAL (
  SELECT tier, {states.RECORD} AS record FROM memory_state
  WHERE tenant_id = %(tenant)s AND memory_state.memory_id = top.memory_id OFFSET 0
) AS state
ORDER BY top.score DESC, top.memory_id DESC
"""  # noqa: S608 - built from constants and bound values
