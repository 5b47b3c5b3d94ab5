"""Store typed links between memories. Reads omit links with a deleted memory at either end."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from app.store.core.binary_arrays import Uuids, decode_numbers, decode_uuids, driver_connection
from app.store.core.paging import Page, page_of


class LinkKey(NamedTuple):
    """The identity of a link: source memory, target memory and kind. Lists of links are ordered by this key."""

    memory_id: UUID
    other_id: UUID
    kind: str


@dataclass(frozen=True, slots=True)
class Link:
    """A stored link; `source` names its origin."""

    memory_id: UUID
    other_id: UUID
    kind: str
    weight: float
    source: str
    created_at: datetime

    @property
    def key(self) -> LinkKey:
        """The link's identity."""
        return LinkKey(self.memory_id, self.other_id, self.kind)


@dataclass(frozen=True, slots=True)
class LinkFilter:
    """A filter for links; None matches any value.

    Attributes:
        memory_id: The memory at either end.
        from_id: The source memory.
        to_id: The target memory.
    """

    memory_id: UUID | None = None
    from_id: UUID | None = None
    to_id: UUID | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Pairs of linked memories, as three columns of shape (n,).

    Attributes:
        memory_ids: The queried memory.
        neighbour_ids: The linked memory, which may be a queried memory too.
        weights: The highest weight of any link between the two, 0 to 1.
    """

    memory_ids: list[UUID]
    neighbour_ids: list[UUID]
    weights: npt.NDArray[np.float64]

    def pairs(self) -> Iterator[tuple[UUID, UUID]]:
        """Iterate over (memory, neighbour) pairs."""
        return zip(self.memory_ids, self.neighbour_ids, strict=True)


# A scalar subquery instead of EXISTS: for a tenant without statistics, the planner would turn EXISTS into a join with
# all of the tenant's memories.
_ALIVE: Final = """(
    SELECT memory.deleted_at IS NULL FROM memories AS memory
    WHERE memory.tenant_id = {tenant} AND memory.memory_id = {memory_id})"""


def lock_ends(tx: Connection, tenant_id: UUID, given_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Lock the memories with these ids or aliases, in id order.

    Returns:
        The stored id by given id or alias; deleted and unknown memories are omitted.
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


def resolve_ids(tx: Connection, tenant_id: UUID, given_ids: Sequence[UUID]) -> dict[UUID, UUID]:
    """Return the stored id by given id or alias, including deleted and hidden memories; unknown ids are omitted."""
    return {row.given_id: row.memory_id for row in tx.execute(_KEPT_AS, {"tenant": tenant_id, "ids": list(given_ids)})}


_KEPT_AS = text("""
SELECT given_id, memory.memory_id
FROM unnest(CAST(:ids AS uuid[])) AS given_id
LEFT JOIN memory_aliases AS alias ON alias.tenant_id = :tenant AND alias.alias_id = given_id
JOIN memories AS memory ON memory.tenant_id = :tenant AND memory.memory_id = coalesce(alias.memory_id, given_id)
""")


def upsert_links(tx: Connection, tenant_id: UUID, weights: Mapping[LinkKey, float]) -> tuple[list[LinkKey], int]:
    """Insert links, or update the weight of existing ones; the caller has locked their memories.

    A link from a detected correction becomes the caller's own link, so it remains even if the texts of the two memories
    no longer contain a correction.

    Returns:
        The new links, in the order of `weights`, and the number of updated ones.
    """
    values = {
        "tenant": tenant_id,
        "memory_ids": [key.memory_id for key in weights],
        "other_ids": [key.other_id for key in weights],
        "kinds": [key.kind for key in weights],
        "weights": [round(weight, 30) for weight in weights.values()],  # PostgreSQL rejects smaller `real` values
    }
    written = {LinkKey(*key): is_new for *key, is_new in tx.execute(_UPSERT, values)}
    return [key for key in weights if written.get(key)], list(written.values()).count(False)


_UPSERT = text("""
INSERT INTO links AS known (tenant_id, memory_id, other_id, kind, weight)
SELECT :tenant, memory_id, other_id, kind, weight
FROM unnest(CAST(:memory_ids AS uuid[]), CAST(:other_ids AS uuid[]), CAST(:kinds AS text[]),
  CAST(:weights AS float8[])) AS given (memory_id, other_id, kind, weight)
