"""Store dead letters: failed work with its reason, retained until an operator replays or discards it.

A replayed letter of stored memories stays as a row that no list shows, with `discarded_at` and without a reason, so
that a new letter for the same work knows how often it was replayed. Such rows expire with the discarded letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid4, uuid5

from sqlalchemy import Connection, Row, text

from app.domain.changes.types import DEAD_LETTER_CREATED
from app.store.changes import feed
from app.store.core.paging import Latest, Page, Place, build_one
from app.store.erasure.whole_tenant import IS_DELETED

DRAIN: Final = "drain"
REASONS_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class UnstoredEntry:
    """A stream entry that could not be stored.

    Attributes:
        entry_id: The entry's current id in the stream.
        position: The entry's original stream id; differs from `entry_id` only after a replay.
        memories: Number of memories that the entry declares.
        replays: Number of times that the entry was replayed before it failed.
    """

    entry_id: str
    position: str
    header: bytes
    payload: bytes
    memories: int
    replays: int = 0


class StoredWork(NamedTuple):
    """Work on stored memories that a replay queues again: stage, memories, and the number of earlier replays."""

    stage: str
    memory_ids: list[UUID]
    replays: int


class ReasonCount(NamedTuple):
    """Number of letters by stage and reason.

    Attributes:
        came_back: Number of these letters whose work had been replayed before.
        replays: Largest number of earlier replays of one letter.
    """

    stage: str
    reason: str
    letters: int
    came_back: int
    replays: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter without its content.

    Attributes:
        memory_ids: The affected memories, if they are stored.
        memories: Number of affected memories.
        payload_bytes: Size of the content that could not be stored; 0 if the memories are stored.
        entry_id: Original stream id (`UnstoredEntry.position`) of an entry that could not be stored; None if the
            memories are stored.
        replayable: True if the letter isn't discarded and has the content or memory ids that a replay needs.
        replays: Number of times that this work was replayed before it failed again.
    """

    letter_id: UUID
    stage: str
    reason: str
    attempts: int
    memory_ids: list[UUID]
    memories: int
    payload_bytes: int
    entry_id: str | None
    created_at: datetime
    replayable: bool
    discarded_at: datetime | None
    discard_reason: str | None
    replays: int


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """A filter for letters; None matches any value.

    Attributes:
        before: Only letters written before this time; ignored by `list_letters` and `count_by_reason`.
    """

    stage: str | None = None
    reason: str | None = None
    before: datetime | None = None


def add(
    tx: Connection,
    tenant_id: UUID,
    *,
    stage: str,
    reason: str,
    attempts: int,
    memory_ids: Sequence[UUID] = (),
    unstored: UnstoredEntry | None = None,
) -> UUID:
    """Insert a dead letter and return its id; repeated calls for one stream entry insert it once.

    No letter is inserted for a tenant whose deletion has started.

    Args:
        reason: A fixed phrase or an error's type; never content.
        memory_ids: The affected memories, if they are stored.
        unstored: The affected entry, if its memories aren't stored.
    """
    # The letter's id is derived from the entry's current stream id. A replay gives the entry a new stream id, so an
    # entry that fails again gets a new letter instead of the one that the replay is about to delete.
    letter_id = uuid4() if unstored is None else uuid5(tenant_id, unstored.entry_id)
    values = {
        "tenant_id": tenant_id,
        "letter_id": letter_id,
        "stage": stage,
        "reason": reason,
        "attempts": attempts,
        "memory_ids": list(memory_ids),
        "memories": len(memory_ids) if unstored is None else unstored.memories,
        "entry_id": unstored and unstored.position,
        "header": unstored and unstored.header,
        "payload": unstored and unstored.payload,
        "replays": unstored and unstored.replays,
    }
    if tx.execute(_ADD if unstored else _ADD_STORED, values).rowcount:
        feed.record(tx, tenant_id, DEAD_LETTER_CREATED, [letter_id])
    return letter_id


