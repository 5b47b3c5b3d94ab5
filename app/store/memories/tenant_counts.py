"""Maintain each tenant's memory counts in the transactions that change memories, so that no query has to count them.

A count is the sum over a few slot rows. A transaction adds to one slot, so concurrent transactions seldom block each
other. Lock order: the slot's row is locked last, except for the head of the audit chain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.store.core.binary_arrays import Uuids, driver_connection

SLOTS: Final = 16


class TierCounts(NamedTuple):
    """Number of memories per tier and the size of their texts in the database; or a difference of these.

    Attributes:
        text_bytes: UTF-8 bytes over all tiers, including the part of cold memories' texts that remains in the database.
    """

    active: int = 0
    archived: int = 0
    cold: int = 0
    text_bytes: int = 0

    @property
    def memories(self) -> int:
        """Number of memories over all tiers, or a difference of such numbers."""
        return self.active + self.archived + self.cold

    def less(self, others: TierCounts) -> TierCounts:
        """Return the difference `self - others`."""
        return TierCounts(*(mine - theirs for mine, theirs in zip(self, others, strict=True)))

    def plus(self, others: TierCounts) -> TierCounts:
        """Return the sum of both."""
        return TierCounts(*(mine + theirs for mine, theirs in zip(self, others, strict=True)))


NONE: Final = TierCounts()


def read(tx: Connection, tenant_id: UUID) -> TierCounts:
    """Return the tenant's counts."""
    return TierCounts(*driver_connection(tx).execute(_READ, {"tenant": tenant_id}).fetchall()[0])


_SUMS: Final = ", ".join(f"CAST(coalesce(sum({name}), 0) AS bigint)" for name in TierCounts._fields)
_READ: Final = f"SELECT {_SUMS} FROM tenant_counts WHERE tenant_id = %(tenant)s"  # noqa: S608 - constants


def add(tx: Connection, tenant_id: UUID, change: TierCounts) -> None:
    """Add a transaction's change to the counts."""
    if any(change):
        driver_connection(tx).execute(ADD, {"tenant": tenant_id, **change._asdict()})


ADD: Final = f"""
INSERT INTO tenant_counts AS known (tenant_id, slot, active, archived, cold, text_bytes)
VALUES (%(tenant)s, mod(pg_backend_pid(), {SLOTS}), %(active)s, %(archived)s, %(cold)s, %(text_bytes)s)
ON CONFLICT (tenant_id, slot) DO UPDATE SET active = known.active + excluded.active,
  archived = known.archived + excluded.archived, cold = known.cold + excluded.cold,
  text_bytes = known.text_bytes + excluded.text_bytes
"""  # noqa: S608 - built from constants


def count_memories(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> TierCounts:
    """Count these memories; deleted memories aren't counted."""
    if not memory_ids:
        return NONE
    return TierCounts(
        *driver_connection(tx).execute(_OF, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()[0]
    )


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
"""  # noqa: S608 - built from constants


@contextmanager
def track_changes(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> Iterator[None]:
    """Add the effect of the `with` block on these memories, which the caller has locked, to the tenant's counts."""
    before = count_memories(tx, tenant_id, memory_ids)
    yield
    add(tx, tenant_id, count_memories(tx, tenant_id, memory_ids).less(before))


def measure_drift(tx: Connection, tenant_id: UUID) -> TierCounts:
    """Return the actual counts of the tenant's memories minus the maintained ones.

    A single statement reads both, so its snapshot includes either both a transaction's memories and its count changes
    or neither. No lock is needed.
    """
    return TierCounts(*driver_connection(tx).execute(_DRIFT, {"tenant": tenant_id}).fetchall()[0])


_DRIFT: Final = f"""
SELECT counted.active - kept.active, counted.archived - kept.archived, counted.cold - kept.cold,
  counted.text_bytes - kept.text_bytes
FROM (
  SELECT {_TIERS_AND_BYTES}
  FROM memory_state JOIN memories USING (tenant_id, memory_id) WHERE tenant_id = %(tenant)s
) AS counted (active, archived, cold, text_bytes), (
  SELECT {_SUMS} FROM tenant_counts WHERE tenant_id = %(tenant)s
) AS kept (active, archived, cold, text_bytes)
"""  # noqa: S608 - built from constants


def lock(tx: Connection, tenant_id: UUID) -> None:
    """Take the advisory lock for corrections of the counts until the transaction ends; `add` doesn't take this lock."""
    driver_connection(tx).execute(_LOCK, {"tenant": str(tenant_id)})


_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('tenant_counts ' || %(tenant)s, 0))"
