"""Store the due date of each memory's next review.

A memory that was never reviewed has no row, unless it was flagged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection, text

from app.domain.evaluation.self_test_rules import FLAGGING
from app.store.core.binary_arrays import decode_moments, driver_connection

_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class ReviewSchedule:
    """The review schedule of a memory.

    Attributes:
        due_at: Due date of the next review.
        interval_days: Days from the last review to the next.
        reviewed_at: Date of the last review; the memory's acceptance date if there was none.
        review_count: Number of reviews; 0 for a memory that was only flagged.
        flagged: The last review, or a self-test since, failed.
    """

    due_at: datetime
    interval_days: float
    reviewed_at: datetime
    review_count: int
    flagged: bool


@dataclass(frozen=True, slots=True)
class ReviewText:
    """The content that a reviewer sees."""

    text: str
    subject: str | None
    thread: str | None
    kind: str | None


class ObservedReview(NamedTuple):
    """Reviews of a memory by observed uses: the new schedule, and the number of reviews to add."""

    memory_id: UUID
    due_at: datetime
    interval_days: float
    reviewed_at: datetime
    reviews: int


class DueReviews(NamedTuple):
    """Memories with the due dates of their reviews.

    Attributes:
        ids: 16 bytes each, in ascending order.
        due_at: Seconds since 1970, shape (n,).
    """

    ids: bytes
    due_at: npt.NDArray[np.float64]

    def only(self, places: npt.NDArray[np.intp]) -> DueReviews:
        """Return the entries at these indexes."""
        return DueReviews(_keys(self.ids)[places].tobytes(), self.due_at[places])

    def slices(self, limit: int) -> Iterator[DueReviews]:
        """Yield all entries in slices of at most `limit`."""
        for start in range(0, len(self.due_at), limit):
            yield self.only(np.arange(start, min(start + limit, len(self.due_at))))

    def select_ids(self, ids: bytes) -> DueReviews:
        """Return only the entries with these ids."""
        if ids == self.ids:
            return self
        return self.only(np.flatnonzero(np.isin(_keys(self.ids), _keys(ids))))


def _keys(ids: bytes) -> npt.NDArray[np.bytes_]:
    return np.frombuffer(ids, f"S{_ID_BYTES}")


def read(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, ReviewSchedule]:
    """Return the review schedules of these memories; memories without one are omitted."""
    rows = tx.execute(_READ, {"tenant": tenant_id, "memory_ids": list(memory_ids)})
    return {memory_id: ReviewSchedule(*row) for memory_id, *row in rows}


_READ = text("""
SELECT memory_id, due_at, interval_days, reviewed_at, review_count, flagged FROM reviews
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:memory_ids AS uuid[]))
""")


def write(tx: Connection, tenant_id: UUID, memory_id: UUID, reviewed: ReviewSchedule) -> None:
    """Insert or update a memory's schedule after a review; the caller has locked its state."""
    tx.execute(_WRITE, {"tenant": tenant_id, "memory_id": memory_id, **asdict(reviewed)})


_WRITE = text("""
INSERT INTO reviews (tenant_id, memory_id, due_at, interval_days, reviewed_at, review_count, flagged)
VALUES (:tenant, :memory_id, :due_at, :interval_days, :reviewed_at, :review_count, :flagged)
ON CONFLICT (tenant_id, memory_id) DO UPDATE SET due_at = excluded.due_at, interval_days = excluded.interval_days,
  reviewed_at = excluded.reviewed_at, review_count = excluded.review_count, flagged = excluded.flagged
""")


def add_observed(tx: Connection, tenant_id: UUID, observed: Sequence[ObservedReview]) -> None:
    """Add reviews by observed uses in one statement; flags stay, and the caller has locked the memories' states."""
    names = ("ids", "due_at", "interval_days", "reviewed_at", "reviews")
    columns = zip(*sorted(observed), strict=True)
    tx.execute(_ADD_OBSERVED, {"tenant": tenant_id, **dict(zip(names, map(list, columns), strict=True))})


_ADD_OBSERVED = text("""
INSERT INTO reviews AS known (tenant_id, memory_id, due_at, interval_days, reviewed_at, review_count, flagged)
SELECT :tenant, memory_id, given.due_at, given.interval_days, given.reviewed_at, given.reviews, false
FROM unnest(CAST(:ids AS uuid[]), CAST(:due_at AS timestamptz[]), CAST(:interval_days AS float8[]),
  CAST(:reviewed_at AS timestamptz[]), CAST(:reviews AS int[]))
  AS given (memory_id, due_at, interval_days, reviewed_at, reviews)
JOIN memories USING (memory_id)
WHERE memories.tenant_id = :tenant AND memories.deleted_at IS NULL ORDER BY memory_id
ON CONFLICT (tenant_id, memory_id) DO UPDATE SET due_at = excluded.due_at, interval_days = excluded.interval_days,
  reviewed_at = greatest(known.reviewed_at, excluded.reviewed_at),
  review_count = known.review_count + excluded.review_count
""")


def flag_memories(
    tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], as_of: datetime, first_interval_days: float
) -> None:
    """Flag memories for review, due by `as_of` at the latest; the caller has locked their states.

    Flagging doesn't count as a review: a memory without a schedule gets one with 0 reviews, and its acceptance date as
    the date of the last review.
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


def list_due(
    tx: Connection,
    tenant_id: UUID,
    *,
    until: float,
    first_interval_days: float,
    subject: str | None,
    thread: str | None,
    flagged: bool = False,
) -> DueReviews:
    """Return the memories whose review is due by a given time; superseded memories need no review.

    Args:
        until: Seconds since 1970; infinity returns all.
        first_interval_days: Days after acceptance at which a first review is due.
        subject: Only memories about this subject.
        thread: Only memories of this thread.
        flagged: Only flagged memories.
    """
    values = {
        "tenant": tenant_id,
        "until": until,
        "first": first_interval_days,
        "subject": subject,
        "thread": thread,
        "flagged": flagged,
    }
    ids, due = driver_connection(tx).execute(_WAITING, values, binary=True).fetchone() or (None, None)
    return DueReviews(ids or b"", decode_moments(due))


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


class FlaggedMemory(NamedTuple):
    """A memory whose last review, or a self-test since, failed.

    Attributes:
        due_at: Due date of its review.
        failed: Kinds of self-tests that the memory failed in the runs that are still retained.
    """

    memory_id: UUID
    due_at: datetime
    review_count: int
    failed: list[str]
    described: ReviewText


def list_flagged(tx: Connection, tenant_id: UUID, limit: int) -> list[FlaggedMemory]:
    """Return flagged memories, longest overdue first, without deleted, hidden and superseded ones."""
    rows = tx.execute(_FLAGGED, {"tenant": tenant_id, "limit": limit, "kinds": list(FLAGGING)})
    return [FlaggedMemory(key, due_at, count, failed, ReviewText(*row)) for key, due_at, count, failed, *row in rows]


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


def read_texts(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, ReviewText]:
    """Return the content of these memories; deleted ones are omitted."""
    rows = tx.execute(_DESCRIBED, {"tenant": tenant_id, "memory_ids": list(memory_ids)})
    return {memory_id: ReviewText(*row) for memory_id, *row in rows}


_DESCRIBED = text("""
SELECT memory_id, text, subject, thread, kind FROM memories
WHERE tenant_id = :tenant AND memory_id = ANY (CAST(:memory_ids AS uuid[])) AND deleted_at IS NULL
""")
