"""Store an ordered history of JSON entries in a thread, and read it back unchanged.

An entry's memory has the words of the entry as text, so that searches and recalls of other conversations find it, and
the entry itself, as a JSON string, in its metadata. Long entries are spread over several memories.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ebbing_client.adapters.items import cut_text
from ebbing_client.adapters.steps import KEPT_TAG, Steps, delete_ids, delete_thread, list_page, write
from ebbing_client.errors import Conflict, invalid_field
from ebbing_client.results import Memory

PART_CHARACTERS: Final = 7_500
"""Length of the part of an entry that one memory holds: at most 15,000 bytes of its metadata, which may have 16 KiB."""
THREAD_MAX_CHARACTERS: Final = 512
_CONTINUED: Final = "(continued)"
_TRIES: Final = 5


@dataclass(frozen=True)
class NewEntry:
    """An entry to store.

    Attributes:
        text: Words by which searches find the entry; if it is blank, searches leave the entry out.
        role: Role of the speaker; searches and recalls leave out `system` and `tool` by default.
    """

    value: Any
    text: str
    role: str


@dataclass(frozen=True)
class Entry:
    """A stored entry, and the ids of its memories."""

    value: Any
    ids: tuple[str, ...]


@dataclass(frozen=True)
class Log:
    """The history of one thread.

    Attributes:
        thread: Name of the thread. `clear` deletes all of its memories.
        subject: Person of the history.
        tags: Tags of all memories.
        is_kept: Protect entries from decay and merging; otherwise old entries fade and then disappear from the history.
    """

    thread: str
    subject: str | None = None
    tags: Sequence[str] = ()
    is_kept: bool = True

    def __post_init__(self) -> None:
        """Refuse names that no thread can have.

        Raises:
            Invalid: The name is empty or too long.
        """
        if not self.thread:
            raise invalid_field("thread", "must not be empty")
        if len(self.thread) > THREAD_MAX_CHARACTERS:
            raise invalid_field("thread", "is too long", len(self.thread), THREAD_MAX_CHARACTERS)

    def bodies(self, entry: NewEntry) -> list[dict[str, Any]]:
        """Return the memories of an entry.

        Raises:
            Invalid: The entry has no JSON form.
        """
        try:
            content = json.dumps(entry.value, separators=(",", ":"), allow_nan=False)
        except (TypeError, ValueError):
            # The message could quote the entry.
            raise invalid_field("items", "has a value without a JSON form") from None
        name = secrets.token_hex(16)
        parts = [content[start : start + PART_CHARACTERS] for start in range(0, len(content), PART_CHARACTERS)]
        shared: dict[str, Any] = {"thread": self.thread, "tags": [*self.tags, KEPT_TAG] if self.is_kept else self.tags}
        shared |= {} if self.subject is None else {"subject": self.subject}
        text = cut_text(entry.text)
        bodies = []
        for place, part in enumerate(parts):
            is_found = bool(text) and place == 0
            metadata = {"entry": name, "part": place, "parts": len(parts), "json": part}
            role = entry.role if is_found else "system"
            bodies.append({**shared, "text": text if is_found else _CONTINUED, "role": role, "metadata": metadata})
        return bodies

    def append(self, entries: Sequence[NewEntry]) -> Steps[None]:
        """Store entries in order; reads have them when this returns."""
        yield from write([body for entry in entries for body in self.bodies(entry)])

    def read(self, limit: int | None = None) -> Steps[list[Entry]]:
        """Return the latest entries, oldest first; None returns all of them."""
        if limit is not None and limit <= 0:
            return []
        found = _Parts()
        cursor, is_first = None, True
        while (is_first or cursor is not None) and (limit is None or not found.has(limit)):
            filters = {"thread": self.thread, "order": "thread_newest"}
            # Most entries have one part. One memory more than the limit costs little, and can save a second request.
            memories, cursor = yield from list_page(filters, cursor, 100 if limit is None else limit + 1)
            is_first = False
            for memory in memories:
                found.add(memory)
        return found.entries(limit)

    def pop(self) -> Steps[Entry | None]:
        """Delete the latest entry and return it; None if there is none.

        Raises:
            Conflict: Other writers removed the latest entry each time.
        """
        for _ in range(_TRIES):
            latest = yield from self.read(1)
            if not latest:
                return None
            if (yield from delete_ids(latest[0].ids)):
                return latest[0]
        raise Conflict(409, {"title": "other writers removed the latest entry at the same time"})

    def clear(self) -> Steps[int]:
        """Delete all memories of the thread and return their number."""
        return (yield from delete_thread(self.thread))


@dataclass
class _Parts:
    """The memories of entries, read from the newest to the oldest."""

    by_entry: dict[str, dict[int, Memory]] = field(default_factory=dict)
    missing: dict[str, int] = field(default_factory=dict)

    def add(self, memory: Memory) -> None:
        """Add a memory, unless it isn't part of an entry."""
        given = memory.metadata
        name, place, count = given.get("entry"), given.get("part"), given.get("parts")
        if isinstance(name, str) and isinstance(place, int) and isinstance(count, int):
            parts = self.by_entry.setdefault(name, {})
            parts[place] = memory
            self.missing[name] = count - len(parts)

    def has(self, limit: int) -> bool:
        """Return true if the latest `limit` entries are complete."""
        latest = list(self.by_entry)[:limit]
        return len(latest) == limit and not any(self.missing[name] for name in latest)

    def entries(self, limit: int | None) -> list[Entry]:
        """Return the latest complete entries, oldest first."""
        complete = [name for name in self.by_entry if not self.missing[name]][:limit]
        return [_join(self.by_entry[name]) for name in reversed(complete)]


def _join(parts: dict[int, Memory]) -> Entry:
    ordered = [parts[place] for place in sorted(parts)]
    content = "".join(str(memory.metadata["json"]) for memory in ordered)
    return Entry(json.loads(content), tuple(memory.id for memory in ordered))
