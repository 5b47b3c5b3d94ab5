"""Read dumps of a tenant: a header, the rows of each memory, then the rows that connect memories, then an end."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, BinaryIO, Final
from uuid import UUID

import msgspec

from app.domain.imports.containers import TOO_LONG, decode_object, iterate_lines
from app.domain.imports.items import DumpedMemory, DumpedRow, DumpHeader, Fault, Item, Memory, Reading, refuse
from app.domain.imports.records import build_memory, is_finite
from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import COLUMNS

FORMAT: Final = "ebbing-dump-1"
CONNECTING: Final[dict[str, tuple[str, ...]]] = {
    "links": ("memory_id", "other_id"),
    "supersessions": ("memory_id", "superseded_id"),
    "memory_aliases": ("memory_id",),
}
"""Tables whose rows follow the memories, with the columns that name memories."""
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
    if not isinstance(record, dict) or record.get("format") != FORMAT or not isinstance(record.get("policy"), dict):
        refuse(f"the file isn't a dump of the format {FORMAT}")
    tenant_id = _parse_id(record.get("tenant_id"))
    if tenant_id is None:
        refuse("the dump names no tenant")
    return DumpHeader(place, tenant_id, msgspec.json.encode(record["policy"]).decode())


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
    if not all(map(_is_moment, (memory.get("created_at"), state.get("created_at"), state.get("accessed_at")))):
        return Fault(place, "a time is missing")
    if not is_finite(*(state.get(name) for name in _NUMBERS)):
        return Fault(place, "a number of its state is missing")
    plain = Reading(msgspec.structs.replace(reading.options, subject=None, thread=None), reading.zone, reading.now)
    built = build_memory(place, {field.name: memory.get(field.name) for field in COLUMNS}, plain, None)
    if not isinstance(built, Memory):
        return built
    return DumpedMemory(place, memory_id, seq, built.given, memory, state, line.score, line.events)


def _is_moment(value: object) -> bool:
    try:
        return isinstance(value, str) and datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _read_row(place: int, record: dict[str, Any]) -> Item:
    table, row = record.get("table"), record.get("row")
    if not isinstance(table, str) or table not in CONNECTING or not isinstance(row, dict):
        return Fault(place, "the line is of no known table")
    return DumpedRow(place, table, row)
