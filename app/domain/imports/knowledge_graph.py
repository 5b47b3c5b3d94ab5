"""Read the memory file of the reference MCP server: entities with observations, and relations between entities."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from app.domain.imports.containers import TOO_LONG, decode_object, iterate_lines
from app.domain.imports.items import Fault, Item, Reading
from app.domain.imports.records import build_memory, derive_id, fit_labels

_SOURCE: Final = "knowledge-graph"


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield a memory for each observation of an entity, and one for each relation, as a sentence."""
    for number, line in iterate_lines(source):
        record = TOO_LONG if line is None else decode_object(line)
        if isinstance(record, str):
            yield Fault(number, record)
        elif record.get("type") == "entity":
            yield from _read_entity(number, record, reading)
        elif record.get("type") == "relation":
            yield _read_relation(number, record, reading)
        else:
            yield Fault(number, "type must be entity or relation")


def _read_entity(number: int, record: dict[str, Any], reading: Reading) -> Iterator[Item]:
    name, observations = record.get("name"), record.get("observations")
    if not isinstance(name, str) or not name:
        yield Fault(number, "name is missing")
        return
    if not isinstance(observations, list) or not observations:
        yield Fault(number, "has no observations")
        return
    shared = {"entities": fit_labels([name]), "tags": fit_labels([record.get("entityType")])}
    for observation in dict.fromkeys(text for text in observations if isinstance(text, str)):
        fields = shared | {"text": observation, "external_id": derive_id(_SOURCE, name, observation)}
        yield build_memory(number, fields, reading, None)
    if not all(isinstance(text, str) for text in observations):
        yield Fault(number, "has an observation that isn't text")


def _read_relation(number: int, record: dict[str, Any], reading: Reading) -> Item:
    parts = [record.get(key) for key in ("from", "relationType", "to")]
    if not all(isinstance(part, str) and part for part in parts):
        return Fault(number, "from, relationType or to is missing")
    first, kind, second = (str(part) for part in parts)
    fields = {
        "text": f"{first} {kind} {second}",
        "entities": fit_labels([first, second]),
        "tags": ("relation",),
        "external_id": derive_id(_SOURCE, "relation", first, kind, second),
    }
    return build_memory(number, fields, reading, None)
