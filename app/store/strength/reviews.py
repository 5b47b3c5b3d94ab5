"""Reviews: when each memory's next one is due. One that was never reviewed has no row yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from app.domain.evaluation.self_tests import FLAGGING
from app.store.core.packed import driver, moments

_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A memory's place in its reviews.

    Attributes:
        due_at: When the next one is due.
        interval_days: From the last one until then.
        reviewed_at: When the last one was; with none so far, when the memory was accepted.
        review_count: How many there were; 0 for a memory that was only flagged.
        flagged: Whether the last one failed, or a self-test since.
    """

    due_at: datetime
    interval_days: float
    reviewed_at: datetime
    review_count: int
    flagged: bool


@dataclass(frozen=True, slots=True)
class Described:
    """What a memory for review is about."""

    text: str
    subject: str | None
    thread: str | None
    kind: str | None


class Waiting(NamedTuple):
    """Memories and when their reviews are due.

    Attributes:
        ids: 16 bytes each, in ascending order.
        due_at: Seconds since 1970, shape (n,).
    """

    ids: bytes
    due_at: npt.NDArray[np.float64]

    def only(self, places: npt.NDArray[np.intp]) -> Waiting:
        """Those at these places alone."""
        return Waiting(_keys(self.ids)[places].tobytes(), self.due_at[places])

    def slices(self, limit: int) -> Iterator[Waiting]:
        """All of them, so many at a time."""
        for start in range(0, len(self.due_at), limit):
            yield self.only(np.arange(start, min(start + limit, len(self.due_at))))

    def left(self, ids: bytes) -> Waiting:
        """Those of these ids alone."""
        if ids == self.ids:
            return self
        return self.only(np.flatnonzero(np.isin(_keys(self.ids), _keys(ids))))


def _keys(ids: bytes) -> npt.NDArray[np.bytes_]:
    return np.frombuffer(ids, f"S{_ID_BYTES}")


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, Reviewed]:
    """The reviews of those of the memories that had any."""
    rows = tx.execute(_READ, {"tenant": tenant_id, "memory_ids": list(memory_ids)})
    return {memory_id: Reviewed(*row) for memory_id, *row in rows}


_READ = text("""
SELECT memory_id, due_at, interval_days, reviewed_at, review_count, flagged FROM reviews
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:memory_ids AS uuid[]))
""")


def write(tx: Connection, tenant_id: UUID, memory_id: UUID, reviewed: Reviewed) -> None:
    """Enter where a memory stands after its review; the caller has locked its state."""
    tx.execute(_WRITE, {"tenant": tenant_id, "memory_id": memory_id, **asdict(reviewed)})


_WRITE = text("""
INSERT INTO reviews (tenant_id, memory_id, due_at, interval_days, reviewed_at, review_count, flagged)
VALUES (:tenant, :memory_id, :due_at, :interval_days, :reviewed_at, :review_count, :flagged)
ON CONFLICT (tenant_id, memory_id) DO UPDATE SET due_at = excluded.due_at, interval_days = excluded.interval_days,
  reviewed_at = excluded.reviewed_at, review_count = excluded.review_count, flagged = excluded.flagged
""")


def flag(
    tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], as_of: datetime, first_interval_days: float
) -> None:
    """Flag memories for review, due by this moment at the latest, without a review; their states are locked.

    One without any review so far then counts none, and has the moment of its acceptance for that of the last.
    """
    values = {"tenant": tenant_id, "ids": list(memory_ids), "as_of": as_of, "first": first_interval_days}
    tx.execute(_FLAG, values)


_FLAG = text("""
INSERT INTO reviews AS known (tenant_id, memory_id, due_at, interval_days, reviewed_at, review_count, flagged)
SELECT :tenant, memory_id, least(created_at + CAST(:first AS float8) * interval '1 day', :as_of), :first, created_at,
  0, true
FROM memories
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:ids AS uuid[])) AND deleted_at IS NULL ORDER BY memory_id
ON CONFLICT (tenant_id, memory_id) DO UPDATE SET flagged = true, due_at = least(known.due_at, :as_of)
""")


