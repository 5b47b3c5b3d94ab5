"""Decode bodies of `POST /v1/memories`: memories, or chat messages, each of which becomes a memory.

The API and the ingest worker use the same decoder, so every accepted body can be stored with the ids of the response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec.structs import replace

from app.domain.ingest import json_input
from app.domain.ingest.body_faults import ITEMS_MAX, BodyFaults
from app.domain.ingest.json_input import Format, precompile
from app.domain.ingest.memory import (
    BLANK,
    TEXT_MAX_BYTES,
    KeepDays,
    Kind,
    Label,
    Labels,
    MemoryIn,
    Moment,
    Name,
    check_closely,
    check_links,
    check_moment,
    check_retention,
    check_written,
    field_path,
    refuse_blank,
    refuse_past,
)
from app.domain.ingest.roles import MessageRole, read_message_role
from app.domain.ingest.sources import Source, Writer, check_sources
from app.errors import UNKNOWN_FIELD, EbbingError, FieldError, Invalid

SHARED_MAX_BYTES: Final = 8 * 1024 * 1024
"""Maximum product of the size of the fields beside `messages` (JSON, in bytes) and the number of stored messages."""
TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
"""Types of content parts whose text is stored."""


class ContentPart(msgspec.Struct, frozen=True, gc=False):
    """A part of a message's content; its other fields are ignored."""

    type: Label
    text: str | None = None


@precompile
class ChatMessage(msgspec.Struct, frozen=True, gc=False):
    """A chat message in the format of chat applications.

    Other fields are ignored, except fields of a memory, such as `tags`: `message_fields` refuses these.

    Attributes:
        role: user, assistant, system or tool; `human` is stored as user, `ai`, `bot` and `model` as assistant,
            `developer` as system, `function` as tool.
        content: The text, or a list of parts: texts of the types text, input_text and output_text are stored, joined by
            a newline. A message without any text isn't stored.
        name: The speaker's name.
        occurred_at: Time of sending, with an offset; defaults to the field beside `messages`.
    """

    role: MessageRole
    content: str | list[ContentPart] | None = None
    name: Name | None = None
    occurred_at: Moment | None = None


