"""Store archived memories: removed from the active indexes, with their own lexemes and reduced vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from sqlalchemy import Connection

from app.domain.text.windows import WINDOW_SIZE
from app.store.core.binary_arrays import (
    Halfvecs,
    Integers,
    Uuids,
    decode_numbers,
    decode_uuids,
    decode_vectors,
    driver_connection,
    fetch_column,
    fetch_value,
)


@dataclass(frozen=True, slots=True)
class ArchivedVectors:
    """Vectors of memories in one space; arrays are in the order of `ids`.

    Attributes:
        ids: In ascending order.
        matrix: shape (n, dimensions).
        by_caller: The vector was supplied by the caller and can't be computed again.
    """

    ids: list[UUID]
    matrix: npt.NDArray[np.float32]
    by_caller: npt.NDArray[np.bool_]

    def only(self, places: npt.NDArray[np.intp]) -> ArchivedVectors:
        """Return the entries at these indexes."""
        return ArchivedVectors([self.ids[place] for place in places], self.matrix[places], self.by_caller[places])


def filter_archived(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return the archived memories among these, in ascending order."""
    return fetch_column(tx, _AMONG, {"tenant": tenant_id, "ids": Uuids(memory_ids)}, binary=True)


# Uses the partial index on rows with `tier <> 'active'`, which is empty for most tenants.
_AMONG: Final = """
SELECT memory_id FROM memory_state
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND tier <> 'active' AND tier = 'archived'
ORDER BY memory_id
"""


