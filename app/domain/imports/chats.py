"""Read conversations from the exports of ChatGPT and Claude: each message with text becomes a memory of its thread."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Final

import msgspec

from app.domain.imports.containers import (
    TOO_LONG,
    ZIP_START,
    decode_object,
    iterate_lines,
    open_archive,
    read_document,
    read_start,
    split_array,
)
from app.domain.imports.items import Fault, Item, Reading, refuse
from app.domain.imports.records import BadValue, build_memory, derive_id, fit_metadata, name_id, parse_moment
from app.domain.ingest.roles import read_message_role
from app.errors import EbbingError

Conversation = Callable[[int, dict[str, Any], Reading], Iterator[Item]]
_DATED: Final = re.compile(r"\[(?P<date>[^\]]{4,40})\]\s*-?\s*(?P<text>.+)")
_SKIPPED_ROLES: Final = ("system", "tool")
_NODES_MAX: Final = 100_000


def read_chatgpt(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the messages of ChatGPT's export (zip, or its conversations*.json), and the saved memories of the zip.

    A text file with one saved memory per line, such as `[2026-03-01] - Prefers tea`, is read as well.

    Raises:
        FileRefused: The zip archive has neither conversations nor saved memories.
    """
    if read_start(source).startswith(ZIP_START):
        with open_archive(source) as archive:
            conversations = archive.find("conversations*.json")
            saved = archive.find("memory.json", "memories.json")
            if not conversations and not saved:
                refuse("the zip archive has no file conversations.json")
            place = 0
            for name in conversations:
                for item in _read_conversations(split_array(archive.read(name)), _read_chatgpt, reading, place):
                    yield item
                    place = max(place, item.place)
            for name in saved:
                yield from _read_saved(split_array(archive.read(name)), reading)
    elif _is_pasted(source):
        yield from _read_pasted(source, reading)
    else:
        yield from _read_conversations(split_array(read_document(source)), _read_chatgpt, reading, 0)


