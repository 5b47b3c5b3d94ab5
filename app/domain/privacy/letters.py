"""Dead letters without the memories that an erasure is of. The ids that were answered for the others stay theirs.

A memory's id is its place in its request, so what is taken out leaves something in its place: a memory of a thread of
the erasure's own, which a tombstone drops when the letter is replayed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec

from app.domain.ingest import bodies, touch
from app.domain.ingest.envelope import Envelope, Malformed, unpack
from app.domain.ingest.ids import first_seq, last_seq, memory_uuids
from app.domain.ingest.memory import MemoryIn
from app.domain.privacy.arriving import matches
from app.domain.privacy.hold import Meant as Scope
from app.errors import Invalid, Unreadable

_TEXT: Final = "erased"
_THREAD: Final = "erased by "
_memory: Final = msgspec.json.Decoder(MemoryIn)
_line: Final = msgspec.json.Decoder(msgspec.Raw)
_array: Final = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class Taken:
    """What is left of a letter.

    Attributes:
        removed: Memories, or uses of memories, that were in it.
        payload: What takes the place of what it held; None where nothing is left.
    """

    removed: int
    payload: bytes | None


@dataclass(frozen=True, slots=True)
class Meant:
    """What an erasure takes out of letters.

    Attributes:
        erasure_id: The erasure's.
        scope: What it is of.
        erased: The stored memories that it erases, uses of which go too.
        cut: The last place of the stream that it covers.
    """

    erasure_id: UUID
    scope: Scope
    erased: Collection[UUID]
    cut: str


def thread_of(erasure_id: UUID) -> str:
    """The thread of what stands in the place of memories that an erasure took out of letters."""
    return f"{_THREAD}{erasure_id}"


def without(meant: Meant, position: str, header: bytes, payload: bytes) -> Taken:
    """A letter without what an erasure is of; of what came after its cut, nothing is.

    Args:
        meant: What is taken out.
        position: The place that the letter's entry had when it came first.
        header: The entry's.
        payload: The entry's body.
    """
    if first_seq(position) > last_seq(meant.cut):
        return Taken(0, payload)
    try:
        envelope = unpack(position, b"0", header, payload)
    except Malformed:
        return _unknown(meant.scope, payload)
    if envelope.form == "touches":
        return _touches(meant.erased, envelope)
    given = _memories(envelope)
    return _unknown(meant.scope, payload) if given is None else _given(meant, envelope, given)


def _given(meant: Meant, envelope: Envelope, given: Sequence[msgspec.Raw]) -> Taken:
    """What is left of memories, each in its place."""
    ids = memory_uuids(envelope.base, len(given))
    wanted = set(meant.scope.memory_ids or ())
    goes = [
        UUID(memory_id) in wanted or _meets(meant.scope, raw, envelope.accepted_ms)
        for memory_id, raw in zip(ids, given, strict=True)
    ]
    if not any(goes):
        return Taken(0, envelope.body)
    if all(is_meant or _stands_in(raw) for is_meant, raw in zip(goes, given, strict=True)):
        return Taken(sum(goes), None)
    instead = msgspec.json.encode({"text": _TEXT, "thread": thread_of(meant.erasure_id)})
    kept = [instead if is_meant else bytes(raw) for is_meant, raw in zip(goes, given, strict=True)]
    body = b"\n".join(kept) if envelope.form == "ndjson" else b"[" + b",".join(kept) + b"]"
    return Taken(sum(goes), body)


def _memories(envelope: Envelope) -> Sequence[msgspec.Raw] | None:
    """Each memory as it came, or as it is made of a message.

    None where the body isn't JSON, messages can't be stored, or there are more memories than ids.
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


def _meets(scope: Scope, raw: msgspec.Raw, accepted_ms: int) -> bool:
    try:
        return matches(scope, _memory.decode(raw), accepted_ms)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _names(scope, raw)


def _names(scope: Scope, raw: msgspec.Raw) -> bool:
    """What can't be a memory meets a scope by the names that it gives; what else is wanted of it can't be told."""
    try:
        given: Any = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return _unknown(scope, bytes(raw)).removed > 0
    named = {name: value for name in ("subject", "thread") if (value := getattr(scope, name)) is not None}
    return isinstance(given, dict) and bool(named) and all(given.get(name) == value for name, value in named.items())


def _stands_in(raw: msgspec.Raw) -> bool:
    """Whether it stands for what an erasure has taken out before."""
    try:
        given = _memory.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return given.text == _TEXT and (given.thread or "").startswith(_THREAD)


def _touches(erased: Collection[UUID], envelope: Envelope) -> Taken:
    try:
        touches = touch.decode(envelope.body)
    except (Unreadable, Invalid):
        return Taken(0, envelope.body)  # ids alone, and a digest of a session
    left = [use for use in touches.uses if use.id not in erased]
    removed = len(touches.uses) - len(left)
    if not removed:
        return Taken(0, envelope.body)
    return Taken(removed, touch.encode(msgspec.structs.replace(touches, uses=left)) if left else None)


def _unknown(scope: Scope, payload: bytes) -> Taken:
    """What can't be read, and so never can be stored, goes if it has the name anywhere."""
    for name in (scope.subject, scope.thread):
        if name is not None and (name.encode() in payload or json.dumps(name)[1:-1].encode() in payload):
            return Taken(1, None)
    return Taken(0, payload)
