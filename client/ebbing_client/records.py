"""Memories as the client sends and buffers them."""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Final, TypeAlias

from ebbing_client.call import Call, encode
from ebbing_client.errors import invalid_field
from ebbing_client.fields import MemoryFields
from ebbing_client.operations import Message, write
from ebbing_client.results import Added

TEXT_MAX_BYTES: Final = 32 * 1024
DELAY_SECONDS: Final = 5.0
"""Age from which a memory is sent with its time of writing; for a younger one, the time of acceptance is used."""
KNOWN_FIELDS: Final = frozenset({"text", *MemoryFields.__annotations__})
TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
ROLES: Final = {
    **{role: role for role in ("user", "assistant", "system", "tool")},
    "developer": "system",
    "function": "tool",
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
}

Memories: TypeAlias = "str | Mapping[str, Any] | Sequence[str | Mapping[str, Any]]"
"""A text, an object with the fields of a memory, or a list of both."""


@dataclass(frozen=True)
class Record:
    """A memory that waits to be sent.

    Attributes:
        id: Random id that the client made.
        content: The memory as JSON in UTF-8.
        written: Its field `written` as JSON: when it was written, and the last position of the service that the client
            had seen by then. Empty if `content` has the field.
        made_at: Time at which this process made it, in seconds since 1970; 0 for a record of an earlier process.
    """

    id: str
    content: bytes = field(repr=False)
    written: bytes = b""
    made_at: float = 0.0

    @property
    def body(self) -> dict[str, Any]:
        """The memory as an object, without the client's own field `written`."""
        body = dict(json.loads(self.content))
        body.pop("written", None)
        return body

    @property
    def delayed_content(self) -> bytes:
        """The memory with the field `written`, from which the service knows whether an erasure came after it."""
        return self.content[:-1] + b',"written":' + self.written + b"}" if self.written else self.content

    @property
    def has_waited(self) -> bool:
        """True if the memory must be sent with `written`: an earlier process wrote it, or it waited for a while."""
        return not self.written or not 0 <= time.time() - self.made_at < DELAY_SECONDS

    def is_about(self, subject: str | None, thread: str | None) -> bool:
        """Return true if an erasure of this person and conversation covers the memory; None stands for any of them."""
        body = self.body
        return (subject is None or body.get("subject") == subject) and (thread is None or body.get("thread") == thread)


@dataclass(frozen=True)
class Batch:
    """Records that are sent in one request, under one idempotency key."""

    records: tuple[Record, ...]
    key: str

    def call(self, *, wait: int | None = None, timeout: float | None = None) -> Call[Added]:
        """Return the request as it is sent now."""
        waited = [record.has_waited for record in self.records]
        contents = [
            record.delayed_content if is_late else record.content
            for record, is_late in zip(self.records, waited, strict=True)
        ]
        sent_ms = time.time_ns() // 1_000_000 if any(waited) else None
        return write(b"[" + b",".join(contents) + b"]", self.key, wait=wait, timeout=timeout, sent_ms=sent_ms)

    def split(self) -> tuple[Batch, Batch]:
        """Return the two halves of a batch that the service refused, each under a key of its own."""
        middle = len(self.records) // 2
        return make_batch(self.records[:middle]), make_batch(self.records[middle:])


def make_batch(records: Sequence[Record]) -> Batch:
    """Return a batch whose key follows from the records' ids: after a restart, equal batches have equal keys."""
    digest = hashlib.sha256(" ".join(record.id for record in records).encode())
    return Batch(tuple(records), digest.hexdigest()[:32])


def read_position(position: str) -> tuple[int, ...]:
    """Return a position of the service in a form that can be compared; the empty one comes first."""
    return tuple(int(part) for part in position.split("-") if part.isdigit())


def list_bodies(memories: Memories, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the memories as objects; `fields` apply to those that don't have the field themselves."""
    given = [memories] if isinstance(memories, (str, Mapping)) else list(memories)
    if not given:
        raise invalid_field("memories", "must not be empty")
    return [{**fields, **({"text": each} if isinstance(each, str) else each)} for each in given]


def make_records(bodies: Sequence[Mapping[str, Any]], *, is_durable: bool, after: str = "") -> list[Record]:
    """Return records of checked memories.

    Args:
        after: The last position of the service that the client has seen.
        is_durable: Give memories an external id and a time, so that each is stored once, with the time at which it was
            added, whenever it is sent.

    Raises:
        Invalid: A memory is one that the service would refuse later, when nobody waits for the answer.
    """
    records = []
    now = datetime.now(timezone.utc)
    written = encode({"at": now, "after": after} if after else {"at": now})
    for place, body in enumerate(bodies):
        record_id = secrets.token_hex(16)
        given = dict(body)
        if is_durable:
            given.setdefault("external_id", f"ebbing-client:{record_id}")
            given.setdefault("occurred_at", now)
        _check(given, f"[{place}]" if len(bodies) > 1 else "")
        records.append(Record(record_id, encode(given), written, now.timestamp()))
    return records


def external_ids(records: Sequence[Record]) -> tuple[str, ...]:
    """Return the external ids of records that have them."""
    return tuple(str(body["external_id"]) for record in records if (body := record.body).get("external_id"))


def _check(body: Mapping[str, Any], place: str) -> None:
    prefix = f"{place}." if place else ""
    text = body.get("text")
    if not isinstance(text, str) or not text.strip():
        raise invalid_field(f"{prefix}text", "must not be blank")
    if (size := len(text.encode("utf-8", "surrogatepass"))) > TEXT_MAX_BYTES:
        raise invalid_field(f"{prefix}text", "is too long in bytes", size, TEXT_MAX_BYTES)
    if unknown := sorted(body.keys() - KNOWN_FIELDS):
        raise invalid_field(f"{prefix}{unknown[0]}", "isn't a known field")


def convert_messages(
    messages: Sequence[Message], fields: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return chat messages as memories, the messages without text, and the parts that aren't stored.

    The service does the same with `messages`; the client does it for buffered writes, because only memories can have
    an external id.

    Raises:
        Invalid: A message has an unknown role, or none has text.
    """
    memories: list[dict[str, Any]] = []
    skipped: list[dict[str, Any]] = []
    left_out: list[dict[str, Any]] = []
    for place, message in enumerate(messages):
        role = ROLES.get(str(message.get("role")))
        if role is None:
            raise invalid_field(f"messages[{place}].role", "isn't a known role")
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        unstored: dict[str, int] = {}
        texts = []
        for part in parts:
            kind = str(part.get("type"))
            if kind not in TEXT_PARTS:
                unstored[kind] = unstored.get(kind, 0) + 1
            elif part.get("text"):
                texts.append(str(part["text"]))
        if unstored:
            left_out.append({"message": place, "parts": unstored})
        text = "\n".join(texts)
        if not text.strip():
            skipped.append({"message": place, "reason": "no text"})
            continue
        own = {"text": text, "role": role, "speaker": message.get("name"), "occurred_at": message.get("occurred_at")}
        memories.append({**fields, **{name: value for name, value in own.items() if value is not None}})
    if not memories:
        raise invalid_field("messages", "has no message with text")
    return memories, skipped, left_out
