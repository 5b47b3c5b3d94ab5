"""The one statement that finds a search's candidates, by words and by meaning at once.

Scans the tenant's memories exactly: row-level security keeps PostgreSQL from using a GIN index for `@@`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, TextClause, text

from app.domain.retrieval.candidates import Candidate
from app.domain.retrieval.ranking import Ranking
from app.domain.retrieval.request import SearchRequest

CANDIDATES = 200

# Loops over all pairs, which the planner likes while it has no statistics of a new tenant, took seconds.
_PLAN = text("SELECT set_config('enable_nestloop', 'off', true)")


@dataclass(frozen=True, slots=True)
class Probe:
    """What memories are compared with.

    Attributes:
        lexemes: The query's lexemes and their rarity; may be empty.
        space_id: Embedding space of `vector`.
        vector: shape (dimensions,), of length 1; None to search by words alone.
    """

    lexemes: Mapping[str, float]
    space_id: int | None
    vector: NDArray[np.float32] | None


def candidates(
    tx: Connection,
    tenant_id: UUID,
    probe: Probe,
    request: SearchRequest,
    ranking: Ranking,
    limit: int = CANDIDATES,
) -> list[Candidate]:
    """The memories that pass the request's filters, by their base score: words·W + relevance·R, best first.

    A memory without a vector yet is found by its words, one without words by its vector; deleted ones never.
    Both scores are divided by the best memory's, so that they are 0 to 1.
    """
    by_words = bool(probe.lexemes)
    by_vector = probe.vector is not None and bool(probe.vector.any())
    if not by_words and not by_vector:
        return []
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "limit": limit,
        "words_weight": ranking.words,
        "relevance_weight": ranking.relevance,
    }
    words = _words(probe.lexemes, ranking.context, values) if by_words else _NOTHING
    vectors = _vectors(probe, values) if by_vector else _NOTHING
    statement = _statement(words, vectors, allowed(request, values))
    tx.execute(_PLAN)
    return [Candidate(*row) for row in tx.execute(statement, values)]


_NOTHING = "SELECT CAST(NULL AS uuid) AS memory_id, CAST(NULL AS float8) AS score WHERE false"


def _words(lexemes: Mapping[str, float], context: float, values: dict[str, Any]) -> str:
    """Σ idf of the lexemes a memory has: whole if in its own words, `context` of it if in its neighbours'."""
    scores = []
    for n, (lexeme, idf) in enumerate(lexemes.items()):
        values |= {f"lexeme_{n}": _quoted(lexeme), f"idf_{n}": idf, f"near_{n}": idf * context}
        scores.append(
            f"CASE WHEN words @@ CAST(:lexeme_{n} AS tsquery) THEN "
            f"CASE WHEN own @@ CAST(:lexeme_{n} AS tsquery) THEN CAST(:idf_{n} AS float8) "
            f"ELSE CAST(:near_{n} AS float8) END ELSE 0 END"
        )
    values["any_lexeme"] = " | ".join(map(_quoted, lexemes))
    column = "words" if context else "own"
    return (
        f"SELECT memory_id, {' + '.join(scores)} AS score FROM memory_words "  # noqa: S608 - bound values alone
        f"WHERE tenant_id = :tenant AND {column} @@ CAST(:any_lexeme AS tsquery)"
    )


def _vectors(probe: Probe, values: dict[str, Any]) -> str:
    """Cosine to every vector of the space: the inner product, as they are unit vectors (`<#>` negates it)."""
    vector = np.asarray(probe.vector, dtype=np.float32)
    values |= {"space": probe.space_id, "vector": "[" + ",".join(map(str, vector.tolist())) + "]"}
    return (
        "SELECT memory_id, -(embedding <#> CAST(:vector AS halfvec)) AS score FROM embeddings "
        "WHERE tenant_id = :tenant AND space_id = :space"
    )


def allowed(request: SearchRequest, values: dict[str, Any]) -> str:
    """Which memories may be found, as a condition on memory_id; what it needs is put into the values."""
    given = {
        "subject": ("subject = :subject", request.subject),
        "thread": ("thread = :thread", request.thread),
        "tags": ("tags @> CAST(:tags AS text[])", list(request.tags)),
        "kinds": ("kind = ANY (CAST(:kinds AS text[]))", list(request.kinds)),
        "after": ("coalesce(occurred_at, created_at) >= :after", request.after),
        "before": ("coalesce(occurred_at, created_at) < :before", request.before),
        "as_of": ("created_at <= :as_of", request.as_of),
    }
    values |= {name: value for name, (_, value) in given.items() if value}
    conditions = [condition for condition, value in given.values() if value]
    elsewhere = f"SELECT memory_id FROM memory_state WHERE tenant_id = :tenant AND {_elsewhere(request, values)}"  # noqa: S608 - constants
    if not conditions:  # nearly all are allowed, so the few others are looked up
        return (
            "NOT IN (SELECT memory_id FROM memories WHERE tenant_id = :tenant AND deleted_at IS NOT NULL "  # noqa: S608 - constants
            f"UNION ALL {elsewhere})"
        )
    return (
        "IN (SELECT memory_id FROM memories WHERE tenant_id = :tenant AND deleted_at IS NULL "  # noqa: S608 - constants
        f"AND {' AND '.join(conditions)} AND memory_id NOT IN ({elsewhere}))"
    )


def _elsewhere(request: SearchRequest, values: dict[str, Any]) -> str:
    """That a memory is in none of the tiers; the usual case as a constant, of which an index can be."""
    if request.tiers == ("active",):
        return "tier <> 'active'"
    values["tiers"] = list(request.tiers)
    return "tier <> ALL (CAST(:tiers AS text[]))"


def _statement(words: str, vectors: str, allowed: str) -> TextClause:
    return text(
        f"""
WITH
  by_words AS ({words}),
  by_vector AS ({vectors}),
  found AS MATERIALIZED (
    SELECT memory_id, by_words.score AS words, greatest(by_vector.score, 0) AS relevance
    FROM by_words FULL JOIN by_vector USING (memory_id)
    WHERE (by_words.score > 0 OR by_vector.score > 0) AND memory_id {allowed}
  ),
  scored AS (
    SELECT memory_id, coalesce(relevance, 0) AS cosine,
           coalesce(words / (SELECT nullif(max(words), 0) FROM found), 0) AS words,
           coalesce(relevance / (SELECT nullif(max(relevance), 0) FROM found), 0) AS relevance
    FROM found
  ),
  top AS MATERIALIZED (
    SELECT memory_id, words, relevance, cosine,
           words * CAST(:words_weight AS float8) + relevance * CAST(:relevance_weight AS float8) AS score
    FROM scored ORDER BY score DESC, memory_id DESC LIMIT :limit
  )
SELECT top.memory_id, text, subject, thread, speaker, external_id, kind, tags, occurred_at, created_at,
       tier, top.words, top.relevance, top.cosine
FROM top CROSS JOIN LATERAL (
  SELECT text, subject, thread, speaker, external_id, kind, tags, occurred_at, created_at FROM memories
  WHERE tenant_id = :tenant AND memories.memory_id = top.memory_id OFFSET 0
) AS memory CROSS JOIN LATERAL (
  SELECT tier FROM memory_state
  WHERE tenant_id = :tenant AND memory_state.memory_id = top.memory_id OFFSET 0
) AS state
ORDER BY top.score DESC, top.memory_id DESC
"""  # noqa: S608 - the parts are made above of constants and bound values
    )


def _quoted(lexeme: str) -> str:
    """The lexeme as an operand of a tsquery: quoted, so that none of its signs is an operator."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"