def waiting(
    tx: Connection,
    tenant_id: UUID,
    *,
    until: float,
    first_interval_days: float,
    subject: str | None,
    thread: str | None,
    flagged: bool = False,
) -> Waiting:
    """The memories whose review is due by a moment; what is superseded needs none.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        until: Seconds since 1970; infinite for all there are.
        first_interval_days: After how many days one that was never reviewed is due.
        subject: Only those about this subject; None for all.
        thread: Only those of this thread.
        flagged: Only those that are flagged.
    """
    values = {
        "tenant": tenant_id,
        "until": until,
        "first": first_interval_days,
        "subject": subject,
        "thread": thread,
        "flagged": flagged,
    }
    ids, due = driver(tx).execute(_WAITING, values, binary=True).fetchone() or (None, None)
    return Waiting(ids or b"", moments(due))


_WAITING: Final = """
SELECT string_agg(uuid_send(memory_id), ''), string_agg(timestamptz_send(due_at), '')
FROM (
  SELECT memory.memory_id, coalesce(review.due_at, memory.created_at + %(first)s * interval '1 day') AS due_at
  FROM memories AS memory LEFT JOIN reviews AS review USING (tenant_id, memory_id)
  WHERE memory.tenant_id = %(tenant)s AND memory.deleted_at IS NULL
    AND (%(subject)s::text IS NULL OR memory.subject = %(subject)s)
    AND (%(thread)s::text IS NULL OR memory.thread = %(thread)s)
    AND (review.flagged OR NOT %(flagged)s)
    AND memory.memory_id NOT IN (
      SELECT superseded_id FROM supersessions WHERE tenant_id = %(tenant)s AND status = 'active')
  ORDER BY memory.memory_id
) AS found WHERE due_at <= to_timestamp(%(until)s)
"""


class Flagged(NamedTuple):
    """A memory whose last review, or a self-test since, has failed.

    Attributes:
        due_at: When its review is due.
        failed: Kinds of self-tests that it has failed, as far as their runs are kept.
    """

    memory_id: UUID
    due_at: datetime
    review_count: int
    failed: list[str]
    described: Described


def flagged(tx: Connection, tenant_id: UUID, limit: int) -> list[Flagged]:
    """Memories that are flagged, the longest due first; those deleted, hidden or superseded left out."""
    rows = tx.execute(_FLAGGED, {"tenant": tenant_id, "limit": limit, "kinds": list(FLAGGING)})
    return [Flagged(key, due_at, count, failed, Described(*row)) for key, due_at, count, failed, *row in rows]


_FLAGGED = text("""
SELECT review.memory_id, review.due_at, review.review_count, test.kinds, memory.*
FROM (
  SELECT memory_id, due_at, review_count FROM reviews WHERE tenant_id = :tenant AND flagged
    AND memory_id NOT IN (SELECT superseded_id FROM supersessions WHERE tenant_id = :tenant AND status = 'active')
  ORDER BY due_at, memory_id
) AS review
CROSS JOIN LATERAL (
  SELECT text, subject, thread, kind FROM memories
  WHERE tenant_id = :tenant AND memory_id = review.memory_id AND deleted_at IS NULL OFFSET 0
) AS memory
CROSS JOIN LATERAL (
  SELECT coalesce(array_agg(DISTINCT kind ORDER BY kind), '{}') AS kinds FROM self_tests
  WHERE tenant_id = :tenant AND memory_id = review.memory_id AND NOT passed
    AND kind = ANY (CAST(:kinds AS text[]))
) AS test
ORDER BY review.due_at, review.memory_id LIMIT :limit
""")


def described(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, Described]:
    """What these memories are about, the deleted ones left out."""
    rows = tx.execute(_DESCRIBED, {"tenant": tenant_id, "memory_ids": list(memory_ids)})
    return {memory_id: Described(*row) for memory_id, *row in rows}


_DESCRIBED = text("""
SELECT memory_id, text, subject, thread, kind FROM memories
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:memory_ids AS uuid[])) AND deleted_at IS NULL
""")
