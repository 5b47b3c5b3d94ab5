"""Read Ebbing's own exports of a subject's data: `given.jsonl` or `memories.jsonl`, in the zip archive or alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from app.domain.imports.containers import TOO_LONG, ZIP_START, decode_object, iterate_lines, open_archive, read_start
from app.domain.imports.items import Fault, GivenState, Item, Link, Reading, refuse
from app.domain.imports.records import BadValue, build_memory, name_id, number, read_fields, seconds
from app.domain.ingest.memory import FIELDS, KINDS

_SOURCE: Final = "ebbing"
_CALLER: Final = "caller"


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the memories of an export. One of kind `access` also has their strength, uses, promotions and links.

    Raises:
        FileRefused: The zip archive isn't such an export.
    """
    if not read_start(source).startswith(ZIP_START):
        yield from _read_lines(source, reading)
        return
    with open_archive(source) as archive:
        names = archive.find("memories.jsonl") or archive.find("given.jsonl")
        if not names:
            refuse("the zip archive has neither memories.jsonl nor given.jsonl")
        with archive.open(names[0]) as member:
            yield from _read_lines(member, reading)


def _read_lines(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    names: dict[str, str] = {}
    links: list[tuple[int, str, dict[str, Any]]] = []
    for place, line in iterate_lines(source):
        record = TOO_LONG if line is None else decode_object(line)
        if isinstance(record, str):
            yield Fault(place, record)
        elif not isinstance(memory := record.get("memory"), dict):
            yield read_fields(place, record, reading)
        elif record.get("hidden"):
            yield Fault(place, "an erasure of the memory was requested")
        else:
            external_id = memory.get("external_id") or name_id(_SOURCE, memory.get("memory_id"))
            names[str(memory.get("memory_id"))] = external_id
            yield _read_memory(place, record, memory | {"external_id": external_id}, reading)
            links += [(place, external_id, link) for link in _list_links(record.get("others"))]
    for place, source_id, link in links:
        target_id = names.get(str(link.get("other_id")))
        if target_id is not None:
            weight = link.get("weight")
            share = weight if isinstance(weight, int | float) and 0 <= weight <= 1 else 1
            yield Link(place, source_id, target_id, str(link.get("kind")), float(share))


def _list_links(others: object) -> list[dict[str, Any]]:
    """Return the outgoing links in a line's rows of other tables; links of memories in cold storage have their own."""
    tables = [others.get(name) for name in ("links", "cold_links")] if isinstance(others, dict) else []
    return [link for rows in tables if isinstance(rows, list) for link in rows if isinstance(link, dict)]


def _read_memory(place: int, record: dict[str, Any], memory: dict[str, Any], reading: Reading) -> Item:
    stored = record.get("state")
    stored = stored if isinstance(stored, dict) else {}
    try:
        created = seconds(stored.get("created_at"), reading) or reading.now
        used = seconds(stored.get("accessed_at"), reading) or created
        strength = number(record.get("strength"), 0, 1)
        uses = number(stored.get("access_count"), 0, 2**31 - 1) or 0
        promoted = seconds(stored.get("promoted_at"), reading)
    except BadValue as error:
        return Fault(place, f"a time or number of its state {error}")
    created = min(created, reading.now)
    used = min(max(used, created), reading.now)
    state = GivenState(created, used, int(uses), strength, promoted_at=promoted)
    fields = {field.name: memory.get(field.name) for field in FIELDS if field.column.table == "memories"}
    kind = stored.get("kind")
    if fields.get("kind") is None and isinstance(kind, int) and 0 < kind < len(KINDS):
        fields["kind"] = KINDS[kind]
    fields["multiplier"] = stored.get("multiplier")
    if stored.get("salience_source") == _CALLER:
        fields["salience"] = stored.get("salience")
    return build_memory(place, fields, reading, state)
