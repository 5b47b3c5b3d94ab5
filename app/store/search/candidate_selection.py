"""Find a search's candidates by words and meaning, in one statement.

For a tenant with a moderate number of memories, all memories are compared: row-level security prevents PostgreSQL from
using a GIN index for `@@`, and no index finds everything that a comparison finds. For larger tenants,
`indexed_candidates` selects the memories worth comparing.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.domain.ingest.memory import COLUMNS
from app.domain.search import scoring
from app.domain.search.candidate_types import Candidate
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest
from app.store.core import database, kept_plans
from app.store.core.binary_arrays import Halfvec, driver_connection
from app.store.embedding import windows
from app.store.enrichment import corrections
from app.store.memories import roles
from app.store.search import archive_candidates, indexed_candidates, search_context
from app.store.search.indexed_candidates import FewMemories, Passing
from app.store.search.query_parts import (
    MEASURED,
    PLANNER_SETTINGS,
    SearchProbe,
    allowed_sql,
    filter_conditions,
    quote_lexeme,
    superseded_sql,
    word_score_sql,
)
from app.store.strength import states
from app.store.strength.states import StoredStates

__all__ = ["CANDIDATES", "FoundCandidates", "SearchProbe", "allowed_sql", "find_candidates"]

CANDIDATES: Final = 200
"""Maximum number of candidates by default."""
CANDIDATES_OF_MANY: Final = 150
"""Maximum number of candidates for large tenants and short result lists."""
_CANDIDATE: Final = Candidate.__struct_fields__
_COLUMNS: Final = len(_CANDIDATE)
_SHOWN: Final = [field.name for field in COLUMNS if field.name in _CANDIDATE and field.name != "role"]

_PLANNED_BY: Final = ("tenant", "space", "limit", "by_words", "by_vector", "elsewhere")
"""Parameters that the usual search contains as literals, because its plan depends on their values.

For example, PostgreSQL uses a tenant's dedicated indexes only if the tenant's id is a literal.
"""


class FoundCandidates(NamedTuple):
    """A search's candidates, as returned by the statement.

    Attributes:
        candidates: Best first.
        held: States of the candidates, in the same order, from which strengths are computed.
        now: The database's time in seconds since 1970, after the rows were written; 0 without candidates.
        mark: The tenant's version stamp when the rows were read, as in `search_context.MARK`; empty without candidates.
        has_corrections: The tenant has a memory that corrects another.
    """

    candidates: list[Candidate]
    held: StoredStates
    now: float = 0.0
    mark: str = ""
    has_corrections: bool = False


def expected_settings(request: SearchRequest, *, has_graph: bool) -> str:
    """Return the settings for `database.tenant` that `find_candidates` needs if the query has known words.

    If it needs other settings, it executes one more statement.

    Args:
        has_graph: The tenant has a graph of its own.
    """
    uses_graph = has_graph and not filter_conditions(request, {})
    settings_sql = (
        indexed_candidates.settings_sql(indexed_candidates.graph_breadth(request, has_words=True))
        if uses_graph
        else PLANNER_SETTINGS
    )
    return _with_kept_plan(settings_sql, keeps_plan=_is_usual(request))


def find_candidates(
    tx: Connection,
    tenant_id: UUID,
    probe: SearchProbe,
    request: SearchRequest,
    ranking: Ranking,
    limit: int | None = None,
) -> FoundCandidates:
    """Return the memories that pass the request's filters, best first.

    They are ranked by `scoring.selection`: words·W + relevance·R. Their number is limited by `limit`, or by
    `CANDIDATES`; for large tenants and short result lists by `CANDIDATES_OF_MANY`. A memory without a vector can
    be found by its words, and a memory without indexed words by its vector. Deleted memories are never returned. Both
    scores are divided by the best memory's score, so they range from 0 to 1.
    """
    if not probe.lexemes and not probe.has_vector and not probe.archived:
        return FoundCandidates([], states.decode_states(b""))
    words_weight, relevance_weight = scoring.selection(ranking)
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "limit": limit or _candidates_max(probe, request),
        "words_weight": words_weight,
        "relevance_weight": relevance_weight,
    }
    is_usual = _is_usual(request)
    filter_conditions(request, values)
    found, last_clause = _active(tx, probe, request, ranking, values, keeps_plan=is_usual), "found"
    if "archived" in request.tiers:
        found, last_clause = archive_candidates.archive_clauses(found, probe, request, values), "every"
    statement = _statement(found, last_clause, _related(request, values), _previous_turn_sql(ranking))
    if is_usual:
        statement = kept_plans.inline_values(statement, values, _PLANNED_BY)
    rows = kept_plans.fetch_all(tx, statement, values, keeps_plan=is_usual)
    if not rows:
        return FoundCandidates([], states.decode_states(b""))
    best = [Candidate(*row[:_COLUMNS]) for row in rows]
    stored = states.decode_states(b"".join([row[_COLUMNS] for row in rows]), [found.memory_id for found in best])
    clock, mark, has_corrections = rows[0][_COLUMNS + 1 :]
    return FoundCandidates(best, stored, search_context.reference_time(tx, clock), mark, has_corrections)


def _is_usual(request: SearchRequest) -> bool:
    """Return True if the search's plan may be kept: active memories without filters."""
    return request.tiers == ("active",) and not filter_conditions(request, {})


