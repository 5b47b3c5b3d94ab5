"""Fields of a memory in chat messages."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from app.domain.ingest.memory import MemoryIn
from app.domain.ingest.message_fields import check_message_fields
from app.errors import Invalid

FOREIGN: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "model": "m",
    "status": "completed",
    "refusal": None,
    "annotations": [],
    "audio": {"id": "a", "expires_at": 1},
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
    "tool_call_id": "c",
    "function_call": {"name": "f"},
    "reasoning_content": "…",
    "cache_control": {"type": "ephemeral"},
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1},
    "metadata": {"source": "x"},
    "parts": [],
    "created_at": 1,
}
"""Fields that messages of chat APIs have beside those that Ebbing reads."""


def refused(*messages: dict[str, Any]) -> dict[str, str]:
    """Return the reasons for which messages are refused, by field."""
    body = msgspec.json.encode({"messages": [{"role": "user", "content": "x"} | message for message in messages]})
    try:
        check_message_fields(body)
    except Invalid as error:
        return {fault.field: fault.message for fault in error.errors}
    return {}


def test_fields_of_other_apis_and_empty_ones_pass() -> None:
    assert refused(FOREIGN, {"name": "Ann", "occurred_at": "2026-01-01T00:00:00Z"}, {"tags": [], "subject": None}) == {}


@pytest.mark.parametrize(
    ("field", "value", "advice"),
    [
        ("supersedes", "old", "send a list of memories"),
        ("external_id", "mine", "send a list of memories"),
        ("tags", ["a"], "beside `messages`"),
        ("salience", 0, "beside `messages`"),
        ("kind", "semantic", "beside `messages`"),
        ("text", "hi", "send `content`"),
        ("speaker", "Ann", "send `name`"),
    ],
)
def test_fields_of_a_memory_are_refused_with_the_place_for_their_value(field: str, value: object, advice: str) -> None:
    [(name, reason)] = refused({}, {field: value}).items()
    assert name == f"messages[1].{field}"
    assert advice in reason


def test_every_field_of_a_memory_that_a_message_lacks_is_refused_at_once() -> None:
    read = {"role", "occurred_at"}
    given = {name: 1 for name in MemoryIn.__struct_fields__ if name not in read}
    assert {name.partition(".")[2] for name in refused(given)} == set(given) - {"metadata"}
