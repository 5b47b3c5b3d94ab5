"""Build the parts of search statements that score memories against a query and restrict them by filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.domain.ingest.roles import ROLES, USUAL
from app.domain.search.request import SearchRequest
from app.store.memories.content_filters import content_conditions
from app.store.memories.roles import ASIDE, NO_ROLE


@dataclass(frozen=True, slots=True)
class ReducedVector:
    """The query vector, reduced by a basis to compare it with archived vectors; full if `basis_id` is None."""

    space_id: int
    basis_id: int | None
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class SearchProbe:
    """The query that memories are compared with.

    Attributes:
        lexemes: The query's lexemes with their rarity; may be empty.
        space_id: The embedding space of `vector`.
        vector: The query vector with norm 1, shape (dimensions,); None to search only by words.
        among: The tenant's number of memories if its dedicated indexes should select candidates; None to compare all
            memories.
        archived: The vector in the forms needed for archived vectors.
        has_windows: Memories may have windows; their vectors are compared too.
    """

    lexemes: Mapping[str, float]
    space_id: int | None
    vector: NDArray[np.float32] | None
    among: int | None = None
    archived: tuple[ReducedVector, ...] = ()
    has_windows: bool = False

    @property
    def has_vector(self) -> bool:
        """True if there is a nonzero vector to compare."""
        return self.vector is not None and bool(self.vector.any())


# Nested loops, which the planner prefers for a new tenant without statistics, took seconds. Sequential scans are
# disabled so that a search's duration doesn't depend on other tenants' data.
PLANNER_SETTINGS: Final = "set_config('enable_nestloop', 'off', true), set_config('enable_seqscan', 'off', true)"
"""Planner settings of all searches, as `set_config` calls."""

MEASURED: Final = (
    "own, words, word_room(length(own) - 3) AS room, "
    "near_worth(length(own) - 3, (length(words) - length(own)) / CAST(4 AS float8)) AS near"
)
"""Columns of `memory_words` that `word_score_sql` reads; three of a memory's own lexemes belong to its date."""
LEXEMES_STEP: Final = 8
"""The number of summands in a word score is a multiple of this."""


def word_score_sql(lexemes: Mapping[str, float], context: float, values: dict[str, Any]) -> str:
    """Return SQL for the sum of idf over the lexemes that a memory contains, on columns as in `MEASURED`.

    A lexeme of the memory's own words is weighted by its frequency there and the memory's length. A lexeme that only
    neighbouring turns contain is weighted by `context`, the neighbours' length and the memory's own shortness.

    The number of summands is a multiple of `LEXEMES_STEP`, so that queries of different lengths share a statement and
    its kept plan. The lexemes of surplus summands are NULL, for which PostgreSQL skips the comparison.
    """
    scores = []
    surplus = -len(lexemes) % LEXEMES_STEP
    for n, (lexeme, idf) in enumerate([*lexemes.items(), *[(None, 0.0)] * surplus]):
        quoted = None if lexeme is None else quote_lexeme(lexeme)
        values |= {f"lexeme_{n}": quoted, f"idf_{n}": idf, f"near_{n}": idf * context}
        scores.append(
            f"CASE WHEN words @@ CAST(%(lexeme_{n})s AS tsquery) THEN "
            f"CASE WHEN own @@ CAST(%(lexeme_{n})s AS tsquery) "
            f"THEN CAST(%(idf_{n})s AS float8) * word_worth(own, CAST(%(lexeme_{n})s AS tsquery), room) "
            f"ELSE CAST(%(near_{n})s AS float8) * near END ELSE 0 END"
        )
    return " + ".join(scores) or "0"


def vector_literal(vector: NDArray[np.float32] | None) -> str:
    """Return a vector in PostgreSQL's text format."""
    return "[" + ",".join(map(str, np.asarray(vector, dtype=np.float32).tolist())) + "]"


def quote_lexeme(lexeme: str) -> str:
    """Return the lexeme as a tsquery operand, quoted so that no character acts as an operator."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def allowed_sql(request: SearchRequest, values: dict[str, Any]) -> str:
    """Return a condition on memory_id that applies the request's filters, and add its parameters to `values`."""
    conditions = filter_conditions(request, values)
    excluded = (
        f"SELECT memory_id FROM memory_state WHERE tenant_id = %(tenant)s AND {_other_tiers_sql(request, values)}"  # noqa: S608 - constants
    )
    if not request.superseded:
        excluded += f" UNION ALL {superseded_sql(request, values)}"
    if others := aside_sql(request):
        excluded += f" UNION ALL {others}"
    if not conditions:  # nearly all memories are allowed: look up the few excluded ones
        return (
            "NOT IN (SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NOT NULL "  # noqa: S608 - constants
            f"UNION ALL {excluded})"
        )
    return (
        "IN (SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NULL "  # noqa: S608 - constants
        f"AND {' AND '.join(conditions)} AND memory_id NOT IN ({excluded}))"
    )


