"""Insert imported memories with COPY, together with the strength that they bring along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.errors import UniqueViolation
from sqlalchemy import Connection

from app.domain.changes.types import STORED
from app.domain.dynamics.state import State
from app.domain.ingest.ids import array_literal
from app.domain.ingest.memory import MemoryIn
from app.domain.ingest.sources import Writer
from app.store.core.binary_arrays import Doubles, Integers, Timestamps, Uuids, driver_connection
from app.store.core.binary_copy import HEADER, IMPORTED_COPY, TRAILER, pack_imported
from app.store.enrichment.work_queue import STAGES
from app.store.erasure.whole_tenant import IS_DELETED
from app.store.ingest.envelopes import WORK_ITEM_MEMORIES
from app.store.memories import writes
from app.store.memories.tenant_counts import TierCounts

_PROMOTED_FOR: Final = b"manual"
_LEVEL_MAX: Final = 1e9
_POSTGRES_EPOCH_SECONDS: Final = 946_684_800
_NULL: Final = np.array(-1, ">i4").tobytes()
_STATE_COPY: Final = """
COPY memory_state (tenant_id, memory_id, kind, multiplier, access_count, created_at, accessed_at, anchored_at, level,
  retrieval, stability, policy_version, salience, salience_source, promoted_at, promoted_for)
