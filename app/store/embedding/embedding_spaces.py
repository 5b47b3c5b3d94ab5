"""Store embedding spaces (sets of comparable vectors), each tenant's search space, and moves between spaces.

`tenant_spaces` has no content and no row-level security. Writers of vectors lock the tenant's row in share mode (`FOR
SHARE`) until their commit. A change of the row waits for these locks, so no vector is written to a space that the
tenant has left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.core.binary_arrays import driver_connection
from app.store.core.paging import build_one


@dataclass(frozen=True, slots=True)
class Space:
    """An embedding space.

    Attributes:
        model: The model's name and every other property on which the comparability of its vectors depends.
        dimensions: Number of components of a vector.
        embedder: The kind of embedder, a value of `EBBING_EMBEDDER`.
    """

    space_id: int
    model: str
    dimensions: int
    embedder: str


@dataclass(frozen=True, slots=True)
class TenantSpaces:
    """A tenant's spaces.

    Attributes:
        searched: The space used for the tenant's searches.
        target: The space that the tenant is being moved to, if any.
        graph_space_id: The space for which the tenant has dedicated indexes, if any.
    """

    searched: Space
    target: Space | None
    graph_space_id: int | None = None


def find_space(tx: Connection, model: str, dimensions: int) -> Space | None:
    """Return a model's space, or None if it isn't registered yet."""
    return build_one(Space, tx.execute(_FIND, {"model": model, "dimensions": dimensions}))


def list_models(tx: Connection, space_ids: Sequence[int]) -> dict[int, str]:
    """Return the spaces' models by id."""
    return {row.space_id: row.model for row in tx.execute(_MODELS, {"ids": list(space_ids)})}


_MODELS = text("SELECT space_id, model FROM embedding_spaces WHERE space_id = ANY (CAST(:ids AS integer[]))")


def get_space(tx: Connection, space_id: int) -> Space | None:
    """Return a space by its id."""
    return build_one(Space, tx.execute(_NAMED, {"space": space_id}))


_NAMED = text("SELECT space_id, model, dimensions, embedder FROM embedding_spaces WHERE space_id = :space")


def ensure_space(tx: Connection, model: str, dimensions: int, embedder: str) -> Space:
    """Return a model's space, registering it if necessary. Its vectors are normalised: each has norm 1 (or 0)."""
    space = find_space(tx, model, dimensions)
    if space is not None:
        return space
    values = {"model": model, "dimensions": dimensions}
    tx.execute(_ADD, values | {"embedder": embedder})
    return Space(*tx.execute(_FIND, values).one())


_FIND = text(
    "SELECT space_id, model, dimensions, embedder FROM embedding_spaces "
    "WHERE model = :model AND dimensions = :dimensions"
)

_ADD = text("""
INSERT INTO embedding_spaces (model, dimensions, normalised, embedder)
VALUES (:model, :dimensions, true, :embedder)
ON CONFLICT (model, dimensions) DO NOTHING
""")


def read_tenant_spaces(tx: Connection, tenant_id: UUID) -> TenantSpaces | None:
    """Return a tenant's current spaces, or None if no space is assigned to it yet."""
    return _spaces(tx, OF_TENANT, tenant_id)


def lock_tenant_spaces(tx: Connection, tenant_id: UUID) -> TenantSpaces | None:
    """Return a tenant's spaces with its row locked in share mode (`FOR SHARE`) until the transaction ends."""
    return _spaces(tx, _HOLD, tenant_id)


def lock(tx: Connection, tenant_id: UUID) -> TenantSpaces | None:
    """Return a tenant's spaces with its row locked exclusively (`FOR UPDATE`) until the transaction ends."""
    return _spaces(tx, _LOCK, tenant_id)


def parse_spaces(row: Sequence[Any]) -> TenantSpaces | None:
    """Build a tenant's spaces from a row of `OF_TENANT`; return None for a row of NULLs."""
    if row[0] is None:
        return None
    return TenantSpaces(Space(*row[:4]), None if row[4] is None else Space(*row[4:8]), row[8])


