"""Read agent files of Letta (`.af`): memory blocks and messages. Archival memory isn't part of such files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO, Final

import msgspec

from app.domain.imports.containers import decode_object, read_document, split_array, split_object
from app.domain.imports.items import Fault, GivenState, Item, Reading, refuse
from app.domain.imports.records import (
    BadValue,
    build_memory,
    derive_id,
    fit_labels,
    fit_metadata,
    name_id,
    parse_moment,
)
from app.domain.ingest.roles import read_message_role

_SOURCE: Final = "letta"
_IMPORTED: Final = ("user", "assistant")
_SERIAL: Final = re.compile(r"(agent|block|message)-\d+")
"""Ids that each export numbers from 0; equal ids in two files may therefore belong to different objects."""
_SEND: Final = "send_message"
"""Tool with which older agents send answers; the content of a message that calls it is reasoning that wasn't shown."""
_PACKED: Final = "user_message"
"""Type of the JSON object in which older agents get a user's message; other types are events, such as a log-in."""


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield a promoted memory for each block, and a memory for each message with text; blocks come first.

    Raises:
        FileRefused: The file isn't an agent file.
    """
    file = split_object(_unwrap(read_document(source)))
    raw_agents = _items(file.get("agents"))
    agents = [split_object(bytes(agent)) for agent in raw_agents] if "agents" in file else [file]
    blocks = file.get("blocks") if "agents" in file else file.get("core_memory")
    if not _is_array(blocks) and not any(_is_array(agent.get("messages")) for agent in agents):
        refuse("the file has neither blocks nor messages")
    names = [_agent_name(agent) for agent in agents] or ["agent"]
    place = 0
    for place, block in enumerate(_items(blocks), start=1):
        yield _read_block(place, block, names[0], reading)
    for agent, name in zip(agents, names, strict=False):
        for message in _items(agent.get("messages")):
            place += 1
            yield _read_message(place, message, name, reading)


def _unwrap(content: bytes) -> bytes:
    """Return the JSON object of a file; some files hold it as a JSON string."""
    if content.lstrip()[:1] != b'"':
        return content
    try:
        return msgspec.json.decode(content, type=str).encode()
    except (msgspec.DecodeError, UnicodeError):
        return content


def _is_array(value: msgspec.Raw | None) -> bool:
    return value is not None and bytes(value).lstrip()[:1] == b"["


def _items(value: msgspec.Raw | None) -> list[msgspec.Raw]:
    return split_array(bytes(value)) if value is not None and _is_array(value) else []


def _agent_name(agent: Mapping[str, msgspec.Raw]) -> str:
    given = [msgspec.json.decode(agent[key]) for key in ("id", "name") if key in agent]
    names = [name for name in given if isinstance(name, str) and name]
    return next((name for name in names if not _SERIAL.fullmatch(name)), names[0] if names else "agent")


def _own_id(record: Mapping[str, Any]) -> str | None:
    identifier = record.get("id")
    return None if not identifier or _SERIAL.fullmatch(str(identifier)) else str(identifier)


def _read_block(place: int, encoded: msgspec.Raw, agent: str, reading: Reading) -> Item:
    block = decode_object(encoded)
    if isinstance(block, str):
        return Fault(place, f"a block: {block}")
    if not block.get("value"):
        return Fault(place, "a block is empty")
    identifier = _own_id(block) or f"{agent}/{block.get('label') or block.get('id')}"
    tags = block.get("tags")
    metadata = block.get("metadata")
    fields = {
        "text": block["value"],
        "tags": fit_labels([block.get("label"), *(tags if isinstance(tags, list) else ())]),
        "metadata": fit_metadata(
            {"description": block.get("description")} | (metadata if isinstance(metadata, dict) else {})
        ),
        "external_id": name_id(_SOURCE, identifier),
    }
    return build_memory(place, fields, reading, GivenState(reading.now, reading.now, promoted_at=reading.now))


def _read_message(place: int, encoded: msgspec.Raw, agent: str, reading: Reading) -> Item:
    message = decode_object(encoded)
    if isinstance(message, str):
        return Fault(place, f"a message: {message}")
    role = read_message_role(message.get("role")) if isinstance(message.get("role"), str) else None
    if role not in _IMPORTED:
        return Fault(place, f"a message of the role {role or 'unknown'} isn't imported")
    text: str | None = "\n".join(_sent(message) or _shown(message))
    if role == "user":
        text = _unpack(str(text))
        if text is None:
            return Fault(place, "an event such as a log-in isn't imported")
    if not text:
        return Fault(place, "a message has no text")
    try:
        occurred_at = parse_moment(message.get("created_at"), reading)
    except BadValue as error:
        return Fault(place, f"a time {error}")
    own, said = _own_id(message), (agent, str(message.get("created_at")), role or "", text)
    fields = {
        "text": text,
        "thread": name_id(_SOURCE, agent),
        "role": role,
        "occurred_at": occurred_at,
        "external_id": derive_id(_SOURCE, *said) if own is None else name_id(_SOURCE, f"{agent}/{own}"),
    }
    return build_memory(place, fields, reading, None)


def _shown(message: Mapping[str, Any]) -> list[str]:
    """Return the texts of a message's content; reasoning is left out."""
    content = message.get("content")
    content = message.get("text") if content is None else content
    blocks = content if isinstance(content, list) else []
    texts = [content] if isinstance(content, str) else [each.get("text") for each in blocks if isinstance(each, dict)]
    return [each for each in texts if isinstance(each, str) and each.strip()]


def _sent(message: Mapping[str, Any]) -> list[str]:
    """Return the texts that an agent has sent by its tool for answers."""
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    texts = []
    for function in functions:
        if isinstance(function, dict) and function.get("name") == _SEND:
            text = _decode(function.get("arguments")).get("message")
            if isinstance(text, str) and text.strip():
                texts.append(text)
    return texts


def _unpack(text: str) -> str | None:
    """Return a user's message that is packed as JSON, or the text itself; None for an event of another type."""
    packed = _decode(text) if text.startswith("{") else {}
    if not isinstance(kind := packed.get("type"), str) or "time" not in packed:
        return text
    message = packed.get("message")
    return message if kind == _PACKED and isinstance(message, str) else None


def _decode(text: object) -> dict[str, Any]:
    found = decode_object(text.encode("utf-8", "replace")) if isinstance(text, str) else ""
    return found if isinstance(found, dict) else {}
