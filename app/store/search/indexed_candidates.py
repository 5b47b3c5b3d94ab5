"""Find a search's candidates among very many memories, using the tenant's dedicated indexes.

Words come from a GIN index and vectors from a graph (HNSW), both containing only this tenant, so other tenants' data
affects neither the results nor the latency. Vectors that aren't in the graph yet are compared one by one.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.search import prefilter
from app.domain.search.parameters import Ranking
from app.domain.search.request import SearchRequest
from app.store.core.binary_arrays import Halfvec, Uuids, driver_connection
from app.store.embedding import windows
from app.store.memories.content_filters import list_by_metadata
from app.store.search.query_parts import (
    PLANNER_SETTINGS,
    SearchProbe,
    aside_sql,
    filter_conditions,
    passing_one_sql,
    quote_lexeme,
    superseded_sql,
    visible_one_sql,
)

FEW: Final = 5000
"""Number of memories passing the filters up to which they are compared one by one."""
SAMPLED_AT: Final = 24
"""Number of places in id order where memories are sampled, to estimate the share that passes the filters."""
SAMPLED_EACH: Final = 10
"""Number of memories read at each of these places."""
BUDGET_MOST: Final = 12_000
"""Maximum number of memories that a filtered search compares by words before it filters them."""
BY_WORDS: Final = 300
"""Maximum number of candidates by words."""
BY_VECTOR: Final = 80
"""Maximum number of candidates by vector in the usual case."""
BY_VECTOR_ALONE: Final = 200
"""Maximum number of candidates by vector if the query has no words or requests more than `SHORT_LIST` results."""
SHORT_LIST: Final = 50
BREADTH_ALONE: Final = 1000
"""The graph's `ef_search` if the query has no words."""
ELSEWHERE: Final = 500
"""Maximum number of excluded memories that are read in advance; if there are more, each candidate is checked.

Excluded memories are outside the active tier, superseded, or excluded by their role.
"""


def uses_indexes(probe: SearchProbe, request: SearchRequest) -> bool:
    """Return True if the tenant's dedicated indexes are used instead of comparing all of its memories.

    They cover only active memories; searches of other tiers are rare and mostly concern few memories.
    """
    return probe.among is not None and "active" in request.tiers


class FewMemories(NamedTuple):
    """Ids of the memories to be compared; `are_checked` is True if all of them pass every filter."""

    ids: list[UUID]
    are_checked: bool


class Passing(NamedTuple):
    """The memories that pass a search's filters.

    Attributes:
        few: At most `FEW` memories, among them all that pass; None if there are more, or no filters.
        share: Estimated share of the tenant's memories, greater than 0, up to 1.
    """

    few: FewMemories | None
    share: float = 1.0


def find_passing(tx: Connection, probe: SearchProbe, request: SearchRequest, values: dict[str, Any]) -> Passing:
    """List the memories that pass the request's filters if they are few, or estimate their share.

    Few memories are found by an index on their subject, thread or ids. For other filters, a sample tells first whether
    they may be few, because PostgreSQL may have to read all memories to find them.
    """
    conditions = filter_conditions(request, values)
    if not conditions:
        return Passing(None)
    is_narrow = any((request.subject, request.thread, request.external_id, request.external_ids, request.ids))
    share = 0.0 if is_narrow else _estimate_share(tx, conditions, values)
    few = None
    if share * (probe.among or 0) <= FEW:
        few = _list_few(tx, request, conditions, values, by_metadata=bool(request.metadata) and not is_narrow)
    if few is None and is_narrow:
        share = _estimate_share(tx, conditions, values)
    return Passing(few, max(share, 1 / (SAMPLED_AT * SAMPLED_EACH)))


def _list_few(
    tx: Connection, request: SearchRequest, conditions: list[str], values: dict[str, Any], *, by_metadata: bool
) -> FewMemories | None:
    """Return the memories that pass the filters; None if there are more than `FEW`.

    With `by_metadata`, return all memories that match the metadata filter if these are at most `FEW`.
    """
    if by_metadata:
        matching = list_by_metadata(tx, request, FEW + 1)
        if len(matching) <= FEW:
            return FewMemories(matching, len(conditions) == 1)
        if len(conditions) == 1:
            return None
    rows = driver_connection(tx).execute(_few_sql(conditions), values | {"few": FEW + 1}, binary=True)
    ids = [memory_id for (memory_id,) in rows]
    return FewMemories(ids, are_checked=True) if len(ids) <= FEW else None


