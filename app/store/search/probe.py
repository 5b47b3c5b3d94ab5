"""What memories are compared with, and which of them may be found, as parts of a search's statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.domain.ingest.roles import ROLES, USUAL
from app.domain.search.request import SearchRequest
from app.store.memories.roles import ASIDE, NO_ROLE


@dataclass(frozen=True, slots=True)
class Short:
    """What archived vectors of a space are compared with that were reduced by a basis; by none where they are whole."""

    space_id: int
    basis_id: int | None
    vector: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Probe:
    """What memories are compared with.

    Attributes:
        lexemes: The query's lexemes and their rarity; may be empty.
        space_id: Embedding space of `vector`.
        vector: shape (dimensions,), of length 1; None to search by words alone.
        among: How many memories there are, where the tenant's own indexes shall find what is worth comparing; None
            to compare them all.
        archived: The vector as archived ones are compared with it.
        has_windows: Whether memories may have windows, to be compared as well.
    """

    lexemes: Mapping[str, float]
    space_id: int | None
    vector: NDArray[np.float32] | None
    among: int | None = None
    archived: tuple[Short, ...] = ()
    has_windows: bool = False

    @property
    def has_vector(self) -> bool:
        """Whether it has a meaning to compare."""
        return self.vector is not None and bool(self.vector.any())


MEASURED: Final = (
    "own, words, word_room(length(own) - 3) AS room, "
    "near_worth(length(own) - 3, (length(words) - length(own)) / 4.0) AS near"
)
"""Columns of `memory_words` that `word_scores` reads; three of a memory's own lexemes are its date's."""


def word_scores(lexemes: Mapping[str, float], context: float, values: dict[str, Any]) -> str:
    """Return SQL for Σ idf of the lexemes a memory has, over columns as in `MEASURED`.

    A lexeme of the memory's own words counts by how often it stands there and by the memory's length; a lexeme that
    only neighbouring turns have counts by `context`, the neighbours' length and the memory's own shortness.
    """
    scores = []
    for n, (lexeme, idf) in enumerate(lexemes.items()):
        values |= {f"lexeme_{n}": quoted(lexeme), f"idf_{n}": idf, f"near_{n}": idf * context}
        scores.append(
            f"CASE WHEN words @@ CAST(%(lexeme_{n})s AS tsquery) THEN "
            f"CASE WHEN own @@ CAST(%(lexeme_{n})s AS tsquery) "
            f"THEN CAST(%(idf_{n})s AS float8) * word_worth(own, CAST(%(lexeme_{n})s AS tsquery), room) "
            f"ELSE CAST(%(near_{n})s AS float8) * near END ELSE 0 END"
        )
    return " + ".join(scores) or "0"


def literal(vector: NDArray[np.float32] | None) -> str:
    """A vector as PostgreSQL writes it."""
    return "[" + ",".join(map(str, np.asarray(vector, dtype=np.float32).tolist())) + "]"


def quoted(lexeme: str) -> str:
    """The lexeme as an operand of a tsquery: quoted, so that none of its signs is an operator."""
    return "'" + lexeme.replace("\\", "\\\\").replace("'", "''") + "'"


def allowed(request: SearchRequest, values: dict[str, Any]) -> str:
    """Which memories may be found, as a condition on memory_id; what it needs is put into the values."""
    conditions = filters(request, values)
    elsewhere = f"SELECT memory_id FROM memory_state WHERE tenant_id = %(tenant)s AND {_elsewhere(request, values)}"  # noqa: S608 - constants
    if not request.superseded:
        elsewhere += f" UNION ALL {superseded(request, values)}"
    if others := aside(request):
        elsewhere += f" UNION ALL {others}"
    if not conditions:  # nearly all are allowed, so the few others are looked up
        return (
            "NOT IN (SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NOT NULL "  # noqa: S608 - constants
            f"UNION ALL {elsewhere})"
        )
    return (
        "IN (SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND deleted_at IS NULL "  # noqa: S608 - constants
        f"AND {' AND '.join(conditions)} AND memory_id NOT IN ({elsewhere}))"
    )


def allowed_one(memory_id: str, request: SearchRequest, values: dict[str, Any]) -> str:
    """The same of one memory, looked up by its id: for a few of very many.

    Subselects that give a value, since the planner would make a join of anything else, and read all that there is.
    """
    state = (
        "(SELECT NOT (tier <> ALL (CAST(%(tiers)s AS text[]))) FROM memory_state WHERE tenant_id = %(tenant)s "  # noqa: S608 - constants
        f"AND memory_state.memory_id = {memory_id})"
    )
    if not request.superseded:
        state += f" AND (SELECT NOT EXISTS ({superseded(request, values)} AND superseded_id = {memory_id}))"
    if others := aside(request):
        state += f" AND (SELECT NOT EXISTS ({others} AND memories.memory_id = {memory_id}))"
    conditions = filters(request, values)
    if not conditions:  # a deleted memory is in no tier that can be asked for
        return state
    return (
        "(SELECT true FROM memories WHERE tenant_id = %(tenant)s "  # noqa: S608 - constants
        f"AND memories.memory_id = {memory_id} AND deleted_at IS NULL AND {' AND '.join(conditions)}) AND {state}"
    )


def filters(request: SearchRequest, values: dict[str, Any]) -> list[str]:
    """The request's filters as conditions on `memories`; what they need is put into the values."""
    given = {
        "subject": ("subject = %(subject)s", request.subject),
        "thread": ("thread = %(thread)s", request.thread),
        "exclude_thread": ("thread IS DISTINCT FROM %(exclude_thread)s", request.exclude_thread),
        "tags": ("tags @> CAST(%(tags)s AS text[])", list(request.tags)),
        "kinds": ("kind = ANY (CAST(%(kinds)s AS text[]))", list(request.kinds)),
        "after": ("coalesce(occurred_at, created_at) >= %(after)s", request.after),
        "before": ("coalesce(occurred_at, created_at) < %(before)s", request.before),
        "as_of": ("created_at <= %(as_of)s", request.as_of),
    }
    values |= {name: value for name, (_, value) in given.items() if value} | {"tiers": list(request.tiers)}
    conditions = [condition for condition, value in given.values() if value]
    return conditions if _has_usual(request) else [*conditions, _roles(request, values)]


