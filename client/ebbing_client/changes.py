"""The feed of changes as an iterator: ids and types of what changed, in commit order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ebbing_client.call import Answer, Call
from ebbing_client.methods import Sends, SendsAsync
from ebbing_client.results import TIME, Json, read_record

PAGE_LIMIT: Final = 500
EVERY_SECONDS: Final = 2.0


@dataclass(frozen=True)
class Change:
    """A change: its type, such as `memory.stored`, and the id of the memory, erasure or job that changed.

    `cursor` is the position in the feed: pass it to go on after this change.
    """

    cursor: str
    type: str
    id: str
    at: datetime | None = field(default=None, metadata=TIME)
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class _Page:
    changes: tuple[Change, ...]
    cursor: str
    has_more: bool


def list_changes(
    client: Sends,
    cursor: str | None = None,
    *,
    types: Sequence[str] = (),
    follow: bool = False,
    every: float = EVERY_SECONDS,
    timeout: float | None = None,
) -> Iterator[Change]:
    """Yield each change once, in commit order; the changes of one memory in the order in which they were made.

    Args:
        cursor: Go on after the change with this cursor; `newest` skips everything until now. By default, begin at the
            oldest retained change.
        types: Only changes of these types.
        follow: Wait for further changes instead of ending.
        every: Seconds between requests while there are no further changes.
        timeout: Seconds until the deadline of each request; None uses the client's.

    Raises:
        CursorGone: Changes after the cursor were removed; `fields[0].limit` is the oldest cursor to go on from.
    """
    while True:
        page = client.send(_read_after(cursor, types, timeout))
        yield from page.changes
        cursor = page.cursor
        if not page.has_more:
            if not follow:
                return
            time.sleep(every)


async def list_changes_async(
    client: SendsAsync,
    cursor: str | None = None,
    *,
    types: Sequence[str] = (),
    follow: bool = False,
    every: float = EVERY_SECONDS,
    timeout: float | None = None,
) -> AsyncIterator[Change]:
    """Yield changes in commit order, as `Ebbing.changes` does."""
    while True:
        page = await client.send(_read_after(cursor, types, timeout))
        for change in page.changes:
            yield change
        cursor = page.cursor
        if not page.has_more:
            if not follow:
                return
            await asyncio.sleep(every)


def _read_after(cursor: str | None, types: Sequence[str], timeout: float | None) -> Call[_Page]:
    params: dict[str, Any] = {"limit": PAGE_LIMIT, "cursor": cursor, "types": ",".join(types) or None}
    return Call("GET", "/v1/changes", _read_page, params=params, timeout=timeout)


def _read_page(answer: Answer) -> _Page:
    body = read_record(_Body, answer.json())
    return _Page(tuple(read_record(Change, each) for each in body.changes), body.next_cursor, body.has_more)


@dataclass(frozen=True)
class _Body:
    changes: list[Any]
    next_cursor: str
    has_more: bool
    raw: Json = field(default_factory=dict, repr=False, compare=False)
