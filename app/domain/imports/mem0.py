"""Read mem0: rows of its vector store, its history database, and the export of its plugin."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, BinaryIO, Final

from app.domain.imports.containers import (
    SQLITE_START,
    TOO_LONG,
    decode_object,
    iterate_lines,
    open_database,
    read_document,
    read_start,
    split_array,
    split_object,
)
from app.domain.imports.items import Fault, Item, Memory, Reading, refuse
from app.domain.imports.records import BadValue, build_memory, fit_labels, fit_metadata, name_id, parse_moment
from app.domain.ingest.roles import read_message_role

_SOURCE: Final = "mem0"
_LISTS: Final = ("results", "memories", "points")
_ANSWER: Final = "result"
"""Key of the object with the points in Qdrant's answer to a scroll."""
_DROPPED: Final = frozenset(("text_lemmatized", "hash", "score", "vector", "structured_attributes"))
_HEADER_LINE: Final = re.compile(r"[A-Za-z_]\w*:( |$)")
_EXPIRED: Final = "had expired in mem0"
_ROWS: Final = """
SELECT history.* FROM history
JOIN (SELECT memory_id, max(rowid) AS last FROM history GROUP BY memory_id) AS latest ON history.rowid = latest.last
ORDER BY history.rowid
"""


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the memories of a file of mem0, whose first bytes determine which of the three formats it has.

    Raises:
        FileRefused: The file has none of these formats.
    """
    start = read_start(source)
    if start.startswith(SQLITE_START):
        yield from _read_history(source, reading)
    elif start.startswith(b"---"):
        yield from _read_plugin_export(source, reading)
    elif start.lstrip()[:1] == b"[":
        yield from _read_rows(split_array(read_document(source)), reading)
    else:
        yield from _read_object_or_lines(source, reading)


def _read_object_or_lines(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    first = next((line for _, line in iterate_lines(source)), None)
    is_row = first is not None and isinstance(row := decode_object(first), dict) and not {*_LISTS, _ANSWER} & row.keys()
    if is_row:
        for number, line in iterate_lines(source):
            yield Fault(number, TOO_LONG) if line is None else _read_row(number, line, reading)
        return
    values = split_object(read_document(source))
    if _ANSWER in values and not set(_LISTS) & values.keys():
        values = split_object(bytes(values[_ANSWER]))
    rows = next((values[name] for name in _LISTS if name in values), None)
    if rows is None:
        refuse("the file has no list of memories (`results`)")
    yield from _read_rows(split_array(bytes(rows)), reading)


def _read_rows(rows: list[Any], reading: Reading) -> Iterator[Item]:
    for place, row in enumerate(rows, start=1):
        yield _read_row(place, row, reading)


def _read_row(place: int, encoded: bytes, reading: Reading) -> Item:
    row = decode_object(encoded)
    if isinstance(row, str):
        return Fault(place, row)
    payload = row.get("payload")
    values = dict(payload) if isinstance(payload, dict) else {key: row[key] for key in row if key != "payload"}
    if "linked_memory_ids" in values:
        return Fault(place, "is an entity of mem0, not a memory")
    text = values.pop("data", None) or values.pop("memory", None)
    return _build(place, row.get("id"), text, values, reading)


def _build(place: int, identifier: object, text: object, values: dict[str, Any], reading: Reading) -> Memory | Fault:
    if not isinstance(identifier, str | int):
        return Fault(place, "id is missing")
    try:
        occurred_at = parse_moment(values.pop("created_at", None), reading)
        expires_at = _expiry(values.pop("expiration_date", None), reading)
    except BadValue as error:
        return Fault(place, f"a time {error}")
    if expires_at is not None and expires_at.timestamp() <= reading.now:
        return Fault(place, _EXPIRED)
    role, actor = values.pop("role", None), values.pop("actor_id", None) or values.pop("attributed_to", None)
    custom = values.pop("metadata", None)
    categories = values.pop("categories", None)
    values = {key: value for key, value in values.items() if key not in _DROPPED and key != "id"}
    fields = {
        "text": text,
        "subject": values.pop("user_id", None),
        "thread": values.pop("run_id", None),
        "speaker": actor if isinstance(actor, str) else None,
        "role": read_message_role(role) if isinstance(role, str) else None,
        "occurred_at": occurred_at,
        "expires_at": expires_at,
        "tags": fit_labels(categories if isinstance(categories, list) else ()),
        "metadata": fit_metadata(values | (custom if isinstance(custom, dict) else {})),
        "external_id": name_id(_SOURCE, identifier),
    }
    return build_memory(place, fields, reading, None)


def _expiry(value: object, reading: Reading) -> datetime | None:
    """Return the time of expiry; a date without a time is the last day in UTC on which mem0 returns the memory."""
    if not isinstance(value, str) or re.fullmatch(r"\d{4}-\d{2}-\d{2}", value) is None:
        return parse_moment(value, reading)
    try:
        return datetime.fromisoformat(value).replace(tzinfo=UTC) + timedelta(days=1)
    except (ValueError, OverflowError):
        raise BadValue("must be a date such as 2026-11-20") from None


def _read_history(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the latest text of each memory, or a fault if the memory was deleted in mem0."""
    with open_database(source, ("history",)) as database:
        for place, row in enumerate(database.execute(_ROWS), start=1):
            yield _read_event(place, row, reading)


def _read_event(place: int, row: sqlite3.Row, reading: Reading) -> Item:
    values = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a sqlite3.Row iterates its values
    if values.get("is_deleted") or values.get("event") == "DELETE":
        return Fault(place, "was deleted in mem0")
    text = values.get("new_memory")
    if isinstance(text, str) and any("\udc80" <= character <= "\udcff" for character in text):
        return Fault(place, "the record isn't UTF-8")
    kept = {name: values.get(name) for name in ("created_at", "role", "actor_id")}
    return _build(place, values.get("memory_id"), text, kept, reading)


def _read_plugin_export(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the blocks of a Markdown export: a header between lines of dashes, then the text."""
    for number, header, body in _split_blocks(source):
        parts = (line.partition(":") for line in header)
        values: Mapping[str, str] = {key.strip(): value.strip() for key, _, value in parts}
        text = "\n".join(body).strip()
        if "\ufffd" in text:
            yield Fault(number, "the record isn't UTF-8")
            continue
        rest: dict[str, Any] = {
            key: value for key, value in values.items() if value and key not in ("id", "categories")
        }
        rest["categories"] = (values.get("categories") or "").split(",")
        yield _build(number, values.get("id"), text, rest, reading)


def _split_blocks(source: BinaryIO) -> Iterator[tuple[int, list[str], list[str]]]:
    """Yield the line number, the lines of the header and the lines of the text of each block."""
    lines = read_document(source).decode("utf-8", "replace").splitlines()
    starts = [place for place in range(len(lines)) if _header_end(lines, place)]
    for start, following in zip(starts, [*starts[1:], len(lines)], strict=True):
        end = _header_end(lines, start) or start
        yield start + 1, lines[start + 1 : end], lines[end + 1 : following]


def _header_end(lines: list[str], start: int) -> int | None:
    """Return the index of the last line of the header that begins at index `start`; None if no header begins there."""
    if lines[start].strip() != "---":
        return None
    end = start + 1
    while end < len(lines) and _HEADER_LINE.match(lines[end]):
        end += 1
    has_id = any(line.startswith("id:") for line in lines[start + 1 : end])
    return end if has_id and end < len(lines) and lines[end].strip() == "---" else None
