"""A tenant's numbers, kept in the transactions that change them, so that nobody has to count its memories.

They are sums over a few rows: a transaction adds to one of them, so that those at once seldom wait for each other.
It does so late, when what else it locks is locked; only the audit's chain comes after.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.packed import Uuids, driver

SLOTS: Final = 16


class Counts(NamedTuple):
    """How many memories are in each tier, and how long their texts are in the database; or by how much that changes.

    Attributes:
        text_bytes: In UTF-8, of all tiers; what a cold memory has left here included.
    """

    active: int = 0
    archived: int = 0
    cold: int = 0
    text_bytes: int = 0

    @property
    def memories(self) -> int:
        """How many, or by how many more, in all tiers."""
        return self.active + self.archived + self.cold

    def less(self, others: Counts) -> Counts:
        """By how much these are more than others."""
        return Counts(*(mine - theirs for mine, theirs in zip(self, others, strict=True)))

    def plus(self, others: Counts) -> Counts:
        """These and more of them."""
        return Counts(*(mine + theirs for mine, theirs in zip(self, others, strict=True)))


NONE: Final = Counts()


def read(tx: Connection, tenant_id: UUID) -> Counts:
    """The tenant's numbers."""
    return Counts(*driver(tx).execute(_READ, {"tenant": tenant_id}).fetchall()[0])


_SUMS: Final = ", ".join(f"CAST(coalesce(sum({name}), 0) AS bigint)" for name in Counts._fields)
_READ: Final = f"SELECT {_SUMS} FROM tenant_counts WHERE tenant_id = %(tenant)s"  # noqa: S608 - constants


def add(tx: Connection, tenant_id: UUID, change: Counts) -> None:
    """Enter by how much a transaction changes them."""
    if any(change):
        driver(tx).execute(ADD, {"tenant": tenant_id, **change._asdict()})


ADD: Final = f"""
INSERT INTO tenant_counts AS known (tenant_id, slot, active, archived, cold, text_bytes)
VALUES (%(tenant)s, mod(pg_backend_pid(), {SLOTS}), %(active)s, %(archived)s, %(cold)s, %(text_bytes)s)
ON CONFLICT (tenant_id, slot) DO UPDATE SET active = known.active + excluded.active,
  archived = known.archived + excluded.archived, cold = known.cold + excluded.cold,
  text_bytes = known.text_bytes + excluded.text_bytes
"""  # noqa: S608 - put together of constants


def measure(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Counts:
    """What these memories alone come to; those that are deleted to nothing."""
    if not memory_ids:
        return NONE
    return Counts(*driver(tx).execute(_OF, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()[0])


_TIERS_AND_BYTES: Final = """
  count(*) FILTER (WHERE tier = 'active'), count(*) FILTER (WHERE tier = 'archived'),
  count(*) FILTER (WHERE tier = 'cold'),
  CAST(coalesce(sum(octet_length(text)) FILTER (WHERE tier <> 'deleted'), 0) AS bigint)
"""

_OF: Final = f"""
SELECT {_TIERS_AND_BYTES} FROM unnest(%(ids)s) AS id
CROSS JOIN LATERAL (
  SELECT tier FROM memory_state WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0) AS state
CROSS JOIN LATERAL (
  SELECT text FROM memories WHERE tenant_id = %(tenant)s AND memory_id = id OFFSET 0) AS memory
"""  # noqa: S608 - put together of constants


@contextmanager
def changing(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Iterator[None]:
    """Enter at the end what the body has made of memories whose rows are locked: it moves, edits or deletes them."""
    before = measure(tx, tenant_id, memory_ids)
    yield
    add(tx, tenant_id, measure(tx, tenant_id, memory_ids).less(before))


def drift(tx: Connection, tenant_id: UUID) -> Counts:
    """By how much the memories, counted one by one, are more than the numbers.

    Both are read in one statement, which sees a transaction's memories and what it has added for them together or
    not at all: so nobody has to wait.
    """
    return Counts(*driver(tx).execute(_DRIFT, {"tenant": tenant_id}).fetchall()[0])


_DRIFT: Final = f"""
SELECT counted.active - kept.active, counted.archived - kept.archived, counted.cold - kept.cold,
  counted.text_bytes - kept.text_bytes
FROM (
  SELECT {_TIERS_AND_BYTES}
  FROM memory_state JOIN memories USING (tenant_id, memory_id) WHERE tenant_id = %(tenant)s
) AS counted (active, archived, cold, text_bytes), (
  SELECT {_SUMS} FROM tenant_counts WHERE tenant_id = %(tenant)s
) AS kept (active, archived, cold, text_bytes)
"""  # noqa: S608 - put together of constants


def lock(tx: Connection, tenant_id: UUID) -> None:
    """Let nobody else correct the numbers until the transaction ends; who adds to them doesn't wait."""
    driver(tx).execute(_LOCK, {"tenant": str(tenant_id)})


_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tenant_counts ' || %(tenant)s, 0))"
