"""Results of calls: frozen records. Fields of a response that a record doesn't have are in its `raw`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Any, Final, TypeVar

from ebbing_client.errors import UnexpectedAnswer

T = TypeVar("T")
Json = Mapping[str, Any]


def read_time(value: Any) -> datetime | None:
    """Return the moment of an ISO 8601 text, or None for null.

    Python 3.10 reads neither `Z` nor fractions of other than 3 or 6 digits; the service sends 6 or none.
    """
    return None if value is None else datetime.fromisoformat(str(value).replace("Z", "+00:00"))


def _strings(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value or ()))


TIME: Final = {"read": read_time}
NAMES: Final = {"read": _strings}


def read_record(cls: type[T], value: Any) -> T:
    """Return a record of this class from a JSON object.

    Raises:
        UnexpectedAnswer: The value isn't an object, or lacks a required field.
    """
    if not isinstance(value, dict):
        raise UnexpectedAnswer("the response isn't a JSON object as an Ebbing service sends it: check the URL")
    given: dict[str, Any] = {"raw": value}
    for each in fields(cls):  # type: ignore[arg-type]  # every caller passes a dataclass
        if each.name in value:
            read: Callable[[Any], Any] | None = each.metadata.get("read")
            given[each.name] = value[each.name] if read is None else read(value[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise UnexpectedAnswer(f"the response has no field `{each.name}`: check the URL and the service's version")
    return cls(**given)


@dataclass(frozen=True)
class Memory:
    """A stored memory.

    `strength` is from 0 to 1 and null until the memory is stored. `created_at` is the time of acceptance,
    `occurred_at` the time of the event if it was given. `status` is `pending`, `stored`, `indexed` or `embedded`.
    """

    id: str
    text: str
    subject: str | None = None
    thread: str | None = None
    speaker: str | None = None
    role: str | None = None
    external_id: str | None = None
    kind: str | None = None
    tags: tuple[str, ...] = field(default=(), metadata=NAMES)
    categories: tuple[str, ...] = field(default=(), metadata=NAMES)
    entities: tuple[str, ...] = field(default=(), metadata=NAMES)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = field(default=None, metadata=TIME)
    occurred_at: datetime | None = field(default=None, metadata=TIME)
    strength: float | None = None
    tier: str | None = None
    status: str | None = None
    source: str | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Hit:
    """A search result; `score` is comparable only within one search."""

    id: str
    text: str
    score: float
    strength: float | None = None
    tier: str | None = None
    subject: str | None = None
    thread: str | None = None
    speaker: str | None = None
    role: str | None = None
    external_id: str | None = None
    kind: str | None = None
    tags: tuple[str, ...] = field(default=(), metadata=NAMES)
    categories: tuple[str, ...] = field(default=(), metadata=NAMES)
    entities: tuple[str, ...] = field(default=(), metadata=NAMES)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = field(default=None, metadata=TIME)
    occurred_at: datetime | None = field(default=None, metadata=TIME)
    highlight: str | None = None
    explain: Json | None = None
    source: str | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


def _hits(value: Any) -> tuple[Hit, ...]:
    return tuple(read_record(Hit, each) for each in value)


@dataclass(frozen=True)
class SearchResults:
    """Results of a search, best first. Iterate over it, or use `results`."""

    results: tuple[Hit, ...] = field(metadata={"read": _hits})
    reranked: bool = False
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the results, best first."""
        return tuple(each.id for each in self.results)


@dataclass(frozen=True)
class Recalled:
    """Recalled memories: `text` for the prompt, empty if no memory is relevant, and the `ids` in that text."""

    text: str
    ids: tuple[str, ...] = field(default=(), metadata=NAMES)
    memories: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    tokens: int = 0
    raw: Json = field(default_factory=dict, repr=False, compare=False)

    def __bool__(self) -> bool:
        return bool(self.ids)


@dataclass(frozen=True)
class Added:
    """Outcome of a write.

    Attributes:
        ids: Ids of the memories in order. Empty if the write waits in the client's buffer.
        external_ids: External ids under which buffered writes will be stored, in order; only with a spool.
        is_buffered: True if the write waits in the queue or the spool of this client.
        is_searchable: True if `wait` was given and searches find the memories.
        skipped: Messages without text, which aren't stored.
        left_out: Parts of messages that aren't stored.
        dropped: Memories that waited at the client and aren't stored, because their subject or thread was erased after
            they were written: each with its `id`, and `erased`, which is `subject` or `thread`.
        position: Place of the write in the service's order of acceptance.
    """

    ids: tuple[str, ...] = field(default=(), metadata=NAMES)
    request_id: str = ""
    external_ids: tuple[str, ...] = ()
    is_buffered: bool = False
    is_searchable: bool = False
    skipped: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    left_out: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    dropped: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    position: str = ""
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Deletion:
    """Deletion of one memory: cancel it until `erase_after` with `cancel_erasure(erasure_id)`."""

    id: str
    erasure_id: str
    erase_after: datetime | None = field(default=None, metadata=TIME)
    status: str | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Erasure:
    """Erasure of a person's, a conversation's or named memories; hidden at once, erased after `erase_after`.

    A dry run has no `id` and no `hidden`; its `memories` counts what would be hidden.
    """

    id: str | None = None
    status: str | None = None
    hidden: int | None = None
    memories: int | None = None
    held: int = 0
    erase_after: datetime | None = field(default=None, metadata=TIME)
    warning: str | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Event:
    """An event in a memory's history; `before` and `after` are the changed value."""

    kind: str
    at: datetime | None = field(default=None, metadata=TIME)
    before: Any = None
    after: Any = None
    strength: float | None = None
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Explanation:
    """Current and target tier of a memory, with the deciding rule."""

    id: str
    tier: str
    wanted: str
    rule: str
    why: str
    numbers: Json = field(default_factory=dict)
    next_change: Json | None = None
    holds: tuple[Json, ...] = field(default=(), metadata={"read": tuple})
    source: str = "unknown"
    raw: Json = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class Page:
    """A page of a list: its items as JSON, and the cursor of the next page."""

    items: tuple[Json, ...]
    next_cursor: str | None
