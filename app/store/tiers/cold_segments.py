"""Manage cold storage: the manifest of segments, the locations of memories, and their truncated rows in PostgreSQL.

A record's content is JSON with the fields declared as cold and the outgoing links. PostgreSQL creates this JSON, and a
restore returns it to PostgreSQL unchanged. The table `cold_links` has these links, too, for work that doesn't read the
record; records written by earlier versions have no rows there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection

from app.domain.ingest.memory import COLD
from app.domain.tiers.cold_segment import SegmentEntry
from app.store.core.binary_arrays import Uuids, driver_connection, fetch_column, fetch_value


class ColdContent(NamedTuple):
    """The part of a memory that its record in cold storage contains.

    Attributes:
        subject: The subject whose key wraps the record's key; None for the tenant's key.
        text_version: Version of the text.
        text: The text as in the row.
        body: The record's content.
    """

    subject: str | None
    text_version: int
    text: str
    body: str


@dataclass(frozen=True, slots=True)
class ColdLocation:
    """The location of a cold memory.

    Attributes:
        path: Path of the object.
        entry: Position within the object, with its expected checksum.
    """

    segment_id: UUID
    path: str
    entry: SegmentEntry


class SegmentListing(NamedTuple):
    """A segment as listed in the manifest."""

    segment_id: UUID
    status: str
    path: str
    size: int
    checksum: bytes
    records: int
    live: int
    created_at: datetime


def lock(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], *, wait: bool) -> list[UUID]:
    """Lock the rows of memories in id order and return their ids, without deleted memories.

    Args:
        wait: Wait for rows that another transaction has locked, instead of skipping them.
    """
    statement = f"{_LOCK} {'' if wait else 'SKIP LOCKED'}"
    return fetch_column(tx, statement, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_LOCK: Final = """
SELECT memory_id FROM memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND deleted_at IS NULL
ORDER BY memory_id FOR UPDATE
"""


def read_contents(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> dict[UUID, ColdContent]:
    """Return the content that records of these memories would have now; deleted memories are omitted."""
    rows = driver_connection(tx).execute(_CONTENTS, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return {memory_id: ColdContent(*content) for memory_id, *content in rows}


_COLD: Final = [field.name for field in COLD]
_LINK: Final = "other_id, kind, weight, source, created_at"
_CONTENTS: Final = f"""
SELECT memory_id, subject, text_version, text, jsonb_build_object(
  {", ".join(f"'{name}', {name}" for name in _COLD)}, 'links', (
    SELECT coalesce(jsonb_agg(to_jsonb(link) - 'tenant_id' - 'memory_id' ORDER BY other_id, kind), '[]')
    FROM links AS link
    WHERE link.tenant_id = %(tenant)s AND link.memory_id = memory.memory_id AND link.source <> 'correction'))::text
