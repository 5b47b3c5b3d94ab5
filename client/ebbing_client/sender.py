"""The background thread that sends buffered writes in order."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from ebbing_client.call import choose_wait
from ebbing_client.errors import (
    BadRequest,
    ClientClosed,
    Conflict,
    DeadlinePassed,
    EbbingError,
    Invalid,
    NotAllowed,
    NotAuthenticated,
    NotSent,
    SpoolInUse,
    TooLarge,
    WritesRejected,
)
from ebbing_client.records import Batch, Record, make_batch, read_position
from ebbing_client.results import Added
from ebbing_client.stores import Store
from ebbing_client.transport import Transport

BATCH_MAX_BYTES: Final = 2 * 1024 * 1024
REFUSALS: Final = (BadRequest, TooLarge, Invalid)
LOCKED_OUT: Final = (NotAuthenticated, NotAllowed)

log = logging.getLogger(__name__)


class Sender:
    """Send the records of a store in batches, in order, until each is stored or refused.

    A failed batch is repeated under its key until the service accepts it. If the service refuses a batch for its
    content, its halves are sent, so that only the invalid memories are set aside.

    Attributes:
        dropped: Number of memories that the service didn't store, because an erasure came after their writing.
        position: The last position of the service that the client has seen; empty at first.
    """

    def __init__(self, store: Store, transport: Transport, *, batch_size: int, batch_seconds: float) -> None:
        self._store = store
        self._transport = transport
        self._size = batch_size
        self._seconds = batch_seconds
        self._process = os.getpid()
        self._changed = threading.Condition()
        self._batches: deque[Batch] = deque()
        self._thread: threading.Thread | None = None
        self._is_sending = False
        self._holds = 0
        self._flushes = 0
        self._close_by: float | None = None
        self._waiting_since = time.monotonic()
        self._not_before = 0.0
        self._failures = 0
        self._failure: EbbingError | None = None
        self._refusal: EbbingError | None = None
        self._refused = 0
        self.dropped = 0
        self.position = ""
        if len(store):
            self._start()

    @property
    def pending(self) -> int:
        """Number of memories that wait to be sent."""
        with self._locked():
            return len(self._store)

    @property
    def failure(self) -> EbbingError | None:
        """The failure of the last attempt; None if it succeeded."""
        return self._failure

    def put(self, records: Sequence[Record], timeout: float) -> None:
        """Add records, and wait while the store is full.

        Raises:
            QueueFull: The queue stayed full until the deadline.
            SpoolFull: The spool stayed full until the deadline, or is full while sending fails, or the disk is full.
        """
        deadline = time.monotonic() + timeout
        with self._locked():
            while not self._store.has_room(records):
                is_away = self._store.is_durable and self._failure is not None
                if is_away or not self._changed.wait(max(deadline - time.monotonic(), 0)):
                    raise self._store.full(records)
            if not len(self._store):
                self._waiting_since = time.monotonic()
            self._store.append(records)
            self._start()
            self._changed.notify_all()

    def flush(self, timeout: float) -> None:
        """Send everything that waits.

        Raises:
            NotSent: Something waits after the deadline, or the service refuses the API key.
            WritesRejected: The service refused memories since the last flush.
        """
        deadline = time.monotonic() + timeout
        with self._locked():
            self._flushes += 1
            self._not_before, self._failure = 0.0, None
            self._changed.notify_all()
            try:
                while len(self._store):
                    left = deadline - time.monotonic()
                    if left <= 0 or isinstance(self._failure, LOCKED_OUT):
                        raise NotSent(f"{len(self._store)} memories wait to be sent") from self._failure
                    self._changed.wait(left)
            finally:
                self._flushes -= 1
            refused, self._refused = self._refused, 0
            refusal, self._refusal = self._refusal, None
        if refusal is not None:
            raise WritesRejected(f"the service refused {refused} memories: see `rejected()`") from refusal

    def pause(self, timeout: float) -> None:
        """Send nothing until `resume`, and wait for the request that is under way."""
        deadline = time.monotonic() + timeout
        with self._locked():
            self._holds += 1
            while self._is_sending:
                if not self._changed.wait(max(deadline - time.monotonic(), 0)):
                    self._holds -= 1
                    raise DeadlinePassed(f"the request that sends buffered writes hasn't ended after {timeout:g} s")

    def resume(self) -> None:
        """Send again after `pause`."""
        with self._changed:
            self._holds -= 1
            self._changed.notify_all()

    def purge(self, subject: str | None, thread: str | None) -> int:
        """Delete the waiting records of a person or conversation, while paused; return their number.

        A batch that was attempted keeps its key when it loses these records. If the service has stored the full batch,
        it answers the smaller one with a conflict: all records are stored, and the erasure that follows covers them.
        """
        with self._locked():
            gone = self._store.purge(subject, thread)
            kept = [
                Batch(tuple(record for record in batch.records if record.id not in gone), batch.key)
                for batch in self._batches
            ]
            self._batches = deque(batch for batch in kept if batch.records)
            self._changed.notify_all()
            return len(gone)

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """Lock the store and return it."""
        with self._locked():
            yield self._store

    def close(self, timeout: float) -> None:
        """Send waiting records for at most `timeout` seconds, then end the thread and close store and connections.

        Raises:
            NotSent: Memories in a queue in memory were not sent: they are lost.
        """
        if self._process != os.getpid():
            return
        with self._changed:
            if self._close_by is not None:
                return
            self._close_by = time.monotonic() + timeout
            self._not_before = 0.0
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout + 1)
        self._transport.close()  # breaks off a request that is still under way
        if self._thread is not None:
            self._thread.join(1)
        with self._changed:
            lost = 0 if self._store.is_durable else len(self._store)
            self._store.close()
        if lost:
            raise NotSent(f"{lost} memories were not sent") from self._failure

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the store, unless the client is closed.

        A forked process gets an error before it asks for the lock, which the parent's thread may have held at the fork:
        thread, connections and file belong to the parent.
        """
        if self._process != os.getpid():
            raise SpoolInUse(f"this client belongs to process {self._process}: create one after the fork")
        with self._changed:
            if self._close_by is not None:
                raise ClientClosed("this client is closed")
            yield

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="ebbing-client", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        while (batch := self._next()) is not None:
            outcome = self._send(batch)
            with self._changed:
                self._is_sending = False
                try:
                    self._settle(batch, outcome)
                except EbbingError as error:  # such as a full disk: the batch is sent again, and stored once
                    self._postpone(error)
                self._changed.notify_all()

    def _next(self) -> Batch | None:
        """Wait for the next batch that is due; None ends the thread."""
        with self._changed:
            while True:
                now = time.monotonic()
                if self._close_by is not None and (not len(self._store) or now >= self._close_by):
                    return None
                wait = None
                if len(self._store) and not self._holds:
                    wait = self._due() - now
                    if wait <= 0:
                        if not self._batches:
                            self._batches.append(make_batch(self._store.first(self._size, BATCH_MAX_BYTES)))
                        self._is_sending = True
                        return self._batches[0]
                if self._close_by is not None:
                    wait = min(self._close_by - now, self._close_by - now if wait is None else wait)
                self._changed.wait(wait)

    def _due(self) -> float:
        """Return the time at which the next batch may be sent."""
        is_hurried = self._flushes or self._close_by is not None or self._batches or len(self._store) >= self._size
        return max(self._not_before, 0.0 if is_hurried else self._waiting_since + self._seconds)

    def take_answer(self, added: Added) -> None:
        """Note what the service said about accepted memories: its position, and those that it doesn't store."""
        if added.position and read_position(added.position) > read_position(self.position):
            self.position = added.position
        if added.dropped:
            self.dropped += len(added.dropped)
            log.warning("%d buffered memories aren't stored: an erasure came after them", len(added.dropped))

    def _send(self, batch: Batch) -> Added | Exception:
        try:
            return self._transport.send(batch.call(), is_retried=False)
        except Exception as error:  # noqa: BLE001 - the thread must survive every failure; it is kept in `failure`
            return error

    def _settle(self, batch: Batch, outcome: Added | Exception) -> None:
        """Record the outcome of a batch."""
        if isinstance(outcome, (Added, Conflict)):  # a conflict: the service has the batch from an earlier attempt
            self._finish()
            self._store.remove(batch.records)
            if isinstance(outcome, Added):
                self.take_answer(outcome)
        elif isinstance(outcome, REFUSALS) and len(batch.records) > 1:
            self._batches.popleft()
            self._batches.extendleft(reversed(batch.split()))
        elif isinstance(outcome, REFUSALS):
            self._finish()
            self._store.reject(batch.records[0], str(outcome))
            self._refused += 1
            self._refusal = self._refusal or outcome
            log.warning("the service refused a buffered memory, see `rejected()`: %s", type(outcome).__name__)
        else:
            self._postpone(outcome)

    def _postpone(self, failure: Exception) -> None:
        """Try again later."""
        if not self._failures:
            log.warning("buffered writes can't be sent, trying again: %s", type(failure).__name__)
        self._failures += 1
        self._failure = failure if isinstance(failure, EbbingError) else EbbingError(type(failure).__name__)
        self._not_before = time.monotonic() + choose_wait(failure, self._failures)

    def _finish(self) -> None:
        self._batches.popleft()
        self._failures, self._failure = 0, None
        self._waiting_since = time.monotonic()
