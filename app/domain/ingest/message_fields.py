"""Refuse fields of a memory in chat messages: if they were ignored, the memory would lack their values.

Fields of other APIs, such as `tool_calls` or `refusal`, are ignored, so that applications can send the messages that
they exchange with a model.
"""

from __future__ import annotations

from typing import Final

import msgspec

from app.domain.ingest.bodies import ChatMessage, Messages
from app.domain.ingest.body_faults import BodyFaults
from app.domain.ingest.memory import MemoryIn
from app.errors import FieldError

_FOREIGN: Final = frozenset({"metadata"})
"""Fields that messages of other APIs have, too: OpenAI's threads have `metadata`."""
REFUSED: Final = tuple(
    name for name in MemoryIn.__struct_fields__ if name not in {*ChatMessage.__struct_fields__, *_FOREIGN}
)
"""Fields of a memory that a message can't have."""
_NAMED_OTHERWISE: Final = {"text": "content", "speaker": "name"}
_EMPTY: Final = (b"null", b"[]")

_Fields = msgspec.defstruct(
    "_Fields",
    [(name, msgspec.Raw | msgspec.UnsetType, msgspec.UNSET) for name in REFUSED],
    frozen=True,
)


class _Body(msgspec.Struct, frozen=True):
    messages: list[_Fields]  # type: ignore[valid-type]  # built at run time


_body = msgspec.json.Decoder(_Body)


def check_message_fields(body: bytes) -> None:
    """Refuse messages with fields of a memory; null and empty lists are ignored.

    Only the API checks this: bodies that an earlier version accepted are still stored.

    Args:
        body: A body of messages that was decoded before.

    Raises:
        Invalid: Messages have such fields; the error names each and where to send its value.
    """
    faults = BodyFaults()
    for place, message in enumerate(_body.decode(body).messages):
        for name in REFUSED:
            value = getattr(message, name)
            if value is not msgspec.UNSET and bytes(value) not in _EMPTY:
                faults.add([FieldError(f"messages[{place}].{name}", _advise(name))])
        if faults.is_full:
            break
    if (refusal := faults.refusal()) is not None:
        raise refusal


def _advise(name: str) -> str:
    """Return why a message can't have a field, and where to send its value instead."""
    if name in _NAMED_OTHERWISE:
        return f"isn't a field of a message: send `{_NAMED_OTHERWISE[name]}`"
    if name in Messages.__struct_fields__:
        return "isn't a field of a message: send it beside `messages`, for all of them, or send a list of memories"
    return "isn't a field of a message: send a list of memories, in which each can have it"
