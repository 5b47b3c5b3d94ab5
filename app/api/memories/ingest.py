"""`POST /v1/memories`, the hot path: read and validate the body, append it to the stream, respond.

A bare ASGI endpoint, to keep the work between the socket and the single Redis call minimal.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias
from uuid import UUID

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

from app import failpoints, metrics, tracing
from app.api.http import responses
from app.api.http.auth import cache
from app.api.http.idempotency import Outcome, key_of
from app.api.http.problem_responses import as_ours, respond
from app.api.http.request_body import InvalidHeader, header, read
from app.api.http.request_ids import RequestIds, get_ids
from app.api.memories import delayed_writes
from app.clients.redis.stream import StreamWriter
from app.domain.ingest import bodies, message_fields
from app.domain.ingest.bodies import Body
from app.domain.ingest.envelope import add_writer
from app.domain.ingest.ids import RANDOM_BYTES, generate_base, memory_uuids, parse_entry_id
from app.domain.ingest.json_input import Format
from app.domain.ingest.sources import Writer
from app.errors import BacklogFull, EbbingError, FieldError, Invalid, Unavailable
from app.queues import Nudger
from app.services.consolidation import supersession
from app.services.embedding import spaces
from app.services.ingest.witness import Witness
from app.services.memories import links, memories
from app.settings import settings
from app.store.core.binary_copy import Arrival

SIZES_MAX: Final = 10_000
_NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_WAIT = re.compile(r'(?i)(?:^|[,;])\s*wait\s*(?:=\s*"?(?P<seconds>[^,;"]*)"?)?\s*(?=$|[,;])')
_WAIT_DIGITS = 9  # a longer `wait` is cut to this number of digits, and still exceeds any limit
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_POLL_SECONDS = (0.005, 0.005, 0.005, 0.005, 0.005, 0.01, 0.01, 0.02, 0.05, 0.1)


Answer: TypeAlias = tuple[int, bytes, list[tuple[bytes, bytes]]]
"""Status, body and headers of a response."""


class Ingest:
    """ASGI endpoint for ingest requests."""

    def __init__(self, door: StreamWriter, nudger: Nudger, witness: Witness) -> None:
        """Use `door` to append to the stream, `nudger` to wake a worker and `witness` to note what was accepted."""
        self._door = door
        self._witness = witness
        self._nudger = nudger
        self._sizes: dict[UUID, tuple[float, int | None]] = {}
        self._accepted = metrics.ACCEPTED.labels(outcome="accepted")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        started = time.perf_counter()
        ids = get_ids(scope)
        try:
            if tracing.is_on():
                status, body, headers = await self._traced(scope, receive, ids)
            else:
                status, body, headers = await self._accept(scope, receive, ids, trace(scope))
        except Exception as error:  # noqa: BLE001 - every failure gets a response
            await _refused(error, ids)(scope, receive, send)
            return
        metrics.ACK_SECONDS.observe(time.perf_counter() - started)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _traced(self, scope: Scope, receive: Receive, request_ids: RequestIds) -> Answer:
        """Handle a request inside a trace span, whose context is stored with the stream entry."""
        traced = tracing.trace_request("ingest", trace(scope))
        try:
            answer = await self._accept(scope, receive, request_ids, traced.context)
        except BaseException as error:
            traced.end(error)
            raise
        traced.end()
        return answer

    async def _accept(self, scope: Scope, receive: Receive, request_ids: RequestIds, trace: str) -> Answer:
        caller = await cache.caller(scope, "ingest")
        form = _form(scope)
        wait_seconds = _wait_seconds(scope)
        key = key_of(scope)
        body = await read(scope, receive)
        given = await self._check(caller.tenant_id, body, form, caller.writer)
        sent_ms = delayed_writes.read_sent_ms(scope, given)
        count = len(given.memories)
        base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
        outcome = Outcome.for_request(body, form, base, count, request_ids.generated) if key is not None else None
        request_id = request_ids.shown
        failpoints.trigger("api.before_accept")
        accepted = await self._door.append(
            caller.tenant_id,
            base=base,
            memories=count,
            form=form,
            trace=add_writer(trace, caller.writer),
            body=body,
            idempotency=outcome.under(key) if key is not None and outcome else None,
            sent_ms=sent_ms,
        )
        failpoints.trigger("api.after_accept")
        if outcome is not None and accepted.earlier is not None:
            outcome = outcome.settled(accepted, body, form)
            base, count = bytes.fromhex(outcome.base), outcome.memories
            request_id = outcome.request_id or request_id
            metrics.ACCEPTED.labels(outcome="repeated").inc()
        else:
            self._note(caller.tenant_id, base, count, accepted.entry_id)
        if accepted.nudge:
            self._nudger.nudge()
        ids = memory_uuids(base, count)
        status, headers, more = 202, [(b"content-type", b"application/json")], b""
        if accepted.entry_id:
            headers.append((b"ebbing-position", accepted.entry_id.encode()))
        if sent_ms is not None:
            position = accepted.entry_id or f"{time.time_ns() // 1_000_000}-0"
            arrival = Arrival(position, base, parse_entry_id(position)[0], given.memories, sent_ms)
            more = await delayed_writes.describe_dropped(caller.tenant_id, arrival)
        if wait_seconds is not None:
            headers.append((b"preference-applied", b"wait=%d" % wait_seconds))
            status = 200 if await _until_searchable(caller.tenant_id, base, ids, wait_seconds) else 202
            if status == 200 and any(memory.supersedes for memory in given.memories):
                more += await _supersession_outcomes(caller.tenant_id, ids)
            if status == 200 and any(memory.links for memory in given.memories):
                more += await _missing_links(caller.tenant_id, ids)
        return status, _accepted(ids, request_id, given, more), headers

    async def store(
        self,
        tenant_id: UUID,
        body: bytes,
        writer: Writer,
        *,
        until: Literal["stored", "searchable"] = "searchable",
    ) -> tuple[list[str], bool]:
        """Accept memories for another route; wait, at most `EBBING_WAIT_MAX_SECONDS`, until stored or searchable.

        Args:
            tenant_id: The tenant of the authenticated caller.
            body: The memories as a JSON array in the form of `POST /v1/memories`.
            writer: The caller's API key and its source.
            until: State of the memories to wait for.

        Returns:
            The memories' ids, and whether all of them have reached this state.
        """
        given = await self._check(tenant_id, body, "json", writer)
        count = len(given.memories)
        base = generate_base(time.time_ns() // 1_000_000, os.urandom(RANDOM_BYTES))
        accepted = await self._door.append(
            tenant_id,
            base=base,
            memories=count,
            form="json",
            trace=add_writer("", writer),
            body=body,
            idempotency=None,
        )
        self._note(tenant_id, base, count, accepted.entry_id)
        if accepted.nudge:
            self._nudger.nudge()
        ids = memory_uuids(base, count)
        stages_of = ids if until == "searchable" else []
        return ids, await _until_searchable(tenant_id, base, stages_of, settings().wait_max_seconds)

    def _note(self, tenant_id: UUID, base: bytes, count: int, entry_id: str) -> None:
        """Count an accepted request; the witness tracks it until it is stored, to detect requests that Redis lost."""
        self._accepted.inc()
        metrics.ACCEPTED_MEMORIES.inc(count)
        self._witness.remember(tenant_id, base, count, entry_id)

    async def _check(self, tenant_id: UUID, body: bytes, form: Format, writer: Writer) -> Body:
        """Decode and validate the memories in a body."""
        given = bodies.read(body, form, None)
        if given.messages is not None:
            message_fields.check_message_fields(body)
        bodies.check_future(given, datetime.now(UTC))
        bodies.check_body_sources(given, writer)
        memories, most = given.memories, settings().request_memories_max
        if given.messages is not None and given.messages > most:
            raise Invalid(errors=[FieldError("messages", "has too many messages", given.messages, most)])
        if not memories:
            raise Invalid(errors=[FieldError("body", "contains no memories", 0, most)])
        if len(memories) > most:
            raise Invalid(errors=[FieldError("body", "contains too many memories", len(memories), most)])
        sizes = {len(memory.embedding) for memory in memories if memory.embedding is not None}
        if sizes and sizes != {size := await self._vector_size(tenant_id)}:
            bodies.read(body, form, size)  # raises for the first vector of the wrong size
        return given

    async def _vector_size(self, tenant_id: UUID) -> int | None:
        """Return the size of the tenant's vectors, or None to accept any size; cached as long as API keys are."""
        now = time.monotonic()
        since, size = self._sizes.get(tenant_id, (now - settings().key_cache_seconds, None))
        if now - since >= settings().key_cache_seconds:
            size = await run_in_threadpool(spaces.vector_size, tenant_id)
            if len(self._sizes) >= SIZES_MAX:
                self._sizes.clear()
            self._sizes[tenant_id] = (now, size)
        return size


