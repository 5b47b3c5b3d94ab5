"""Store the vectors of the windows of long memories, and compare them with a query.

A window's row references the row of its memory's vector, and is deleted with that row: when the memory is edited,
deleted, or moved to another tier or space.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from app.domain.text.windows import WINDOW_SHARE
from app.store.core.binary_arrays import Halfvecs, Integers, Uuids, driver_connection


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of memories in one space; row i of every array is a window of `ids[i]`.

    Attributes:
        spans: Index of the window within the memory, first character, and end character (exclusive), shape (n, 3).
        vectors: Vectors of norm 1 or 0, shape (n, dimensions).
        current: Memories whose stored windows are already up to date; `replace_windows` leaves them unchanged.
    """

    ids: list[UUID]
    spans: NDArray[np.int32]
    vectors: NDArray[np.float32]
    current: frozenset[UUID] = frozenset()


def find_divided(tx: Connection, tenant_id: UUID, memory_ids: Sequence[UUID]) -> set[tuple[int, UUID]]:
    """Return the spaces in which these memories' current texts have windows, as pairs of space and memory."""
    rows = driver_connection(tx).execute(_DIVIDED, {"tenant": tenant_id, "ids": Uuids(memory_ids)}, binary=True)
    return {(space_id, memory_id) for space_id, memory_id in rows}


_DIVIDED: Final = """
SELECT DISTINCT space_id, memory_id FROM memory_windows JOIN embeddings AS known USING (tenant_id, space_id, memory_id)
WHERE tenant_id = %(tenant)s AND space_id = ANY (ARRAY(SELECT space_id FROM embedding_spaces))
  AND memory_id = ANY (%(ids)s) AND known.text_version = (
    SELECT text_version FROM memories WHERE memories.tenant_id = %(tenant)s AND memories.memory_id = known.memory_id)
"""


def replace_windows(
    tx: Connection, tenant_id: UUID, space_id: int, memory_ids: Collection[UUID], windows: Windows | None
) -> None:
    """Replace the windows of memories whose vectors have just been written in this space.

    Args:
        space_id: The vectors' embedding space.
        windows: The memories' windows; windows of other memories are ignored. None if no memory has windows.
    """
    current = windows.current if windows else frozenset[UUID]()
    stale = [memory_id for memory_id in memory_ids if memory_id not in current]
    driver_connection(tx).execute(_REMOVE, {"tenant": tenant_id, "space": space_id, "ids": Uuids(stale)})
    if windows is None or not windows.ids:
        return
    written = set(memory_ids)
    rows = np.flatnonzero([memory_id in written for memory_id in windows.ids])
    ids = [windows.ids[row] for row in rows]
    indices, starts, ends = windows.spans[rows].T
    values = {
        "tenant": tenant_id,
        "space": space_id,
        "ids": Uuids(ids),
        "places": Integers(indices),
        "starts": Integers(starts),
        "ends": Integers(ends),
        "vectors": Halfvecs(windows.vectors[rows]),
    }
    driver_connection(tx).execute(_WRITE, values)


_WRITE: Final = """
INSERT INTO memory_windows (tenant_id, space_id, memory_id, place, from_char, to_char, embedding)
SELECT %(tenant)s, %(space)s, memory_id, place, from_char, to_char, embedding
FROM unnest(%(ids)s, %(places)s, %(starts)s, %(ends)s, %(vectors)s::halfvec[])
  AS ready (memory_id, place, from_char, to_char, embedding)
"""


_REMOVE: Final = (
    "DELETE FROM memory_windows WHERE tenant_id = %(tenant)s AND space_id = %(space)s AND memory_id = ANY (%(ids)s)"
)


ANY: Final = "(SELECT EXISTS (SELECT FROM memory_windows WHERE tenant_id = %(tenant)s))"
"""SQL condition that the tenant has at least one window; PostgreSQL evaluates it once per statement."""

_WORTH: Final = f"{WINDOW_SHARE} * -(embedding <#> CAST(%(vector)s AS halfvec))"
_OF_SPACE: Final = "FROM memory_windows WHERE tenant_id = %(tenant)s AND space_id = %(space)s"


def lift_sql(vectors: str) -> str:
    """Return SQL that raises each memory's score to the score of its best window, if this is higher.

    Args:
        vectors: A SELECT of `memory_id` and `score`, the cosine of a memory's own vector.
    """
    return f"""
    SELECT memory_id, greatest(own.score, best.score) AS score FROM ({vectors}) AS own LEFT JOIN (
      SELECT memory_id, max({_WORTH}) AS score {_OF_SPACE} GROUP BY memory_id
    ) AS best USING (memory_id)"""  # noqa: S608 - constants


def lift_one_sql(score: str, memory_id: str) -> str:
    """Return an SQL expression for one memory's raised score, which looks up its windows by id.

    Suited to a few memories out of very many.

    Args:
        score: SQL for the cosine of the memory's own vector.
        memory_id: SQL for the memory's id.
    """
    best = f"SELECT max({_WORTH}) {_OF_SPACE} AND memory_windows.memory_id = {memory_id}"
    return f"greatest({score}, ({best}))"


def nearest_sql(size: int, shown: str, tail_shown: str) -> str:
    """Return SQL for the memories with the nearest windows.

    The SQL combines a nearest-neighbour query of the tenant's vector index (`grafted`) with an exact comparison of the
    windows that aren't indexed yet (the tail).

    Args:
        size: Number of dimensions.
        shown: SQL condition on `memory_windows.memory_id` for memories that may be returned.
        tail_shown: The same condition on `tail.memory_id`.
    """
    distance = f"CAST(embedding AS halfvec({size})) <#> CAST(%(vector)s AS halfvec({size}))"
    return f"""
      (SELECT memory_id, {WINDOW_SHARE} * -({distance}) AS score {_OF_SPACE} AND grafted AND {shown}
       ORDER BY {distance} LIMIT %(by_vector)s)
      UNION ALL
      (SELECT memory_id, score FROM (
         SELECT memory_id, max({_WORTH}) AS score {_OF_SPACE} AND NOT grafted
         GROUP BY memory_id ORDER BY score DESC OFFSET 0
       ) AS tail WHERE {tail_shown} LIMIT %(by_vector)s)"""  # noqa: S608 - constants; a number