def allowed_one_sql(memory_id: str, request: SearchRequest, values: dict[str, Any]) -> str:
    """Return the condition of `allowed_sql` for one memory looked up by id; use it for a few memories among very many.

    It consists of scalar subqueries, because the planner would turn other forms into a join that reads every row.
    """
    state = visible_one_sql(memory_id, request, values)
    conditions = filter_conditions(request, values)
    if not conditions:  # a deleted memory is in no searchable tier
        return state
    return f"{passing_one_sql(memory_id, conditions)} AND {state}"


def passing_one_sql(memory_id: str, conditions: Sequence[str]) -> str:
    """Return the condition that a memory isn't deleted and passes these filters."""
    return (
        "(SELECT true FROM memories WHERE tenant_id = %(tenant)s "  # noqa: S608 - constants
        f"AND memories.memory_id = {memory_id} AND deleted_at IS NULL AND {' AND '.join(conditions)})"
    )


def visible_one_sql(memory_id: str, request: SearchRequest, values: dict[str, Any]) -> str:
    """Return the condition of `allowed_one_sql` without the request's filters: tier, supersession and roles."""
    state = (
        "(SELECT NOT (tier <> ALL (CAST(%(tiers)s AS text[]))) FROM memory_state WHERE tenant_id = %(tenant)s "  # noqa: S608 - constants
        f"AND memory_state.memory_id = {memory_id})"
    )
    if not request.superseded:
        state += f" AND (SELECT NOT EXISTS ({superseded_sql(request, values)} AND superseded_id = {memory_id}))"
    if others := aside_sql(request):
        state += f" AND (SELECT NOT EXISTS ({others} AND memories.memory_id = {memory_id}))"
    return state


def filter_conditions(request: SearchRequest, values: dict[str, Any]) -> list[str]:
    """Return the request's filters as conditions on `memories`, and add their parameters to `values`."""
    filters = {
        "subject": ("subject = %(subject)s", request.subject),
        "thread": ("thread = %(thread)s", request.thread),
        "exclude_thread": ("thread IS DISTINCT FROM %(exclude_thread)s", request.exclude_thread),
        "tags": ("tags @> CAST(%(tags)s AS text[])", list(request.tags)),
        "kinds": ("kind = ANY (CAST(%(kinds)s AS text[]))", list(request.kinds)),
        "after": ("coalesce(occurred_at, created_at) >= %(after)s", request.after),
        "before": ("coalesce(occurred_at, created_at) < %(before)s", request.before),
        "as_of": ("created_at <= %(as_of)s", request.as_of),
    }
    values |= {name: value for name, (_, value) in filters.items() if value} | {"tiers": list(request.tiers)}
    conditions = [condition for condition, value in filters.values() if value] + content_conditions(request, values)
    if request.promoted is not None:
        conditions.append(f"{_IS_PROMOTED} = {request.promoted}")
    return conditions if _has_usual(request) else [*conditions, _roles_sql(request, values)]


# A scalar subquery instead of EXISTS, which the planner would turn into a join with all states.
_IS_PROMOTED: Final = (
    "(SELECT state.promoted_at IS NOT NULL FROM memory_state AS state WHERE state.tenant_id = %(tenant)s "
    "AND state.memory_id = memories.memory_id)"
)


def aside_sql(request: SearchRequest) -> str | None:
    """Return a SELECT of the memories with roles system and tool that the request excludes, using their index.

    Returns:
        A SELECT that ends in a condition; None if the request includes both roles or `filter_conditions` restricts the
        role.
    """
    others = ", ".join(f"'{role}'" for role in ROLES if role not in request.roles)
    if not others or not _has_usual(request):
        return None
    indexed = f"SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND {ASIDE}"  # noqa: S608 - constants
    return f"{indexed} AND coalesce(role, speaker) IN ({others})"


def _has_usual(request: SearchRequest) -> bool:
    """Return True if the request includes all usual roles; roles then exclude only a few memories."""
    return set(USUAL) <= set(request.roles)


def _roles_sql(request: SearchRequest, values: dict[str, Any]) -> str:
    """Return the condition that a memory has one of the request's roles."""
    values["roles"] = [role for role in request.roles if role]
    has_role = "coalesce(role, speaker) = ANY (CAST(%(roles)s AS text[]))"
    return f"({has_role} OR {NO_ROLE})" if None in request.roles else has_role


def superseded_sql(request: SearchRequest, values: dict[str, Any]) -> str:
    """Return a SELECT, ending in a condition, of the memories superseded as of the request's time."""
    values["as_of"] = request.as_of
    since = " AND since <= %(as_of)s" if request.as_of else ""
    return f"SELECT superseded_id FROM supersessions WHERE tenant_id = %(tenant)s AND status = 'active'{since}"  # noqa: S608 - constants


def _other_tiers_sql(request: SearchRequest, values: dict[str, Any]) -> str:
    """Return the condition that a memory's tier isn't one of the request's; if constant, it matches a partial index."""
    if request.tiers == ("active",):
        return "tier <> 'active'"
    values["tiers"] = list(request.tiers)
    return "tier <> ALL (CAST(%(tiers)s AS text[]))"