def _accepted(ids: list[str], request_id: str, given: Body, more: bytes) -> bytes:
    """Build the response body, with the JSON fragment `more`; for chats, include the parts that aren't stored."""
    listed = '","'.join(ids)
    answer = f'{{"ids":["{listed}"],"request_id":"{request_id}"'.encode() + more + b"}"
    if given.messages is None:
        return answer
    unstored = msgspec.json.encode({"skipped": given.skipped, "left_out": given.left_out})
    return answer[:-1] + b"," + unstored[1:]


def _refused(error: Exception, ids: RequestIds) -> ASGIApp:
    """Build the response to a failed request.

    This is a separate function, so that `ours`, often the caught exception itself, isn't a local variable of the
    caller. The exception's traceback refers to the caller's frame. If the frame also referred to the exception, this
    reference cycle would keep the connection alive until the next garbage collection.
    """
    ours = as_ours(error)
    metrics.ACCEPTED.labels(outcome=_outcome(ours)).inc()
    return respond(ours, ids, "POST /v1/memories")


def _outcome(error: EbbingError) -> str:
    if isinstance(error, BacklogFull):
        return "backlog_full"
    return "unavailable" if isinstance(error, Unavailable) or error.status >= 500 else "refused"


def _form(scope: Scope) -> Format:
    media_type = (header(scope, b"content-type") or "").partition(";")[0].strip().lower()
    return "ndjson" if media_type in _NDJSON else "json"


