"""Select memories to consolidate and the memories to compare them with, and store each tenant's watermarks.

Ids are ordered by acceptance time, so the memories that have reached an age since the last run form a range of ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from app.domain.consolidation.clustering import ComparedMemories
from app.domain.consolidation.nearest_neighbours import Ids
from app.store.core.binary_arrays import Uuids, decode_vectors, driver_connection, fetch_column
from app.store.enrichment.work_queue import NIL


@dataclass(frozen=True, slots=True)
class CandidateMarks:
    """A tenant's watermarks: the memories that have already been compared.

    Attributes:
        settled: Memories up to this id were processed after they reached `keep_days`.
        old: Memories up to this id were processed again after they reached `summarise_after_days`; None before the
            first run.
        edited_at: Edits before this time were processed; None before the first run.
        edited_id: Edits at exactly `edited_at` were processed for memories up to this id.
    """

    settled: UUID = NIL
    old: UUID | None = None
    edited_at: datetime | None = None
    edited_id: UUID = NIL


def read_marks(tx: Connection, tenant_id: UUID) -> CandidateMarks:
    """Return the tenant's watermarks."""
    ids: dict[str, UUID] = {}
    edited_at = None
    for row in tx.execute(_READ, {"tenant": tenant_id}):
        ids[row.age] = row.after_id
        edited_at = row.after_at if row.age == "edited" else edited_at
    return CandidateMarks(ids.get("settled", NIL), ids.get("old"), edited_at, ids.get("edited", NIL))


_READ = text("""
SELECT age, after_id, CASE WHEN age = 'edited' THEN after_at END AS after_at FROM consolidation_marks
WHERE tenant_id = :tenant
""")


def write_marks(tx: Connection, tenant_id: UUID, marks: CandidateMarks) -> None:
    """Advance the watermarks, in the transaction that writes the results; watermarks never move back."""
    rows: list[dict[str, Any]] = [{"age": "settled", "id": marks.settled, "at": None}]
    if marks.old is not None:
        rows.append({"age": "old", "id": marks.old, "at": None})
    if marks.edited_at is not None:
        rows.append({"age": "edited", "id": marks.edited_id, "at": marks.edited_at})
    tx.execute(_ADVANCE, [{"tenant": tenant_id, **row} for row in rows])


_ADVANCE = text("""
INSERT INTO consolidation_marks AS mark (tenant_id, age, after_id, after_at)
VALUES (:tenant, :age, :id, coalesce(CAST(:at AS timestamptz), '-infinity'))
ON CONFLICT (tenant_id, age) DO UPDATE SET after_id = excluded.after_id, after_at = excluded.after_at
WHERE (mark.after_at, mark.after_id) < (excluded.after_at, excluded.after_id)
""")

# One lookup per row: without statistics the planner would read all of the tenant's rows.
_ELIGIBLE: Final = "tenant_id = %(tenant)s AND deleted_at IS NULL AND made_by = 'caller'"
_EMBEDDED: Final = """CROSS JOIN LATERAL (
  SELECT FROM embeddings
  WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND embeddings.memory_id = aged.memory_id OFFSET 0
) AS vector"""


def list_accepted(
    tx: Connection, tenant_id: UUID, space_id: int, *, after: UUID, before: UUID, limit: int
) -> list[UUID]:
    """Return callers' memories with a vector in this space and an id between `after` and `before`, in id order."""
    values = {"tenant": tenant_id, "space": space_id, "after": after, "before": before, "limit": limit}
    return fetch_column(tx, _ACCEPTED, values, binary=True)


_ACCEPTED: Final = f"""
SELECT memory_id FROM (
  SELECT memory_id FROM memories
  WHERE {_ELIGIBLE} AND memory_id > %(after)s AND memory_id < %(before)s ORDER BY memory_id OFFSET 0
) AS aged {_EMBEDDED} LIMIT %(limit)s
"""  # noqa: S608 - constants only


def list_edited(
    tx: Connection, tenant_id: UUID, space_id: int, marks: CandidateMarks, *, until: datetime, before: UUID, limit: int
) -> list[tuple[UUID, datetime]]:
    """Return callers' memories with a vector in this space that were edited after the watermarks and up to `until`.

    Each memory is paired with the time of its edit; the pairs are ordered by this time, then by id.
    """
    values = {
        "tenant": tenant_id,
        "space": space_id,
        "after_at": marks.edited_at,
        "after_id": marks.edited_id,
        "until": until,
        "before": before,
        "limit": limit,
    }
    return list(driver_connection(tx).execute(_EDITED, values, binary=True))


_EDITED: Final = f"""
SELECT memory_id, updated_at FROM (
  SELECT memory_id, updated_at FROM memories
  WHERE {_ELIGIBLE} AND updated_at <= %(until)s AND (updated_at, memory_id) > (%(after_at)s, %(after_id)s)
    AND memory_id < %(before)s ORDER BY updated_at, memory_id OFFSET 0
) AS aged {_EMBEDDED} LIMIT %(limit)s
"""  # noqa: S608 - as above


