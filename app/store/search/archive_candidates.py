"""Build the part of a search statement that compares every archived memory, by words and reduced vector."""

from __future__ import annotations

from typing import Any, Final

from app.domain.search.request import SearchRequest
from app.store.search.query_parts import (
    SearchProbe,
    aside_sql,
    filter_conditions,
    superseded_sql,
    vector_literal,
    word_score_sql,
)

NOBODY: Final = """found AS MATERIALIZED (
    SELECT CAST(NULL AS uuid) AS memory_id, CAST(NULL AS float8) AS words, CAST(NULL AS float8) AS relevance WHERE false
  )"""
"""The clause `found` without rows, for searches that compare no active memories."""


def archive_clauses(active: str, probe: SearchProbe, request: SearchRequest, values: dict[str, Any]) -> str:
    """Return WITH clauses that score active and archived memories.

    The inner product of reduced vectors approximates the cosine of the full ones, so both kinds of scores are
    comparable.

    Args:
        active: WITH clauses, the last of which is `found (memory_id, words, relevance)`.
        probe: The words and vectors to compare with.
        request: Supplies the filters.
        values: The statement's parameters; this function adds its own.

    Returns:
        WITH clauses, the last of which is `every (memory_id, words, relevance)`.
    """
    conditions = filter_conditions(request, values)
    passing = "" if request.superseded else f"AND memory_id NOT IN ({superseded_sql(request, values)})"
    if others := aside_sql(request):
        passing += f" AND memory_id NOT IN ({others})"
    passing += (
        " AND memory_id IN (SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NULL "  # noqa: S608 - constants
        f"AND {' AND '.join(conditions)})"
        if conditions
        else ""
    )
    return f"""{active},
  archived AS MATERIALIZED (
    SELECT memory_id, {word_score_sql(probe.lexemes, 0, values)} AS words, {_relevance(probe, values)} AS relevance
    FROM (
      SELECT memory_id, own, own AS words, word_room(length(own) - 3) AS room, 0 AS near, space_id, basis_id, vector
      FROM archived_memories
      WHERE tenant_id = %(tenant)s {passing}
        AND memory_id NOT IN (SELECT memory_id FROM hidden_memories WHERE tenant_id = %(tenant)s)
    ) AS kept
  ),
  every AS MATERIALIZED (
    SELECT memory_id, words, relevance FROM found
    UNION ALL
    SELECT memory_id, words, relevance FROM archived WHERE words > 0 OR relevance > 0
  )"""  # noqa: S608 - built from constants and bound values


def _relevance(probe: SearchProbe, values: dict[str, Any]) -> str:
    """Return SQL for the inner product with the probe reduced by the same basis as the vector (`<#>` negates it)."""
    cases = []
    for n, reduced in enumerate(probe.archived):
        values |= {
            f"space_{n}": reduced.space_id,
            f"basis_{n}": reduced.basis_id,
            f"vector_{n}": vector_literal(reduced.vector),
        }
        cases.append(
            f"WHEN space_id = %(space_{n})s AND basis_id IS NOT DISTINCT FROM CAST(%(basis_{n})s AS bigint) "
            f"THEN -(vector <#> CAST(%(vector_{n})s AS halfvec))"
        )
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS float8)"