def _spaces(tx: Connection, statement: str, tenant_id: UUID) -> TenantSpaces | None:
    row = driver_connection(tx).execute(statement, {"tenant": tenant_id}).fetchone()
    return row and parse_spaces(row)


OF_TENANT: Final = """
SELECT searched.space_id, searched.model, searched.dimensions, searched.embedder,
  target.space_id, target.model, target.dimensions, target.embedder, graph_space_id
FROM tenant_spaces
JOIN embedding_spaces AS searched ON searched.space_id = tenant_spaces.space_id
LEFT JOIN embedding_spaces AS target ON target.space_id = tenant_spaces.target_space_id
WHERE tenant_spaces.tenant_id = %(tenant)s
"""
_HOLD: Final = f"{OF_TENANT} FOR SHARE OF tenant_spaces"
_LOCK: Final = f"{OF_TENANT} FOR UPDATE OF tenant_spaces"


def assign_space(tx: Connection, tenant_id: UUID, space_id: int) -> None:
    """Assign this space to a tenant that has none."""
    tx.execute(_ADOPT, {"tenant": tenant_id, "space": space_id})


_ADOPT = text("INSERT INTO tenant_spaces (tenant_id, space_id) VALUES (:tenant, :space) ON CONFLICT DO NOTHING")


def start_move(tx: Connection, tenant_id: UUID, space_id: int) -> None:
    """Start a tenant's move to this space. If this is its search space already, cancel any move."""
    tx.execute(_AIM, {"tenant": tenant_id, "space": space_id})


_AIM = text("UPDATE tenant_spaces SET target_space_id = nullif(:space, space_id) WHERE tenant_id = :tenant")


def complete_move(tx: Connection, tenant_id: UUID, space_id: int) -> bool:
    """Complete a tenant's move by making this space its search space. Return False if no such move was under way."""
    return tx.execute(_SWITCH, {"tenant": tenant_id, "space": space_id}).rowcount == 1


_SWITCH = text("""
UPDATE tenant_spaces SET space_id = target_space_id, target_space_id = NULL, switched_at = now()
WHERE tenant_id = :tenant AND target_space_id = :space
""")


def call_off(tx: Connection, tenant_id: UUID, space_id: int) -> None:
    """Cancel a tenant's move to this space."""
    tx.execute(_CALL_OFF, {"tenant": tenant_id, "space": space_id})


_CALL_OFF = text(
    "UPDATE tenant_spaces SET target_space_id = NULL WHERE tenant_id = :tenant AND target_space_id = :space"
)


def list_tenants_elsewhere(tx: Connection, model: str, dimensions: int) -> list[UUID]:
    """Return the tenants whose searches use another space than this model's, in id order."""
    return list(tx.execute(_ELSEWHERE, {"model": model, "dimensions": dimensions}).scalars())


_ELSEWHERE = text("""
SELECT tenant_id FROM tenant_spaces JOIN embedding_spaces USING (space_id)
WHERE (model, dimensions) <> (:model, :dimensions) ORDER BY tenant_id
""")


# A memory is missing from a space if its current text has a vector in another space and none in this one. A memory that
# was never embedded isn't missing: it is pending, or was skipped after a failure. The query lists the space ids,
# because they are the index's first column.
_LACKING = """
memory.tenant_id = :tenant AND memory.deleted_at IS NULL AND EXISTS (
  SELECT FROM embeddings AS known
  WHERE known.tenant_id = :tenant AND known.memory_id = memory.memory_id AND known.text_version = memory.text_version
    AND known.space_id IN (SELECT space_id FROM embedding_spaces WHERE space_id <> :space)
) AND NOT EXISTS (
  SELECT FROM embeddings AS moved
  WHERE moved.tenant_id = :tenant AND moved.space_id = :space AND moved.memory_id = memory.memory_id
    AND moved.text_version = memory.text_version
)
"""


