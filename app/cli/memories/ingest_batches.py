"""Split a file into ingest requests (NDJSON or chat messages) with reproducible idempotency keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import msgspec

from app.cli.core.errors import CommandFailure
from app.domain.ingest.bodies import ChatMessage, read_content

_NO_LIST: Final = "; the file must be JSON Lines: convert a JSON list with `jq -c '.[]' FILE`"
LINE_MAX_BYTES: Final = 1024 * 1024
CHAT_MAX_BYTES: Final = 64 * 1024 * 1024
BATCH_MAX_BYTES: Final = 4 * 1024 * 1024
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LineFormat:
    """Format of the lines, and default fields for memories that omit them."""

    is_text: bool = False
    thread: str | None = None
    subject: str | None = None

    @property
    def defaults(self) -> dict[str, Any]:
        """Default fields to fill in."""
        given = {"thread": self.thread, "subject": self.subject}
        return {name: value for name, value in given.items() if value is not None}


@dataclass
class Batch:
    """One ingest request.

    Attributes:
        name: File name as given by the user.
        origin: Absolute path of the file, part of the idempotency key.
        offset: Start of the request's data in the file, in bytes.
        lines: Line number of each memory or message.
        memories: Memories as JSON, or chat messages if `beside` is set.
        size: Bytes of the file covered by this request.
        weight: Size of the request body, in bytes.
        beside: Fields of the chat object other than `messages`.
        places: Index of each message in its chat.
        skipped: Number of messages without text; they aren't sent.
        left_out: Number of non-text content parts in the messages, such as images.
    """

    name: str
    origin: str
    offset: int
    lines: list[int] = field(default_factory=list)
    memories: list[bytes] = field(default_factory=list)
    size: int = 0
    weight: int = 0
    beside: dict[str, Any] | None = None
    places: list[int] = field(default_factory=list)
    skipped: int = 0
    left_out: int = 0

    @property
    def body(self) -> bytes:
        """Request body: NDJSON, or one object with messages."""
        if self.beside is None:
            return b"\n".join(self.memories) + b"\n"
        return msgspec.json.encode({**self.beside, "messages": [msgspec.Raw(each) for each in self.memories]})

    @property
    def media_type(self) -> str:
        """Content-Type of the body."""
        return "application/x-ndjson" if self.beside is None else "application/json"

    @property
    def key(self) -> str:
        """Idempotency-Key derived from the file, the position and the content."""
        digest = hashlib.blake2b(digest_size=20)
        where = ".".join(map(str, (self.offset, *self.places[:1])))
        for part in (self.origin.encode(errors="surrogateescape"), where.encode(), self.body):
            digest.update(len(part).to_bytes(8, "big") + part)
        return f"ebbing-ingest-{digest.hexdigest()}"


def split_batches(stream: BinaryIO, name: str, origin: str, form: LineFormat, most: int) -> Iterator[Batch]:
    """Split a stream into requests of at most `most` memories and 4 MiB.

    A line with an object that has `messages` is a chat and gets its own requests. A whole file may also be one such
    object, of up to 64 MiB.

    Raises:
        CommandFailure: A line is not a valid memory; the message names file and line.
    """
    part = Batch(name, origin, 0)
    number = offset = 0
    is_first = True
    while line := stream.readline(LINE_MAX_BYTES + 1):
        number += 1
        said = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        try:
            memory = _memory(said, form, f"{name}:{number}")
        except CommandFailure:
            rest = stream.read(CHAT_MAX_BYTES) if is_first and not form.is_text else b""
            memory = _whole(said + rest)
            if memory is None:
                raise
            line += rest
        is_first = is_first and memory is None
        if isinstance(memory, dict):
            if part.lines:
                yield part
            yield from _messages(Batch(name, origin, offset), memory, form, number, most, len(line))
            part = Batch(name, origin, offset + len(line))
        else:
            if memory is not None:
                if len(part.lines) == most or (part.lines and part.weight + len(memory) >= BATCH_MAX_BYTES):
                    yield part
                    part = Batch(name, origin, offset)
                part.lines.append(number)
                part.memories.append(memory)
                part.weight += len(memory) + 1
            part.size += len(line)
        offset += len(line)
    if part.lines:
        yield part


def _whole(body: bytes) -> dict[str, Any] | None:
    """Return the chat object if the whole file is a single chat object; None for other files."""
    try:
        given = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return given if isinstance(given, dict) and "messages" in given else None


def _messages(
    part: Batch, chat: dict[str, Any], form: LineFormat, number: int, most: int, size: int
) -> Iterator[Batch]:
    """Split a chat into requests; messages without text are counted and not sent.

    Args:
        part: First request, still empty.
        chat: Object with the messages.
        form: Default fields.
        number: Line number of the chat.
        most: Maximum messages per request.
        size: Bytes of the file covered by the chat.
    """
    messages = chat["messages"]
    if not isinstance(messages, list):
        raise CommandFailure(f"{part.name}:{number}: messages must be a list of objects")
    beside = form.defaults | {name: value for name, value in chat.items() if name != "messages" and value is not None}
    part.beside, start = beside, len(msgspec.json.encode(beside))
    part.weight = start
    for place, message in enumerate(messages):
        has_text, others = _content(message)
        part.left_out += others
        if not has_text:
            part.skipped += 1
            continue
        encoded = msgspec.json.encode(message)
        if len(part.lines) == most or (part.lines and part.weight + len(encoded) >= BATCH_MAX_BYTES):
            yield part
            part = Batch(part.name, part.origin, part.offset, beside=beside, weight=start)
        part.lines.append(number)
        part.places.append(place)
        part.memories.append(encoded)
        part.weight += len(encoded) + 1
    part.size = size
    yield part


def _content(message: object) -> tuple[bool, int]:
    """Return whether a message has text, and its number of other parts. The service validates malformed messages."""
    try:
        text, others = read_content(msgspec.convert(message, ChatMessage))
    except msgspec.ValidationError:
        return True, 0
    return bool(text) and not text.isspace(), others.total()


def _memory(line: bytes, form: LineFormat, where: str) -> bytes | dict[str, Any] | None:
    """Return the memory of a line as JSON, a chat as the decoded object, or None for an empty line."""
    if len(line) > LINE_MAX_BYTES:
        raise CommandFailure(f"{where}: the line is too long (limit {LINE_MAX_BYTES} bytes)")
    line = line.strip()
    if not line:
        return None
    try:
        if form.is_text:
            return msgspec.json.encode({"text": line.decode(), **form.defaults})
        memory = msgspec.json.decode(line)
    except UnicodeDecodeError:
        raise CommandFailure(f"{where}: not UTF-8") from None
    except (msgspec.DecodeError, RecursionError) as error:
        hint = "; use --text for plain text" if not line.startswith((b"{", b"[")) else ""
        if line.startswith(b"["):
            hint = _NO_LIST
        raise CommandFailure(f"{where}: invalid JSON ({error}){hint}") from None
    if not isinstance(memory, dict):
        hint = _NO_LIST if isinstance(memory, list) else ""
        raise CommandFailure(f'{where}: expected one JSON object per line, such as {{"text": "…"}}{hint}')
    if "messages" in memory:
        return memory
    missing = {name: value for name, value in form.defaults.items() if memory.get(name) is None}
    return msgspec.json.encode(memory | missing) if missing else line