class Messages(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """Chat messages and the fields that all of them share; each message with text becomes a memory.

    Attributes:
        messages: The messages, in the order in which they were sent.
        thread: The conversation.
        subject: The person described by the data.
        kind: Kind of the memories; determined later if omitted.
        occurred_at: Time of sending, with an offset; defaults to the time of acceptance.
        tags: Up to 64 tags.
        categories: Up to 64 privacy or retention categories.
        entities: Up to 64 names of people, places and things.
        metadata: An object of up to 16 KiB as JSON, stored with each memory.
        salience: How much each memory matters, 0 to 1; scored if omitted.
        multiplier: Strength multiplier, 0 to 2.
        expires_at: Time after which the memories are deleted, with an offset, if their retention periods don't end
            before.
        keep_days: `expires_at` in days after acceptance: more than 0, up to 36,500.
        source: Who wrote the messages, no higher than the API key's source, which is the default.
    """

    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    thread: Name | None = None
    subject: Name | None = None
    kind: Kind | None = None
    occurred_at: Moment | None = None
    tags: Labels = ()
    categories: Labels = ()
    entities: Labels = ()
    metadata: dict[str, Any] | None = None
    salience: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    multiplier: Annotated[float, msgspec.Meta(ge=0, le=2)] | None = None
    expires_at: Moment | None = None
    keep_days: KeepDays | None = None
    source: Source | None = None


class Skipped(msgspec.Struct, frozen=True):
    """A message that isn't stored: its index among the messages, and the reason."""

    message: int
    reason: Literal["no text"] = "no text"


class LeftOut(msgspec.Struct, frozen=True):
    """Parts of a message's content that aren't stored: the message's index, and the number of parts by type."""

    message: int
    parts: dict[str, int]


class Body(msgspec.Struct, frozen=True):
    """The memories in a request's body.

    Attributes:
        memories: The memories, in the order of their ids.
        messages: Number of messages in the body, stored or not; None for a body of memories.
        skipped: Messages that aren't stored.
        left_out: Parts of messages that aren't stored.
    """

    memories: list[MemoryIn]
    messages: int | None = None
    skipped: Sequence[Skipped] = ()
    left_out: Sequence[LeftOut] = ()


class _Probe(msgspec.Struct):
    messages: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_one_or_many = msgspec.json.Decoder(list[MemoryIn] | MemoryIn)
_line = msgspec.json.Decoder(MemoryIn)
_messages = msgspec.json.Decoder(Messages)
_probe = msgspec.json.Decoder(_Probe)
_SHARED: Final = tuple(name for name in Messages.__struct_fields__ if name != "messages")
_HARMLESS: Final = MemoryIn("x")
_OF_ONE: Final = frozenset(MemoryIn.__struct_fields__) - set(_SHARED)


def decode(body: bytes, form: Format, dimensions: int | None) -> list[MemoryIn]:
    """Return the memories of a request's body, checked against every limit except their number.

    Args:
        body: The raw bytes.
        form: `json` (an object, an array, or messages) or `ndjson` (one object per line).
        dimensions: Required number of dimensions of an `embedding`; None accepts any number.

    Raises:
        Unreadable: The bytes aren't JSON in UTF-8.
        Invalid: A field is invalid; the error contains the field's name, limit and value.
    """
    memories = _read_memories(body, form, dimensions)
    return _read_messages(body).memories if memories is None else memories


def read(body: bytes, form: Format, dimensions: int | None) -> Body:
    """Return the memories, and the messages and parts that aren't stored; arguments and errors as for `decode`."""
    memories = _read_memories(body, form, dimensions)
    return _read_messages(body) if memories is None else Body(memories)


def _read_memories(body: bytes, form: Format, dimensions: int | None) -> list[MemoryIn] | None:
    """Return the memories of a body, or None if it has messages."""
    try:
        decoded = _line.decode_lines(body) if form == "ndjson" else _one_or_many.decode(body)
    except json_input.UNDECODABLE as error:
        if form == "json" and has_messages(body):
            return None
        raise _refuse_memories(body, form, dimensions, error) from None
    memories = decoded if isinstance(decoded, list) else [decoded]
    # Only escapes or non-ASCII bytes encode NUL or multi-byte characters. Without them, msgspec has checked everything.
    needs_check = not body.isascii() or b"\\u" in body
    is_list = memories is decoded
    try:
        for place, memory in enumerate(memories):
            if memory.text.isspace():
                refuse_blank(place if is_list else None)
            if needs_check or memory.metadata is not None or memory.embedding is not None:
                check_closely(memory, place if is_list else None, dimensions)
            if memory.occurred_at is not None:
                check_moment(memory.occurred_at, field_path(place if is_list else None, "occurred_at"))
            if memory.expires_at is not None:
                check_retention(memory, place if is_list else None)
            if memory.links or memory.written is not None:
                check_links(memory, place if is_list else None)
                check_written(memory, place if is_list else None)
    except Invalid as error:
        raise _refuse_memories(body, form, dimensions, error) from None
    return memories


def check_body_sources(body: Body, writer: Writer) -> None:
    """Refuse memories whose `source` is higher than the writer's; only the API checks this.

    Raises:
        Invalid: A source is higher; the error names the field, the value and the key's source.
    """
    is_list = body.messages is None and len(body.memories) > 1
    considered = body.memories if is_list else body.memories[:1]
    if any(memory.source is not None for memory in considered):
        given = [(field_path(place if is_list else None, "source"), row.source) for place, row in enumerate(considered)]
        check_sources(given, writer)


def check_future(body: Body, now: datetime) -> None:
    """Refuse memories whose `expires_at` has passed. Only the API checks this: the drain must store what was accepted.

    Raises:
        Invalid: Some times have passed; the error names them.
    """
    faults = BodyFaults()
    is_list = body.messages is None and len(body.memories) > 1
    for place, memory in enumerate(body.memories if is_list else body.memories[:1]):
        if memory.expires_at is not None and not faults.is_full:
            try:
                refuse_past(memory.expires_at, now, field_path(place if is_list else None, "expires_at"))
            except Invalid as refused:
                faults.add(refused.errors)
    if (refusal := faults.refusal()) is not None:
        raise refusal


def _refuse_memories(body: bytes, form: Format, dimensions: int | None, error: Exception) -> EbbingError:
    """Return the error for all faults of a body of memories, whose first fault raised `error`."""
    first = error if isinstance(error, Invalid) else json_input.describe_undecodable(error, len(body))
    if not isinstance(first, Invalid):
        return first
    try:
        given = json_input.parse(body, form)
    except json_input.UNDECODABLE:
        return _among_memories(first)
    faults = BodyFaults()
    if isinstance(given, dict):
        _add_faults(faults, given, None, dimensions)
    elif isinstance(given, list):
        for place, item in enumerate(given[:ITEMS_MAX]):
            if faults.is_full:
                break
            _add_faults(faults, item, place, dimensions)
    else:
        faults.compare(given, MemoryIn | list[MemoryIn])
    return _among_memories(faults.refusal() or first)


def _add_faults(faults: BodyFaults, given: object, place: int | None, dimensions: int | None) -> None:
    """Add the faults of one memory."""
    if not faults.compare(given, MemoryIn, field_path(place, "").removesuffix(".")):
        return
    memory = msgspec.convert(given, MemoryIn)
    if memory.text.isspace():
        faults.add([FieldError(field_path(place, "text"), BLANK)])
    for _ in MemoryIn.__struct_fields__:
        try:
            check_closely(memory, place, dimensions)
        except Invalid as refused:
            faults.add(refused.errors)
            memory = _without_faults(memory, refused.errors[0].field)
        else:
            break
    if memory.occurred_at is not None:
        try:
            check_moment(memory.occurred_at, field_path(place, "occurred_at"))
        except Invalid as refused:
            faults.add(refused.errors)
    for check in (check_retention, check_links, check_written):
        try:
            check(memory, place)
        except Invalid as refused:
            faults.add(refused.errors)


def _without_faults(memory: MemoryIn, path: str) -> MemoryIn:
    """Return the memory with a harmless value in the field at a path, so that its other fields can be checked."""
    name = path.rpartition("]")[2].lstrip(".")
    return replace(memory, **{name: "x" if name == "text" else getattr(_HARMLESS, name)})


def has_messages(body: bytes) -> bool:
    """Return whether a body that isn't memories is an object with the field `messages`."""
    try:
        return _probe.decode(body).messages is not msgspec.UNSET
    except json_input.UNDECODABLE:
        return False


def _read_messages(body: bytes) -> Body:
    try:
        chat = json_input.read(body, _messages)
    except Invalid as refused:
        raise _beside_messages(refused) from None
    # Check the shared fields as one memory, so that errors name the fields beside `messages`.
    shared = MemoryIn("", **{name: getattr(chat, name) for name in _SHARED})
    check_closely(shared, None, None)
    if shared.occurred_at is not None:
        check_moment(shared.occurred_at, "occurred_at")
    check_retention(shared, None)
    memories: list[MemoryIn] = []
    skipped: list[Skipped] = []
    left_out: list[LeftOut] = []
    faults = BodyFaults()
    for place, message in enumerate(chat.messages):
        text, unstored = read_content(message)
        if unstored:
            left_out.append(LeftOut(place, dict(unstored)))
        if not text or text.isspace():
            skipped.append(Skipped(place))
            continue
        try:
            _check_message(f"messages[{place}]", message, text)
        except Invalid as refused:
            faults.add(refused.errors)
        role = read_message_role(message.role)
        occurred_at = message.occurred_at or shared.occurred_at
        memories.append(replace(shared, text=text, role=role, speaker=message.name, occurred_at=occurred_at))
    if (refusal := faults.refusal()) is not None:
        raise refusal
    if not memories:
        raise Invalid(errors=[FieldError("messages", "has no message with text in `content`")])
    _check_shared(chat, len(memories))
    return Body(memories, len(chat.messages), skipped, left_out)


def read_content(message: ChatMessage) -> tuple[str, Counter[str]]:
    """Return a message's text, and the number of parts of each type that isn't stored."""
    if not isinstance(message.content, list):
        return message.content or "", Counter()
    texts = [part.text for part in message.content if part.type in TEXT_PARTS and part.text]
    return "\n".join(texts), Counter(part.type for part in message.content if part.type not in TEXT_PARTS)


def _check_message(where: str, message: ChatMessage, text: str) -> None:
    """Check what msgspec can't: the text's size in bytes, NUL characters, the range of dates."""
    if len(text) * 4 > TEXT_MAX_BYTES:
        size = len(text.encode())
        if size > TEXT_MAX_BYTES:
            raise Invalid(errors=[FieldError(f"{where}.content", "is too long in bytes", size, TEXT_MAX_BYTES)])
    for name, value in (("content", text), ("name", message.name)):
        if value is not None and "\0" in value:
            raise Invalid(errors=[FieldError(f"{where}.{name}", "contains a NUL character, which can't be stored")])
    if message.occurred_at is not None:
        check_moment(message.occurred_at, f"{where}.occurred_at")


def _check_shared(given: Messages, stored: int) -> None:
    """Refuse fields beside `messages` that would expand a small body to a huge amount of data."""
    shared = {name: value for name in _SHARED if (value := getattr(given, name)) not in (None, ())}
    size = len(msgspec.json.encode(shared)) * stored
    if size > SHARED_MAX_BYTES:
        message = "has fields beside `messages` that are too large: their bytes count once for each message"
        raise Invalid(errors=[FieldError("body", message, size, SHARED_MAX_BYTES)])


def _beside_messages(refused: Invalid) -> Invalid:
    """Replace the errors of fields that only a memory has: they can't be set beside `messages`."""
    return _explain(refused, dict.fromkeys(_OF_ONE, "can't be given beside messages"))


def _among_memories(refused: Invalid) -> Invalid:
    """Replace the errors of `messages` in an array or a line: messages need a body of their own."""
    reason = "can't be part of an array or a line: send messages in a separate request"
    chats = {error.field: reason for error in refused.errors if error.field.endswith("].messages")}
    without_text = {f"{field.removesuffix('messages')}text" for field in chats}
    errors = [error for error in refused.errors if error.field not in without_text]
    return _explain(Invalid(errors=errors, omitted=refused.omitted), chats)


def _explain(refused: Invalid, messages: Mapping[str, str]) -> Invalid:
    errors = [
        FieldError(error.field, messages[error.field], error.value, error.limit)
        if error.message == UNKNOWN_FIELD and error.field in messages
        else error
        for error in refused.errors
    ]
    return Invalid(errors=errors, omitted=refused.omitted)
