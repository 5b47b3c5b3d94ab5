"""Define the items that readers of files yield: memories with their state, links, and faults of single records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NamedTuple, NoReturn, TypeAlias
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import NAME_MAX_CHARACTERS, MemoryIn
from app.errors import FieldError, Invalid

LINE_MAX_BYTES: Final = 8 << 20
"""Maximum size of a line, a conversation or a row; a larger one is reported and skipped."""
DOCUMENT_MAX_BYTES: Final = 512 << 20
"""Maximum size of a JSON document or a database, which is held in memory as a whole."""
FILES_MAX: Final = 10_000
"""Maximum number of files in a zip archive."""
EXPANDED_MAX_BYTES: Final = 4 << 30
"""Maximum total size of the files that are read from a zip archive, after decompression."""
RATIO_MAX: Final = 200
"""Maximum ratio of a file's size in a zip archive before and after compression; text compresses to about a fifth."""
RECORDS_MAX: Final = 5_000_000
"""Maximum number of records in a file."""

SourceModel = Literal["mnemex", "memory_decay"]
"""Forgetting models of other products, which Ebbing has as profiles."""


class FileRefused(Exception):
    """The file as a whole can't be read. The message is a fixed phrase with numbers, never content."""


@precompile
class GivenState(msgspec.Struct, frozen=True, gc=False):
    """The strength of a memory in the system that it comes from. Times are in seconds since 1970.

    Attributes:
        created_at: Time at which it was stored there.
        accessed_at: Time of its last use there; the creation counts as one.
        uses: Number of uses after the creation.
        strength: Strength at the time of the import, 0 to 1; None if `model` determines it.
        model: The other system's forgetting model, if Ebbing has it as a profile: `level`, `retrieval` and `stability`
            are its columns.
        level: Logarithm of the storage score (`memory_decay`).
        retrieval: Retrieval score (`memory_decay`).
        stability: Stability (`memory_decay`).
        promoted_at: Time at which it was promoted there; None if it wasn't.
    """

    created_at: float
    accessed_at: float
    uses: int = 0
    strength: float | None = None
    model: SourceModel | None = None
    level: float = 0.0
    retrieval: float = 1.0
    stability: float = 0.0
    promoted_at: float | None = None


class Memory(NamedTuple):
    """A memory that passed every check.

    Attributes:
        place: Number of its line, row or record in the file, from 1.
        given: The memory; its `external_id` is stable, so that another import of the file finds it again.
        state: Its strength; None if the file has none.
    """

    place: int
    given: MemoryIn
    state: GivenState | None = None


class DumpedPolicy(NamedTuple):
    """A version of a dumped tenant's policy.

    Attributes:
        version: Its number.
        policy: The policy, as JSON.
        effective_at: Time at which it took or takes effect, in seconds since 1970.
        is_current: It was in force at the time of the dump.
        author: Author of a version that no caller wrote.
    """

    version: int
    policy: str
    effective_at: float
    is_current: bool
    author: str | None


class DumpHeader(NamedTuple):
    """The first line of a dump.

    Attributes:
        tenant_id: The tenant that was dumped.
        policy: Its policy then, as JSON.
        policies: All versions of its policy, by number.
        settings: Other settings of the tenant as a whole, by their name in `dump.SETTINGS`.
    """

    place: int
    tenant_id: UUID
    policy: str
    policies: list[DumpedPolicy]
    settings: dict[str, Any]


class DumpedMemory(NamedTuple):
    """The rows of a memory in a dump, which keeps its id.

    Attributes:
        given: The memory's content, which passed every check.
        memory: Its row in `memories`.
        state: Its row in `memory_state`, anchored under the header's policy.
        score: Its row in `scores`; None if there is none.
        events: Its rows in `memory_events`, oldest first.
        vector: The vector that the caller sent with it; None if there is none.
        sources: For a summary, the memories from which it was made: ids, sequence numbers, and only those fields by
            which erasures select memories. Sources that decay has deleted have the sequence number 0.
    """

    place: int
    memory_id: UUID
    seq: int
    given: MemoryIn
    memory: dict[str, Any]
    state: dict[str, Any]
    score: dict[str, Any] | None
    events: list[dict[str, Any]]
    vector: list[float] | None = None
    sources: Sequence[tuple[UUID, int, MemoryIn]] = ()


class StandingRow(NamedTuple):
    """A row of a table in `dump.STANDING`, such as a legal hold, which must be stored before the tenant's memories."""

    place: int
    table: str
    row: dict[str, Any]


class DumpedRow(NamedTuple):
    """A row, with the name of its table, that connects memories of a dump or describes one of them."""

    place: int
    table: str
    row: dict[str, Any]


class Link(NamedTuple):
    """A link between two memories of the file, named by their external ids; or by their ids, in a dump."""

    place: int
    source: str
    target: str
    kind: str
    weight: float


class Fault(NamedTuple):
    """A record that is skipped. The reason is a fixed phrase with names of fields and numbers, never content."""

    place: int
    reason: str


Item: TypeAlias = Memory | Link | Fault | DumpHeader | DumpedMemory | StandingRow | DumpedRow
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]
_TickSeconds = Annotated[float, msgspec.Meta(gt=0, le=31_536_000)]


@precompile
class ImportOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options for reading a file.

    Attributes:
        map: Name of the column or key of the file that holds a field, by field: `{"text": "content"}`. A dot descends
            into objects: `value.text`. Fields without an entry are read from the column of their own name.
        subject: Subject of memories for which the file names none.
        thread: Thread of memories for which the file names none.
        time_zone: Time zone of times without an offset, such as `Europe/Berlin`. Without it, they are refused.
        tick_seconds: Length of a tick of memory-decay.
        accept: Load a dump of another installation. This confirms that subjects that were erased there after the dump
            have been removed from the dump.
    """

    map: Mapping[str, str] = {}
    subject: Name | None = None
    thread: Name | None = None
    time_zone: str | None = None
    tick_seconds: _TickSeconds = 3600.0
    accept: bool = False


_options = msgspec.json.Decoder(ImportOptions)


def decode_options(body: bytes) -> ImportOptions:
    """Decode options that were stored with an import."""
    return _options.decode(body)


def find_zone(options: ImportOptions) -> ZoneInfo | None:
    """Return the time zone of times without an offset.

    Raises:
        Invalid: There is no such time zone.
    """
    if options.time_zone is None:
        return None
    try:
        return ZoneInfo(options.time_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Invalid(errors=[FieldError("time_zone", "must be a time zone such as Europe/Berlin")]) from None


@dataclass(frozen=True, slots=True)
class Reading:
    """Context that a reader needs to read a file, in addition to its bytes.

    Attributes:
        options: The caller's options.
        zone: Time zone of times without an offset.
        now: Time of the upload, in seconds since 1970.
    """

    options: ImportOptions
    zone: ZoneInfo | None
    now: float


def refuse(reason: str) -> NoReturn:
    """Refuse the file as a whole.

    Raises:
        FileRefused: Always.
    """
    raise FileRefused(reason)