def filter_unindexed(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Return the memories among these whose current text version isn't in the full-text index yet."""
    return fetch_column(tx, _UNINDEXED, {"tenant": tenant_id, "ids": Uuids(memory_ids)}, binary=True)


_UNINDEXED: Final = """
SELECT memory_id FROM unnest(%(ids)s) AS given (memory_id)
WHERE (
  SELECT text_version FROM memories AS memory
  WHERE memory.tenant_id = %(tenant)s AND memory.memory_id = given.memory_id AND deleted_at IS NULL
) <> coalesce((
  SELECT text_version FROM memory_words AS known
  WHERE known.tenant_id = %(tenant)s AND known.memory_id = given.memory_id), 0)
"""


def remove_vectors(
    tx: Connection, tenant_id: UUID, space_id: int | None, memory_ids: Sequence[UUID]
) -> ArchivedVectors:
    """Delete these memories' vectors in every space. Return those of one space that match the current text version."""
    values = {"tenant": tenant_id, "space": space_id, "ids": Uuids(memory_ids)}
    row = driver_connection(tx).execute(_TAKE_VECTORS, values, binary=True).fetchone()
    return _vectors(row)


def _vectors(row: tuple[Any, ...] | None) -> ArchivedVectors:
    ids, matrix, by_caller = row or (None, None, None)
    return ArchivedVectors(decode_uuids(ids), decode_vectors(matrix), decode_numbers(by_caller, ">i2") > 0)


_SENT: Final = """
  string_agg(uuid_send(memory_id), '' ORDER BY memory_id),
  string_agg(halfvec_send({vector}), '' ORDER BY memory_id),
  string_agg(int2send(by_caller::int::int2), '' ORDER BY memory_id)
"""

_TAKE_VECTORS: Final = f"""
WITH taken AS (
  DELETE FROM embeddings
  WHERE tenant_id = %(tenant)s AND space_id = ANY (ARRAY(SELECT space_id FROM embedding_spaces))
    AND memory_id = ANY (%(ids)s)
  RETURNING space_id, memory_id, text_version, embedding, by_caller
)
SELECT {_SENT.format(vector="embedding")} FROM taken
WHERE space_id = %(space)s::int AND text_version = (
  SELECT text_version FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = taken.memory_id)
"""  # noqa: S608 - a constant


def add(
    tx: Connection,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    space_id: int | None,
    basis_id: int | None,
    found: ArchivedVectors,
) -> None:
    """Insert memories into the archive with their lexemes from the full-text index.

    Args:
        memory_ids: All memories to insert.
        space_id: The vectors' embedding space.
        basis_id: The basis that reduced the vectors; None for full vectors.
        found: The vectors of those memories that have one.
    """
    values = {
        "tenant": tenant_id,
        "ids": Uuids(memory_ids),
        "space": space_id,
        "basis": basis_id,
        "with": Uuids(found.ids),
        "vectors": Halfvecs(found.matrix),
        "by_caller": Integers(found.by_caller),
    }
    driver_connection(tx).execute(_ADD, values)


_ADD: Final = """
INSERT INTO archived_memories (tenant_id, memory_id, text_version, own, space_id, basis_id, vector, by_caller)
SELECT %(tenant)s, given.memory_id, memory.text_version, known.own,
  CASE WHEN vector IS NOT NULL THEN %(space)s::int END, CASE WHEN vector IS NOT NULL THEN %(basis)s::bigint END,
  vector, coalesce(by_caller, 0) = 1
FROM unnest(%(ids)s) AS given (memory_id)
LEFT JOIN unnest(%(with)s, %(vectors)s::halfvec[], %(by_caller)s) AS had (memory_id, vector, by_caller)
  USING (memory_id)
CROSS JOIN LATERAL (
  SELECT text_version FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = given.memory_id OFFSET 0
) AS memory
LEFT JOIN LATERAL (
  SELECT own FROM memory_words
  WHERE tenant_id = %(tenant)s AND memory_words.memory_id = given.memory_id
    AND memory_words.text_version = memory.text_version OFFSET 0
) AS known ON true
"""


def remove(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Remove memories from the archive, because they were deleted or moved to another tier."""
    driver_connection(tx).execute(_REMOVE, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_REMOVE: Final = "DELETE FROM archived_memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)"


def restore_rows(tx: Connection, tenant_id: UUID, space_id: int | None, memory_ids: Sequence[UUID]) -> list[UUID]:
    """Remove memories from the archive, and insert their full vectors of the current text version as active vectors.

    Args:
        tx: The tenant's transaction, which has locked its row in `tenant_spaces` in share mode.
        space_id: The space that the tenant's searches use; vectors of other spaces aren't inserted.

    Returns:
        The memories to embed again, including long ones, because their window vectors aren't archived.
    """
    values = {"tenant": tenant_id, "space": space_id, "ids": Uuids(memory_ids), "whole": 2 * WINDOW_SIZE}
    return fetch_column(tx, _PUT_BACK, values, binary=True)


_PUT_BACK: Final = """
WITH back AS (
  DELETE FROM archived_memories WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
  RETURNING memory_id, text_version, space_id, basis_id, vector, by_caller
), active AS (
  INSERT INTO embeddings (tenant_id, space_id, memory_id, text_version, embedding, by_caller)
  SELECT %(tenant)s, space_id, memory_id, text_version, vector, by_caller FROM back
  WHERE basis_id IS NULL AND space_id = %(space)s::int AND text_version = (
    SELECT text_version FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = back.memory_id)
  ORDER BY memory_id ON CONFLICT DO NOTHING
  RETURNING memory_id, by_caller
)
SELECT memory_id FROM unnest(%(ids)s) AS given (memory_id) WHERE memory_id NOT IN (
  SELECT memory_id FROM active WHERE by_caller OR (
    SELECT length(text) FROM memories WHERE tenant_id = %(tenant)s AND memories.memory_id = active.memory_id
  ) <= %(whole)s)
"""


class ArchivedGroup(NamedTuple):
    """A group of archived vectors: space, basis that reduced them (None for full vectors), and number."""

    space_id: int
    basis_id: int | None
    memories: int


def list_groups(tx: Connection, tenant_id: UUID) -> list[ArchivedGroup]:
    """Return a tenant's archived vectors, counted by space and basis."""
    return [ArchivedGroup(*row) for row in driver_connection(tx).execute(_KEPT, {"tenant": tenant_id}).fetchall()]


_KEPT: Final = """
SELECT space_id, basis_id, count(*) FROM archived_memories
WHERE tenant_id = %(tenant)s AND space_id IS NOT NULL GROUP BY space_id, basis_id ORDER BY space_id, basis_id
"""


def count_documents(tx: Connection, tenant_id: UUID, lexemes: Sequence[str]) -> tuple[dict[str, int], int]:
    """Estimate in how many archived memories each lexeme occurs, and return the total number of archived memories.

    Frequencies are counted in the first 2,000 memories and extrapolated, which is precise enough for rarity weights.
    """
    values = {"tenant": tenant_id, "lexemes": list(lexemes), "most": _COUNTED}
    total = int(fetch_value(tx, _TOTAL, values))
    share = max(total / _COUNTED, 1.0)
    return {lexeme: round(share * count) for lexeme, count in driver_connection(tx).execute(_DOCUMENTS, values)}, total


_COUNTED: Final = 2000
_TOTAL: Final = "SELECT count(*) FROM archived_memories WHERE tenant_id = %(tenant)s"
_DOCUMENTS: Final = """
SELECT lexeme, count(*) FROM (
  SELECT own FROM archived_memories WHERE tenant_id = %(tenant)s ORDER BY memory_id LIMIT %(most)s
) AS first CROSS JOIN unnest(tsvector_to_array(own)) AS lexeme
WHERE lexeme = ANY (%(lexemes)s::text[]) GROUP BY lexeme
"""


def lock_whole(tx: Connection, tenant_id: UUID, space_id: int, limit: int) -> ArchivedVectors:
    """Lock and return full vectors of a space, except those supplied by callers; rows locked by others are skipped."""
    values = {"tenant": tenant_id, "space": space_id, "limit": limit}
    return _vectors(driver_connection(tx).execute(_LOCK_WHOLE, values, binary=True).fetchone())


_LOCK_WHOLE: Final = f"""
SELECT {_SENT.format(vector="vector")} FROM (
  SELECT memory_id, vector, by_caller FROM archived_memories
  WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND basis_id IS NULL AND NOT by_caller
  LIMIT %(limit)s FOR UPDATE SKIP LOCKED
) AS found
"""  # noqa: S608 - a constant


def write_reduced(tx: Connection, tenant_id: UUID, basis_id: int, found: ArchivedVectors) -> None:
    """Replace full vectors with reduced ones; their rows are locked."""
    values = {"tenant": tenant_id, "basis": basis_id, "ids": Uuids(found.ids), "vectors": Halfvecs(found.matrix)}
    driver_connection(tx).execute(_WRITE_REDUCED, values)


_WRITE_REDUCED: Final = """
UPDATE archived_memories AS archived SET vector = given.vector, basis_id = %(basis)s
FROM unnest(%(ids)s, %(vectors)s::halfvec[]) AS given (memory_id, vector)
WHERE archived.tenant_id = %(tenant)s AND archived.memory_id = given.memory_id
"""


def lock_reduced(tx: Connection, tenant_id: UUID, basis_id: int, limit: int) -> ArchivedVectors:
    """Lock and return vectors reduced by a basis."""
    values = {"tenant": tenant_id, "basis": basis_id, "limit": limit}
    return _vectors(driver_connection(tx).execute(_LOCK_REDUCED, values, binary=True).fetchone())


_LOCK_REDUCED: Final = f"""
SELECT {_SENT.format(vector="vector")} FROM (
  SELECT memory_id, vector, by_caller FROM archived_memories
  WHERE tenant_id = %(tenant)s AND basis_id = %(basis)s::bigint ORDER BY memory_id LIMIT %(limit)s FOR UPDATE
) AS found
"""  # noqa: S608 - a constant


NO_VECTOR: Final = 0
"""Value in a list of basis ids that selects the memories without a vector."""
_REDUCED: Final = f"""(basis_id = ANY (%(bases)s::bigint[])
    OR (space_id IS NULL AND {NO_VECTOR} = ANY (%(bases)s::bigint[])))"""


def lacks_vectors(tx: Connection, tenant_id: UUID) -> bool:
    """Return True if an archived memory has no vector and isn't hidden by an open erasure."""
    return bool(fetch_value(tx, _LACKS, {"tenant": tenant_id}))


_LACKS: Final = """
SELECT EXISTS (
  SELECT FROM archived_memories WHERE tenant_id = %(tenant)s AND space_id IS NULL
    AND memory_id NOT IN (SELECT memory_id FROM hidden_memories WHERE tenant_id = %(tenant)s))
"""


def list_reduced_by(tx: Connection, tenant_id: UUID, basis_ids: Sequence[int], after: UUID, limit: int) -> list[UUID]:
    """Return the next memories whose vectors were reduced by one of these bases, or are missing, in id order.

    Memories hidden by an open erasure are omitted: their texts aren't processed any more.
    """
    values = {"tenant": tenant_id, "bases": list(basis_ids), "after": after, "limit": limit}
    return fetch_column(tx, _REDUCED_BY, values, binary=True)


_REDUCED_BY: Final = f"""
SELECT memory_id FROM archived_memories
WHERE tenant_id = %(tenant)s AND {_REDUCED} AND NOT by_caller AND memory_id > %(after)s
  AND memory_id NOT IN (SELECT memory_id FROM hidden_memories WHERE tenant_id = %(tenant)s)
ORDER BY memory_id LIMIT %(limit)s
"""  # noqa: S608 - constants only


def replace_vectors(
    tx: Connection,
    tenant_id: UUID,
    basis_ids: Sequence[int],
    space_id: int,
    versions: Mapping[UUID, int],
    matrix: npt.NDArray[np.float32],
) -> int:
    """Replace vectors that were reduced by one of these bases, or are missing, by full ones; return their number.

    Args:
        space_id: The new vectors' embedding space.
        versions: The version of each memory's text, by memory.
        matrix: Vectors in the order of `versions`, shape (n, dimensions).
    """
    values = {
        "tenant": tenant_id,
        "bases": list(basis_ids),
        "space": space_id,
        "ids": Uuids(list(versions)),
        "versions": Integers(list(versions.values())),
        "vectors": Halfvecs(matrix),
    }
    return driver_connection(tx).execute(_REPLACE_VECTORS, values).rowcount


_REPLACE_VECTORS: Final = f"""
WITH locked AS MATERIALIZED (
  SELECT memory_id FROM archived_memories
  WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s) AND {_REDUCED} AND NOT by_caller
  ORDER BY memory_id FOR UPDATE
)
UPDATE archived_memories AS archived SET vector = given.vector, space_id = %(space)s::int, basis_id = NULL
FROM unnest(%(ids)s, %(versions)s, %(vectors)s::halfvec[]) AS given (memory_id, text_version, vector)
WHERE archived.tenant_id = %(tenant)s AND archived.memory_id = given.memory_id
  AND archived.memory_id IN (SELECT memory_id FROM locked) AND archived.text_version = given.text_version
"""  # noqa: S608 - constants only


def forget_vectors(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> None:
    """Delete archived vectors; afterwards their memories can be found only by their words."""
    driver_connection(tx).execute(_FORGET_VECTORS, {"tenant": tenant_id, "ids": Uuids(memory_ids)})


_FORGET_VECTORS: Final = """
UPDATE archived_memories SET vector = NULL, space_id = NULL, basis_id = NULL
WHERE tenant_id = %(tenant)s AND memory_id = ANY (%(ids)s)
"""
