"""Read memories and relations of cortexgraph: JSON lines (the last line with an id is valid), or its database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, BinaryIO, Final

import msgspec

from app.domain.imports.containers import (
    SQLITE_START,
    TOO_LONG,
    ZIP_START,
    decode_object,
    iterate_lines,
    open_archive,
    open_database,
    read_start,
)
from app.domain.imports.items import Fault, GivenState, Item, Link, Reading, refuse
from app.domain.imports.records import BadValue, build_memory, fit_labels, fit_metadata, name_id, number, seconds

_SOURCE: Final = "cortexgraph"
_METADATA: Final = ("promoted_to", "review_priority", "last_review_at", "review_count", "cross_domain_count")
_KIND_MAX: Final = 64
_ENCODED: Final = ("meta", "entities")
"""Columns of its database that hold JSON."""


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the memories and relations of `memories.jsonl`, `relations.jsonl`, both in one file, a zip or the database.

    Raises:
        FileRefused: The zip archive has no such file, or the database no such tables.
    """
    start = read_start(source)
    if start.startswith(SQLITE_START):
        yield from _read_database(source, reading)
        return
    records: dict[str, tuple[int, dict[str, Any]]] = {}
    relations: dict[str, tuple[int, dict[str, Any]]] = {}
    if start.startswith(ZIP_START):
        with open_archive(source) as archive:
            names = archive.find("memories.jsonl", "relations.jsonl")
            if not archive.find("memories.jsonl"):
                refuse("the zip archive has no file memories.jsonl")
            for name in names:
                with archive.open(name) as member:
                    yield from _collect(member, records, relations)
    else:
        yield from _collect(source, records, relations)
    for place, record in records.values():
        yield _read_memory(place, record, reading)
    for place, record in relations.values():
        yield _read_relation(place, record)


def _read_database(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    with open_database(source, ("memories", "relations")) as database:
        place = 0
        for place, row in enumerate(database.execute("SELECT * FROM memories ORDER BY id"), start=1):
            record = _decode_row(row)
            yield Fault(place, record) if isinstance(record, str) else _read_memory(place, record, reading)
        relations = database.execute("SELECT * FROM relations ORDER BY id")
        for number_of_row, row in enumerate(relations, start=place + 1):
            record = _decode_row(row)
            yield Fault(number_of_row, record) if isinstance(record, str) else _read_relation(number_of_row, record)


def _decode_row(row: sqlite3.Row) -> dict[str, Any] | str:
    """Return a row as the JSON lines have it, or the reason why it can't be read."""
    record = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a sqlite3.Row iterates its values
    if not isinstance(record.get("id"), str) or not record["id"]:
        return "id is missing"
    texts = [value for value in record.values() if isinstance(value, str)]
    if any("\udc80" <= character <= "\udcff" for value in texts if not value.isascii() for character in value):
        return "the record isn't UTF-8"
    for name in _ENCODED:
        if isinstance(value := record.get(name), str):
            try:
                record[name] = msgspec.json.decode(value)
            except (msgspec.DecodeError, RecursionError):
                return f"{name} isn't JSON"
    return record


def _collect(
    source: BinaryIO,
    records: dict[str, tuple[int, dict[str, Any]]],
    relations: dict[str, tuple[int, dict[str, Any]]],
) -> Iterator[Fault]:
    """Keep the last line of each id; yield the lines that can't be read."""
    for number_of_line, line in iterate_lines(source):
        if line is None:
            yield Fault(number_of_line, TOO_LONG)
            continue
        record = decode_object(line)
        if isinstance(record, str):
            yield Fault(number_of_line, record)
            continue
        identifier = record.get("id")
        if not isinstance(identifier, str) or not identifier:
            yield Fault(number_of_line, "id is missing")
        elif record.get("_deleted"):
            records.pop(identifier, None)
            relations.pop(identifier, None)
        else:
            record.pop("embed", None)  # long, and not imported
            (relations if "from_memory_id" in record else records)[identifier] = (number_of_line, record)


def _read_memory(place: int, record: dict[str, Any], reading: Reading) -> Item:
    meta = record.get("meta")
    meta = meta if isinstance(meta, dict) else {}
    try:
        created = seconds(record.get("created_at"), reading) or reading.now
        used = seconds(record.get("last_used"), reading) or created
        uses = number(record.get("use_count"), 0, 2**31 - 1) or 0
        multiplier = number(record.get("strength"), 0, 2)
        promoted = seconds(record.get("promoted_at"), reading)
    except BadValue as error:
        return Fault(place, f"a time or number {error}")
    status = record.get("status")
    if status == "promoted" and promoted is None:
        promoted = used
    created = min(created, reading.now)
    state = GivenState(created, min(max(used, created), reading.now), int(uses), model="mnemex", promoted_at=promoted)
    more = {name: record.get(name) for name in _METADATA} | {name: meta.get(name) for name in ("source", "context")}
    if isinstance(extra := meta.get("extra"), dict):
        more |= extra
    if status == "archived":
        more["status"] = status
    fields = {
        "text": record.get("content"),
        "occurred_at": datetime.fromtimestamp(created, UTC),
        "tags": fit_labels(meta.get("tags") or ()),
        "entities": fit_labels(record.get("entities") or ()),
        "multiplier": multiplier,
        "metadata": fit_metadata(more),
        "external_id": name_id(_SOURCE, record["id"]),
    }
    return build_memory(place, fields, reading, state)


def _read_relation(place: int, record: dict[str, Any]) -> Item:
    ends = (record.get("from_memory_id"), record.get("to_memory_id"))
    if not all(isinstance(end, str) and end for end in ends):
        return Fault(place, "a relation names no memory")
    try:
        weight = number(record.get("strength"), 0, 1)
    except BadValue as error:
        return Fault(place, f"strength {error}")
    kind = record.get("relation_type")
    kind = kind[:_KIND_MAX] if isinstance(kind, str) and kind and "\0" not in kind else "related"
    names = [name_id(_SOURCE, end) for end in ends]
    return Link(place, names[0], names[1], kind, 1.0 if weight is None else weight)