_REPLAYED = "(discarded_at IS NOT NULL AND discard_reason IS NULL)"
_INSERT = """
INSERT INTO dead_letters (
  tenant_id, letter_id, stage, reason, attempts, memory_ids, memories, entry_id, header, payload, replays)
SELECT :tenant_id, :letter_id, :stage, :reason, :attempts, CAST(:memory_ids AS uuid[]), :memories, :entry_id, :header,
  :payload, {replays}
WHERE NOT {is_deleted}
ON CONFLICT DO NOTHING
"""
_IS_DELETED = IS_DELETED.format(tenant=":tenant_id")
_ADD = text(_INSERT.format(replays=":replays", is_deleted=_IS_DELETED))
_EARLIER = f"""(
    SELECT coalesce(max(earlier.replays) + 1, 0) FROM dead_letters AS earlier
    WHERE earlier.tenant_id = :tenant_id AND earlier.stage = :stage AND {_REPLAYED}
      AND earlier.memory_ids && CAST(:memory_ids AS uuid[]))"""  # noqa: S608 - built from constants
_ADD_STORED = text(_INSERT.format(replays=_EARLIER, is_deleted=_IS_DELETED))


def count(tx: Connection, tenant_id: UUID) -> int:
    """Count a tenant's dead letters that await a decision."""
    return int(tx.execute(_COUNT, {"tenant_id": tenant_id}).scalar_one())


_COUNT = text("SELECT count(*) FROM dead_letters WHERE tenant_id = :tenant_id AND discarded_at IS NULL")

_REPLAYABLE = (
    "(discarded_at IS NULL AND CASE stage WHEN 'drain' THEN header IS NOT NULL AND payload IS NOT NULL "
    "ELSE memory_ids <> '{}' END)"
)
_LETTER = f"""
SELECT letter_id, stage, reason, attempts, memory_ids, memories, coalesce(octet_length(payload), 0) AS payload_bytes,
  entry_id, created_at, {_REPLAYABLE} AS replayable, discarded_at, discard_reason, replays
FROM dead_letters
"""  # noqa: S608 - built from constants
_WANTED = """
tenant_id = :tenant_id
  AND (CAST(:stage AS text) IS NULL OR stage = CAST(:stage AS text))
  AND (CAST(:reason AS text) IS NULL OR reason = CAST(:reason AS text))
"""
_WAITING = f"""
{_WANTED} AND discarded_at IS NULL
  AND (CAST(:before AS timestamptz) IS NULL OR created_at < CAST(:before AS timestamptz))
"""


def get(tx: Connection, tenant_id: UUID, letter_id: UUID) -> DeadLetter | None:
    """Return a dead letter by its id, or None if it doesn't exist."""
    return build_one(DeadLetter, tx.execute(_GET, {"tenant_id": tenant_id, "letter_id": letter_id}))


_GET = text(f"{_LETTER} WHERE tenant_id = :tenant_id AND letter_id = :letter_id AND NOT {_REPLAYED}")


def list_letters(
    tx: Connection, tenant_id: UUID, wanted: LetterFilter, older_than: Place | None, limit: int, *, discarded: bool
) -> Page[DeadLetter]:
    """Return a page of pending or of discarded letters, newest first."""
    return _PAGES[discarded].read(tx, lambda row: DeadLetter(*row), older_than, limit, **_values(tenant_id, wanted))


_SHOWN = {False: "discarded_at IS NULL", True: "discard_reason IS NOT NULL"}
_PAGES = {
    discarded: Latest(f"""
{_LETTER}WHERE {_WANTED} AND {_SHOWN[discarded]}
ORDER BY created_at DESC, letter_id DESC""")
    for discarded in (False, True)
}


