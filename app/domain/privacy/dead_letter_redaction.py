"""Remove the memories covered by an erasure from dead letters without changing the ids of the others.

A memory's id depends on its index in the request, so a placeholder replaces each removed memory. Its thread
exists only for the erasure; when the letter is replayed, a tombstone of this thread drops the placeholder.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec

from app.domain.ingest import bodies, uses
from app.domain.ingest.envelope import Envelope, MalformedEnvelope, decode_envelope
from app.domain.ingest.ids import first_seq, last_seq, memory_uuids
from app.domain.ingest.memory import MemoryIn
from app.domain.privacy.late_arrivals import matches_scope
from app.domain.privacy.legal_hold import Scope
from app.errors import Invalid, Unreadable

_TEXT: Final = "erased"
_THREAD: Final = "erased by "
_memory: Final = msgspec.json.Decoder(MemoryIn)
_line: Final = msgspec.json.Decoder(msgspec.Raw)
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class RedactedLetter:
    """Result of redacting a letter.

    Attributes:
        removed: Number of memories, or uses of memories, removed.
        payload: The new payload; None if nothing is left.
    """

    removed: int
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class RedactionScope:
    """An erasure's criteria for redacting letters.

    Attributes:
        erasure_id: The erasure's id.
        scope: The erasure's scope.
        erased: Ids of the stored memories that the erasure deletes; uses of these memories are removed too.
        cut: Last stream position that the erasure covers.
    """

    erasure_id: UUID
    scope: Scope
    erased: Collection[UUID]
    cut: str


def placeholder_thread(erasure_id: UUID) -> str:
    """Return the thread of the placeholders for memories that an erasure removed from letters."""
    return f"{_THREAD}{erasure_id}"


def redact_letter(meant: RedactionScope, position: str, header: bytes, payload: bytes) -> RedactedLetter:
    """Redact a letter; letters accepted after the erasure's last stream position stay unchanged.

    Args:
        meant: The erasure's criteria.
        position: Original position of the letter's entry in the stream.
        header: Header of the entry.
        payload: Body of the entry.
    """
    if first_seq(position) > last_seq(meant.cut):
        return RedactedLetter(0, payload)
    try:
        envelope = decode_envelope(position, b"0", header, payload)
    except MalformedEnvelope:
        return _unknown(meant.scope, payload)
    if envelope.form == "touches":
        return _touches(meant.erased, envelope)
    memories = _memories(envelope)
    return _unknown(meant.scope, payload) if memories is None else _redact_memories(meant, envelope, memories)


def _redact_memories(meant: RedactionScope, envelope: Envelope, given: Sequence[msgspec.Raw]) -> RedactedLetter:
    """Replace each matching memory by a placeholder in the same position."""
    ids = memory_uuids(envelope.base, len(given))
    erased_ids = set(meant.scope.memory_ids or ())
    erased = [
        UUID(memory_id) in erased_ids or _matches(meant.scope, raw, envelope.accepted_ms)
        for memory_id, raw in zip(ids, given, strict=True)
    ]
    if not any(erased):
        return RedactedLetter(0, envelope.body)
    if all(is_erased or _is_placeholder(raw) for is_erased, raw in zip(erased, given, strict=True)):
        return RedactedLetter(sum(erased), None)
    placeholder = msgspec.json.encode({"text": _TEXT, "thread": placeholder_thread(meant.erasure_id)})
    memories = [placeholder if is_erased else bytes(raw) for is_erased, raw in zip(erased, given, strict=True)]
    body = b"\n".join(memories) if envelope.form == "ndjson" else b"[" + b",".join(memories) + b"]"
    return RedactedLetter(sum(erased), body)


def _memories(envelope: Envelope) -> Sequence[msgspec.Raw] | None:
    """Return each memory as submitted, or as converted from a message.

    Return None if the body isn't JSON, its messages can't be stored, or it has more memories than ids.
    """
    try:
        if envelope.form == "ndjson":
            memories = _line.decode_lines(envelope.body)
        elif envelope.body.lstrip()[:1] == b"[":
            memories = _array.decode(envelope.body)
        else:
            memories = [_line.decode(envelope.body)]
            if bodies.has_messages(envelope.body):
                memories = [_encode(memory) for memory in bodies.decode(envelope.body, "json", None)]
    except (msgspec.DecodeError, UnicodeError, RecursionError, Unreadable, Invalid):
        return None
    return memories if len(memory_uuids(envelope.base, len(memories))) == len(memories) else None


def _encode(memory: MemoryIn) -> msgspec.Raw:
    """Return a message's memory as JSON, in the form in which callers submit memories, without empty fields."""
    fields = {name: value for name in memory.__struct_fields__ if (value := getattr(memory, name)) not in (None, ())}
    return msgspec.Raw(msgspec.json.encode(fields))


def _matches(scope: Scope, raw: msgspec.Raw, accepted_ms: int) -> bool:
    try:
        return matches_scope(scope, _memory.decode(raw), accepted_ms)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _names_scope(scope, raw)


def _names_scope(scope: Scope, raw: msgspec.Raw) -> bool:
    """Return whether an invalid memory matches a scope by subject and thread; other conditions can't be checked."""
    try:
        fields: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _unknown(scope, bytes(raw)).removed > 0
    names = {name: value for name in ("subject", "thread") if (value := getattr(scope, name)) is not None}
    return isinstance(fields, dict) and bool(names) and all(fields.get(name) == value for name, value in names.items())


def _is_placeholder(raw: msgspec.Raw) -> bool:
    """Return whether this is a placeholder of an earlier erasure."""
    try:
        memory = _memory.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return memory.text == _TEXT and (memory.thread or "").startswith(_THREAD)


def _touches(erased: Collection[UUID], envelope: Envelope) -> RedactedLetter:
    try:
        touches = uses.decode(envelope.body)
    except (Unreadable, Invalid):
        return RedactedLetter(0, envelope.body)  # contains only ids and the digest of a session
    remaining = [use for use in touches.uses if use.id not in erased]
    removed = len(touches.uses) - len(remaining)
    if not removed:
        return RedactedLetter(0, envelope.body)
    return RedactedLetter(removed, uses.encode(msgspec.structs.replace(touches, uses=remaining)) if remaining else None)


def _unknown(scope: Scope, payload: bytes) -> RedactedLetter:
    """Remove an undecodable payload, which can never be stored, if it contains the subject's or thread's name."""
    for name in (scope.subject, scope.thread):
        if name is not None and (name.encode() in payload or json.dumps(name)[1:-1].encode() in payload):
            return RedactedLetter(1, None)
    return RedactedLetter(0, payload)