ON CONFLICT (tenant_id, memory_id, other_id, kind) DO UPDATE
SET weight = excluded.weight, source = CASE WHEN known.source = 'correction' THEN 'caller' ELSE known.source END
WHERE known.weight <> excluded.weight OR known.source = 'correction'
RETURNING memory_id, other_id, kind, xmax = 0
""")


def most_linked(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> tuple[UUID, int]:
    """Return the memory with the most links in either direction among these memories, and its number of links.

    At least one of the memories must have a link.
    """
    row = tx.execute(_FULLEST, {"tenant": tenant_id, "ids": list(memory_ids)}).one()
    return row.memory_id, row.links


_LINK_COUNTS: Final = f"""
SELECT memory_id, count(*) AS links FROM (
  SELECT memory_id, other_id FROM links WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[]))
  UNION ALL
  SELECT other_id, memory_id FROM links WHERE tenant_id = :tenant AND other_id = ANY (CAST(:ids AS uuid[]))
) AS link
WHERE {_ALIVE.format(tenant=":tenant", memory_id="link.other_id")}
GROUP BY memory_id"""  # noqa: S608 - constants only
_FULLEST = text(f"{_LINK_COUNTS} ORDER BY links DESC, memory_id LIMIT 1")


def count_above(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], most: int) -> dict[UUID, int]:
    """Return, by id, the number of links in either direction of each of these memories that has more than `most`."""
    values = {"tenant": tenant_id, "ids": list(memory_ids), "most": most}
    return {row.memory_id: row.links for row in tx.execute(_COUNT_ABOVE, values)}


_COUNT_ABOVE = text(f"{_LINK_COUNTS} HAVING count(*) > :most")


def delete_links(tx: Connection, tenant_id: UUID, keys: Sequence[LinkKey]) -> None:
    """Delete these links."""
    columns = dict(zip(("memory_ids", "other_ids", "kinds"), map(list, zip(*keys, strict=True)), strict=True))
    tx.execute(_DELETE, {"tenant": tenant_id} | columns)


_DELETE = text("""
DELETE FROM links AS link
USING unnest(CAST(:memory_ids AS uuid[]), CAST(:other_ids AS uuid[]), CAST(:kinds AS text[]))
  AS given (memory_id, other_id, kind)
WHERE link.tenant_id = :tenant AND link.memory_id = given.memory_id AND link.other_id = given.other_id
  AND link.kind = given.kind
""")


def lock_targets(
    tx: Connection, tenant_id: UUID, memory_ids: Collection[UUID], external_ids: Sequence[str]
) -> set[UUID]:
    """Lock these memories together with the memories that have these external ids, in id order.

    If the same transaction later locks the memories with these external ids again, no deadlock can occur.

    Returns:
        The ids of the locked memories; deleted ones are omitted.
    """
    values = {"tenant": tenant_id, "ids": list(memory_ids), "external_ids": list(external_ids)}
    return set(tx.execute(_LOCK_TARGETS, values).scalars())


_LOCK_TARGETS = text("""
SELECT memory_id FROM memories
WHERE tenant_id = :tenant AND deleted_at IS NULL AND memory_id = ANY (ARRAY(
  SELECT unnest(CAST(:ids AS uuid[]))
  UNION
  SELECT memory_id FROM memories
  WHERE tenant_id = :tenant AND external_id = ANY (CAST(:external_ids AS text[])) AND deleted_at IS NULL))
ORDER BY memory_id FOR UPDATE
""")

_MEANT = """link.tenant_id = :tenant
  AND (CAST(:memory_id AS uuid) IS NULL OR link.memory_id = :memory_id OR link.other_id = :memory_id)
  AND (CAST(:from_id AS uuid) IS NULL OR link.memory_id = :from_id)
  AND (CAST(:to_id AS uuid) IS NULL OR link.other_id = :to_id)
  AND (CAST(:kind AS text) IS NULL OR link.kind = :kind)"""


def list_links(tx: Connection, tenant_id: UUID, wanted: LinkFilter, after: LinkKey | None, limit: int) -> Page[Link]:
    """Return a page of links in key order.

    Args:
        after: Key of the previous page's last link.
    """
    last = after or LinkKey(UUID(int=0), UUID(int=0), "")
    values = _values(tenant_id, wanted) | {f"after_{name}": value for name, value in last._asdict().items()}
    rows = [Link(*row) for row in tx.execute(_PAGE, values | {"limit": limit})]
    return page_of(rows, limit, lambda link: link.key)


_PAGE = text(f"""
SELECT memory_id, other_id, kind, weight, source, created_at FROM links AS link
WHERE {_MEANT}
  AND (link.memory_id, link.other_id, link.kind) > (:after_memory_id, :after_other_id, :after_kind)
  AND {_ALIVE.format(tenant=":tenant", memory_id="link.memory_id")}
  AND {_ALIVE.format(tenant=":tenant", memory_id="link.other_id")}
ORDER BY memory_id, other_id, kind LIMIT :limit
""")  # noqa: S608 - constants only


def remove(tx: Connection, tenant_id: UUID, wanted: LinkFilter) -> int:
    """Delete the links that match a filter. Return the number deleted."""
    return tx.execute(_REMOVE, _values(tenant_id, wanted)).rowcount


_REMOVE = text(f"DELETE FROM links AS link WHERE {_MEANT}")  # noqa: S608 - constants only


def list_neighbours(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Neighbours:
    """Return the one-hop neighbours of these memories in either direction, ordered by both ids."""
    values = {"tenant": tenant_id, "ids": Uuids(memory_ids)}
    row = driver_connection(tx).execute(_NEIGHBOURS, values, binary=True).fetchone() or (None, None, None)
    return Neighbours(decode_uuids(row[0]), decode_uuids(row[1]), decode_numbers(row[2], ">f4"))


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
"""  # noqa: S608 - constants only


def _values(tenant_id: UUID, wanted: LinkFilter) -> dict[str, object]:
    return {"tenant": tenant_id} | {name: getattr(wanted, name) for name in wanted.__slots__}
