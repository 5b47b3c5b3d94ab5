"""Read agent files of Letta (`.af`): memory blocks and messages. Archival memory isn't part of such files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, Final

from app.domain.imports.containers import decode_object, read_document
from app.domain.imports.items import Fault, GivenState, Item, Reading, refuse
from app.domain.imports.records import BadValue, build_memory, fit_labels, fit_metadata, name_id, parse_moment
from app.domain.ingest.roles import read_message_role

_SOURCE: Final = "letta"
_IMPORTED: Final = ("user", "assistant")


def read(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield a promoted memory for each block, and a memory for each message with text; blocks come first.

    Raises:
        FileRefused: The file isn't an agent file.
    """
    file = decode_object(read_document(source))
    if isinstance(file, str):
        refuse("the file isn't an agent file: a JSON object in UTF-8")
    agents = file.get("agents")
    agents = [agent for agent in agents if isinstance(agent, dict)] if isinstance(agents, list) else [file]
    blocks = file.get("blocks") if "agents" in file else file.get("core_memory")
    if not isinstance(blocks, list) and not any(isinstance(agent.get("messages"), list) for agent in agents):
        refuse("the file has neither blocks nor messages")
    place = 0
    for place, block in enumerate(blocks if isinstance(blocks, list) else [], start=1):
        yield _read_block(place, block, agents, reading)
    for agent in agents:
        messages = agent.get("messages")
        for message in messages if isinstance(messages, list) else []:
            place += 1
            yield _read_message(place, message, agent, reading)


def _agent_name(agent: dict[str, Any]) -> str:
    return str(agent.get("id") or agent.get("name") or "agent")


def _read_block(place: int, block: object, agents: list[dict[str, Any]], reading: Reading) -> Item:
    if not isinstance(block, dict):
        return Fault(place, "a block isn't a JSON object")
    if not block.get("value"):
        return Fault(place, "a block is empty")
    identifier = block.get("id") or f"{_agent_name(agents[0])}/{block.get('label')}"
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


def _read_message(place: int, message: object, agent: dict[str, Any], reading: Reading) -> Item:
    if not isinstance(message, dict):
        return Fault(place, "a message isn't a JSON object")
    role = read_message_role(message.get("role")) if isinstance(message.get("role"), str) else None
    if role not in _IMPORTED:
        return Fault(place, f"a message of the role {role or 'unknown'} isn't imported")
    content = message.get("content", message.get("text"))
    blocks = content if isinstance(content, list) else []
    texts = [content] if isinstance(content, str) else [each.get("text") for each in blocks if isinstance(each, dict)]
    text = "\n".join(each for each in texts if isinstance(each, str) and each.strip())
    if not text:
        return Fault(place, "a message has no text")
    try:
        occurred_at = parse_moment(message.get("created_at"), reading)
    except BadValue as error:
        return Fault(place, f"a time {error}")
    name = _agent_name(agent)
    fields = {
        "text": text,
        "thread": name_id(_SOURCE, name),
        "role": role,
        "occurred_at": occurred_at,
        "external_id": name_id(_SOURCE, f"{name}/{message.get('id') or place}"),
    }
    return build_memory(place, fields, reading, None)
