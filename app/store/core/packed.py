"""Columns as NumPy arrays, to and from PostgreSQL in its binary form, with no Python number in between."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final
from uuid import UUID, SafeUUID

import numpy as np
import numpy.typing as npt
import psycopg
from psycopg.adapt import Dumper
from psycopg.pq import Format
from sqlalchemy import Connection

_ARRAY_START: Final = Struct(">iiiii")
_POSTGRES_EPOCH_SECONDS: Final = 946_684_800
_FAR: Final = np.iinfo(np.int64).max
"""`infinity` of PostgreSQL; its `-infinity` is the least number."""


class Packed:
    """An array on its way to PostgreSQL; one class a type of element, so that each says its own."""

    oid = 0

    def __init__(self, element_oid: int, size: int, values: npt.NDArray[Any]) -> None:
        """Pack values, big-endian and of one size, one after another."""
        rows = np.empty(len(values), np.dtype([("length", ">i4"), ("value", values.dtype)]))
        rows["length"], rows["value"] = size, values
        self.data = _ARRAY_START.pack(1, 0, element_oid, len(values), 1) + rows.tobytes()


class Uuids(Packed):
    """A `uuid[]`."""

    oid = 2951

    def __init__(self, ids: Sequence[UUID] | bytes) -> None:
        """Take ids in any order, as they are or as 16 bytes each."""
        held = ids if isinstance(ids, bytes) else b"".join(each.bytes for each in ids)
        super().__init__(2950, 16, np.frombuffer(held, "V16"))


class Doubles(Packed):
    """A `float8[]`."""

    oid = 1022

    def __init__(self, values: npt.ArrayLike) -> None:
        """Take numbers, shape (n,)."""
        super().__init__(701, 8, np.asarray(values, ">f8"))


class Integers(Packed):
    """An `int4[]`."""

    oid = 1007

    def __init__(self, values: npt.ArrayLike) -> None:
        """Take whole numbers of 32 bits, shape (n,)."""
        super().__init__(23, 4, np.asarray(values, ">i4"))


class Longs(Packed):
    """An `int8[]`."""

    oid = 1016

    def __init__(self, values: npt.ArrayLike) -> None:
        """Take whole numbers of 64 bits, shape (n,)."""
        super().__init__(20, 8, np.asarray(values, ">i8"))


class Moments(Packed):
    """A `timestamptz[]`."""

    oid = 1185

    def __init__(self, seconds: npt.ArrayLike) -> None:
        """Take seconds since 1970, infinite ones too, shape (n,)."""
        given = np.asarray(seconds, np.float64)
        finite = np.isfinite(given)
        microseconds = np.rint((np.where(finite, given, 0) - _POSTGRES_EPOCH_SECONDS) * 1e6).astype(np.int64)
        microseconds = np.where(finite, microseconds, np.where(given > 0, _FAR, -_FAR - 1))
        super().__init__(1184, 8, microseconds.astype(">i8"))


class Halfvecs:
    """A `halfvec[]` for a statement that casts it, made for a whole batch at once: no text, no object each."""

    def __init__(self, vectors: npt.NDArray[np.float32]) -> None:
        """Take vectors within the range of half precision (±65,504), shape (n, dimensions)."""
        count, dimensions = vectors.shape
        rows = np.empty(
            count,
            dtype=[("bytes", ">i4"), ("dimensions", ">i2"), ("unused", ">i2"), ("values", ">f2", dimensions)],
        )
        rows["bytes"] = 4 + 2 * dimensions
        rows["dimensions"] = dimensions
        rows["unused"] = 0
        rows["values"] = vectors
        # element type left to the server's cast
        self.data = _ARRAY_START.pack(1, 0, 0, count, 1) + rows.tobytes()


class _PackedDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Packed | Halfvecs) -> bytes:
        return obj.data


for _packed in (Uuids, Doubles, Integers, Longs, Moments):
    _dumper = type(f"{_packed.__name__}Dumper", (_PackedDumper,), {"oid": _packed.oid})
    psycopg.adapters.register_dumper(_packed, _dumper)
psycopg.adapters.register_dumper(Halfvecs, _PackedDumper)


def driver(tx: Connection) -> psycopg.Connection[Any]:
    """The driver's connection of a transaction.

    Raises:
        TypeError: It isn't psycopg's.
    """
    connection = tx.connection.driver_connection
    if not isinstance(connection, psycopg.Connection):
        raise TypeError
    return connection


def moments(sent: bytes | None) -> npt.NDArray[np.float64]:
    """Seconds since 1970 of moments that `timestamptz_send` gave, one after another."""
    microseconds = np.frombuffer(sent or b"", ">i8").astype(np.int64)
    seconds = microseconds / 1e6 + _POSTGRES_EPOCH_SECONDS
    return np.where(microseconds == _FAR, np.inf, np.where(microseconds == -_FAR - 1, -np.inf, seconds))


def kept(seconds: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Finite moments as PostgreSQL keeps them, in whole microseconds: the very doubles that `moments` reads back."""
    microseconds = np.rint((np.asarray(seconds, np.float64) - _POSTGRES_EPOCH_SECONDS) * 1e6)
    found: npt.NDArray[np.float64] = microseconds / 1e6 + _POSTGRES_EPOCH_SECONDS
    return found


def numbers(sent: bytes | None, form: str) -> npt.NDArray[np.float64]:
    """Numbers that a `…send` function gave, one after another, as doubles.

    Args:
        sent: What came.
        form: NumPy's name of the big-endian type, such as `>f4`.
    """
    return np.frombuffer(sent or b"", form).astype(np.float64)


def vectors(sent: bytes | None) -> npt.NDArray[np.float32]:
    """Vectors of one size that `halfvec_send` gave, one after another, shape (n, dimensions); (0, 0) for none."""
    if not sent:
        return np.empty((0, 0), np.float32)
    dimensions = int.from_bytes(sent[:2])
    rows = np.frombuffer(sent, [("head", "V4"), ("values", ">f2", dimensions)])
    return rows["values"].astype(np.float32)


def uuids(sent: bytes | None) -> list[UUID]:
    """Ids that `uuid_send` gave, one after another."""
    held = sent or b""
    return [_uuid(int.from_bytes(held[start : start + 16])) for start in range(0, len(held), 16)]


_UNKNOWN: Final = SafeUUID.unknown  # to ask the enumeration for it takes longer than all the rest


def _uuid(number: int) -> UUID:
    """As `UUID(int=number)` without its checks, which would take a tenth of a rebase."""
    made = object.__new__(UUID)
    object.__setattr__(made, "int", number)
    object.__setattr__(made, "is_safe", _UNKNOWN)
    return made
