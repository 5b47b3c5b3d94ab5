"""All faults of a refused body, each with its field, limit and value, and the known name of an unknown field."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import msgspec
import pytest

from app.domain.ingest import bodies
from app.domain.ingest.body_faults import COUNTED_MAX, ITEMS_MAX, LISTED_MAX
from app.domain.ingest.memory import METADATA_MAX_BYTES, TEXT_MAX_BYTES, MemoryIn, decode_patch
from app.domain.ingest.near_names import suggest_field
from app.domain.ingest.uses import Observation, OneTouch, parse_observation
from app.domain.recall.request import Message, RecallRequest
from app.domain.search.request import SearchRequest
from app.errors import EbbingError, Invalid, Unreadable

CANARY = "canary"


def refusal(body: Any, form: Any = "json") -> Invalid:
    given = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Invalid) as raised:
        bodies.read(given, form, None)
    assert CANARY not in "".join(f"{error.message}{error.value}" for error in raised.value.errors)
    return raised.value


def sentences(refused: EbbingError) -> list[str]:
    return [str(error) for error in refused.errors]


def test_all_faults_of_a_memory_are_listed() -> None:
    refused = refusal(
        {
            "happened_at": CANARY,
            "text": "",
            "tags": CANARY,
            "kind": CANARY,
            "salience": 3,
            "metadata": [CANARY],
            "speaker": "x" * 513,
        }
    )
    assert sentences(refused) == [
        "Unknown field `happened_at`; did you mean `occurred_at`?",
        "text must not be empty",
        "speaker is too long (value 513, limit 512)",
        "kind isn't one of episodic, semantic, procedural, emotional, system",
        "tags must be a list of strings",
        "metadata must be an object",
        "salience is too large (value 3, limit 1)",
    ]
    assert (refused.errors[1].value, refused.errors[1].limit) == (0, 1)


def test_faults_that_the_decoder_cant_see_are_listed_beside_the_others() -> None:
    wrong = {"text": "\0", "metadata": {"a": "x" * METADATA_MAX_BYTES}, "occurred_at": "0001-01-01T00:00:00+23:59"}
    refused = refusal([{"text": "fine"}, {"text": 5}, wrong, {"text": "é" * TEXT_MAX_BYTES}, {"text": "\n"}])
    fields = [error.field for error in refused.errors]
    assert fields == ["[1].text", "[2].metadata", "[2].text", "[2].occurred_at", "[3].text", "[4].text"]
    assert refused.errors[4].limit == TEXT_MAX_BYTES


@pytest.mark.parametrize("form", ["json", "ndjson"])
def test_every_memory_of_a_batch_is_looked_at(form: str) -> None:
    memories = [{"text": "fine"}, {"text": 5}, {"content": CANARY}, {"tags": []}]
    lines = b"\n".join(msgspec.json.encode(memory) for memory in memories)
    refused = refusal(memories if form == "json" else lines, form)
    assert sentences(refused) == [
        "[1].text must be a string",
        "Unknown field `[2].content`; did you mean `text`?",
        "[3].text is missing",
    ]


def test_every_message_of_a_chat_is_looked_at() -> None:
    refused = refusal(
        {"messages": [{"role": "robot", "content": 5}, {"content": "x"}], "conversation_id": "c", "text": "x"}
    )
    assert sentences(refused) == [
        "Unknown field `conversation_id`; did you mean `thread`?",
        "text can't be given beside messages",
        "messages[0].role isn't one of user, assistant, system, tool, developer, function",
        "messages[0].content must be a string or a list of objects",
        "messages[1].role is missing",
    ]
    refused = refusal({"messages": [{"role": "user", "content": "\0"}, {"role": "user", "content": "x", "name": "\0"}]})
    assert [error.field for error in refused.errors] == ["messages[0].content", "messages[1].name"]


def test_the_list_has_an_end_and_the_others_are_counted() -> None:
    refused = refusal([{"text": 5}] * 57)
    assert (len(refused.errors), refused.omitted) == (LISTED_MAX, 57 - LISTED_MAX)
    refused = refusal([5] * (COUNTED_MAX + 1))
    assert len(refused.errors) + refused.omitted == COUNTED_MAX


def test_a_fault_behind_very_many_memories_is_named_by_the_decoder() -> None:
    refused = refusal([{"text": "x"}] * ITEMS_MAX + [{"text": ""}])
    assert [(error.field, error.limit) for error in refused.errors] == [(f"[{ITEMS_MAX}].text", 1)]
    refused = refusal([{"text": "x"}] * ITEMS_MAX + [{"text": "x", "nickname": CANARY}])
    assert sentences(refused) == [f"Unknown field `[{ITEMS_MAX}].nickname`"]


def test_an_edit_is_looked_at_in_the_same_way() -> None:
    with pytest.raises(Invalid) as raised:
        decode_patch(b'{"text": null, "tags": "a", "user": "x", "salience": "high"}')
    assert sentences(raised.value) == [
        "Unknown field `user`; did you mean `subject`?",
        "text must be a string",
        "tags must be a list of strings",
        "salience must be a number",
    ]


def test_the_own_checks_of_a_request_list_all_their_faults() -> None:
    with pytest.raises(Invalid) as raised:
        SearchRequest("\0", turn=1, tags=("a", "\0"))
    assert [error.field for error in raised.value.errors] == ["turn", "query", "tags[1]"]
    with pytest.raises(Invalid) as raised:
        RecallRequest(["fine", "\0", Message("a", "b"), Message()], subject="\0")
    fields = [error.field for error in raised.value.errors]
    assert fields == ["messages[1]", "messages[2]", "messages[3].text", "subject"]
    late = {"id": str(UUID(int=1)), "used_at": "0001-01-01T00:00:00+14:00"}
    with pytest.raises(Invalid) as raised:
        parse_observation(msgspec.json.encode({"memories": [late, str(UUID(int=2)), late]}), UUID(int=0))
    assert [error.field for error in raised.value.errors] == ["memories[0].used_at", "memories[2].used_at"]


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"text": "abc', "Incomplete JSON (ended at byte 13)"),
        (b'{"text": abc}', "Malformed JSON: invalid character (byte 9)"),
        (b'{"text": "\xff"}', "the body isn't UTF-8"),
    ],
)
def test_a_body_that_is_no_json_is_explained(body: bytes, detail: str) -> None:
    with pytest.raises(Unreadable) as raised:
        bodies.read(body, "json", None)
    assert raised.value.detail == detail


@pytest.mark.parametrize(
    ("unknown", "shape", "known"),
    [
        ("q", SearchRequest, "query"),
        ("top_k", SearchRequest, "limit"),
        ("k", SearchRequest, "limit"),
        ("user_id", SearchRequest, "subject"),
        ("since", SearchRequest, "after"),
        ("threshold", RecallRequest, "least"),
        ("max_tokens", RecallRequest, "token_budget"),
        ("conversation_id", RecallRequest, "thread"),
        ("query", RecallRequest, "messages"),
        ("memory_ids", Observation, "ids"),
        ("thread", Observation, "session"),
        ("timestamp", OneTouch, "used_at"),
        ("content", MemoryIn, "text"),
        ("message", MemoryIn, "text"),
        ("occuredAt", MemoryIn, "occurred_at"),
        ("metdata", MemoryIn, "metadata"),
        ("external-id", MemoryIn, "external_id"),
        ("nickname", MemoryIn, None),
        ("x" * 5000, MemoryIn, None),
        ("", MemoryIn, None),
    ],
)
def test_an_unknown_field_proposes_the_known_one(unknown: str, shape: type[msgspec.Struct], known: str | None) -> None:
    assert suggest_field(unknown, shape.__struct_fields__) == known


def test_a_field_that_is_given_already_isnt_proposed() -> None:
    refused = refusal({"text": "x", "content": "y"})
    assert sentences(refused) == ["Unknown field `content`"]