def _estimate_share(tx: Connection, conditions: list[str], values: dict[str, Any]) -> float:
    """Return the share of the tenant's memories that pass, from memories accepted at evenly spaced times."""
    connection = driver_connection(tx)
    first, last = connection.execute(_ENDS, values, binary=True).fetchone() or (None, None)
    if first is None or last is None:
        return 0.0
    step = (last.int - first.int) / SAMPLED_AT
    starts = [UUID(int=first.int + int(step * place)) for place in range(SAMPLED_AT)]
    read, passing = connection.execute(
        _sample_sql(conditions), values | {"starts": Uuids(starts), "each": SAMPLED_EACH}, binary=True
    ).fetchone() or (0, 0)
    return passing / read if read else 0.0


_ENDS: Final = """
SELECT (SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s ORDER BY memory_id LIMIT 1),
  (SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s ORDER BY memory_id DESC LIMIT 1)
"""


def _sample_sql(conditions: list[str]) -> str:
    return f"""
SELECT count(*), count(*) FILTER (WHERE passes)
FROM unnest(CAST(%(starts)s AS uuid[])) AS place (start) CROSS JOIN LATERAL (
  SELECT deleted_at IS NULL AND {" AND ".join(conditions)} AS passes FROM memories
  WHERE tenant_id = %(tenant)s AND memory_id >= place.start ORDER BY memory_id LIMIT %(each)s
) AS drawn
"""  # noqa: S608 - constants


def _few_sql(conditions: list[str]) -> str:
    return (
        "SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NULL "  # noqa: S608 - constants
        f"AND {' AND '.join(conditions)} LIMIT %(few)s"
    )


def settings_sql(breadth: int) -> str:
    """Return the planner settings for a search of a graph, as `set_config` calls.

    Sorts are disabled: the graph returns vectors in order, whereas a sort would read all of them.

    Args:
        breadth: The graph's `ef_search`.
    """
    return (
        f"{PLANNER_SETTINGS}, set_config('enable_sort', 'off', true), "
        f"set_config('hnsw.iterative_scan', 'relaxed_order', true), set_config('hnsw.ef_search', '{breadth}', true)"
    )


def graph_breadth(request: SearchRequest, *, has_words: bool) -> int:
    """Return the graph's `ef_search`."""
    return _by_vector_most(request, has_words=True) if has_words else BREADTH_ALONE


def _by_vector_most(request: SearchRequest, *, has_words: bool) -> int:
    return BY_VECTOR if has_words and request.limit <= SHORT_LIST else BY_VECTOR_ALONE


def candidate_clauses(
    probe: SearchProbe, request: SearchRequest, ranking: Ranking, values: dict[str, Any], share: float = 1.0
) -> str:
    """Return WITH clauses that select the best memories by words and by vector, with both scores.

    The last clause is `found (memory_id, words, relevance)`. The clauses' text doesn't depend on the query's length, so
    the driver parses it once. A memory is scored by all of the query's words if it contains a word or pair that is
    worth looking up (`prefilter.worthwhile_words`), otherwise by none. A long memory gets the score of its best window
    if that is higher.

    Args:
        share: Share of the memories that pass the filters, greater than 0. The smaller it is, the more memories are
            matched, so that about the same number passes.
    """
    values["by_words"], values["by_vector"] = BY_WORDS, _by_vector_most(request, has_words=bool(probe.lexemes))
    return f"""
  {elsewhere_clause(request, values)},
  matching AS MATERIALIZED ({_matching(probe, ranking, values, share)}),
  by_words AS MATERIALIZED (
    SELECT memory_id, score FROM matching WHERE {visible_sql("matching.memory_id", request, values)} LIMIT %(by_words)s
  ),
  by_vector AS MATERIALIZED ({_by_vector(probe, request, values)}),
  found AS MATERIALIZED (
    SELECT by_words.memory_id, by_words.score AS words, {_relevance(probe)} AS relevance FROM by_words
    UNION ALL
    SELECT memory_id, matching.score, by_vector.score FROM by_vector LEFT JOIN matching USING (memory_id)
    WHERE memory_id NOT IN (SELECT memory_id FROM by_words)
  )"""  # noqa: S608 - built from constants and bound values


