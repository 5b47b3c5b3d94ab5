"""Relations between memories. What was deleted is at neither end of what is read here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from app.store.core.packed import Uuids, driver, numbers, uuids


class Key(NamedTuple):
    """What makes a link that link: from which memory to which, and its kind. The order of lists is theirs."""

    memory_id: UUID
    other_id: UUID
    kind: str


@dataclass(frozen=True, slots=True)
class Link:
    """A link as it stands; `source` says who made it."""

    memory_id: UUID
    other_id: UUID
    kind: str
    weight: float
    source: str
    created_at: datetime

    @property
    def key(self) -> Key:
        """What makes it that link."""
        return Key(self.memory_id, self.other_id, self.kind)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which links are meant; None means any.

    Attributes:
        memory_id: At either end.
        from_id: Where it leads from.
        to_id: Where it leads to.
        kind: Its kind.
    """

    memory_id: UUID | None = None
    from_id: UUID | None = None
    to_id: UUID | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pairs of memories with a link between them: three columns of shape (n,).

    Attributes:
        memory_ids: One that was asked about.
        neighbour_ids: The other, which may have been asked about too.
        weights: Of the closest link between the two, 0 to 1.
    """

    memory_ids: list[UUID]
    neighbour_ids: list[UUID]
    weights: npt.NDArray[np.float64]

    def pairs(self) -> Iterator[tuple[UUID, UUID]]:
        """A memory and a neighbour of it, one pair after another."""
        return zip(self.memory_ids, self.neighbour_ids, strict=True)


# A value instead of an EXISTS, which the planner joins to all memories of a tenant that it has no statistics of.
_ALIVE: Final = """(
    SELECT memory.deleted_at IS NULL FROM memories AS memory
    WHERE memory.tenant_id = {tenant} AND memory.memory_id = {memory_id})"""


def lock_ends(tx: Connection, tenant_id: UUID, given_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Lock the memories with these ids, or of which these are aliases, in id order.

    Returns:
        Given id → the id under which the memory is kept; without those that were deleted or never were.
    """
    values = {"tenant": tenant_id, "ids": list(given_ids)}
    return {row.given_id: row.memory_id for row in tx.execute(_LOCK_ENDS, values)}


_LOCK_ENDS = text("""
SELECT given_id, memory.memory_id
FROM unnest(CAST(:ids AS uuid[])) AS given_id
LEFT JOIN memory_aliases AS alias ON alias.tenant_id = :tenant AND alias.alias_id = given_id
JOIN memories AS memory ON memory.tenant_id = :tenant AND memory.memory_id = coalesce(alias.memory_id, given_id)
  AND memory.deleted_at IS NULL
ORDER BY memory.memory_id FOR NO KEY UPDATE OF memory
""")


