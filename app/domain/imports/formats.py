"""The formats that can be imported, by name: a reader of each, and what it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from app.domain.imports import (
    chats,
    cortexgraph,
    dump,
    ebbing_export,
    generic,
    knowledge_graph,
    langgraph,
    letta,
    mem0,
    memory_decay,
)
from app.domain.imports.items import Item, Reading
from app.errors import FieldError, Invalid


@dataclass(frozen=True, slots=True)
class ImportFormat:
    """A format of files.

    Attributes:
        read: Yields the file's items in order; raises `FileRefused` if the file as a whole can't be read.
        place: Name of an item's place in the file, for reports: `line`, `row`, `record` or `conversation`.
        summary: What is read, in one line.
        takes_map: Whether the options' `map` has an effect.
    """

    read: Callable[[BinaryIO, Reading], Iterator[Item]]
    place: str
    summary: str
    takes_map: bool = False


FORMATS: Final[dict[str, ImportFormat]] = {
    "ebbing": ImportFormat(ebbing_export.read, "line", "an export of Ebbing (zip), or one of its .jsonl files"),
    "dump": ImportFormat(dump.read, "line", "a dump of a tenant (`ebbing dump`), which `ebbing load` sends"),
    "jsonl": ImportFormat(generic.read_jsonl, "line", "JSON lines with Ebbing's fields or mapped ones", takes_map=True),
    "csv": ImportFormat(generic.read_csv, "row", "CSV with a header", takes_map=True),
    "cortexgraph": ImportFormat(cortexgraph.read, "line", "memories.jsonl, relations.jsonl, a zip, or its database"),
    "memory-decay": ImportFormat(memory_decay.read, "record", "its SQLite database"),
    "mem0": ImportFormat(mem0.read, "record", "rows of its vector store (JSON), history.db, or the plugin's export"),
    "knowledge-graph": ImportFormat(knowledge_graph.read, "line", "memory.jsonl of the reference MCP memory server"),
    "chatgpt": ImportFormat(chats.read_chatgpt, "conversation", "ChatGPT's data export (zip, or conversations.json)"),
    "claude": ImportFormat(chats.read_claude, "conversation", "Claude's data export (zip, or conversations.json)"),
    "langgraph": ImportFormat(langgraph.read, "record", "the table store: JSONL, CSV or SQLite", takes_map=True),
    "letta": ImportFormat(letta.read, "record", "an agent file (.af)"),
}


def find_format(name: str) -> ImportFormat:
    """Return a format by its name.

    Raises:
        Invalid: There is no such format.
    """
    if name not in FORMATS:
        raise Invalid(errors=[FieldError("format", f"must be one of {', '.join(FORMATS)}")])
    return FORMATS[name]
