"""Read the table `store` of LangGraph: as JSON lines, as CSV, or in its SQLite database."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, Final
from zoneinfo import ZoneInfo

import msgspec

from app.domain.imports.containers import (
    SQLITE_START,
    TOO_LONG,
    columns,
    decode_object,
    iterate_lines,
    open_database,
    read_start,
)
from app.domain.imports.generic import iterate_csv_lines
from app.domain.imports.items import Fault, Item, Reading, refuse
from app.domain.imports.records import BadValue, build_memory, fit_metadata, name_id, parse_moment

_COLUMNS: Final = ("prefix", "key", "value", "created_at", "updated_at", "expires_at")
_TEXTS: Final = (("text",), ("content",), ("data",), ("memory",), ("content", "content"))
"""Paths at which the text is looked for; LangMem writes `{"kind": …, "content": {"content": …}}`."""
_CSV_START: Final = b"prefix,"


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the rows of the table; the text is at the path that `map` has for `text`, by default at one of `_TEXTS`.

    SQLite's times have no offset, and are in UTC unless the options name a time zone.

    Raises:
        FileRefused: The file has no such table.
    """
    start = read_start(source)
    if start.startswith(SQLITE_START):
        with open_database(source, ("store",)) as database:
            found = columns(database, "store")
            if not {"prefix", "key", "value"} <= found:
                refuse("the table `store` isn't LangGraph's")
            names = ", ".join(name for name in _COLUMNS if name in found)
            utc = reading if reading.zone else replace(reading, zone=ZoneInfo("UTC"))  # CURRENT_TIMESTAMP of SQLite
            for place, row in enumerate(database.execute(f"SELECT {names} FROM store"), start=1):  # noqa: S608
                yield _read_row(place, dict(row), utc)
    elif start.lower().startswith(_CSV_START):
        rows = csv.DictReader(line.decode("utf-8", "surrogateescape") for _, line in iterate_csv_lines(source))
        for row in rows:
            yield _read_row(rows.line_num, row, reading)
    else:
        for number, line in iterate_lines(source):
            record = TOO_LONG if line is None else decode_object(line)
            yield Fault(number, record) if isinstance(record, str) else _read_row(number, record, reading)


def _read_row(place: int, row: Mapping[str, Any], reading: Reading) -> Item:
    prefix, key, value = row.get("prefix"), row.get("key"), row.get("value")
    if isinstance(prefix, list):
        prefix = ".".join(map(str, prefix))
    if not isinstance(prefix, str) or not isinstance(key, str):
        return Fault(place, "prefix or key is missing")
    if isinstance(value, str | bytes):
        try:
            value = msgspec.json.decode(value)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return Fault(place, "value isn't JSON")
    if not isinstance(value, dict):
        return Fault(place, "value isn't a JSON object")
    try:
        expires_at = parse_moment(row.get("expires_at"), reading)
        occurred_at = parse_moment(row.get("created_at"), reading)
    except BadValue as error:
        return Fault(place, f"a time {error}")
    if expires_at is not None and expires_at.timestamp() <= reading.now:
        return Fault(place, "had expired in LangGraph")
    path = reading.options.map.get("text")
    paths = (tuple(path.removeprefix("value.").split(".")),) if path else _TEXTS
    taken = (_take(value, keys) for keys in paths)
    text, rest = next(((text, rest) for text, rest in taken if isinstance(text, str)), (None, value))
    fields = {
        "text": text,
        "occurred_at": occurred_at,
        "expires_at": expires_at,
        "metadata": fit_metadata(rest | {"namespace": prefix}),
        "external_id": name_id("langgraph", f"{prefix}/{key}"),
    }
    return build_memory(place, fields, reading, None)


def _take(value: dict[str, Any], keys: tuple[str, ...]) -> tuple[Any, dict[str, Any]]:
    """Return the value at a path, and the object without it."""
    if len(keys) == 1:
        return value.get(keys[0]), {key: each for key, each in value.items() if key != keys[0]}
    inner = value.get(keys[0])
    if not isinstance(inner, dict):
        return None, value
    found, rest = _take(inner, keys[1:])
    return found, {key: each for key, each in value.items() if key != keys[0]} | ({keys[0]: rest} if rest else {})
