"""Read dumps of a tenant: a header, holds and retention, the memories, the rows that connect them, then an end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, Final, Literal
from uuid import UUID

import msgspec

from app.domain.imports.containers import TOO_LONG, decode_object, iterate_lines
from app.domain.imports.items import (
    DumpedMemory,
    DumpedPolicy,
    DumpedRow,
    DumpHeader,
    Fault,
    Item,
    Memory,
    Reading,
    StandingRow,
    refuse,
)
from app.domain.imports.records import build_memory, is_finite
from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import COLUMNS, MemoryIn

FORMAT: Final = "ebbing-dump-2"
_FORMATS: Final = ("ebbing-dump-1", FORMAT)
"""Formats that can be loaded; the first lacks rows of `STANDING`, merges, reviews, vectors and earlier policies."""
STANDING: Final = ("holds", "hold_changes", "subject_retention")
"""Tables whose rows precede the memories, because the rows protect memories or limit how long they are stored."""
CONNECTING: Final[dict[str, tuple[str, ...]]] = {
    "links": ("memory_id", "other_id"),
    "missing_links": ("memory_id",),
    "supersessions": ("memory_id", "superseded_id"),
    "memory_aliases": ("memory_id",),
    "reviews": ("memory_id",),
    "decayed_sources": ("memory_id",),
    "activation_history": ("memory_id",),
}
"""Tables whose rows follow the memories, with the columns that name memories."""
MERGES: Final = "merges"
"""Merges follow the memories too, each with its lineage in the row's key `lineage`."""
AVERAGES: Final = "tick_averages"
OF_POLICY: Final = ("activation_history", AVERAGES)
"""Tables whose rows depend on versions of the policy; only a tenant with these versions gets the rows."""
SETTINGS: Final = ("tenant", "paused", "decay_clock", "contradictions_until")
"""Settings of the tenant as a whole, in the header; loaded only into a tenant without memories that has at most one
policy version."""
_NUMBERS: Final = (
    *("multiplier", "pace", "access_count", "anchored_at", "level", "retrieval", "stability", "cross_domain_count"),
)
INCOMPLETE: Final = "the dump is incomplete: its last line is missing"


@precompile
class _Line(msgspec.Struct, frozen=True):
    """The rows of a memory."""

    memory: dict[str, Any]
    state: dict[str, Any]
    events: list[dict[str, Any]]
    score: dict[str, Any] | None = None
    vector: list[float] | None = None
    sources: list[dict[str, Any]] | None = None


@precompile
class _Version(msgspec.Struct, frozen=True):
    """A version of the policy."""

    version: int
    body: dict[str, Any]
    effective_at: float
    is_current: bool
    author: Literal["learned"] | None = None


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the items of a dump in order.

    Raises:
        FileRefused: The first line isn't a dump's, or the last one is missing.
    """
    lines = iterate_lines(source)
    place, line = next(lines, (1, None))
    yield _read_header(place, line)
    is_complete = False
    for place, line in lines:
        record = TOO_LONG if line is None else decode_object(line)
        if isinstance(record, str):
            yield Fault(place, record)
        elif "end" in record:
            is_complete = True
        elif "memory" in record:
            yield _read_memory(place, record, reading)
        else:
            yield _read_row(place, record)
    if not is_complete:
        refuse(INCOMPLETE)


def _read_header(place: int, line: bytes | None) -> DumpHeader:
    record = decode_object(line) if line is not None else ""
    if (
        not isinstance(record, dict)
        or record.get("format") not in _FORMATS
        or not isinstance(record.get("policy"), dict)
    ):
        refuse(f"the file isn't a dump of the format {FORMAT}")
    tenant_id = _parse_id(record.get("tenant_id"))
    if tenant_id is None:
        refuse("the dump names no tenant")
    settings = record.get("settings")
    return DumpHeader(
        place,
        tenant_id,
        msgspec.json.encode(record["policy"]).decode(),
        _read_policies(record.get("policies", [])),
        settings if isinstance(settings, dict) else {},
    )


def _read_policies(versions: object) -> list[DumpedPolicy]:
    try:
        given = msgspec.convert(versions, list[_Version])
    except msgspec.ValidationError:
        refuse("the dump's versions of the policy can't be read")
    return [
        DumpedPolicy(
            each.version, msgspec.json.encode(each.body).decode(), each.effective_at, each.is_current, each.author
        )
        for each in given
    ]


def _parse_id(value: object) -> UUID | None:
    try:
        return UUID(str(value))
    except ValueError:
        return None


def _read_memory(place: int, record: dict[str, Any], reading: Reading) -> Item:
    try:
        line = msgspec.convert(record, _Line)
    except msgspec.ValidationError:
        return Fault(place, "a row isn't a JSON object")
    memory, state = line.memory, line.state
    memory_id, seq = _parse_id(memory.get("memory_id")), memory.get("seq")
    if memory_id is None or not isinstance(seq, int):
        return Fault(place, "memory_id or seq is missing")
    if (lack := _find_lack(memory, state)) is not None:
        return Fault(place, lack)
    plain = Reading(msgspec.structs.replace(reading.options, subject=None, thread=None), reading.zone, reading.now)
    built = build_memory(place, {field.name: memory.get(field.name) for field in COLUMNS}, plain, None)
    if not isinstance(built, Memory):
        return built
    sources = [_read_source(source, plain) for source in line.sources or ()]
    if None in sources:
        return Fault(place, "a source of the summary can't be read")
    known = [source for source in sources if source is not None]
    return DumpedMemory(place, memory_id, seq, built.given, memory, state, line.score, line.events, line.vector, known)


def _find_lack(memory: dict[str, Any], state: dict[str, Any]) -> str | None:
    """Return why the rows can't be inserted, or None."""
    if not all(map(_is_moment, (memory.get("created_at"), state.get("created_at"), state.get("accessed_at")))):
        return "a time is missing"
    if not is_finite(*(state.get(name) for name in _NUMBERS)):
        return "a number of its state is missing"
    return None


def _read_source(source: dict[str, Any], reading: Reading) -> tuple[UUID, int, MemoryIn] | None:
    """Return a source of a summary, with `-` in place of its text, which its record lacks; None if it is invalid."""
    memory_id, seq = _parse_id(source.get("memory_id")), source.get("seq")
    fields = {name: source.get(name) for name in ("subject", "thread", "kind", "tags", "categories")}
    happened = source.get("occurred_at") or source.get("created_at")
    built = build_memory(0, fields | {"text": "-", "occurred_at": happened}, reading, None)
    if memory_id is None or not isinstance(seq, int) or not isinstance(built, Memory):
        return None
    return memory_id, seq, built.given


def _is_moment(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _read_row(place: int, record: dict[str, Any]) -> Item:
    table, row = record.get("table"), record.get("row")
    if not isinstance(table, str) or not isinstance(row, dict):
        return Fault(place, "the line is of no known table")
    if table in STANDING:
        return StandingRow(place, table, row)
    if table in CONNECTING or table in (MERGES, AVERAGES):
        return DumpedRow(place, table, row)
    return Fault(place, "the line is of no known table")
