"""Read JSON lines and CSV whose columns have Ebbing's names or are mapped to them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, BinaryIO, Final

import msgspec

from app.domain.imports.containers import TOO_LONG, decode_object, iterate_lines
from app.domain.imports.items import LINE_MAX_BYTES, Fault, Item, Memory, Reading, refuse
from app.domain.imports.records import KNOWN, check, read_fields
from app.domain.ingest.json_input import UNDECODABLE
from app.domain.ingest.memory import MemoryIn
from app.errors import FieldError, Invalid

csv.field_size_limit(LINE_MAX_BYTES)
_DELIMITERS: Final = ",;\t"
_memory: Final = msgspec.json.Decoder(MemoryIn)
QUOTES: Final = "a quoted field isn't closed, or text follows its closing quote"
NO_TEXT: Final = "no column holds the text: name the column (map), such as text=COLUMN"


def check_mapping(reading: Reading) -> None:
    """Refuse a mapping to fields that don't exist.

    Raises:
        Invalid: A field is unknown.
    """
    unknown = [name for name in reading.options.map if name not in KNOWN]
    if unknown:
        message = "maps a field that doesn't exist: use the fields of a memory, or its state"
        raise Invalid(errors=[FieldError("map", message, len(unknown), ", ".join(sorted(KNOWN)))])


def read_jsonl(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the memory of each line: an object with Ebbing's fields, or with mapped ones."""
    is_plain = not reading.options.map and reading.options.subject is None and reading.options.thread is None
    for number, line in iterate_lines(source):
        if line is None:
            yield Fault(number, TOO_LONG)
            continue
        if is_plain and (memory := _decode_plain(line)) is not None:
            yield Memory(number, memory)
            continue
        record = decode_object(line)
        yield Fault(number, record) if isinstance(record, str) else read_fields(number, record, reading)


def _decode_plain(line: bytes) -> MemoryIn | None:
    """Return a memory that needs no conversion, or None. This is the fast path of large imports."""
    try:
        memory = _memory.decode(line)
        if memory.external_id is None or memory.text.isspace():
            return None
        needs_check = not line.isascii() or b"\\u" in line or memory.metadata is not None
        is_rare = memory.embedding is not None or memory.links or memory.written is not None
        if needs_check or is_rare or memory.expires_at or memory.occurred_at:
            check(memory)
    except (*UNDECODABLE, Invalid):
        return None
    return memory


def read_csv(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the memory of each row; the first row has the columns' names, and lists are split at semicolons.

    The number of a row is that of its first line.

    Raises:
        FileRefused: There is no header, or no column holds the text.
    """
    lines = (line.decode("utf-8", "surrogateescape") for _, line in iterate_csv_lines(source))
    header_line = next(lines, None)
    if header_line is None:
        refuse("the file is empty")
    delimiter = max(_DELIMITERS, key=header_line.count)
    header = [name.strip() for name in next(csv.reader([header_line], delimiter=delimiter))]
    text_column = reading.options.map.get("text", "text")
    if text_column not in header and text_column.split(".")[0] not in header:
        refuse(NO_TEXT)
    if len(set(header)) < len(header):
        refuse("two columns have one name")
    rows = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        before = rows.line_num
        try:
            row = next(rows, None)
        except csv.Error as error:
            reason = TOO_LONG if "field larger" in str(error) else QUOTES
            yield Fault(before + 2, _spread(reason, before, rows.line_num))
            continue
        if row is None:
            return
        if row:  # a blank line is an empty row
            item = _read_row(before + 2, header, row, reading)
            yield item._replace(reason=_spread(item.reason, before, rows.line_num)) if isinstance(item, Fault) else item


def _spread(reason: str, before: int, last: int) -> str:
    """Return the reason of a fault, with the lines of the row if it has several: an open quote can hide other rows."""
    return reason if last <= before + 1 else f"{reason}; the row is spread over the lines {before + 2} to {last + 1}"


def iterate_csv_lines(source: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a CSV file, also blank ones, which a quoted field may contain."""
    number = 0
    for number, line in iterate_lines(source):  # skips only leading blank lines: the loop ends after one line
        yield number, line if line is not None else b"\n"
        break
    for rest in iter(source.readline, b""):
        number += 1
        yield number, rest


def _read_row(number: int, header: list[str], row: list[str], reading: Reading) -> Memory | Fault:
    if len(row) != len(header):
        return Fault(number, f"has {len(row)} columns instead of {len(header)}")
    if any("\udc80" <= character <= "\udcff" for value in row if not value.isascii() for character in value):
        return Fault(number, "the record isn't UTF-8")
    record: dict[str, Any] = {name: value for name, value in zip(header, row, strict=True) if value != ""}
    return read_fields(number, record, reading)
