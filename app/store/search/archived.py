"""What a search finds in the archive, as a part of its statement: each memory is compared, in the reduced space."""

from __future__ import annotations

from typing import Any, Final

from app.domain.search.request import SearchRequest
from app.store.search.probe import Probe, aside, filters, literal, superseded, word_scores

NOBODY: Final = """found AS MATERIALIZED (
    SELECT CAST(NULL AS uuid) AS memory_id, CAST(NULL AS float8) AS words, CAST(NULL AS float8) AS relevance WHERE false
  )"""


def joined(active: str, probe: Probe, request: SearchRequest, values: dict[str, Any]) -> str:
    """Memories with their scores, active and archived, as parts of a WITH.

    An inner product of reduced vectors is the cosine of the whole ones, nearly, so that the scores of both compare.

    Args:
        active: Parts of a WITH, the last of which is `found (memory_id, words, relevance)`.
        probe: What memories are compared with.
        request: Whose filters they must pass.
        values: Of the statement; what this needs is put into it.

    Returns:
        Parts of a WITH, the last of which is `every (memory_id, words, relevance)`.
    """
    conditions = filters(request, values)
    passing = "" if request.superseded else f"AND memory_id NOT IN ({superseded(request, values)})"
    if others := aside(request):
        passing += f" AND memory_id NOT IN ({others})"
    passing += (
        " AND memory_id IN (SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NULL "  # noqa: S608 - constants
        f"AND {' AND '.join(conditions)})"
        if conditions
        else ""
    )
    return f"""{active},
  archived AS MATERIALIZED (
    SELECT memory_id, {word_scores(probe.lexemes, 0, values)} AS words, {_relevance(probe, values)} AS relevance
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


def _relevance(probe: Probe, values: dict[str, Any]) -> str:
    """By what each vector was reduced by: the inner product, as `<#>` negates it."""
    cases = []
    for n, other in enumerate(probe.archived):
        values |= {f"space_{n}": other.space_id, f"basis_{n}": other.basis_id, f"vector_{n}": literal(other.vector)}
        cases.append(
            f"WHEN space_id = %(space_{n})s AND basis_id IS NOT DISTINCT FROM CAST(%(basis_{n})s AS bigint) "
            f"THEN -(vector <#> CAST(%(vector_{n})s AS halfvec))"
        )
    return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS float8)"