def count_by_reason(tx: Connection, tenant_id: UUID, wanted: LetterFilter, *, discarded: bool) -> list[ReasonCount]:
    """Return the number of letters by stage and reason, most frequent first; at most `REASONS_SHOWN` rows."""
    values = _values(tenant_id, wanted) | {"limit": REASONS_SHOWN}
    return [ReasonCount(*row) for row in tx.execute(_REASONS[discarded], values)]


_REASONS = {
    discarded: text(f"""
SELECT stage, reason, count(*) AS letters, count(*) FILTER (WHERE replays > 0), max(replays) FROM dead_letters
WHERE {_WANTED} AND {_SHOWN[discarded]}
GROUP BY stage, reason ORDER BY letters DESC, stage, reason LIMIT :limit
""")  # noqa: S608 - built from constants
    for discarded in (False, True)
}


# --- Replay ---


def count_replayable(tx: Connection, tenant_id: UUID, wanted: LetterFilter) -> int:
    """Count the matching letters that can be replayed."""
    return int(tx.execute(_COUNT_REPLAYABLE, _values(tenant_id, wanted)).scalar_one())


_COUNT_REPLAYABLE = text(f"SELECT count(*) FROM dead_letters WHERE {_WAITING} AND {_REPLAYABLE}")  # noqa: S608 - built from constants


def get_drain_content(tx: Connection, tenant_id: UUID, letter_id: UUID) -> UnstoredEntry | None:
    """Return the content of a letter written by the drain, or None if it no longer exists or can't be replayed."""
    row = tx.execute(_OF_DRAIN, {"tenant_id": tenant_id, "letter_id": letter_id}).one_or_none()
    return None if row is None else _unstored(row)


_UNSTORED = "SELECT letter_id, entry_id, header, payload, memories, replays FROM dead_letters"
_OF_DRAIN = text(f"""
{_UNSTORED} WHERE tenant_id = :tenant_id AND letter_id = :letter_id AND stage = 'drain' AND {_REPLAYABLE}
""")


def list_drain_contents(
    tx: Connection, tenant_id: UUID, wanted: LetterFilter, *, limit: int, most_bytes: int
) -> list[tuple[UUID, UnstoredEntry]]:
    """Return the ids and contents of the oldest matching, replayable letters of the drain, in order of creation.

    Args:
        limit: Maximum number of letters.
        most_bytes: Total size after which no further letter is added.
    """
    values = _values(tenant_id, wanted) | {"limit": limit, "most_bytes": most_bytes}
    return [(row.letter_id, _unstored(row)) for row in tx.execute(_SOME_OF_DRAIN, values)]


_SOME_OF_DRAIN = text(f"""
WITH oldest AS MATERIALIZED (
  SELECT letter_id, created_at, octet_length(payload) AS size FROM dead_letters
  WHERE {_WAITING} AND stage = 'drain' AND {_REPLAYABLE}
  ORDER BY created_at, letter_id LIMIT :limit
), chosen AS (
  SELECT letter_id, sum(size) OVER (ORDER BY created_at, letter_id) - size AS before FROM oldest
)
{_UNSTORED}
WHERE tenant_id = :tenant_id
  AND letter_id IN (SELECT letter_id FROM chosen WHERE before = 0 OR before < :most_bytes)
ORDER BY created_at, letter_id
""")  # noqa: S608 - built from constants


def _unstored(row: Row[tuple[object, ...]]) -> UnstoredEntry:
    return UnstoredEntry(row.entry_id, row.entry_id, bytes(row.header), bytes(row.payload), row.memories, row.replays)


def delete(tx: Connection, tenant_id: UUID, letter_ids: Sequence[UUID]) -> list[UUID]:
    """Delete letters whose entries are in the stream again. Return the ids that still existed."""
    return list(tx.execute(_DELETE, {"tenant_id": tenant_id, "letter_ids": list(letter_ids)}).scalars())


_DELETE = text("""
DELETE FROM dead_letters WHERE tenant_id = :tenant_id AND letter_id = ANY(:letter_ids) RETURNING letter_id
""")