def aside(request: SearchRequest) -> str | None:
    """Select the memories of the roles system and tool that the request doesn't ask for, by their index.

    Returns:
        A SELECT that ends in a condition; None where the request asks for both roles, or `filters` has a condition.
    """
    others = ", ".join(f"'{role}'" for role in ROLES if role not in request.roles)
    if not others or not _has_usual(request):
        return None
    indexed = f"SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND {ASIDE}"  # noqa: S608 - constants
    return f"{indexed} AND coalesce(role, speaker) IN ({others})"


def _has_usual(request: SearchRequest) -> bool:
    """Tell whether the request asks for all usual roles, so that only a few memories are left out by their role."""
    return set(USUAL) <= set(request.roles)


def _roles(request: SearchRequest, values: dict[str, Any]) -> str:
    """Build the condition that a memory has one of the request's roles."""
    values["roles"] = [role for role in request.roles if role]
    given = "coalesce(role, speaker) = ANY (CAST(%(roles)s AS text[]))"
    return f"({given} OR {NO_ROLE})" if None in request.roles else given


def superseded(request: SearchRequest, values: dict[str, Any]) -> str:
    """Which memories others have superseded by then, as a SELECT that ends in a condition."""
    values["as_of"] = request.as_of
    since = " AND since <= %(as_of)s" if request.as_of else ""
    return f"SELECT superseded_id FROM supersessions WHERE tenant_id = %(tenant)s AND status = 'active'{since}"  # noqa: S608 - constants


def _elsewhere(request: SearchRequest, values: dict[str, Any]) -> str:
    """That a memory is in none of the tiers; the usual case as a constant, of which there is an index."""
    if request.tiers == ("active",):
        return "tier <> 'active'"
    values["tiers"] = list(request.tiers)
    return "tier <> ALL (CAST(%(tiers)s AS text[]))"
