"""Find neighbours of search results by vector, entity and link, in a single statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.search.request import SearchRequest
from app.domain.search.spreading_activation import CARRIERS_MAX, COSINE_MIN, NEIGHBOURS_MAX, Neighbour, Way
from app.store.core.binary_arrays import driver_connection
from app.store.memories.roles import EFFECTIVE
from app.store.search import indexed_candidates
from app.store.search.query_parts import SearchProbe, allowed_one_sql, allowed_sql

BREADTH: Final = 100
"""HNSW's `ef_search` when searching for the few nearest neighbours of each memory."""


def find_neighbours(
    tx: Connection,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    ways: Sequence[Way],
    probe: SearchProbe,
    request: SearchRequest,
) -> list[Neighbour]:
    """Return these memories' nearest neighbours of each kind in `ways` that pass the request's filters.

    Neighbours by entity are ranked by the number of shared entities, weighted by rarity; neighbours by link are ranked
    by the link's weight. Neighbours by vector are found by comparing all vectors or, if the search uses the tenant's
    dedicated indexes, in its HNSW graph.

    Args:
        memory_ids: The memories, a small number.
        ways: The kinds of neighbours to find.
        probe: The search's probe; without a space there are no neighbours by vector.
        request: Supplies the filters.
    """
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "ids": list(memory_ids),
        "space": probe.space_id,
        "cosine_min": COSINE_MIN,
        "carriers_max": CARRIERS_MAX,
        "most": NEIGHBOURS_MAX,
    }
    parts, texts = {"allowed": allowed_sql(request, values)}, _LEGS
    if probe.vector is not None and indexed_candidates.uses_indexes(probe, request):
        driver_connection(tx).execute(f"SELECT {indexed_candidates.settings_sql(BREADTH)}".encode())
        by_id = allowed_one_sql("embeddings.memory_id", request, values)
        parts, texts = parts | {"allowed_one": by_id, "size": str(len(probe.vector))}, _LEGS | {"vector": _BY_GRAPH}
    legs = [texts[way].format(**parts) for way in ways if way != "vector" or probe.space_id is not None]
    if not memory_ids or not legs:
        return []
    rows = driver_connection(tx).execute(" UNION ALL ".join(legs), values, binary=True)
    return [Neighbour(*row) for row in rows]


# Reading all vectors once, instead of once per parent (a given memory), takes a quarter of the time.
_BY_VECTOR: Final = """
(WITH
  parents AS MATERIALIZED (
    SELECT memory_id AS parent_id, embedding AS parent FROM embeddings
    WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND memory_id = ANY (CAST(%(ids)s AS uuid[]))
  ),
  close AS (
    SELECT parent_id, memory_id,
           row_number() OVER (PARTITION BY parent_id ORDER BY cosine DESC, memory_id DESC) AS place
    FROM embeddings CROSS JOIN LATERAL (
      SELECT parent_id, -(embedding <#> parent) AS cosine FROM parents OFFSET 0
    ) AS compared
    WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND cosine >= %(cosine_min)s AND memory_id <> parent_id
      AND memory_id {allowed}
  )
SELECT parent_id, memory_id, 'vector' AS way, CAST(1 AS float8) AS weight FROM close WHERE place <= %(most)s)
"""

# Vectors outside the graph are few, so they are compared one by one.
_BY_GRAPH: Final = """
(WITH
  parents AS MATERIALIZED (
    SELECT memory_id AS parent_id, CAST(embedding AS halfvec({size})) AS parent FROM embeddings
    WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND memory_id = ANY (CAST(%(ids)s AS uuid[]))
  ),
  close AS (
    SELECT parent_id, memory_id,
           row_number() OVER (PARTITION BY parent_id ORDER BY cosine DESC, memory_id DESC) AS place
    FROM parents CROSS JOIN LATERAL (
      (SELECT memory_id, -(CAST(embedding AS halfvec({size})) <#> parent) AS cosine FROM embeddings
       WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND grafted AND {allowed_one}
       ORDER BY CAST(embedding AS halfvec({size})) <#> parent LIMIT %(most)s + 1)
      UNION ALL
      (SELECT memory_id, -(CAST(embedding AS halfvec({size})) <#> parent) FROM embeddings
       WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND NOT grafted AND {allowed_one})
    ) AS compared
    WHERE cosine >= %(cosine_min)s AND memory_id <> parent_id
  )
SELECT parent_id, memory_id, 'vector' AS way, CAST(1 AS float8) AS weight FROM close WHERE place <= %(most)s)
"""

