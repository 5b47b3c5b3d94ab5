"""Convert columns between NumPy arrays and PostgreSQL's binary format without creating a Python object per number."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy import Connection

_ARRAY_START: Final = Struct(">iiiii")
_VECTOR_START: Final = Struct(">hh")
_POSTGRES_EPOCH_SECONDS: Final = 946_684_800
_FAR: Final = np.iinfo(np.int64).max
"""PostgreSQL's `infinity`; its `-infinity` is the smallest int64."""


class Packed:
    """A one-dimensional array in PostgreSQL's binary format; each element type has its own subclass with its OID."""

    oid = 0

    def __init__(self, element_oid: int, size: int, values: npt.NDArray[Any]) -> None:
        """Pack big-endian values of one size."""
        rows = np.empty(len(values), np.dtype([("length", ">i4"), ("value", values.dtype)]))
        rows["length"], rows["value"] = size, values
        self.data = _ARRAY_START.pack(1, 0, element_oid, len(values), 1) + rows.tobytes()


class Uuids(Packed):
    """A `uuid[]`."""

    oid = 2951

    def __init__(self, ids: Sequence[UUID] | bytes) -> None:
        """Pack ids in the given order, as UUIDs or as a concatenation of 16-byte values."""
        packed = ids if isinstance(ids, bytes) else b"".join(memory_id.bytes for memory_id in ids)
        super().__init__(2950, 16, np.frombuffer(packed, "V16"))


class Doubles(Packed):
    """A `float8[]`."""

    oid = 1022

    def __init__(self, values: npt.ArrayLike) -> None:
        """Pack float64 values, shape (n,)."""
        super().__init__(701, 8, np.asarray(values, ">f8"))


class Integers(Packed):
    """An `int4[]`."""

    oid = 1007

    def __init__(self, values: npt.ArrayLike) -> None:
        """Pack 32-bit integers, shape (n,)."""
        super().__init__(23, 4, np.asarray(values, ">i4"))


class Longs(Packed):
    """An `int8[]`."""

    oid = 1016

    def __init__(self, values: npt.ArrayLike) -> None:
        """Pack 64-bit integers, shape (n,)."""
        super().__init__(20, 8, np.asarray(values, ">i8"))


class Timestamps(Packed):
    """A `timestamptz[]`."""

    oid = 1185

    def __init__(self, seconds: npt.ArrayLike) -> None:
        """Pack seconds since 1970, including infinities, shape (n,)."""
        times = np.asarray(seconds, np.float64)
        finite = np.isfinite(times)
        microseconds = np.rint((np.where(finite, times, 0) - _POSTGRES_EPOCH_SECONDS) * 1e6).astype(np.int64)
        microseconds = np.where(finite, microseconds, np.where(times > 0, _FAR, -_FAR - 1))
        super().__init__(1184, 8, microseconds.astype(">i8"))


class Halfvecs(Packed):
    """A `halfvec[]` parameter, which the statement must cast; a whole batch is encoded without an object per vector."""

    def __init__(self, vectors: npt.NDArray[np.float32]) -> None:
        """Pack vectors within the range of half precision (±65,504), shape (n, dimensions)."""
        count, dimensions = vectors.shape
        rows = np.zeros(count, [("dimensions", ">i2"), ("unused", ">i2"), ("values", ">f2", dimensions)])
        rows["dimensions"], rows["values"] = dimensions, vectors
        # Element type 0: the statement's cast determines the type.
        super().__init__(0, 4 + 2 * dimensions, rows)


class Halfvec:
    """A `halfvec` parameter, which the statement must cast."""

    oid = 0

    def __init__(self, vector: npt.NDArray[np.float32]) -> None:
        """Pack a vector within the range of half precision (±65,504), shape (dimensions,)."""
        self.data = _VECTOR_START.pack(len(vector), 0) + vector.astype(">f2").tobytes()


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Packed | Halfvec) -> bytes:
        return obj.data


for _packed in (Uuids, Doubles, Integers, Longs, Timestamps, Halfvecs, Halfvec):
    psycopg.adapters.register_dumper(_packed, type(_packed.__name__, (_PackedDumper,), {"oid": _packed.oid}))


def driver_connection(tx: Connection) -> psycopg.Connection[Any]:
    """Return the driver's connection of a transaction.

    Raises:
        TypeError: The driver isn't psycopg.
    """
    connection = tx.connection.driver_connection
    if not isinstance(connection, psycopg.Connection):
        raise TypeError
    return connection


def fetch_column(
    tx: Connection, statement: str | bytes, values: dict[str, Any] | None = None, *, binary: bool = False
) -> list[Any]:
    """Execute a statement in the driver's parameter syntax, and return the first column of its rows."""
    query = statement if isinstance(statement, bytes) else statement.encode()
    return [row[0] for row in driver_connection(tx).execute(query, values, binary=binary).fetchall()]


def fetch_value(
    tx: Connection, statement: str | bytes, values: dict[str, Any] | None = None, *, binary: bool = False
) -> Any:
    """Execute a statement in the driver's parameter syntax, and return the first value of its first row, or None."""
    return next(iter(fetch_column(tx, statement, values, binary=binary)), None)


def decode_moments(sent: bytes | None) -> npt.NDArray[np.float64]:
    """Decode concatenated `timestamptz_send` values into seconds since 1970."""
    microseconds = np.frombuffer(sent or b"", ">i8").astype(np.int64)
    seconds = microseconds / 1e6 + _POSTGRES_EPOCH_SECONDS
    return np.where(microseconds == _FAR, np.inf, np.where(microseconds == -_FAR - 1, -np.inf, seconds))


def round_to_microseconds(seconds: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Round finite times to microseconds like PostgreSQL, to exactly the doubles that `decode_moments` returns."""
    microseconds = np.rint((np.asarray(seconds, np.float64) - _POSTGRES_EPOCH_SECONDS) * 1e6)
    rounded: npt.NDArray[np.float64] = microseconds / 1e6 + _POSTGRES_EPOCH_SECONDS
    return rounded


def decode_numbers(sent: bytes | None, form: str) -> npt.NDArray[np.float64]:
    """Decode concatenated `…send` values as doubles.

    Args:
        form: NumPy's name of the big-endian type, such as `>f4`.
    """
    return np.frombuffer(sent or b"", form).astype(np.float64)


def decode_vectors(sent: bytes | None) -> npt.NDArray[np.float32]:
    """Decode concatenated `halfvec_send` values of one size, shape (n, dimensions); (0, 0) for no input."""
    if not sent:
        return np.empty((0, 0), np.float32)
    dimensions = int.from_bytes(sent[:2])
    rows = np.frombuffer(sent, [("head", "V4"), ("values", ">f2", dimensions)])
    return rows["values"].astype(np.float32)


def decode_uuids(sent: bytes | None) -> list[UUID]:
    """Decode concatenated `uuid_send` values."""
    data = sent or b""
    return [UUID(bytes=data[start : start + 16]) for start in range(0, len(data), 16)]