def _with_kept_plan(settings_sql: str, *, keeps_plan: bool) -> str:
    return f"{settings_sql}, {kept_plans.SETTING}" if keeps_plan else settings_sql


def _candidates_max(probe: SearchProbe, request: SearchRequest) -> int:
    is_short = probe.among is not None and request.limit <= indexed_candidates.SHORT_LIST
    return CANDIDATES_OF_MANY if is_short else CANDIDATES


def _active(
    tx: Connection,
    probe: SearchProbe,
    request: SearchRequest,
    ranking: Ranking,
    values: dict[str, Any],
    *,
    keeps_plan: bool,
) -> str:
    """Return WITH clauses that score the active memories, and set the matching planner options."""
    planner_settings, clauses = PLANNER_SETTINGS, archive_candidates.NOBODY
    if "active" in request.tiers and (probe.lexemes or probe.has_vector):
        uses_indexes = indexed_candidates.uses_indexes(probe, request)
        passing = indexed_candidates.find_passing(tx, probe, request, values) if uses_indexes else Passing(None)
        if uses_indexes and passing.few is None:
            breadth = indexed_candidates.graph_breadth(request, has_words=bool(probe.lexemes))
            planner_settings = indexed_candidates.settings_sql(breadth)
            clauses = indexed_candidates.candidate_clauses(probe, request, ranking, values, passing.share)
        else:
            clauses = _compared(probe, request, ranking, values, passing.few)
    _apply_settings(tx, _with_kept_plan(planner_settings, keeps_plan=keeps_plan))
    return clauses


def _apply_settings(tx: Connection, settings_sql: str) -> None:
    """Apply planner settings, unless the transaction was opened with them."""
    if settings_sql != database.initial_settings(tx):
        reset = "set_config('enable_sort', 'on', true), set_config('plan_cache_mode', 'force_custom_plan', true)"
        driver_connection(tx).execute(f"SELECT {reset}, {settings_sql}".encode())


def _compared(
    probe: SearchProbe, request: SearchRequest, ranking: Ranking, values: dict[str, Any], few: FewMemories | None
) -> str:
    """Return WITH clauses that compare and score all of the tenant's memories, or only a few.

    The last clause is `found (memory_id, words, relevance)`. Of the memories without any of the words, only the nearest
    can be among the best.
    """
    which = None if few else f"memory_id {allowed_sql(request, values)}"
    words = _words(probe, ranking, values, which) if probe.lexemes else indexed_candidates.NOTHING
    vectors = indexed_candidates.NOTHING
    if probe.vector is not None and probe.has_vector:
        vectors = _vectors(probe, probe.vector, values, which)
    return f"""{_named(few, request, values)}
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


def _named(few: FewMemories | None, request: SearchRequest, values: dict[str, Any]) -> str:
    """Return the WITH clause `named`, which checks once which of the few memories may be candidates; empty for None."""
    if few is None:
        return ""
    values["ids"] = few.ids
    visible = indexed_candidates.visible_sql("given.memory_id", request, values, is_checked=few.are_checked)
    return f"""
  {indexed_candidates.elsewhere_clause(request, values)},
  named AS MATERIALIZED (
    SELECT memory_id FROM unnest(CAST(%(ids)s AS uuid[])) AS given (memory_id) WHERE {visible}
  ),"""  # noqa: S608 - built from constants and bound values


def _words(probe: SearchProbe, ranking: Ranking, values: dict[str, Any], which: str | None) -> str:
    """Return SQL for the word scores of memories that contain any of the query's lexemes."""
    values["any_lexeme"] = " | ".join(map(quote_lexeme, probe.lexemes))
    score = word_score_sql(probe.lexemes, ranking.context, values)
    matching = f"{'words' if ranking.context else 'own'} @@ CAST(%(any_lexeme)s AS tsquery)"
    measured = _score_sql("memory_words", "own, words", MEASURED, matching, which)
    return f"SELECT memory_id, {score} AS score FROM ({measured} OFFSET 0) AS measured"  # noqa: S608 - as above


