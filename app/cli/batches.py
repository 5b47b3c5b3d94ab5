"""Lines of a file as requests: bodies of NDJSON, each with a key that another run makes alike."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import msgspec

from app.cli.failures import Failure

LINE_MAX_BYTES: Final = 1024 * 1024
BATCH_MAX_BYTES: Final = 4 * 1024 * 1024
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Form:
    """What a line is, and what memories get that don't say it themselves."""

    is_text: bool = False
    thread: str | None = None
    subject: str | None = None

    @property
    def defaults(self) -> dict[str, Any]:
        """The fields to fill in."""
        given = {"thread": self.thread, "subject": self.subject}
        return {name: value for name, value in given.items() if value is not None}


@dataclass
class Batch:
    """One request.

    Attributes:
        name: The file as the user named it.
        origin: The file by its whole path, a part of the key.
        offset: Where in the file it begins, in bytes.
        lines: Line number of each memory.
        size: Bytes of the file that it took.
    """

    name: str
    origin: str
    offset: int
    lines: list[int] = field(default_factory=list)
    memories: list[bytes] = field(default_factory=list)
    size: int = 0
    weight: int = 0

    @property
    def body(self) -> bytes:
        """NDJSON."""
        return b"\n".join(self.memories) + b"\n"

    @property
    def key(self) -> str:
        """The Idempotency-Key: the same file, place and content make the same."""
        digest = hashlib.blake2b(digest_size=20)
        for part in (self.origin.encode(errors="surrogateescape"), str(self.offset).encode(), self.body):
            digest.update(len(part).to_bytes(8, "big") + part)
        return f"ebbing-ingest-{digest.hexdigest()}"


def batches(stream: BinaryIO, name: str, origin: str, form: Form, most: int) -> Iterator[Batch]:
    """Read a stream line by line into requests of at most `most` memories and 4 MiB.

    Raises:
        Failure: A line can't be a memory; names file and line.
    """
    part = Batch(name, origin, 0)
    number = offset = 0
    while line := stream.readline(LINE_MAX_BYTES + 1):
        number += 1
        where = f"{name}:{number}"
        if len(line) > LINE_MAX_BYTES:
            raise Failure(f"{where}: the line is too long (limit {LINE_MAX_BYTES} bytes)")
        memory = _memory(line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line, form, where)
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


def _memory(line: bytes, form: Form, where: str) -> bytes | None:
    """A memory as JSON; None for an empty line."""
    line = line.strip()
    if not line:
        return None
    try:
        if form.is_text:
            return msgspec.json.encode({"text": line.decode(), **form.defaults})
        memory = msgspec.json.decode(line)
    except UnicodeDecodeError:
        raise Failure(f"{where}: isn't UTF-8") from None
    except (msgspec.DecodeError, RecursionError) as error:
        hint = "; lines of plain text want --text" if not line.startswith((b"{", b"[")) else ""
        raise Failure(f"{where}: isn't JSON ({error}){hint}") from None
    if not isinstance(memory, dict):
        raise Failure(f'{where}: a memory is an object such as {{"text": "…"}}, one a line')
    missing = {name: value for name, value in form.defaults.items() if memory.get(name) is None}
    return msgspec.json.encode(memory | missing) if missing else line