_BY_ENTITY: Final = """
(WITH
  named AS MATERIALIZED (
    SELECT memory_id AS parent_id, unnest(entities) AS entity FROM memories
    WHERE tenant_id = %(tenant)s AND memory_id = ANY (CAST(%(ids)s AS uuid[]))
    UNION
    SELECT memory_id, unnest(inferred_entities) FROM scores
    WHERE tenant_id = %(tenant)s AND memory_id = ANY (CAST(%(ids)s AS uuid[]))
  ),
  asked AS MATERIALIZED (SELECT array_agg(DISTINCT entity) AS entities FROM named),
  carried AS MATERIALIZED (
    SELECT memory_id, unnest(entities) AS entity FROM memories
    WHERE tenant_id = %(tenant)s AND entities && (SELECT entities FROM asked) AND memory_id {allowed}
    UNION
    SELECT memory_id, unnest(inferred_entities) FROM scores
    WHERE tenant_id = %(tenant)s AND inferred_entities && (SELECT entities FROM asked) AND memory_id {allowed}
  ),
  counted AS (SELECT memory_id, entity, count(*) OVER (PARTITION BY entity) AS carriers FROM carried),
  shared AS (
    SELECT parent_id, memory_id,
           row_number() OVER (PARTITION BY parent_id ORDER BY sum(1.0 / carriers) DESC, memory_id DESC) AS place
    FROM named JOIN counted USING (entity)
    WHERE carriers <= %(carriers_max)s AND memory_id <> parent_id
    GROUP BY parent_id, memory_id
  )
SELECT parent_id, memory_id, 'entity' AS way, CAST(1 AS float8) AS weight FROM shared WHERE place <= %(most)s)
"""

_BY_LINK: Final = """
(WITH
  linked AS (
    SELECT memory_id AS parent_id, other_id AS memory_id, weight FROM links
    WHERE tenant_id = %(tenant)s AND memory_id = ANY (CAST(%(ids)s AS uuid[]))
    UNION ALL
    SELECT other_id, memory_id, weight FROM links
    WHERE tenant_id = %(tenant)s AND other_id = ANY (CAST(%(ids)s AS uuid[]))
  ),
  closest AS (
    SELECT parent_id, memory_id, max(weight) AS weight,
           row_number() OVER (PARTITION BY parent_id ORDER BY max(weight) DESC, memory_id DESC) AS place
    FROM linked WHERE weight > 0 AND memory_id {allowed} GROUP BY parent_id, memory_id
  )
SELECT parent_id, memory_id, 'link' AS way, CAST(weight AS float8) AS weight FROM closest WHERE place <= %(most)s)
"""

_LEGS: Final[dict[Way, str]] = {"vector": _BY_VECTOR, "entity": _BY_ENTITY, "link": _BY_LINK}


def describe_memories(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, dict[str, Any]]:
    """Return the fields of these memories that a search result shows, by id; deleted and expired ones are omitted."""
    rows = tx.execute(_DESCRIBED, {"tenant": tenant_id, "ids": list(memory_ids)}).mappings()
    return {row["id"]: dict(row) for row in rows}


_DESCRIBED = text(f"""
SELECT memory_id AS id, text, (
    SELECT tier FROM memory_state
    WHERE memory_state.tenant_id = :tenant AND memory_state.memory_id = memories.memory_id
  ) AS tier, subject, thread, speaker, external_id, kind, tags, categories, entities,
  coalesce(metadata, '{{}}') AS metadata, coalesce(source, 'unknown') AS source,
  occurred_at, created_at, {EFFECTIVE} AS role, ARRAY(
    SELECT superseded_id FROM supersessions
    WHERE tenant_id = :tenant AND status = 'active' AND supersessions.memory_id = memories.memory_id
  ) AS supersedes
FROM memories WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[])) AND deleted_at IS NULL
  AND (expires_at IS NULL OR expires_at > clock_timestamp())
""")  # noqa: S608 - constants only