FROM unnest(%(ids)s) AS id CROSS JOIN LATERAL (
  SELECT * FROM memories WHERE tenant_id = %(tenant)s AND memory_id = id AND deleted_at IS NULL OFFSET 0
) AS memory
""".encode()  # noqa: S608 - constants only


def truncate_rows(tx: Connection, tenant_id: UUID, texts: dict[UUID, str]) -> None:
    """Truncate locked rows to these texts, reset the other cold columns, and delete outgoing links and vectors.

    The memories' locations have been inserted: their links are moved to `cold_links`.
    """
    values = {"tenant": tenant_id, "ids": Uuids(list(texts)), "texts": list(texts.values())}
    for statement in (_CUT_DOWN, _CUT_LINKS, _CUT_VECTORS, _CUT_ARCHIVED):
        driver_connection(tx).execute(statement, values)


# The ids are compared twice: otherwise, for a tenant without statistics, the planner would scan all memories per id.
_CUT_DOWN: Final = f"""
UPDATE memories AS memory SET text = given.text, {", ".join(f"{name} = DEFAULT" for name in _COLD if name != "text")}
FROM unnest(%(ids)s, %(texts)s::text[]) AS given (memory_id, text)
WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = ANY (%(ids)s) AND memory.memory_id = given.memory_id
""".encode()  # noqa: S608 - constants only
# Links of detected corrections aren't kept: a restore detects them again if both texts are unchanged.
_CUT_LINKS: Final = f"""
WITH cut AS (DELETE FROM links WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) RETURNING *)
INSERT INTO cold_links (tenant_id, memory_id, {_LINK})
SELECT tenant_id, memory_id, {_LINK} FROM cut WHERE source <> 'correction'
ON CONFLICT DO NOTHING
""".encode()  # noqa: S608 - constants only
_CUT_VECTORS: Final = "DELETE FROM embeddings WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"
_CUT_ARCHIVED: Final = "DELETE FROM archived_memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"


def has_words(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> bool:
    """Return True if any of these memories is still in the full-text index."""
    return bool(fetch_value(tx, _HAS_WORDS, {"tenant": tenant_id, "ids": Uuids(memory_ids)}))


_HAS_WORDS: Final = """
SELECT EXISTS (SELECT FROM memory_words WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s))
"""


def refill_rows(tx: Connection, tenant_id: UUID, bodies: dict[UUID, str]) -> None:
    """Restore truncated columns from the records' contents, and links whose other end still exists, also hidden ones.

    An erasure that hides the other end may be cancelled; if it is executed, it deletes the link.
    """
    values = {"tenant": tenant_id, "ids": Uuids(list(bodies)), "bodies": list(bodies.values())}
    driver_connection(tx).execute(_FILL, values)
    driver_connection(tx).execute(_FILL_LINKS, values)


# Columns that a record lacks retain their values.
_FILL: Final = f"""
UPDATE memories AS memory SET ({", ".join(_COLD)}) = (
  SELECT {", ".join(_COLD)} FROM jsonb_populate_record(memory, body))
FROM unnest(%(ids)s, %(bodies)s::jsonb[]) AS given (memory_id, body)
WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = ANY (%(ids)s) AND memory.memory_id = given.memory_id
""".encode()  # noqa: S608 - constants only
_OTHER_EXISTS: Final = """EXISTS (
  SELECT FROM memories AS other WHERE other.tenant_id = %(tenant)s AND other.memory_id = link.other_id)"""
_FILL_LINKS: Final = f"""
INSERT INTO links (tenant_id, memory_id, {_LINK})
SELECT %(tenant)s, given.memory_id, link.other_id, link.kind, link.weight, link.source, link.created_at
FROM unnest(%(ids)s, %(bodies)s::jsonb[]) AS given (memory_id, body)
CROSS JOIN jsonb_to_recordset(body->'links')
  AS link (other_id uuid, kind text, weight real, source text, created_at timestamptz)
