"""What a search finds among very many memories, by indexes of the tenant's own.

Words come from a GIN index and vectors from a graph (HNSW), both of this tenant alone: what others have changes
neither what is found nor how long it takes. Vectors that are not in the graph yet are compared one by one.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Connection

from app.domain.search import pruning
from app.domain.search.ranking import Ranking
from app.domain.search.request import SearchRequest
from app.store.core.packed import driver
from app.store.embedding import windows
from app.store.search.probe import (
    Probe,
    allowed_one,
    aside,
    filters,
    literal,
    quoted,
    superseded,
)

FEW: Final = 5000
"""Memories that a filter may leave for them to be compared one by one."""
BY_WORDS: Final = 250
BY_VECTOR: Final = 120
BY_VECTOR_ALONE: Final = 200
"""The same where nothing is found by words, or more than `SHORT_LIST` results are wanted."""
SHORT_LIST: Final = 50
BREADTH_ALONE: Final = 1000
"""How many vectors the graph keeps in sight (`ef_search`) where they are all there is to find by."""
ELSEWHERE: Final = 500
"""Memories in other tiers than the active one, superseded, or left out by their role; up to this many, they are read
at once and each candidate isn't looked up."""

# As for all searches; and no sort for the vectors: the graph gives them in order, and whoever sorts has read them all.
PLAN: Final = (
    "SELECT set_config('enable_nestloop', 'off', true), set_config('enable_seqscan', 'off', true), "
    "set_config('enable_sort', 'off', true), "
    "set_config('hnsw.iterative_scan', 'relaxed_order', true), "
    "set_config('hnsw.ef_search', CAST(CAST(%(breadth)s AS integer) AS text), true)"
)


def prunes(probe: Probe, request: SearchRequest) -> bool:
    """Whether the tenant's own indexes are asked, and not all of its memories compared.

    What isn't active is for who looks for it: seldom, and mostly few of many.
    """
    return probe.among is not None and "active" in request.tiers


def few(tx: Connection, request: SearchRequest, values: dict[str, Any]) -> list[Any] | None:
    """Ids of the memories that the request's filters leave, at most `FEW`; None where they are more, or none given."""
    conditions = filters(request, values)
    if not conditions:
        return None
    rows = driver(tx).execute(_few(conditions), values | {"few": FEW + 1}, binary=True)
    found = [memory_id for (memory_id,) in rows]
    return found if len(found) <= FEW else None


def _few(conditions: list[str]) -> str:
    return (
        "SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NULL "  # noqa: S608 - constants
        f"AND {' AND '.join(conditions)} LIMIT %(few)s"
    )


def plan(probe: Probe, request: SearchRequest) -> dict[str, int]:
    """What `PLAN` is told."""
    return {"breadth": _by_vector_most(probe, request) if probe.lexemes else BREADTH_ALONE}


def _by_vector_most(probe: Probe, request: SearchRequest) -> int:
    return BY_VECTOR if probe.lexemes and request.limit <= SHORT_LIST else BY_VECTOR_ALONE


def found(probe: Probe, request: SearchRequest, ranking: Ranking, values: dict[str, Any]) -> str:
    """Build the SELECTs of the best memories by words and the best by vector, with both scores.

    As parts of a WITH, the last of which is `found (memory_id, words, relevance)`. Queries of any length have
    the same text, which the driver parses once. What a memory has of no word that is worth reading isn't counted.
    A long memory counts by the best of its windows where that is nearer.
    """
    values["by_words"], values["by_vector"] = BY_WORDS, _by_vector_most(probe, request)
    values["elsewhere"] = ELSEWHERE + 1
    others = "" if request.superseded else f" UNION ALL {superseded(request, values)}"
    if by_role := aside(request):
        others += f" UNION ALL {by_role}"
    return f"""
  elsewhere AS MATERIALIZED (
    SELECT memory_id FROM memory_state WHERE tenant_id = %(tenant)s AND tier <> 'active'{others} LIMIT %(elsewhere)s
  ),
  matching AS MATERIALIZED ({_matching(probe, ranking, values)}),
  by_words AS MATERIALIZED (
    SELECT memory_id, score FROM matching WHERE {_shown("matching.memory_id", request, values)} LIMIT %(by_words)s
  ),
  by_vector AS MATERIALIZED ({_by_vector(probe, request, values)}),
  found AS MATERIALIZED (
    SELECT by_words.memory_id, by_words.score AS words, {_relevance(probe)} AS relevance FROM by_words
    UNION ALL
    SELECT memory_id, matching.score, by_vector.score FROM by_vector LEFT JOIN matching USING (memory_id)
    WHERE memory_id NOT IN (SELECT memory_id FROM by_words)
  )"""  # noqa: S608 - built from constants and bound values