def read_claude(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    """Yield the messages of Claude's export: zip, its conversations.json, or JSON lines.

    Raises:
        FileRefused: The zip archive has no conversations.
    """
    if read_start(source).startswith(ZIP_START):
        with open_archive(source) as archive:
            names = archive.find("conversations*.json", "conversations*.jsonl")
            if not names:
                refuse("the zip archive has no file conversations.json")
            place = 0
            for name in names:
                content = archive.read(name)
                raws = _split_lines(content) if name.endswith("l") else split_array(content)
                for item in _read_conversations(raws, _read_claude, reading, place):
                    yield item
                    place = max(place, item.place)
        return
    content = read_document(source)
    raws = split_array(content) if _is_json(source) else _split_lines(content)
    yield from _read_conversations(raws, _read_claude, reading, 0)


def _is_pasted(source: BinaryIO) -> bool:
    """Return whether a file has a saved memory per line; a damaged document of JSON doesn't count as text."""
    first = next((line for _, line in iterate_lines(source)), None) or b""
    is_dated = _DATED.fullmatch(first.decode("utf-8", "replace").strip()) is not None
    return is_dated or first.lstrip()[:1] not in (b"[", b"{")


def _is_json(source: BinaryIO) -> bool:
    """Return whether the file is one JSON document, rather than lines of text or of JSON."""
    try:
        msgspec.json.decode(read_document(source), type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _split_lines(content: bytes) -> list[msgspec.Raw]:
    return [msgspec.Raw(line) for line in content.splitlines() if line.strip()]


def _read_conversations(raws: list[msgspec.Raw], read: Conversation, reading: Reading, before: int) -> Iterator[Item]:
    """Yield the items of conversations; an item's place is its conversation's number, counted from `before` + 1."""
    for place, raw in enumerate(raws, start=before + 1):
        conversation = decode_object(raw)
        if isinstance(conversation, str):
            yield Fault(place, conversation)
            continue
        try:
            yield from read(place, conversation, reading)
        except (BadValue, EbbingError) as error:
            yield Fault(place, f"a time {error}")


def _read_chatgpt(place: int, conversation: dict[str, Any], reading: Reading) -> Iterator[Item]:
    mapping = conversation.get("mapping")
    identifier = conversation.get("id") or conversation.get("conversation_id")
    if not isinstance(mapping, dict) or not isinstance(identifier, str):
        yield Fault(place, "the conversation has no id or no messages")
        return
    started = parse_moment(conversation.get("create_time"), reading)
    for node_id, message in _current_branch(mapping, conversation.get("current_node")):
        author = message.get("author")
        role = author.get("role") if isinstance(author, dict) else None
        content = message.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        texts = [part for part in parts if isinstance(part, str) and part.strip()] if isinstance(parts, list) else []
        is_aside = message.get("weight") == 0 or message.get("channel") == "commentary"
        if (reason := _reason_to_skip(role, texts, is_aside=is_aside)) is not None:
            yield Fault(place, reason)
            continue
        yield _build(
            place,
            "chatgpt",
            (identifier, message.get("id") or node_id),
            ("\n".join(texts), role, parse_moment(message.get("create_time"), reading) or started),
            conversation.get("title"),
            reading,
        )


def _current_branch(mapping: dict[str, Any], node_id: object) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages from the root to the current node; other branches were replaced by edits."""
    if node_id not in mapping:
        parents = {node.get("parent") for node in mapping.values() if isinstance(node, dict)}
        node_id = next((each for each in reversed(mapping) if each not in parents), None)
    branch: list[tuple[str, dict[str, Any]]] = []
    seen: set[object] = set()
    while isinstance(node_id, str) and node_id not in seen and len(seen) < _NODES_MAX:
        seen.add(node_id)
        node = mapping.get(node_id)
        if not isinstance(node, dict):
            break
        if isinstance(message := node.get("message"), dict):
            branch.append((node_id, message))
        node_id = node.get("parent")
    return branch[::-1]


def _read_claude(place: int, conversation: dict[str, Any], reading: Reading) -> Iterator[Item]:
    messages, identifier = conversation.get("chat_messages"), conversation.get("uuid")
    if not isinstance(messages, list) or not isinstance(identifier, str):
        yield Fault(place, "the conversation has no uuid or no messages")
        return
    started = parse_moment(conversation.get("created_at"), reading)
    for message in messages:
        if not isinstance(message, dict):
            yield Fault(place, "a message isn't a JSON object")
            continue
        texts = _claude_texts(message)
        if (reason := _reason_to_skip(message.get("sender"), texts, is_aside=False)) is not None:
            yield Fault(place, reason)
            continue
        yield _build(
            place,
            "claude",
            (identifier, message.get("uuid") or "\n".join(texts)),
            ("\n".join(texts), message.get("sender"), parse_moment(message.get("created_at"), reading) or started),
            conversation.get("name"),
            reading,
        )


def _claude_texts(message: dict[str, Any]) -> list[str]:
    """Return the blocks of text of a message, or its field `text`; blocks of tools and of thinking are left out."""
    content = message.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [block["text"] for block in blocks if block.get("type") == "text" and isinstance(block.get("text"), str)]
    texts = [text for text in texts if text.strip()]
    text = message.get("text")
    return texts or ([text] if isinstance(text, str) and text.strip() else [])


def _reason_to_skip(role: object, texts: list[str], *, is_aside: bool) -> str | None:
    meant = read_message_role(role) if isinstance(role, str) else None
    if meant in _SKIPPED_ROLES:
        return f"a message of the role {meant} isn't imported"
    if meant is None:
        return "a message has no known role"
    if is_aside:
        return "a message that wasn't shown isn't imported"
    return None if texts else "a message has no text"


def _build(
    place: int,
    source: str,
    ids: tuple[str, object],
    message: tuple[str, object, Any],
    title: object,
    reading: Reading,
) -> Item:
    conversation_id, message_id = ids
    text, role, occurred_at = message
    fields = {
        "text": text,
        "thread": name_id(source, conversation_id),
        "role": read_message_role(str(role)),
        "occurred_at": occurred_at,
        "metadata": fit_metadata({"title": title if isinstance(title, str) else None}),
        "external_id": name_id(source, f"{conversation_id}/{message_id}"),
    }
    return build_memory(place, fields, reading, None)


def _read_saved(raws: list[msgspec.Raw], reading: Reading) -> Iterator[Item]:
    """Yield ChatGPT's saved memories, given as objects or as one object with the list `memories`."""
    if len(raws) == 1 and isinstance(whole := decode_object(raws[0]), dict) and isinstance(whole.get("memories"), list):
        raws = [msgspec.Raw(msgspec.json.encode(each)) for each in whole["memories"]]
    for place, raw in enumerate(raws, start=1):
        record = decode_object(raw)
        if isinstance(record, str):
            yield Fault(place, f"a saved memory: {record}")
            continue
        if record.get("enabled") is False:
            yield Fault(place, "a saved memory was switched off")
            continue
        try:
            at = parse_moment(record.get("created_at") or record.get("create_time"), reading)
        except BadValue as error:
            yield Fault(place, f"the time of a saved memory {error}")
            continue
        yield _saved(place, record.get("content") or record.get("text"), at, record.get("id"), reading)


def _read_pasted(source: BinaryIO, reading: Reading) -> Iterator[Item]:
    for number, line in iterate_lines(source):
        if line is None:
            yield Fault(number, TOO_LONG)
            continue
        try:
            text = line.decode().strip()
        except UnicodeDecodeError:
            yield Fault(number, "the line isn't UTF-8")
            continue
        dated = _DATED.fullmatch(text)
        at = None
        if dated is not None and dated["date"][:4].isdigit():
            try:
                at = parse_moment(
                    dated["date"] if len(dated["date"]) > len("2026-03-01") else f"{dated['date']}T00:00Z", reading
                )
                text = dated["text"]
            except BadValue as error:
                yield Fault(number, f"the date {error}")
                continue
        yield _saved(number, text, at, None, reading)


def _saved(place: int, text: object, at: Any, identifier: object, reading: Reading) -> Item:
    external_id = derive_id("chatgpt", "saved", str(text)) if identifier is None else name_id("chatgpt", identifier)
    fields = {"text": text, "occurred_at": at, "tags": ("saved",), "external_id": external_id}
    return build_memory(place, fields, reading, None)