def kept_as(tx: Connection, tenant_id: UUID, given_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """The id under which each memory is kept, by the one given; of hidden ones too, without those that are gone."""
    return {row.given_id: row.memory_id for row in tx.execute(_KEPT_AS, {"tenant": tenant_id, "ids": list(given_ids)})}


_KEPT_AS = text("""
SELECT given_id, memory.memory_id
FROM unnest(CAST(:ids AS uuid[])) AS given_id
LEFT JOIN memory_aliases AS alias ON alias.tenant_id = :tenant AND alias.alias_id = given_id
JOIN memories AS memory ON memory.tenant_id = :tenant AND memory.memory_id = coalesce(alias.memory_id, given_id)
""")


def upsert(tx: Connection, tenant_id: UUID, weights: Mapping[Key, float]) -> tuple[int, int]:
    """Insert links, or give those that are there another weight; their memories are locked.

    A correction that was found becomes the caller's own: it stays whatever the two memories say.

    Returns:
        How many are new, and how many have another weight than before.
    """
    values = {
        "tenant": tenant_id,
        "memory_ids": [key.memory_id for key in weights],
        "other_ids": [key.other_id for key in weights],
        "kinds": [key.kind for key in weights],
        "weights": [round(weight, 30) for weight in weights.values()],  # nearer to 0, a `real` would be refused
    }
    written = tx.execute(_UPSERT, values).scalars().all()
    return written.count(True), written.count(False)


_UPSERT = text("""
INSERT INTO links AS known (tenant_id, memory_id, other_id, kind, weight)
SELECT :tenant, memory_id, other_id, kind, weight
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:other_ids AS uuid[]), CAST(:kinds AS text[]),
  CAST(:weights AS float8[])) AS given (memory_id, other_id, kind, weight)
ON CONFLICT (tenant_id, memory_id, other_id, kind) DO UPDATE
SET weight = excluded.weight, source = CASE WHEN known.source = 'correction' THEN 'caller' ELSE known.source END
WHERE known.weight <> excluded.weight OR known.source = 'correction'
RETURNING xmax = 0
""")


def fullest(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> tuple[UUID, int]:
    """Which of these memories, some of them linked, has most links, from it and to it, and how many."""
    found = tx.execute(_FULLEST, {"tenant": tenant_id, "ids": list(memory_ids)}).one()
    return found.memory_id, found.links


_FULLEST = text(f"""
SELECT memory_id, count(*) AS links FROM (
  SELECT memory_id, other_id FROM links WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[]))
  UNION ALL
  SELECT other_id, memory_id FROM links WHERE tenant_id = :tenant AND other_id = ANY (CAST(:ids AS uuid[]))
) AS link
WHERE {_ALIVE.format(tenant=":tenant", memory_id="link.other_id")}
GROUP BY memory_id ORDER BY links DESC, memory_id LIMIT 1
""")  # noqa: S608 - constants alone

_MEANT = """link.tenant_id = :tenant
  AND (CAST(:memory_id AS uuid) IS NULL OR link.memory_id = :memory_id OR link.other_id = :memory_id)
  AND (CAST(:from_id AS uuid) IS NULL OR link.memory_id = :from_id)
  AND (CAST(:to_id AS uuid) IS NULL OR link.other_id = :to_id)
  AND (CAST(:kind AS text) IS NULL OR link.kind = :kind)"""


def page(tx: Connection, tenant_id: UUID, wanted: Wanted, after: Key | None, limit: int) -> list[Link]:
    """Links in the order of their keys.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        wanted: Which of them.
        after: Key of the last one of the page before.
        limit: Most rows.
    """
    last = after or Key(UUID(int=0), UUID(int=0), "")
    values = _values(tenant_id, wanted) | {f"after_{name}": value for name, value in last._asdict().items()}
    return [Link(*row) for row in tx.execute(_PAGE, values | {"limit": limit})]


_PAGE = text(f"""
SELECT memory_id, other_id, kind, weight, source, created_at FROM links AS link
WHERE {_MEANT}
  AND (link.memory_id, link.other_id, link.kind) > (:after_memory_id, :after_other_id, :after_kind)
  AND {_ALIVE.format(tenant=":tenant", memory_id="link.memory_id")}
  AND {_ALIVE.format(tenant=":tenant", memory_id="link.other_id")}
ORDER BY memory_id, other_id, kind LIMIT :limit
""")  # noqa: S608 - constants alone


def remove(tx: Connection, tenant_id: UUID, wanted: Wanted) -> int:
    """Delete links. Returns how many they were."""
    return tx.execute(_REMOVE, _values(tenant_id, wanted)).rowcount


_REMOVE = text(f"DELETE FROM links AS link WHERE {_MEANT}")  # noqa: S608 - constants alone


def neighbours(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Neighbours:
    """What is linked to each of these memories, in either direction, one hop away; in the order of both ids."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    row = driver(tx).execute(_NEIGHBOURS, values, binary=True).fetchone() or (None, None, None)
    return Neighbours(uuids(row[0]), uuids(row[1]), numbers(row[2], ">f4"))


_NEIGHBOURS: Final = f"""
SELECT string_agg(uuid_send(memory_id), ''), string_agg(uuid_send(other_id), ''), string_agg(float4send(weight), '')
FROM (
  SELECT memory_id, other_id, max(weight) AS weight FROM (
    SELECT memory_id, other_id, weight FROM links WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
    UNION ALL
    SELECT other_id, memory_id, weight FROM links WHERE tenant_id = %(tenant)s AND other_id = ANY (%(ids)s)
  ) AS link
  WHERE {_ALIVE.format(tenant="%(tenant)s", memory_id="link.memory_id")}
    AND {_ALIVE.format(tenant="%(tenant)s", memory_id="link.other_id")}
  GROUP BY memory_id, other_id ORDER BY memory_id, other_id
) AS near
"""  # noqa: S608 - constants alone


def _values(tenant_id: UUID, wanted: Wanted) -> dict[str, object]:
    return {"tenant": tenant_id} | {name: getattr(wanted, name) for name in wanted.__slots__}