def elsewhere_clause(request: SearchRequest, values: dict[str, Any]) -> str:
    """Return the WITH clause that reads the excluded memories in advance, for `visible_sql`."""
    values["elsewhere"] = ELSEWHERE + 1
    others = "" if request.superseded else f" UNION ALL {superseded_sql(request, values)}"
    if by_role := aside_sql(request):
        others += f" UNION ALL {by_role}"
    return f"""elsewhere AS MATERIALIZED (
    SELECT memory_id FROM memory_state WHERE tenant_id = %(tenant)s AND tier <> 'active'{others} LIMIT %(elsewhere)s
  )"""  # noqa: S608 - built from constants and bound values


NOTHING: Final = "SELECT CAST(NULL AS uuid) AS memory_id, CAST(NULL AS float8) AS score WHERE false"


def _matching(probe: SearchProbe, ranking: Ranking, values: dict[str, Any], share: float) -> str:
    """Return the SELECT of all memories with a query word worth looking up, best first."""
    if not probe.lexemes:
        return NOTHING
    budget = min(round(prefilter.BUDGET / share), BUDGET_MOST)
    worth = prefilter.worthwhile_words(probe.lexemes, probe.among or 0, budget)
    values["worth"] = " | ".join(" & ".join(map(quote_lexeme, clause)) for clause in worth)
    values["lexemes"] = list(map(quote_lexeme, probe.lexemes))
    values |= {"rarities": list(probe.lexemes.values()), "context": ranking.context}
    return (
        "SELECT memory_id, score FROM words_weighed(CAST(%(worth)s AS tsquery), "
        "CAST(CAST(%(lexemes)s AS text[]) AS tsquery[]), CAST(%(rarities)s AS float8[]), "
        "CAST(%(context)s AS float8)) AS matching WHERE score > 0"
    )


def _by_vector(probe: SearchProbe, request: SearchRequest, values: dict[str, Any]) -> str:
    """Return the SELECT of the memories nearest by vector, or by their best window, best first."""
    if not probe.has_vector or probe.vector is None:
        return NOTHING
    size = len(probe.vector)
    by_window = ""
    if probe.has_windows:
        visible = (visible_sql(f"{table}.memory_id", request, values) for table in ("memory_windows", "tail"))
        by_window = f"UNION ALL {windows.nearest_sql(size, *visible)}"
    values |= {"space": probe.space_id, "vector": Halfvec(probe.vector)}
    return f"""
    SELECT memory_id, max(score) AS score FROM (
      (SELECT memory_id, -(CAST(embedding AS halfvec({size})) <#> CAST(%(vector)s AS halfvec({size}))) AS score
       FROM embeddings WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND grafted
         AND {visible_sql("embeddings.memory_id", request, values)}
       ORDER BY CAST(embedding AS halfvec({size})) <#> CAST(%(vector)s AS halfvec({size})) LIMIT %(by_vector)s)
      UNION ALL
      (SELECT memory_id, score FROM (
         SELECT memory_id, -(embedding <#> CAST(%(vector)s AS halfvec)) AS score FROM embeddings
         WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND NOT grafted ORDER BY score DESC OFFSET 0
       ) AS tail WHERE {visible_sql("tail.memory_id", request, values)} LIMIT %(by_vector)s)
      {by_window}
    ) AS near WHERE score > 0 GROUP BY memory_id ORDER BY score DESC LIMIT %(by_vector)s"""  # noqa: S608 - as above; a number


def visible_sql(memory_id: str, request: SearchRequest, values: dict[str, Any], *, is_checked: bool = False) -> str:
    """Return the condition that a memory may be a candidate; if few memories are excluded, they are read in advance.

    Args:
        is_checked: True if the memory is known to pass the filters.
    """
    conditions = [] if is_checked else filter_conditions(request, values)
    visible = visible_one_sql(memory_id, request, values)
    if request.tiers == ("active",):
        visible = (
            f"CASE WHEN (SELECT count(*) FROM elsewhere) <= {ELSEWHERE} "  # noqa: S608 - as above
            f"THEN {memory_id} NOT IN (SELECT memory_id FROM elsewhere) ELSE {visible} END"
        )
    return f"{visible} AND {passing_one_sql(memory_id, conditions)}" if conditions else visible


def _relevance(probe: SearchProbe) -> str:
    if not probe.has_vector:
        return "CAST(NULL AS float8)"
    own = """(SELECT -(embedding <#> CAST(%(vector)s AS halfvec)) FROM embeddings
      WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND embeddings.memory_id = by_words.memory_id)"""
    return windows.lift_one_sql(own, "by_words.memory_id") if probe.has_windows else own