def list_lacking(
    tx: Connection, tenant_id: UUID, space_id: int, *, after: UUID, limit: int, but: Sequence[UUID] = ()
) -> list[UUID]:
    """Return memories whose current text has a vector in another space but none in this one, in id order.

    Args:
        space_id: The space that lacks their vectors.
        after: Only ids above this one.
        limit: Maximum number of ids.
        but: Ids to exclude.
    """
    values = {"tenant": tenant_id, "space": space_id, "after": after, "limit": limit, "but": list(but)}
    return list(tx.execute(_LACKING_IDS, values).scalars())


_LACKING_IDS = text(
    f"SELECT memory_id FROM memories AS memory WHERE {_LACKING} "  # noqa: S608 - a constant
    "AND memory_id > :after AND memory_id <> ALL (CAST(:but AS uuid[])) ORDER BY memory_id LIMIT :limit"
)


def count_lacking(tx: Connection, tenant_id: UUID, space_id: int) -> int:
    """Count the memories whose current text has a vector in another space but none in this one."""
    return int(tx.execute(_COUNT_LACKING, {"tenant": tenant_id, "space": space_id}).scalar_one())


_COUNT_LACKING = text(f"SELECT count(*) FROM memories AS memory WHERE {_LACKING}")  # noqa: S608 - a constant


def count_given(tx: Connection, tenant_id: UUID, but_space_id: int) -> int:
    """Count the vectors supplied by callers in spaces other than this one."""
    return int(tx.execute(_COUNT_GIVEN, {"tenant": tenant_id, "space": but_space_id}).scalar_one())


_COUNT_GIVEN = text("SELECT count(*) FROM embeddings WHERE tenant_id = :tenant AND space_id <> :space AND by_caller")


def forget(tx: Connection, tenant_id: UUID, space_id: int, memory_ids: Sequence[UUID]) -> None:
    """Delete the vectors of these memories in one space."""
    tx.execute(_FORGET, {"tenant": tenant_id, "space": space_id, "memory_ids": list(memory_ids)})


_FORGET = text("""
DELETE FROM embeddings
WHERE tenant_id = :tenant AND space_id = :space AND memory_id = ANY (CAST(:memory_ids AS uuid[]))
""")


def clear_unused(tx: Connection, tenant_id: UUID, limit: int) -> int:
    """Delete a tenant's vectors that belong neither to its search space nor to its target space.

    A vector is retained while its memory has none in the search space, because it may be the memory's only vector.

    Returns:
        The number of deleted vectors, at most `limit`; call again until it is 0.
    """
    spaces = lock_tenant_spaces(tx, tenant_id)
    if spaces is None:
        return 0
    retained_ids = [spaces.searched.space_id, *([spaces.target.space_id] if spaces.target else [])]
    values = {"tenant": tenant_id, "space": spaces.searched.space_id, "kept": retained_ids, "limit": limit}
    return tx.execute(_CLEAR, values).rowcount


_CLEAR = text("""
WITH stale AS MATERIALIZED (
  SELECT space_id, memory_id FROM embeddings AS known
  WHERE tenant_id = :tenant AND space_id IN (SELECT space_id FROM embedding_spaces WHERE space_id <> ALL (:kept))
    AND NOT EXISTS (
      SELECT FROM memories AS memory
      WHERE memory.tenant_id = :tenant AND memory.memory_id = known.memory_id AND memory.deleted_at IS NULL
        AND memory.text_version = known.text_version
        AND NOT EXISTS (
          SELECT FROM embeddings AS moved
          WHERE moved.tenant_id = :tenant AND moved.space_id = :space AND moved.memory_id = known.memory_id
            AND moved.text_version = memory.text_version
        )
    )
  LIMIT :limit
)
DELETE FROM embeddings USING stale
WHERE tenant_id = :tenant AND embeddings.space_id = stale.space_id AND embeddings.memory_id = stale.memory_id
""")