FROM STDIN (FORMAT binary)
"""
_FIXED: Final = (
    ("tenant_id", "V16"),
    ("memory_id", "V16"),
    ("kind", ">i2"),
    ("multiplier", ">f4"),
    ("access_count", ">i4"),
    ("created_at", ">i8"),
    ("accessed_at", ">i8"),
    ("anchored_at", ">i8"),
    ("level", ">f8"),
    ("retrieval", ">f8"),
    ("stability", ">f8"),
    ("policy_version", ">i4"),
)
_STATE_COLUMNS: Final = len(_FIXED) + 4
_ROW: Final = np.dtype(
    [("columns", ">i2")] + [each for name, form in _FIXED for each in ((f"{name}_bytes", ">i4"), (name, form))]
)
_MOMENTS: Final = ("created_at", "accessed_at", "anchored_at")


class ExternalIdTaken(Exception):
    """Another transaction has just stored a memory with the external id or id of one of the imported memories."""


@dataclass(frozen=True, slots=True)
class ImportedRows:
    """Memories to insert, and their state; arrays have shape (n,).

    Attributes:
        ids: Ids of the memories, 16 bytes each.
        memories: Their contents; each has an external id.
        state: Their state, anchored under `policy_version`.
        promoted_at: Seconds since 1970; NaN for memories that aren't promoted.
        policy_version: Version of the policy in force.
        writer: The API key that started the import, and the highest source of its memories.
    """

    ids: list[bytes]
    memories: list[MemoryIn]
    state: State
    promoted_at: npt.NDArray[np.float64]
    policy_version: int
    writer: Writer


def copy_memories(tx: Connection, tenant_id: UUID, rows: ImportedRows, seq: int, created_at: float) -> bool:
    """Insert memories, queue their enrichment and count them. Return False for a tenant that is being deleted.

    Args:
        tx: A transaction of the role `ebbing_drain`, because COPY isn't allowed under row-level security.
        rows: The memories.
        seq: Sequence number of the first memory.
        created_at: Time of acceptance, in seconds since 1970.

    Raises:
        ExternalIdTaken: One of them exists already.
        TypeError: The connection isn't a psycopg connection.
    """
    connection = tx.connection.driver_connection
    if not isinstance(connection, psycopg.Connection):
        raise TypeError
    if connection.execute(_IS_DELETED.encode(), {"tenant": tenant_id}).fetchall() == [(True,)]:
        return False
    text_bytes = 0
    try:
        with connection.cursor() as cursor:
            with cursor.copy(IMPORTED_COPY) as copy:
                copy.write(HEADER)
                pairs = list(zip(rows.ids, rows.memories, strict=True))
                for chunk, size in pack_imported(tenant_id, pairs, seq, created_at, rows.writer):
                    copy.write(chunk)
                    text_bytes += size
                copy.write(TRAILER)
            with cursor.copy(_STATE_COPY) as copy:
                copy.write(b"".join((HEADER, _pack_states(tenant_id, rows), TRAILER)))
    except UniqueViolation:
        raise ExternalIdTaken from None
    items = [array_literal(ids) for ids in _work_items(rows.ids)]
    work, changes = [(" ".join(STAGES), ids) for ids in items], [(STORED, ids) for ids in items]
    writes.record(tx, tenant_id, TierCounts(active=len(rows.ids), text_bytes=text_bytes), {}, work, changes)
    return True


_IS_DELETED: Final = f"SELECT {IS_DELETED.format(tenant='%(tenant)s')}"


def _work_items(ids: Sequence[bytes]) -> Iterator[list[str]]:
    for start in range(0, len(ids), WORK_ITEM_MEMORIES):
        yield [memory_id.hex() for memory_id in ids[start : start + WORK_ITEM_MEMORIES]]


def _pack_states(tenant_id: UUID, rows: ImportedRows) -> bytes:
    """Encode rows of `memory_state`: the columns that are never NULL as one array, the others row by row."""
    count = len(rows.ids)
    fixed = np.empty(count, _ROW)
    fixed["columns"] = _STATE_COLUMNS
    for name, form in _FIXED:
        fixed[f"{name}_bytes"] = np.dtype(form).itemsize
    fixed["tenant_id"] = np.frombuffer(tenant_id.bytes * count, "V16")
    fixed["memory_id"] = np.frombuffer(b"".join(rows.ids), "V16")
    fixed["policy_version"] = rows.policy_version
    for name, _ in _FIXED[2:-1]:
        values = getattr(rows.state, name)
        if name in _MOMENTS:
            values = np.rint((values - _POSTGRES_EPOCH_SECONDS) * 1e6)
        fixed[name] = np.clip(values, -_LEVEL_MAX, _LEVEL_MAX) if name == "level" else values
    packed, size = fixed.tobytes(), _ROW.itemsize
    unscored = _NULL * 2
    parts: list[bytes] = []
    for place, memory in enumerate(rows.memories):
        parts.append(packed[place * size : (place + 1) * size])
        parts.append(unscored if memory.salience is None else _field(_float(memory.salience)) + _field(b"caller"))
        promoted = rows.promoted_at[place]
        parts.append(_NULL * 2 if np.isnan(promoted) else _field(_moment(float(promoted))) + _field(_PROMOTED_FOR))
    return b"".join(parts)


def _field(value: bytes) -> bytes:
    return len(value).to_bytes(4, "big") + value


def _float(value: float) -> bytes:
    return np.array(value, ">f4").tobytes()


def _moment(seconds: float) -> bytes:
    return round((seconds - _POSTGRES_EPOCH_SECONDS) * 1e6).to_bytes(8, "big", signed=True)


def write_states(tx: Connection, tenant_id: UUID, rows: ImportedRows) -> None:
    """Write the state of memories that were inserted without it. Running it twice changes nothing more."""
    state = rows.state
    values: dict[str, Any] = {
        "tenant": tenant_id,
        "version": rows.policy_version,
        "ids": Uuids(b"".join(rows.ids)),
        "uses": Integers(state.access_count),
        "created": Timestamps(state.created_at),
        "accessed": Timestamps(state.accessed_at),
        "anchored": Timestamps(state.anchored_at),
        "level": Doubles(np.clip(state.level, -_LEVEL_MAX, _LEVEL_MAX)),
        "retrieval": Doubles(state.retrieval),
        "stability": Doubles(state.stability),
        "promoted": Timestamps(np.where(np.isnan(rows.promoted_at), -np.inf, rows.promoted_at)),
    }
    driver_connection(tx).execute(_WRITE_STATES, values)


_WRITE_STATES: Final = """
UPDATE memory_state AS state SET access_count = given.uses, created_at = given.created_at,
  accessed_at = given.accessed_at, anchored_at = given.anchored_at, level = given.level, retrieval = given.retrieval,
  stability = given.stability, policy_version = %(version)s, next_due_at = '-infinity',
  promoted_at = nullif(given.promoted_at, '-infinity'),
  promoted_for = CASE WHEN given.promoted_at > '-infinity' THEN 'manual' END
FROM unnest(%(ids)s, %(uses)s, %(created)s, %(accessed)s, %(anchored)s, %(level)s, %(retrieval)s, %(stability)s,
  %(promoted)s)
  AS given (memory_id, uses, created_at, accessed_at, anchored_at, level, retrieval, stability, promoted_at)
WHERE state.tenant_id = %(tenant)s AND state.memory_id = given.memory_id
"""
