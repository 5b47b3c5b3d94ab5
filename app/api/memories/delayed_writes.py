"""Writes that waited at their sender: read their time of sending, and list the memories that won't be stored."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

from app.api.http.request_body import InvalidHeader, header
from app.domain.ingest.bodies import Body
from app.errors import FieldError
from app.services.ingest import late_writes
from app.services.transient_errors import is_transient
from app.store.core.binary_copy import Arrival

SENT_AT: Final = "Ebbing-Sent-At"
_DIGITS_MAX: Final = 15


def read_sent_ms(scope: Scope, given: Body) -> int | None:
    """Return the time of sending by the sender's clock, in milliseconds since 1970; None if no memory has `written`.

    Raises:
        InvalidHeader: A memory has `written` but the header is missing, or it isn't a number of milliseconds.
    """
    if given.messages is not None or all(memory.written is None for memory in given.memories):
        return None
    value = header(scope, SENT_AT.lower().encode())
    if value is None:
        raise InvalidHeader(errors=[FieldError(SENT_AT, "is missing: memories with `written` need it")])
    if not (value.isascii() and value.isdigit() and len(value) <= _DIGITS_MAX):
        raise InvalidHeader(errors=[FieldError(SENT_AT, "must be a time in milliseconds since 1970")])
    return int(value)


async def describe_dropped(tenant_id: UUID, arrival: Arrival) -> bytes:
    """Return the memories that won't be stored, as a fragment of the response body; empty if none are known.

    While the database is down, the list is empty; the drain still drops these memories later.
    """
    if not late_writes.has_waited(arrival):
        return b""
    try:
        dropped = await run_in_threadpool(late_writes.list_dropped, tenant_id, arrival)
    except Exception as error:
        if not is_transient(error):
            raise
        return b""
    if not dropped:
        return b""
    return b',"dropped":' + msgspec.json.encode([{"id": each.memory_id, "erased": each.erased} for each in dropped])
