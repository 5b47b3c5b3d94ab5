"""The blocking client."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from ebbing_client import operations
from ebbing_client.call import Call, encode
from ebbing_client.changes import list_changes
from ebbing_client.connection import find_connection
from ebbing_client.fields import ClientOptions, ForgetOptions, ListFilters, MemoryFields, SharedFields
from ebbing_client.local import START_SECONDS, LocalService
from ebbing_client.methods import blocking
from ebbing_client.operations import Message
from ebbing_client.records import Memories, convert_messages, list_bodies
from ebbing_client.results import Added, Erasure, Event, Memory
from ebbing_client.spool import Spool
from ebbing_client.stores import Rejected
from ebbing_client.transport import Transport
from ebbing_client.writer import SPOOLED, Writer, buffered, close_at_exit, open_writer

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")


class Ebbing:
    """Client of an Ebbing service. Create one, share it between threads, and close it at the end.

    Args:
        url: Address; by default `EBBING_API_URL`, or the service that `ebbing run` started from this folder.
        key: API key; by default `EBBING_API_KEY`, the content of the file `EBBING_API_KEY_FILE`, or the key that
            `ebbing run` wrote.
        timeout: Deadline of each call in seconds, all attempts included.
        batch_size: Send writes in the background, at most this many memories per request (1 to 1,000).
        batch_seconds: Send writes in the background, at the latest this many seconds after the first one.
        queue_size: Number of memories that may wait; `add` waits while the queue is full.
        spool: File for writes that can't be sent now: they are sent later, in order, even after a restart.

    Raises:
        Misconfigured: An argument is invalid, or the address or the key is missing.
        SpoolError: The spool can't be used.
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
        self._transport = Transport(connection, timeout)
        self._detach = None if self._writer is None else close_at_exit(self, self._writer.sender)
        self._service: LocalService | None = None

    @classmethod
    def local(
        cls, path: str | os.PathLike[str], *, start_timeout: float = START_SECONDS, **options: Unpack[ClientOptions]
    ) -> Self:
        """Start a whole service on this machine and return a client that stops it when it is closed.

        For notebooks and tests: PostgreSQL, Redis, workers and the API run as processes of their own, until `close`,
        the end of the `with` block or the end of this program. The data remains in the folder for the next start. The
        package `ebbing` must be installed in this environment.

        Args:
            path: Folder of the service's data; it is created if it doesn't exist. One service at a time uses it.
            start_timeout: Seconds until the service must be ready; the first start creates the databases.
            options: Arguments of the client.

        Raises:
            LocalServiceError: The package is missing, another service uses the folder, or the start failed.
        """
        service = LocalService(path, start_timeout)
        try:
            client = cls(service.url, service.key, **options)
        except BaseException:
            service.stop()
            raise
        client._service = service
        return client

    search = blocking(operations.search)
    recall = blocking(operations.recall)
    get = blocking(operations.get)
    update = blocking(operations.update)
    delete = blocking(operations.delete)
    observe = blocking(operations.observe)
    cancel_erasure = blocking(operations.cancel_erasure)
    why = blocking(operations.why)
    call = blocking(operations.call)
    download = blocking(operations.download)

    def send(self, call: Call[T]) -> T:
        """Send a call that a function of `operations` built, and return its result."""
        return self._transport.send(call)

    def add(
        self,
        memories: Memories,
        *,
        wait: int | None = None,
        timeout: float | None = None,
        **fields: Unpack[MemoryFields],
    ) -> Added:
        """Store memories: a text, an object with the fields of a memory, or a list of both.

        Args:
            memories: The memories.
            wait: Wait up to this many seconds until searches find them.
            timeout: Seconds until the deadline; None uses the client's.
            fields: Fields of all memories that don't have them themselves.

        Raises:
            Invalid: A field is invalid; the error names it, its limit and the value.
            QueueFull, SpoolFull: The buffer stayed full.
        """
        bodies = list_bodies(memories, fields)
        if self._writer is None:
            return self.send(operations.write(encode(bodies), operations.new_key(), wait=wait, timeout=timeout))
        return self._buffer(self._writer, bodies, wait, timeout)

    def add_messages(
        self,
        messages: Sequence[Message],
        *,
        wait: int | None = None,
        timeout: float | None = None,
        **fields: Unpack[SharedFields],
    ) -> Added:
        """Store chat messages; each one with text becomes a memory.

        Args:
            messages: Objects with `role` and `content`, in the order in which they were sent.
            wait: Wait up to this many seconds until searches find them.
            timeout: Seconds until the deadline; None uses the client's.
            fields: Fields of all memories, such as `subject` and `thread`.
        """
        if self._writer is None:
            content = encode({"messages": list(messages), **fields})
            return self.send(operations.write(content, operations.new_key(), wait=wait, timeout=timeout))
        bodies, skipped, left_out = convert_messages(messages, fields)
        return self._buffer(self._writer, bodies, wait, timeout, skipped, left_out)

    def forget(self, subject: str | None = None, **options: Unpack[ForgetOptions]) -> Erasure:
        """Erase memories; see `operations.forget`."""
        call = operations.forget(subject, **options)
        thread = options.get("thread")
        if self._writer is None or options.get("dry_run") or (subject is None and thread is None):
            return self.send(call)
        sender = self._writer.sender
        sender.pause(self._timeout)
        try:
            sender.purge(subject, thread)
            return self.send(call)
        finally:
            sender.resume()

    forget.__doc__ = operations.forget.__doc__

    def history(self, memory_id: str, *, timeout: float | None = None) -> Iterator[Event]:
        """Yield the events of a memory, newest first; pages are requested as needed."""
        path = operations.history_path(memory_id)
        return map(operations.read_event, self._pages(path, "history", {}, timeout))

    def memories(self, *, timeout: float | None = None, **filters: Unpack[ListFilters]) -> Iterator[Memory]:
        """Yield the memories that match the filters of `GET /v1/memories`, newest first, page by page."""
        params = operations.list_params(filters)
        return map(operations.read_memory, self._pages("/v1/memories", "memories", params, timeout))

    changes = list_changes

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

    def flush(self, timeout: float | None = None) -> None:
        """Send all buffered writes now.

        Raises:
            NotSent: Some writes still wait after the deadline, or the service refuses the API key.
            WritesRejected: The service refused memories since the last flush.
        """
        if self._writer is not None:
            self._writer.sender.flush(self._timeout if timeout is None else timeout)

    def rejected(self) -> list[Rejected]:
        """Return the buffered memories that the service refused, with the reasons."""
        if self._writer is None:
            return []
        with self._writer.sender.store() as store:
            return store.rejected()

    def discard_rejected(self) -> None:
        """Delete the buffered memories that the service refused."""
        if self._writer is not None:
            with self._writer.sender.store() as store:
                store.discard_rejected()

    def close(self, timeout: float | None = None) -> None:
        """Send buffered writes, and close connections and the spool, whose unsent writes remain for the next start.

        Raises:
            NotSent: Writes in a queue without a spool could not be sent before the deadline.
        """
        if self._detach is not None:
            self._detach()
        try:
            if self._writer is not None:
                self._writer.sender.close(self._timeout if timeout is None else timeout)
        finally:
            self._transport.close()
            if self._service is not None:
                self._service.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _buffer(
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
                sent = self._transport.send(call, is_retried=False)
            except SPOOLED:
                pass
            else:
                return writer.answer(sent, records, skipped, left_out)
        writer.sender.put(records, self._timeout if timeout is None else timeout)
        return buffered(records, skipped, left_out)

    def _pages(self, path: str, noun: str, params: dict[str, Any], timeout: float | None) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            page = self.send(operations.page(path, noun, params, cursor, timeout))
            yield from page.items
            cursor = page.next_cursor
            if not cursor:
                return