NOTHING: Final = "SELECT CAST(NULL AS uuid) AS memory_id, CAST(NULL AS float8) AS score WHERE false"


def _matching(probe: Probe, ranking: Ranking, values: dict[str, Any]) -> str:
    """Build the SELECT of all memories with words of the query that are worth reading, best first."""
    if not probe.lexemes:
        return NOTHING
    worth = pruning.worth(probe.lexemes, probe.among or 0)
    values["worth"] = " | ".join(" & ".join(map(quoted, clause)) for clause in worth)
    values["lexemes"] = list(map(quoted, probe.lexemes))
    values |= {"rarities": list(probe.lexemes.values()), "context": ranking.context}
    return (
        "SELECT memory_id, score FROM words_weighed(CAST(%(worth)s AS tsquery), "
        "CAST(CAST(%(lexemes)s AS text[]) AS tsquery[]), CAST(%(rarities)s AS float8[]), "
        "CAST(%(context)s AS float8)) AS matching WHERE score > 0"
    )


def _by_vector(probe: Probe, request: SearchRequest, values: dict[str, Any]) -> str:
    if not probe.has_vector or probe.vector is None:
        return NOTHING
    size = len(probe.vector)
    by_window = ""
    if probe.has_windows:
        shown = (_shown(f"{table}.memory_id", request, values) for table in ("memory_windows", "tail"))
        by_window = f"UNION ALL {windows.nearest(size, *shown)}"
    values |= {"space": probe.space_id, "vector": literal(probe.vector)}
    return f"""
    SELECT memory_id, max(score) AS score FROM (
      (SELECT memory_id, -(CAST(embedding AS halfvec({size})) <#> CAST(%(vector)s AS halfvec({size}))) AS score
       FROM embeddings WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND grafted
         AND {_shown("embeddings.memory_id", request, values)}
       ORDER BY CAST(embedding AS halfvec({size})) <#> CAST(%(vector)s AS halfvec({size})) LIMIT %(by_vector)s)
      UNION ALL
      (SELECT memory_id, score FROM (
         SELECT memory_id, -(embedding <#> CAST(%(vector)s AS halfvec)) AS score FROM embeddings
         WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND NOT grafted ORDER BY score DESC OFFSET 0
       ) AS tail WHERE {_shown("tail.memory_id", request, values)} LIMIT %(by_vector)s)
      {by_window}
    ) AS near WHERE score > 0 GROUP BY memory_id ORDER BY score DESC LIMIT %(by_vector)s"""  # noqa: S608 - as above; a number


def _shown(memory_id: str, request: SearchRequest, values: dict[str, Any]) -> str:
    """Whether a memory may be found: where few are elsewhere, they are all known beforehand."""
    one = allowed_one(memory_id, request, values)
    if request.tiers != ("active",) or filters(request, values):
        return one
    return (
        f"CASE WHEN (SELECT count(*) FROM elsewhere) <= {ELSEWHERE} "  # noqa: S608 - as above
        f"THEN {memory_id} NOT IN (SELECT memory_id FROM elsewhere) ELSE {one} END"
    )


def _relevance(probe: Probe) -> str:
    if not probe.has_vector:
        return "CAST(NULL AS float8)"
    own = """(SELECT -(embedding <#> CAST(%(vector)s AS halfvec)) FROM embeddings
      WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND embeddings.memory_id = by_words.memory_id)"""
    return windows.lift_one(own, "by_words.memory_id") if probe.has_windows else own
