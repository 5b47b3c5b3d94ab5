"""The asynchronous client: the same names as the blocking one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ebbing_client import operations
from ebbing_client.call import Call, encode
from ebbing_client.changes import list_changes_async
from ebbing_client.connection import find_connection
from ebbing_client.fields import ClientOptions, ForgetOptions, ListFilters, MemoryFields, SharedFields
from ebbing_client.local import START_SECONDS, LocalService
from ebbing_client.methods import awaiting
from ebbing_client.operations import Message
from ebbing_client.records import Memories, convert_messages, list_bodies
from ebbing_client.results import Added, Erasure, Event, Memory
from ebbing_client.spool import Spool
from ebbing_client.stores import Rejected
from ebbing_client.transport import AsyncTransport
from ebbing_client.writer import SPOOLED, Writer, buffered, close_at_exit, open_writer

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")


class AsyncEbbing:
    """Client of an Ebbing service for asyncio; arguments, methods and errors are those of `Ebbing`.

    Buffered writes are sent by a thread, and calls that wait for it or for the spool's file run in another thread.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        batch_size: int | None = None,
        batch_seconds: float | None = None,
        queue_size: int = 10_000,
        spool: Spool | str | os.PathLike[str] | None = None,
    ) -> None:
        connection = find_connection(url, key)
        self._timeout = timeout
        options = {"batch_size": batch_size, "batch_seconds": batch_seconds, "queue_size": queue_size, "spool": spool}
        self._writer = open_writer(connection, timeout, options)
        self._transport = AsyncTransport(connection, timeout)
        self._detach = None if self._writer is None else close_at_exit(self, self._writer.sender)
        self._service: LocalService | None = None

    @classmethod
    async def local(
        cls, path: str | os.PathLike[str], *, start_timeout: float = START_SECONDS, **options: Unpack[ClientOptions]
    ) -> Self:
        """Start a whole service on this machine: `async with await AsyncEbbing.local(path) as ebbing`.

        See `Ebbing.local`.
        """
        service = await asyncio.to_thread(LocalService, path, start_timeout)
        try:
            client = cls(service.url, service.key, **options)
        except BaseException:
            service.stop()
            raise
        client._service = service
        return client

    search = awaiting(operations.search)
    recall = awaiting(operations.recall)
    get = awaiting(operations.get)
    update = awaiting(operations.update)
    delete = awaiting(operations.delete)
    observe = awaiting(operations.observe)
    cancel_erasure = awaiting(operations.cancel_erasure)
    why = awaiting(operations.why)
    call = awaiting(operations.call)
    download = awaiting(operations.download)

    async def send(self, call: Call[T]) -> T:
        """Send a call that a function of `operations` built, and return its result."""
        return await self._transport.send(call)

    async def add(
        self,
        memories: Memories,
        *,
        wait: int | None = None,
        timeout: float | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Added:
        """Store memories: a text, an object with the fields of a memory, or a list of both. See `Ebbing.add`."""
        bodies = list_bodies(memories, fields)
        if self._writer is None:
            return await self.send(operations.write(encode(bodies), operations.new_key(), wait=wait, timeout=timeout))
        return await self._buffer(self._writer, bodies, wait, timeout)

    async def add_messages(
        self,
        messages: Sequence[Message],
        *,
        wait: int | None = None,
        timeout: float | None = None,
        **fields: Unpack[SharedFields],
    ) -> Added:
        """Store chat messages; each one with text becomes a memory. See `Ebbing.add_messages`."""
        if self._writer is None:
            content = encode({"messages": list(messages), **fields})
            return await self.send(operations.write(content, operations.new_key(), wait=wait, timeout=timeout))
        bodies, skipped, left_out = convert_messages(messages, fields)
        return await self._buffer(self._writer, bodies, wait, timeout, skipped, left_out)

    async def forget(self, subject: str | None = None, **options: Unpack[ForgetOptions]) -> Erasure:
        """Erase memories; see `operations.forget`."""
        call = operations.forget(subject, **options)
        thread = options.get("thread")
        if self._writer is None or options.get("dry_run") or (subject is None and thread is None):
            return await self.send(call)
        sender = self._writer.sender
        pause = asyncio.create_task(asyncio.to_thread(sender.pause, self._timeout))
        try:
            await asyncio.shield(pause)
        except asyncio.CancelledError:
            pause.add_done_callback(lambda done: sender.resume() if done.exception() is None else None)
            raise
        try:
            await asyncio.to_thread(sender.purge, subject, thread)
            return await self.send(call)
        finally:
            sender.resume()

    forget.__doc__ = operations.forget.__doc__

    def history(self, memory_id: str, *, timeout: float | None = None) -> AsyncIterator[Event]:
        """Yield the events of a memory, newest first; pages are requested as needed."""
        return self._read(operations.read_event, operations.history_path(memory_id), "history", {}, timeout)

    def memories(self, *, timeout: float | None = None, **filters: Unpack[ListFilters]) -> AsyncIterator[Memory]:
        """Yield the memories that match the filters of `GET /v1/memories`, newest first, page by page."""
        params = operations.list_params(filters)
        return self._read(operations.read_memory, "/v1/memories", "memories", params, timeout)

    changes = list_changes_async

    @property
    def is_buffering(self) -> bool:
        """True if writes may wait in this client's queue or spool."""
        return self._writer is not None

    @property
    def pending(self) -> int:
        """Number of memories that wait in this client's queue or spool."""
        return 0 if self._writer is None else self._writer.sender.pending

    @property
    def dropped(self) -> int:
        """Number of buffered memories not stored, because their person or conversation was erased after the write."""
        return 0 if self._writer is None else self._writer.sender.dropped

    async def flush(self, timeout: float | None = None) -> None:
        """Send all buffered writes now; raises like `Ebbing.flush`."""
        if self._writer is not None:
            await asyncio.to_thread(self._writer.sender.flush, self._timeout if timeout is None else timeout)

    async def rejected(self) -> list[Rejected]:
        """Return the buffered memories that the service refused, with the reasons."""
        return [] if self._writer is None else await asyncio.to_thread(_list_rejected, self._writer)

    async def discard_rejected(self) -> None:
        """Delete the buffered memories that the service refused."""
        if self._writer is not None:
            await asyncio.to_thread(_discard_rejected, self._writer)

    async def close(self, timeout: float | None = None) -> None:
        """Send buffered writes, and close connections and the spool; raises like `Ebbing.close`."""
        if self._detach is not None:
            self._detach()
        try:
            if self._writer is not None:
                await asyncio.to_thread(self._writer.sender.close, self._timeout if timeout is None else timeout)
        finally:
            await self._transport.close()
            if self._service is not None:
                await asyncio.to_thread(self._service.stop)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def _buffer(
        self,
        writer: Writer,
        bodies: list[dict[str, Any]],
        wait: int | None,
        timeout: float | None,
        skipped: Sequence[Any] = (),
        left_out: Sequence[Any] = (),
    ) -> Added:
        """Send memories now, or put them into the queue or the spool."""
        records = writer.prepare(bodies)
        call = writer.direct(records, wait, timeout)
        if call is not None:
            try:
                sent = await self._transport.send(call, is_retried=False)
            except SPOOLED:
                pass
            else:
                return writer.answer(sent, records, skipped, left_out)
        await asyncio.to_thread(writer.sender.put, records, self._timeout if timeout is None else timeout)
        return buffered(records, skipped, left_out)

    async def _read(
        self,
        read: Any,
        path: str,
        noun: str,
        params: dict[str, Any],
        timeout: float | None,
    ) -> AsyncIterator[Any]:
        cursor: str | None = None
        while True:
            page = await self.send(operations.page(path, noun, params, cursor, timeout))
            for item in page.items:
                yield read(item)
            cursor = page.next_cursor
            if not cursor:
                return


def _list_rejected(writer: Writer) -> list[Rejected]:
    with writer.sender.store() as store:
        return store.rejected()


def _discard_rejected(writer: Writer) -> None:
    with writer.sender.store() as store:
        store.discard_rejected()