def _wait_seconds(scope: Scope) -> float | None:
    preference = header(scope, b"prefer")
    if preference is None:
        return None
    found = _WAIT.search(preference)
    if found is None:
        return None
    seconds = (found["seconds"] or "").strip()
    if not (seconds.isascii() and seconds.isdigit()):
        message = "must give `wait` in whole seconds, such as `Prefer: wait=5`"
        raise InvalidHeader(errors=[FieldError("Prefer", message)])
    return min(float(seconds.lstrip("0")[:_WAIT_DIGITS] or 0), settings().wait_max_seconds)


def trace(scope: Scope) -> str:
    """Return the caller's W3C trace context, which links background work to the request; empty if invalid."""
    given = header(scope, b"traceparent") or ""
    return given if _TRACEPARENT.fullmatch(given) else ""


async def _supersession_outcomes(tenant_id: UUID, ids: list[str]) -> bytes:
    """Return the outcome of each `supersedes` of stored memories, as a fragment of the response body."""
    wanted = [UUID(memory_id) for memory_id in ids]
    outcomes = await run_in_threadpool(supersession.list_outcomes, tenant_id, wanted)
    shown = [{"id": one.memory_id, **responses.superseding(one)} for one in outcomes]
    return b',"supersedes":' + msgspec.json.encode(shown)


async def _missing_links(tenant_id: UUID, ids: list[str]) -> bytes:
    """Return the links of stored memories that couldn't be added, as a fragment of the response body."""
    missing = await run_in_threadpool(links.list_missing, tenant_id, [UUID(memory_id) for memory_id in ids])
    shown = [{"id": link.memory_id, **responses.missing_link(link)} for link in missing]
    return b',"links_missing":' + msgspec.json.encode(shown)


async def _until_searchable(tenant_id: UUID, base: bytes, ids: list[str], seconds: float) -> bool:
    """Wait until the request is stored and these memories are searchable; return False on timeout."""
    deadline = time.monotonic() + seconds
    wanted = [UUID(memory_id) for memory_id in ids]
    for turn in range(1_000_000):
        if await run_in_threadpool(memories.are_searchable, tenant_id, base, wanted):
            return True
        pause = _POLL_SECONDS[min(turn, len(_POLL_SECONDS) - 1)]
        if time.monotonic() + pause > deadline:
            return False
        await asyncio.sleep(pause)
    return False