WHERE {_OTHER_EXISTS}
ON CONFLICT DO NOTHING
""".encode()  # noqa: S608 - constants only


def restore_links(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Copy these memories' rows in `cold_links` to `links`, under the same condition as `refill_rows`."""
    driver_connection(tx).execute(_RESTORE_LINKS, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_RESTORE_LINKS: Final = f"""
INSERT INTO links (tenant_id, memory_id, {_LINK})
SELECT tenant_id, memory_id, {_LINK} FROM cold_links AS link
WHERE link.tenant_id = %(tenant)s AND link.memory_id = ANY (%(ids)s) AND {_OTHER_EXISTS}
ON CONFLICT DO NOTHING
""".encode()  # noqa: S608 - constants only


def upsert_locations(tx: Connection, tenant_id: UUID, segment_id: UUID, entries: Sequence[SegmentEntry]) -> list[UUID]:
    """Insert or replace the locations of memories whose rows are locked. Return their ids."""
    values = {
        "tenant": tenant_id,
        "segment": segment_id,
        "ids": Uuids([entry.memory_id for entry in entries]),
        "keys": Uuids([entry.key_id for entry in entries]),
        "starts": [entry.start for entry in entries],
        "lengths": [entry.length for entry in entries],
        "checksums": [entry.checksum for entry in entries],
        "versions": [entry.text_version for entry in entries],
    }
    return fetch_column(tx, _PLACE, values)


_PLACE: Final = """
INSERT INTO cold_memories (tenant_id, memory_id, segment_id, start, length, checksum, key_id, text_version)
SELECT %(tenant)s, memory_id, %(segment)s, start, length, checksum, key_id, version
FROM unnest(%(ids)s, %(keys)s, %(starts)s::bigint[], %(lengths)s::int[], %(checksums)s::bytea[], %(versions)s::int[])
  AS given (memory_id, key_id, start, length, checksum, version)
ORDER BY memory_id
ON CONFLICT (tenant_id, memory_id) DO UPDATE SET segment_id = excluded.segment_id, start = excluded.start,
  length = excluded.length, checksum = excluded.checksum, key_id = excluded.key_id,
  text_version = excluded.text_version, moved_at = excluded.moved_at
RETURNING memory_id
"""


def list_locations(
    tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID], *, locked: bool = False
) -> dict[UUID, ColdLocation]:
    """Return the locations of these memories in id order, optionally locked; memories that aren't cold are omitted."""
    statement = f"{_PLACES} ORDER BY memory_id {'FOR UPDATE OF cold' if locked else ''}"
    rows = driver_connection(tx).execute(statement.encode(), {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    return _parse_locations(rows)


def list_locations_in(
    tx: Connection, tenant_id: UUID, segment_ids: Sequence[UUID], limit: int
) -> dict[UUID, ColdLocation]:
    """Return up to `limit` locations in these segments, in id order."""
    values = {"tenant": tenant_id, "segments": Uuids(segment_ids), "limit": limit}
    return _parse_locations(driver_connection(tx).execute(_PLACES_IN, values).fetchall())


def _parse_locations(rows: Sequence[tuple[object, ...]]) -> dict[UUID, ColdLocation]:
    return {row[3]: ColdLocation(row[0], row[1], SegmentEntry(*row[3:])) for row in rows}  # type: ignore[arg-type, misc]


_SELECT_PLACES: Final = """
SELECT cold.segment_id, segment.path, 0, cold.memory_id, cold.key_id, cold.text_version, cold.start, cold.length,
  cold.checksum
FROM cold_memories AS cold JOIN segments AS segment USING (tenant_id, segment_id)
WHERE cold.tenant_id = %(tenant)s"""
_PLACES: Final = f"{_SELECT_PLACES} AND cold.memory_id = ANY (%(ids)s)"
_PLACES_IN: Final = f"{_SELECT_PLACES} AND cold.segment_id = ANY (%(segments)s) ORDER BY memory_id LIMIT %(limit)s"


def without_key(tx: Connection, tenant_id: UUID) -> int:
    """Count cold memories whose key is missing from the key store."""
    return int(fetch_value(tx, _WITHOUT_KEY, {"tenant": tenant_id}))


_WITHOUT_KEY: Final = """
SELECT count(*) FROM cold_memories AS cold WHERE tenant_id = %(tenant)s AND NOT EXISTS (
  SELECT FROM ebbing_keys.record_keys AS key
  WHERE key.tenant_id = %(tenant)s AND key.key_id = cold.key_id OFFSET 0)
"""


def delete_locations(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Delete the locations of memories with their rows in `cold_links`, and drop segments without live records.

    Returns:
        The ids of the records' keys.
    """
    gone = driver_connection(tx).execute(_TAKE_OUT, {"tenant": tenant_id, "ids": Uuids(memory_ids)}).fetchall()
    if gone:
        release_records(tx, tenant_id, [segment_id for segment_id, _ in gone])
    return [key_id for _, key_id in gone]


_TAKE_OUT: Final = """
DELETE FROM cold_memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) RETURNING segment_id, key_id
"""


def release_records(tx: Connection, tenant_id: UUID, segment_ids: Sequence[UUID]) -> None:
    """Count records as no longer live, and drop segments without live records.

    The caller has locked the locations of the records, and deletes or replaces them. A location that is replaced must
    not be deleted first: a concurrent deletion that waits for its lock wouldn't find an inserted row.

    Args:
        segment_ids: The segment of each record.
    """
    values = {"tenant": tenant_id, "ids": Uuids(segment_ids)}
    connection = driver_connection(tx)
    connection.execute(_LOCK_SEGMENTS, values)
    connection.execute(_RELEASE, values)


# Segments are locked in id order, so concurrent removals from the same segments don't deadlock. The statement after the
# lock sees what the previous holder of the lock has committed.
_LOCK_SEGMENTS: Final = """
SELECT FROM segments WHERE tenant_id = %(tenant)s AND segment_id = ANY (%(ids)s) ORDER BY segment_id FOR UPDATE
"""
_RELEASE: Final = """
UPDATE segments AS segment SET live = live - gaps.records,
  status = CASE WHEN live = gaps.records THEN 'dropped' ELSE status END
FROM (SELECT segment_id, count(*) AS records FROM unnest(%(ids)s) AS given (segment_id) GROUP BY segment_id) AS gaps
WHERE segment.tenant_id = %(tenant)s AND segment.segment_id = gaps.segment_id
"""


def insert_segment(
    tx: Connection, tenant_id: UUID, segment_id: UUID, path: str, size: int, check: bytes, *, records: int
) -> None:
    """Insert a segment that is about to be written."""
    values = {
        "tenant": tenant_id,
        "segment": segment_id,
        "path": path,
        "bytes": size,
        "checksum": check,
        "records": records,
    }
    driver_connection(tx).execute(_BEGIN, values)


_BEGIN: Final = """
INSERT INTO segments (tenant_id, segment_id, path, bytes, checksum, records)
VALUES (%(tenant)s, %(segment)s, %(path)s, %(bytes)s, %(checksum)s, %(records)s)
"""


def finish_segment(tx: Connection, tenant_id: UUID, segment_id: UUID, live: int) -> bool:
    """Mark a segment as written with this number of memories, or as dropped if there are none.

    Returns:
        False if the segment was dropped in between, because its writer was presumed dead.
    """
    values = {"tenant": tenant_id, "segment": segment_id, "live": live}
    return driver_connection(tx).execute(_FINISH, values).rowcount == 1


_FINISH: Final = """
UPDATE segments SET live = %(live)s, status = CASE WHEN %(live)s > 0 THEN 'written' ELSE 'dropped' END
WHERE tenant_id = %(tenant)s AND segment_id = %(segment)s AND status = 'writing'
"""


def drop_unwritten(tx: Connection, tenant_id: UUID) -> int:
    """Drop segments whose writing was never finished. Return the number dropped."""
    return driver_connection(tx).execute(_DROP_UNWRITTEN, {"tenant": tenant_id}).rowcount


_DROP_UNWRITTEN: Final = """
UPDATE segments SET status = 'dropped' WHERE tenant_id = %(tenant)s AND status = 'writing'
"""


def list_dropped(tx: Connection, tenant_id: UUID) -> list[tuple[UUID, str]]:
    """Return dropped segments, whose objects must be deleted, with their paths."""
    return driver_connection(tx).execute(_DROPPED, {"tenant": tenant_id}).fetchall()


_DROPPED: Final = """
SELECT segment_id, path FROM segments WHERE tenant_id = %(tenant)s AND status = 'dropped' ORDER BY segment_id
"""


def forget(tx: Connection, tenant_id: UUID, segment_ids: Sequence[UUID]) -> None:
    """Delete dropped segments from the manifest after their objects were deleted."""
    driver_connection(tx).execute(_FORGET, {"tenant": tenant_id, "ids": Uuids(segment_ids)})


_FORGET: Final = """
DELETE FROM segments WHERE tenant_id = %(tenant)s AND segment_id = ANY (%(ids)s) AND status = 'dropped'
"""


def list_segments(tx: Connection, tenant_id: UUID) -> list[SegmentListing]:
    """Return all segments of a tenant by id, in any status."""
    return [SegmentListing(*row) for row in driver_connection(tx).execute(_LISTED, {"tenant": tenant_id}).fetchall()]


_LISTED: Final = """
SELECT segment_id, status, path, bytes, checksum, records, live, created_at FROM segments
WHERE tenant_id = %(tenant)s ORDER BY segment_id
"""
