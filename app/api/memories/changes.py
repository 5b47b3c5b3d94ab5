"""`/v1/changes`: the feed of changes, as pages or as a stream of server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from app import shutdown
from app.api.http import responses
from app.api.http.auth import Reader, cache
from app.domain.changes.cursors import decode_cursor, encode_cursor
from app.domain.changes.types import MEANINGS, TYPES
from app.errors import CursorGone, EbbingError, FieldError, Invalid, Unavailable
from app.services.changes import change_feed
from app.services.changes.change_feed import ChangePage, CursorLost
from app.settings import settings
from app.store.changes.feed import Change

router = APIRouter(prefix="/v1/changes", tags=["memories"])

LIMIT_MAX: Final = 1000
NEWEST: Final = "newest"
EVERY_SECONDS: Final = 1.0
"""Interval at which a stream without news looks for changes."""
PING_SECONDS: Final = 15.0
STREAM_SECONDS: Final = 600.0
"""Maximum duration of a stream; the client then opens a new one."""
SEND_SECONDS: Final = 30.0
"""Time for a client to accept data; otherwise the connection is closed."""
RETRY_MS: Final = 3000
_EVENT_STREAM: Final = "text/event-stream"
_TYPE_MAX_CHARACTERS: Final = 64

_WANTED = "Types to return, separated by commas; all by default.\n\n" + "\n".join(
    f"- `{name}`: {meaning}" for name, meaning in MEANINGS.items()
)

_open: Counter[UUID] = Counter()
"""Number of this process's open streams by tenant."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request for changes: a `cursor` of None begins at the oldest retained change, `types` of None selects all."""

    tenant_id: UUID
    cursor: int | None
    types: frozenset[str] | None
    limit: int

    def read(self, cursor: int | None) -> ChangePage:
        """Return a page of the changes after a cursor.

        Raises:
            CursorGone: Changes after the cursor are no longer available.
            Conflict: The feed is off.
        """
        try:
            return change_feed.read_page(self.tenant_id, cursor, self.types, self.limit)
        except CursorLost as error:
            oldest = encode_cursor(self.tenant_id, error.oldest)
            message = "is older than the oldest retained change"
            if error.is_ahead:
                message = "is ahead of the feed: the database was restored from a backup"
            raise CursorGone(errors=[FieldError("cursor", message, limit=oldest)]) from None


@router.get("", summary="Read the feed of changes")
async def read(
    caller: Reader,
    request: Request,
    types: Annotated[list[str] | None, Query(description=_WANTED)] = None,
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX)] = 100,
    cursor: Annotated[str | None, Query(max_length=64)] = None,
    last_event_id: Annotated[str | None, Header(max_length=64)] = None,
) -> Response:
    """Return what changed, in commit order: type, time and id, and never a text, a name or a label.

    Pass `next_cursor` of the response as `cursor` of the next request; it is never null, and an empty page means that
    nothing has changed since. Without a cursor, the feed begins at the oldest retained change; `cursor=newest` returns
    no changes, only a cursor from which later changes follow. Changes of one memory are in the order in which they
    happened. `types` lists the wanted types, separated by commas.

    With `Accept: text/event-stream` the response is a stream of server-sent events: `id` is the cursor, `event` the
    type. A client that reconnects sends the last id as `Last-Event-ID`. The stream ends after ten minutes.

    Changes are retained for `changes.keep_days` of the policy. 410 if changes after the cursor were removed, or were
    not recorded for a time; `errors[0].limit` is the oldest cursor to go on from. 409 if the feed is off.
    """
    position = last_event_id or cursor
    chosen = _types(types)
    if position == NEWEST:
        place: int | None = await run_in_threadpool(change_feed.find_newest, caller.tenant_id)
    else:
        place = None if position is None else decode_cursor(caller.tenant_id, position)
    wanted = Wanted(caller.tenant_id, place, chosen, limit)
    is_stream = _EVENT_STREAM in request.headers.get("accept", "")
    if is_stream:
        with _reserve(caller.tenant_id) as slot:
            page = await run_in_threadpool(wanted.read, place)
            return EventStream(_events(request, wanted, page), slot.pop_all())
    page = await run_in_threadpool(wanted.read, place)
    return responses.answer(
        {
            "changes": [_shape(caller.tenant_id, change) for change in page.changes],
            "next_cursor": encode_cursor(caller.tenant_id, page.cursor),
            "has_more": page.has_more,
        }
    )