def list_neighbour_candidates(
    tx: Connection, tenant_id: UUID, subjects: Sequence[str | None], *, before: UUID
) -> list[tuple[str | None, Ids]]:
    """Return the ids of callers' memories below `before`, ascending, for each of these subjects (None: no subject)."""
    named = [subject for subject in subjects if subject is not None]
    statements = [*([_BESIDE] if named else []), *([_BESIDE_NOBODY] if None in subjects else [])]
    values = {"tenant": tenant_id, "subjects": named, "before": before}
    if not statements:
        return []
    rows = driver_connection(tx).execute(" UNION ALL ".join(statements), values, binary=True)
    return [(subject, np.frombuffer(sent, "S16")) for subject, sent in rows]


_BESIDE: Final = f"""
SELECT subject, string_agg(uuid_send(memory_id), '' ORDER BY memory_id) FROM memories
WHERE {_ELIGIBLE} AND subject = ANY (CAST(%(subjects)s AS text[])) AND memory_id < %(before)s GROUP BY subject
"""  # noqa: S608 - as above
_BESIDE_NOBODY: Final = f"""
SELECT CAST(NULL AS text), string_agg(uuid_send(memory_id), '' ORDER BY memory_id) FROM memories
WHERE {_ELIGIBLE} AND subject IS NULL AND memory_id < %(before)s HAVING count(*) > 0
"""  # noqa: S608 - as above


def read_vectors(tx: Connection, tenant_id: UUID, space_id: int, ids: Ids) -> tuple[Ids, NDArray[np.float32]]:
    """Return the ids of memories with a vector in this space, ascending, and the vectors: (n,), (n, dimensions)."""
    values = {"tenant": tenant_id, "space": space_id, "ids": Uuids(ids.tobytes())}
    row = driver_connection(tx).execute(_VECTORS, values, binary=True).fetchone()
    sent_ids, sent_vectors = row or (None, None)
    return np.frombuffer(sent_ids or b"", "S16"), decode_vectors(sent_vectors)


_VECTORS: Final = """
SELECT string_agg(uuid_send(memory_id), ''), string_agg(halfvec_send(embedding), '') FROM (
  SELECT memory_id, embedding FROM embeddings
  WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND memory_id = ANY (%(ids)s) ORDER BY memory_id
) AS found
"""


def read(
    tx: Connection, tenant_id: UUID, space_id: int, ids: Sequence[UUID] | Ids, new: Sequence[UUID]
) -> ComparedMemories:
    """Read the data needed to compare these memories.

    Memories that aren't active, weren't sent by a caller or have no vector in this space are omitted. Entities include
    both those sent by the caller and those detected in the text.

    Args:
        ids: Ids without duplicates.
        new: The memories among `ids` whose nearest neighbours are searched.
    """
    packed_ids = Uuids(ids.tobytes() if isinstance(ids, np.ndarray) else ids)
    values = {"tenant": tenant_id, "space": space_id, "ids": packed_ids}
    rows = driver_connection(tx).execute(_COMPARED, values, binary=True).fetchall()
    memory_ids, subjects, threads, entities, said_at, sent = zip(*rows, strict=True) if rows else ((),) * 6
    new_ids = set(new)
    return ComparedMemories(
        memory_ids,
        subjects,
        threads,
        entities,
        np.array(said_at, np.float64),
        decode_vectors(b"".join(sent)),
        np.array([memory_id in new_ids for memory_id in memory_ids], np.bool_),
    )


_COMPARED: Final = f"""
SELECT wanted.memory_id, subject, thread, entities || coalesce(inferred_entities, '{{}}'),
  CAST(extract(epoch FROM coalesce(occurred_at, created_at)) AS float8), vector
FROM unnest(%(ids)s) AS wanted (memory_id)
CROSS JOIN LATERAL (
  SELECT subject, thread, entities, occurred_at, created_at FROM memories
  WHERE {_ELIGIBLE} AND memories.memory_id = wanted.memory_id OFFSET 0) AS memory
CROSS JOIN LATERAL (
  SELECT FROM memory_state
  WHERE tenant_id = %(tenant)s AND memory_state.memory_id = wanted.memory_id AND tier = 'active' OFFSET 0) AS state
CROSS JOIN LATERAL (
  SELECT halfvec_send(embedding) AS vector FROM embeddings
  WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND embeddings.memory_id = wanted.memory_id OFFSET 0) AS known
LEFT JOIN LATERAL (
  SELECT inferred_entities FROM scores
  WHERE tenant_id = %(tenant)s AND scores.memory_id = wanted.memory_id OFFSET 0) AS score ON true
"""  # noqa: S608 - as above