def claim(tx: Connection, tenant_id: UUID, letter_id: UUID) -> StoredWork | None:
    """Mark a letter as replayed if its memories are stored; the caller queues them again in this transaction.

    Returns:
        The letter's work, or None if the letter no longer exists or can't be replayed.
    """
    row = tx.execute(_TAKE, {"tenant_id": tenant_id, "letter_id": letter_id}).one_or_none()
    return None if row is None else StoredWork(*row)


_TAKE = text(f"""
UPDATE dead_letters SET discarded_at = now()
WHERE tenant_id = :tenant_id AND letter_id = :letter_id AND stage <> 'drain' AND {_REPLAYABLE}
RETURNING stage, memory_ids, replays
""")  # noqa: S608 - built from constants


def claim_stored(tx: Connection, tenant_id: UUID, wanted: LetterFilter, limit: int) -> dict[UUID, StoredWork]:
    """Mark as replayed the oldest matching letters whose memories are stored; the caller queues the memories again.

    Letters locked by another transaction are skipped.

    Returns:
        The work by letter id.
    """
    rows = tx.execute(_TAKE_SOME, _values(tenant_id, wanted) | {"limit": limit})
    return {row.letter_id: StoredWork(row.stage, row.memory_ids, row.replays) for row in rows}


# Materialised: an inlined subquery may run once per row and select different letters each time.
_TAKE_SOME = text(f"""
WITH oldest AS MATERIALIZED (
  SELECT letter_id FROM dead_letters
  WHERE {_WAITING} AND stage <> 'drain' AND {_REPLAYABLE}
  ORDER BY created_at, letter_id LIMIT :limit FOR UPDATE SKIP LOCKED
)
UPDATE dead_letters SET discarded_at = now()
WHERE tenant_id = :tenant_id AND letter_id IN (SELECT letter_id FROM oldest)
RETURNING letter_id, stage, memory_ids, replays
""")  # noqa: S608 - built from constants


# --- Discard ---


def discard_letter(tx: Connection, tenant_id: UUID, letter_id: UUID, because: str) -> bool:
    """Delete a letter's content and store the reason. Return False if it doesn't exist or is already discarded."""
    values = {"tenant_id": tenant_id, "letter_id": letter_id, "because": because}
    return tx.execute(_DISCARD, values).rowcount == 1


_EMPTY = """
UPDATE dead_letters
SET payload = NULL, header = NULL, memory_ids = '{}', discarded_at = now(), discard_reason = :because
WHERE tenant_id = :tenant_id AND discarded_at IS NULL
"""
_DISCARD = text(f"{_EMPTY} AND letter_id = :letter_id")


def discard_letters(tx: Connection, tenant_id: UUID, wanted: LetterFilter, because: str, limit: int) -> list[UUID]:
    """Discard the oldest matching letters. Return their ids."""
    values = _values(tenant_id, wanted) | {"because": because, "limit": limit}
    return list(tx.execute(_DISCARD_SOME, values).scalars())


_DISCARD_SOME = text(f"""
WITH oldest AS MATERIALIZED (
  SELECT letter_id FROM dead_letters WHERE {_WAITING} ORDER BY created_at, letter_id LIMIT :limit FOR UPDATE
)
{_EMPTY} AND letter_id IN (SELECT letter_id FROM oldest)
RETURNING letter_id
""")  # noqa: S608 - built from constants


def count_waiting(tx: Connection, tenant_id: UUID, wanted: LetterFilter) -> int:
    """Count the matching letters that aren't discarded."""
    return int(tx.execute(_COUNT_WAITING, _values(tenant_id, wanted)).scalar_one())


_COUNT_WAITING = text(f"SELECT count(*) FROM dead_letters WHERE {_WAITING}")  # noqa: S608 - built from constants


def _values(tenant_id: UUID, wanted: LetterFilter) -> dict[str, object]:
    return {"tenant_id": tenant_id, "stage": wanted.stage, "reason": wanted.reason, "before": wanted.before}