def _types(given: Sequence[str] | None) -> frozenset[str] | None:
    """Return the wanted types.

    Raises:
        Invalid: A type is unknown; the error proposes the closest one.
    """
    if given is None:
        return None
    names = [name.strip() for part in given for name in part.split(",")]
    unknown = next((name for name in names if name not in TYPES), None)
    if unknown is not None:
        near = get_close_matches(unknown[:_TYPE_MAX_CHARACTERS].lower(), TYPES, 1, 0)
        raise Invalid(errors=[FieldError("types", "contains an unknown type of change", suggestion=near[0])])
    return frozenset(names)


def _shape(tenant_id: UUID, change: Change) -> dict[str, Any]:
    return {
        "cursor": encode_cursor(tenant_id, change.cursor),
        "type": change.type,
        "at": change.at,
        "id": change.id,
    }


@contextmanager
def _reserve(tenant_id: UUID) -> Iterator[ExitStack]:
    """Reserve one of a tenant's streams until the block ends, or until the stack that `pop_all` returns is closed.

    Raises:
        Unavailable: The tenant has too many open streams.
    """
    if _open[tenant_id] >= settings().change_streams_max:
        raise Unavailable("this tenant has too many open streams of changes", retry_after_seconds=30)
    _open[tenant_id] += 1
    with ExitStack() as slot:
        slot.callback(_release, tenant_id)
        yield slot


def _release(tenant_id: UUID) -> None:
    _open[tenant_id] -= 1
    if not _open[tenant_id]:
        del _open[tenant_id]


class EventStream(StreamingResponse):
    """A stream of events, which ends if its client accepts no data."""

    def __init__(self, events: AsyncIterator[bytes], slot: ExitStack) -> None:
        """Prepare the response, which closes `slot` at its end."""
        super().__init__(events, media_type=_EVENT_STREAM, headers={"x-accel-buffering": "no"})
        self._slot = slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        with self._slot:
            await super().__call__(scope, receive, send)

    async def stream_response(self, send: Send) -> None:
        """Send the events, each within `SEND_SECONDS`."""

        async def limited(message: Any) -> None:
            await asyncio.wait_for(send(message), SEND_SECONDS)

        await super().stream_response(limited)


async def _events(request: Request, wanted: Wanted, page: ChangePage) -> AsyncIterator[bytes]:
    """Yield the events of a first page, then of later ones. No connection to the database is held while waiting."""
    began = said_at = time.monotonic()
    yield f"retry: {RETRY_MS}\n\n".encode()
    while True:
        if page.changes:
            yield b"".join(_event(wanted.tenant_id, change) for change in page.changes)
            said_at = time.monotonic()
        elif time.monotonic() - said_at >= PING_SECONDS:
            # An event without data moves the client's position past changes of other types.
            yield f": ping\nid: {encode_cursor(wanted.tenant_id, page.cursor)}\n\n".encode()
            said_at = time.monotonic()
        if time.monotonic() - began >= STREAM_SECONDS:
            return
        if not page.has_more and not await _has_news(request, wanted.tenant_id, page.cursor):
            return
        try:
            page = await run_in_threadpool(wanted.read, page.cursor)
        except EbbingError:
            return  # the client's next request gets the reason


async def _has_news(request: Request, tenant_id: UUID, cursor: int) -> bool:
    """Wait for changes or for the next ping; return False if the stream must end."""
    deadline = time.monotonic() + PING_SECONDS
    while time.monotonic() < deadline:
        await asyncio.sleep(EVERY_SECONDS)
        if shutdown.is_near():
            return False
        try:
            await cache.caller(request.scope, "read")  # the key may have been revoked
        except EbbingError:
            return False
        if await run_in_threadpool(change_feed.has_news, tenant_id, cursor):
            return True
    return True


def _event(tenant_id: UUID, change: Change) -> bytes:
    shape = _shape(tenant_id, change)
    return f"id: {shape['cursor']}\nevent: {change.type}\ndata: {msgspec.json.encode(shape).decode()}\n\n".encode()
