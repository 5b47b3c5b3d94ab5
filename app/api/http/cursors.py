"""Cursors of lists: the key of a page's last row as opaque text. Callers store them, so no format may change."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from fastapi import Depends, Query

from app.errors import FieldError, Invalid
from app.store.core.paging import Place
from app.store.memories.links import LinkKey

K = TypeVar("K")

PAGE_MAX: Final = 500
PLACE_MAX: Final = 2**63 - 1
"""Largest position of a history entry (bigint)."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ID_BYTES: Final = 16


class Cursor(Generic[K]):
    """Cursor of a list whose rows have keys of one type."""

    def __init__(self, write: Callable[[K], str], read: Callable[[str], K]) -> None:
        """Convert keys with `write` and `read`; `read` raises ValueError or OverflowError for malformed text."""
        self._write = write
        self._read = read

    def encode(self, key: K | None) -> str | None:
        """Return the cursor for the page after a key; None for no key."""
        return None if key is None else self._write(key)

    def decode(self, cursor: str | None) -> K | None:
        """Return the key in a cursor; None for no cursor.

        Raises:
            Invalid: The cursor is malformed.
        """
        if cursor is None:
            return None
        try:
            return self._read(cursor)
        except (ValueError, OverflowError):
            raise Invalid(errors=[FieldError("cursor", "must be a cursor from an earlier response")]) from None


def number(digits: int) -> Cursor[int]:
    """Return the cursor of a list whose keys are positive numbers of at most this many digits."""
    return Cursor(str, lambda text: int(_checked(text, text.isascii() and text.isdigit() and len(text) <= digits)))


def _checked(text: str, is_valid: object) -> str:
    if not is_valid:
        raise ValueError
    return text


def _write(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


def _write_place(key: tuple[datetime, bytes]) -> str:
    return _write(((key[0] - _EPOCH) // timedelta(microseconds=1)).to_bytes(8, "big", signed=True) + key[1])


def _read_place(text: str) -> Place:
    key = base64.urlsafe_b64decode(text)
    return _EPOCH + timedelta(microseconds=int.from_bytes(key[:8], "big", signed=True)), UUID(bytes=key[8:])


def _read_history(text: str) -> tuple[datetime, int]:
    at, place = _read_place(text)
    return at, min(place.int, PLACE_MAX)


def _read_part(text: str) -> tuple[str, UUID]:
    key = base64.urlsafe_b64decode(text)
    return key[_ID_BYTES:].decode(), UUID(bytes=key[:_ID_BYTES])


def _read_link(text: str) -> LinkKey:
    key = base64.urlsafe_b64decode(text)
    kind = key[2 * _ID_BYTES :].decode()
    ends = UUID(bytes=key[:_ID_BYTES]), UUID(bytes=key[_ID_BYTES : 2 * _ID_BYTES])
    return LinkKey(*ends, _checked(kind, "\0" not in kind))


ID: Final = Cursor[UUID](
    lambda key: _write(key.bytes).rstrip("="),
    lambda text: UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))),
)
SEQ: Final = number(19)
"""Order of acceptance, in lists of the memories of a thread."""
TIMED: Final = Cursor[Place](lambda key: _write_place((key[0], key[1].bytes)), _read_place)
"""Time and id, in lists ordered by time."""
HISTORY: Final = Cursor[tuple[datetime, int]](
    lambda key: _write_place((key[0], key[1].to_bytes(_ID_BYTES, "big"))), _read_history
)
"""Time and position, in the history of memories."""
PART: Final = Cursor[tuple[str, UUID]](lambda key: _write(key[1].bytes + key[0].encode()), _read_part)
"""Name of a nightly step and id of a memory, in previews of a schedule, which list the changes step by step."""
LINK: Final = Cursor[LinkKey](
    lambda key: _write(key.memory_id.bytes + key.other_id.bytes + key.kind.encode()), _read_link
)
NAME: Final = Cursor[str](str, lambda text: _checked(text, "\0" not in text))
KEY_ID: Final = Cursor[str](str, lambda text: _checked(text, text.isascii() and text.isalnum()))


class PageWanted(NamedTuple):
    """Requested page of a list ordered by time."""

    older_than: Place | None
    limit: int


async def read_page_wanted(
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50, cursor: str | None = None
) -> PageWanted:
    """Read the query parameters `limit` and `cursor`, as a FastAPI dependency."""
    return PageWanted(TIMED.decode(cursor), limit)


Paged = Annotated[PageWanted, Depends(read_page_wanted)]
