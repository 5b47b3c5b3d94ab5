"""Buffered writes, the same for the blocking and the asyncio client."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from ebbing_client.call import Call
from ebbing_client.connection import Connection
from ebbing_client.errors import EbbingError, Misconfigured, RateLimited, ServiceUnreachable, Unavailable, invalid_field
from ebbing_client.records import Batch, Record, external_ids, make_batch, make_records
from ebbing_client.results import Added
from ebbing_client.sender import Sender
from ebbing_client.spool import Spool
from ebbing_client.stores import MemoryQueue, Store
from ebbing_client.transport import Transport

SPOOLED: Final = (ServiceUnreachable, RateLimited, Unavailable)
"""Failures after which a write goes to the spool."""
EXIT_SECONDS: Final = 5.0
"""Seconds for which a program that ends without `close` still sends buffered writes."""
DEFAULT_BATCH_SECONDS: Final = 1.0
DEFAULT_BATCH_SIZE: Final = 100
BATCH_SIZE_MAX: Final = 1000


class Writer:
    """Buffered writes of a client: the queue or spool, its sender, and the choice between them and a direct request."""

    def __init__(
        self,
        connection: Connection,
        timeout: float,
        *,
        batch_size: int | None,
        batch_seconds: float | None,
        queue_size: int,
        spool: Spool | str | os.PathLike[str] | None,
    ) -> None:
        size = DEFAULT_BATCH_SIZE if batch_size is None else batch_size
        if not 1 <= size <= BATCH_SIZE_MAX:
            raise Misconfigured(f"batch_size must be 1 to {BATCH_SIZE_MAX}, not {size}")
        if queue_size < 1:
            raise Misconfigured(f"queue_size must be at least 1, not {queue_size}")
        self._is_batching = batch_size is not None or batch_seconds is not None
        seconds = DEFAULT_BATCH_SECONDS if batch_seconds is None else batch_seconds
        if seconds < 0:
            raise Misconfigured(f"batch_seconds must be at least 0, not {seconds:g}")
        self._store = _open(spool, queue_size)
        self.sender = Sender(
            self._store,
            Transport(connection, timeout),
            batch_size=size,
            batch_seconds=seconds if self._is_batching else 0.0,
        )

    def prepare(self, bodies: list[dict[str, Any]]) -> list[Record]:
        """Return records of memories; a memory that the service would refuse is an error."""
        return make_records(bodies, is_durable=self._store.is_durable, after=self.sender.position)

    def direct(self, records: list[Record], wait: int | None, timeout: float | None) -> Call[Added] | None:
        """Return the request that sends these records now; None if they must wait for earlier ones or a batch.

        Raises:
            Invalid: `wait` was given to a client that sends batches.
        """
        if self._is_batching:
            if wait is not None:
                raise invalid_field("wait", "can't be combined with batches: call flush()")
            return None
        batch: Batch = make_batch(records)
        return None if self.sender.pending else batch.call(wait=wait, timeout=timeout)

    def answer(self, sent: Added, records: list[Record], skipped: Sequence[Any], left_out: Sequence[Any]) -> Added:
        """Return the outcome of a write that was sent at once."""
        self.sender.take_answer(sent)
        return replace(sent, external_ids=external_ids(records), skipped=tuple(skipped), left_out=tuple(left_out))


def _open(spool: Spool | str | os.PathLike[str] | None, queue_size: int) -> Store:
    if spool is None:
        return MemoryQueue(queue_size)
    return spool if isinstance(spool, Spool) else Spool(spool)


def open_writer(connection: Connection, timeout: float, options: Mapping[str, Any]) -> Writer | None:
    """Return the writer of a client with batches or a spool, or None."""
    if options["batch_size"] is None and options["batch_seconds"] is None and options["spool"] is None:
        return None
    return Writer(connection, timeout, **options)


def close_at_exit(client: object, sender: Sender) -> Callable[[], object]:
    """Send and close when the program ends or the client is garbage-collected; return a function that cancels this."""
    return weakref.finalize(client, _close, sender).detach


def _close(sender: Sender) -> None:
    with suppress(EbbingError):
        sender.close(EXIT_SECONDS)


def buffered(records: list[Record], skipped: Sequence[Any], left_out: Sequence[Any]) -> Added:
    """Return the outcome of a write that waits in the buffer."""
    return Added(external_ids=external_ids(records), is_buffered=True, skipped=tuple(skipped), left_out=tuple(left_out))