def _vectors(probe: SearchProbe, vector: NDArray[np.float32], values: dict[str, Any], which: str | None) -> str:
    """Return SQL for the cosine to every vector of the space: the inner product of unit vectors (`<#>` negates it).

    A long memory gets the score of its best window if that is higher.
    """
    values |= {"space": probe.space_id, "vector": Halfvec(vector)}
    score = "-(embedding <#> CAST(%(vector)s AS halfvec)) AS score"
    whole = _score_sql("embeddings", "embedding, space_id", score, "space_id = %(space)s", which)
    return windows.lift_sql(whole) if probe.has_windows else whole


def _score_sql(table: str, columns: str, score: str, condition: str, which: str | None) -> str:
    """Return SQL for a score of each row of a table; the memories in `named` are looked up one by one.

    Args:
        which: Condition on `memory_id` that selects the memories; None selects those in `named`.
    """
    if which is not None:
        return f"SELECT memory_id, {score} FROM {table} WHERE tenant_id = %(tenant)s AND {condition} AND {which}"  # noqa: S608 - as above
    return f"""
    SELECT named.memory_id, {score} FROM named CROSS JOIN LATERAL (
      SELECT {columns} FROM {table} WHERE tenant_id = %(tenant)s AND {table}.memory_id = named.memory_id
        AND {condition} OFFSET 0
    ) AS known"""  # noqa: S608 - as above


def _related(request: SearchRequest, values: dict[str, Any]) -> dict[str, str]:
    """Return the columns of superseded and superseding memories; without any supersession nothing is looked up.

    Superseding memories are NULL unless the request includes superseded memories.
    """
    older = superseded_sql(request, values)
    newer = older.replace("superseded_id", "memory_id", 1)
    if_any = f"CASE WHEN (SELECT EXISTS ({older})) THEN"
    superseded_by = f"{if_any} ARRAY({newer} AND superseded_id = top.memory_id) END" if request.superseded else "NULL"
    return {
        "supersedes": f"{if_any} ARRAY({older} AND supersessions.memory_id = top.memory_id) END",
        "superseded_by": superseded_by,
    }


def _previous_turn_sql(ranking: Ranking) -> str:
    """Return a column with the preceding turn in the candidate's thread, if neighbours count in the ranking."""
    if not ranking.neighbours or ranking.mode != "hybrid":
        return "CAST(NULL AS uuid)"
    return """(
    SELECT turn.memory_id FROM memories AS turn
    WHERE turn.tenant_id = %(tenant)s AND turn.thread = memory.thread AND turn.seq < memory.seq
      AND turn.made_by = 'caller' AND turn.deleted_at IS NULL
    ORDER BY turn.seq DESC LIMIT 1)"""


def _statement(parts: str, found: str, related: dict[str, str], before: str) -> str:
    """Build the statement that returns the best memories by base score.

    Args:
        parts: WITH clauses.
        found: Name of the last clause.
        related: Columns of superseded and superseding memories, by field.
        before: Column of the preceding turn.
    """
    own = {name: f"top.{name}" for name in ("memory_id", "words", "relevance", "cosine")}
    own |= related | {"before_id": before, "metadata": "CAST(memory.metadata AS text)"}
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
SELECT {", ".join(own.get(name, name) for name in _CANDIDATE)}, record,
       {search_context.CLOCK}, {search_context.MARK}, {corrections.ANY}
FROM top CROSS JOIN LATERAL (
  SELECT {", ".join(_SHOWN)}, created_at, seq, {roles.EFFECTIVE} AS role
  FROM memories
  WHERE tenant_id = %(tenant)s AND memories.memory_id = top.memory_id AND deleted_at IS NULL
    AND (expires_at IS NULL OR expires_at > clock_timestamp()) OFFSET 0
) AS memory CROSS JOIN LATERAL (
  SELECT tier, {states.RECORD} AS record FROM memory_state
  WHERE tenant_id = %(tenant)s AND memory_state.memory_id = top.memory_id OFFSET 0
) AS state
ORDER BY top.score DESC, top.memory_id DESC
"""  # noqa: S608 - built from constants and bound values
