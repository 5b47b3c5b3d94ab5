"""Stores of buffered writes: the interface, and the queue in memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from ebbing_client.errors import EbbingError, QueueFull
from ebbing_client.records import Record


@dataclass(frozen=True)
class Rejected:
    """A buffered memory that the service refused, and the refusal."""

    record: Record
    reason: str


class Store(Protocol):
    """Records in the order of their writing. Not safe for several threads: the sender holds a lock."""

    is_durable: bool

    def has_room(self, records: Sequence[Record]) -> bool:
        """Return true if the records fit within the limit."""

    def full(self, records: Sequence[Record]) -> EbbingError:
        """Return the error for records that don't fit."""

    def append(self, records: Sequence[Record]) -> None:
        """Add records, all or none."""

    def first(self, count: int, max_bytes: int) -> list[Record]:
        """Return the oldest records: at most `count`, and at most `max_bytes` unless one alone is larger."""

    def remove(self, records: Sequence[Record]) -> None:
        """Remove records that were stored by the service."""

    def reject(self, record: Record, reason: str) -> None:
        """Set a record aside that the service refuses."""

    def rejected(self) -> list[Rejected]:
        """Return the records that were set aside."""

    def discard_rejected(self) -> None:
        """Delete the records that were set aside."""

    def purge(self, subject: str | None, thread: str | None) -> set[str]:
        """Delete the records of a person or conversation, also those set aside; return the ids of all."""

    def __len__(self) -> int:
        """Return the number of records that wait to be sent."""

    def close(self) -> None:
        """Release files and locks."""


class MemoryQueue:
    """A bounded queue in memory."""

    is_durable = False

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Record] = deque()
        self._rejected: list[Rejected] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def has_room(self, records: Sequence[Record]) -> bool:
        """Return true if the queue has room; a write larger than the queue fits when it is empty."""
        return not self._waiting or len(self._waiting) + len(records) <= self._limit

    def full(self, records: Sequence[Record]) -> EbbingError:
        """Return the error for records that don't fit."""
        waiting = len(self._waiting)
        return QueueFull(f"{len(records)} memories don't fit: {waiting} wait to be sent (limit {self._limit})")

    def append(self, records: Sequence[Record]) -> None:
        """Add records."""
        self._waiting.extend(records)

    def first(self, count: int, max_bytes: int) -> list[Record]:
        """Return the oldest records."""
        return limit_bytes(list(islice(self._waiting, count)), max_bytes)

    def remove(self, records: Sequence[Record]) -> None:
        """Remove the oldest records."""
        gone = {record.id for record in records}
        while self._waiting and self._waiting[0].id in gone:
            self._waiting.popleft()

    def reject(self, record: Record, reason: str) -> None:
        """Set the oldest record aside; of the records set aside, keep the latest up to the queue's limit."""
        self.remove([record])
        self._rejected = [*self._rejected, Rejected(record, reason)][-self._limit :]

    def rejected(self) -> list[Rejected]:
        """Return the records that were set aside."""
        return list(self._rejected)

    def discard_rejected(self) -> None:
        """Delete the records that were set aside."""
        self._rejected.clear()

    def purge(self, subject: str | None, thread: str | None) -> set[str]:
        """Delete the records of a person or conversation, also those set aside, and return their ids."""
        about = {record.id for record in self._waiting if record.is_about(subject, thread)}
        about |= {each.record.id for each in self._rejected if each.record.is_about(subject, thread)}
        self._waiting = deque(record for record in self._waiting if record.id not in about)
        self._rejected = [each for each in self._rejected if each.record.id not in about]
        return about

    def close(self) -> None:
        """Do nothing: memory needs no release."""


def limit_bytes(records: Sequence[Record], max_bytes: int) -> list[Record]:
    """Return the first records whose sizes sum up to at most `max_bytes`, and at least one."""
    taken: list[Record] = []
    total = 0
    for record in records:
        total += len(record.content)
        if taken and total > max_bytes:
            break
        taken.append(record)
    return taken
