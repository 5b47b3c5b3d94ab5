"""Remove the memories covered by an erasure from dead letters without changing the ids of the others.

A memory's id depends on its index in the request, so each removed memory is replaced by a placeholder: a memory in a
thread that belongs to the erasure, which a tombstone drops when the letter is replayed.
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
        erased: Stored memories that it erases, whose uses are removed too.
        cut: Last stream position that it covers.
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
    given = _memories(envelope)
    return _unknown(meant.scope, payload) if given is None else _redact_memories(meant, envelope, given)


def _redact_memories(meant: RedactionScope, envelope: Envelope, given: Sequence[msgspec.Raw]) -> RedactedLetter:
    """Redact memories, each replaced in its position."""
    ids = memory_uuids(envelope.base, len(given))
    wanted = set(meant.scope.memory_ids or ())
    goes = [
        UUID(memory_id) in wanted or _matches(meant.scope, raw, envelope.accepted_ms)
        for memory_id, raw in zip(ids, given, strict=True)
    ]
    if not any(goes):
        return RedactedLetter(0, envelope.body)
    if all(is_meant or _is_placeholder(raw) for is_meant, raw in zip(goes, given, strict=True)):
        return RedactedLetter(sum(goes), None)
    instead = msgspec.json.encode({"text": _TEXT, "thread": placeholder_thread(meant.erasure_id)})
    kept = [instead if is_meant else bytes(raw) for is_meant, raw in zip(goes, given, strict=True)]
    body = b"\n".join(kept) if envelope.form == "ndjson" else b"[" + b",".join(kept) + b"]"
    return RedactedLetter(sum(goes), body)


def _memories(envelope: Envelope) -> Sequence[msgspec.Raw] | None:
    """Return each memory as submitted, or as made from a message.

    None if the body isn't JSON, messages can't be stored, or there are more memories than ids.
    """
    try:
        if envelope.form == "ndjson":
            found = _line.decode_lines(envelope.body)
        elif envelope.body.lstrip()[:1] == b"[":
            found = _array.decode(envelope.body)
        else:
            found = [_line.decode(envelope.body)]
            if bodies.has_messages(envelope.body):
                found = [_encode(memory) for memory in bodies.decode(envelope.body, "json", None)]
    except (msgspec.DecodeError, UnicodeError, RecursionError, Unreadable, Invalid):
        return None
    return found if len(memory_uuids(envelope.base, len(found))) == len(found) else None


def _encode(memory: MemoryIn) -> msgspec.Raw:
    """Return a message's memory as JSON, as a caller could have sent it; empty fields are left out."""
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
        given: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _unknown(scope, bytes(raw)).removed > 0
    named = {name: value for name in ("subject", "thread") if (value := getattr(scope, name)) is not None}
    return isinstance(given, dict) and bool(named) and all(given.get(name) == value for name, value in named.items())


def _is_placeholder(raw: msgspec.Raw) -> bool:
    """Return whether this is a placeholder of an earlier erasure."""
    try:
        given = _memory.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return given.text == _TEXT and (given.thread or "").startswith(_THREAD)


def _touches(erased: Collection[UUID], envelope: Envelope) -> RedactedLetter:
    try:
        touches = uses.decode(envelope.body)
    except (Unreadable, Invalid):
        return RedactedLetter(0, envelope.body)  # contains only ids and the digest of a session
    left = [use for use in touches.uses if use.id not in erased]
    removed = len(touches.uses) - len(left)
    if not removed:
        return RedactedLetter(0, envelope.body)
    return RedactedLetter(removed, uses.encode(msgspec.structs.replace(touches, uses=left)) if left else None)


def _unknown(scope: Scope, payload: bytes) -> RedactedLetter:
    """Remove an undecodable payload, which can never be stored, if it contains the subject's or thread's name."""
    for name in (scope.subject, scope.thread):
        if name is not None and (name.encode() in payload or json.dumps(name)[1:-1].encode() in payload):
            return RedactedLetter(1, None)
    return RedactedLetter(0, payload)
