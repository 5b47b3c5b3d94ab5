"""Chat messages as a request body: which memories they become, what is reported, and what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ingest.bodies import SHARED_MAX_BYTES, TEXT_PARTS, Body, LeftOut, Skipped, decode, read
from app.domain.ingest.memory import TEXT_MAX_BYTES
from app.domain.ingest.roles import ROLES
from app.errors import UNKNOWN_FIELD, FieldError, Invalid

CANARY = "canary-4711"
NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)
SHARED: dict[str, Any] = {
    "thread": "t",
    "subject": "ann",
    "kind": "semantic",
    "tags": ["a"],
    "categories": ["b"],
    "entities": ["c"],
    "metadata": {"k": [1]},
    "salience": 0.25,
    "multiplier": 2,
    "occurred_at": NOON.isoformat(),
}


def body(*messages: object, **beside: object) -> Body:
    return read(json.dumps({"messages": messages, **beside}).encode(), "json", None)


def refusal(given: object, form: Any = "json") -> FieldError:
    """Return the only error that reading a body raises."""
    with pytest.raises(Invalid) as raised:
        read(json.dumps(given).encode(), form, None)
    [error] = raised.value.errors
    return error


def test_each_message_is_a_memory_with_its_role_and_name_in_order() -> None:
    found = body({"role": "user", "content": "one", "name": "Ann"}, {"role": "assistant", "content": "two"})
    said = [(memory.text, memory.role, memory.speaker) for memory in found.memories]
    assert said == [("one", "user", "Ann"), ("two", "assistant", None)]
    assert (found.messages, found.skipped, found.left_out) == (2, [], [])


def test_a_body_of_memories_has_no_messages() -> None:
    assert read(b'{"text": "x"}', "json", None).messages is None
    assert read(b'[{"text": "x"}]', "json", None).messages is None


@pytest.mark.parametrize(
    ("role", "stored"), [*((role, role) for role in ROLES), ("developer", "system"), ("function", "tool")]
)
def test_every_role_is_stored_as_one_of_the_four(role: str, stored: str) -> None:
    [memory] = body({"role": role, "content": "x"}).memories
    assert memory.role == stored


def test_fields_beside_the_messages_apply_to_every_one() -> None:
    found = body({"role": "user", "content": "one"}, {"role": "user", "content": "two"}, **SHARED)
    lists = {name: tuple(SHARED[name]) for name in ("tags", "categories", "entities")}
    for memory in found.memories:
        assert {name: getattr(memory, name) for name in SHARED} == SHARED | lists | {"occurred_at": NOON}


def test_a_messages_own_moment_wins() -> None:
    sent = {"role": "user", "content": "x", "occurred_at": "2026-03-08T12:00:00Z"}
    first, second = body(sent, {"role": "user", "content": "y"}, occurred_at=NOON.isoformat()).memories
    assert (first.occurred_at, second.occurred_at) == (datetime(2026, 3, 8, 12, tzinfo=UTC), NOON)


def test_text_parts_are_joined_and_others_counted_by_type() -> None:
    content = [
        {"type": "text", "text": "one"},
        {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        {"type": "input_text", "text": "two"},
        {"type": "image_url", "image_url": {"url": "https://example.org/b.png"}},
        {"type": "output_text", "text": "three", "annotations": []},
        {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}},
        {"type": "text", "text": None},
    ]
    found = body({"role": "user", "content": content})
    assert [memory.text for memory in found.memories] == ["one\ntwo\nthree"]
    assert found.left_out == [LeftOut(0, {"image_url": 2, "input_audio": 1})]
    assert found.skipped == []


NO_TEXT = {
    "null": None,
    "empty": "",
    "blank": " \n\t",
    "no parts": [],
    "an empty part": [{"type": "text", "text": ""}],
    "blank parts": [{"type": "text", "text": " "}, {"type": "text", "text": "\n"}],
}


@pytest.mark.parametrize("content", NO_TEXT.values(), ids=NO_TEXT)
def test_messages_without_text_are_skipped_and_named(content: object) -> None:
    call = {"role": "assistant", "content": content, "tool_calls": [{"id": "c", "function": {"name": "f"}}]}
    found = body({"role": "user", "content": "one"}, call, {"role": "assistant"}, {"role": "user", "content": "two"})
    assert [memory.text for memory in found.memories] == ["one", "two"]
    assert found.skipped == [Skipped(1), Skipped(2)]
    assert found.messages == 4
    assert refusal({"messages": [call]}).field == "messages"


def test_a_message_of_pictures_alone_is_both_skipped_and_counted() -> None:
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    found = body(picture, {"role": "user", "content": "what is it?"})
    assert (found.skipped, found.left_out) == ([Skipped(0)], [LeftOut(0, {"image_url": 1})])


def test_other_fields_of_a_message_are_ignored() -> None:
    extra = {"id": "m1", "created": 1, "refusal": None, "tool_call_id": "c", "text": "no", "speaker": "no", "tags": 7}
    [memory] = body({"role": "tool", "content": "x", **extra}).memories
    assert (memory.text, memory.speaker, memory.tags) == ("x", None, ()), "accepted by an earlier version"


LONG = "é" * (TEXT_MAX_BYTES // 2)
REFUSED: dict[str, tuple[dict[str, Any], str, int | None, int | None]] = {
    "an unknown role": ({"role": CANARY, "content": "x"}, "role", None, None),
    "no role": ({"content": "x"}, "role", None, None),
    "a role that is no string": ({"role": 1, "content": "x"}, "role", None, None),
    "a long text": ({"role": "user", "content": LONG + "x"}, "content", TEXT_MAX_BYTES + 1, TEXT_MAX_BYTES),
    "long parts": (
        {"role": "user", "content": [{"type": "text", "text": LONG}, {"type": "text", "text": "x"}]},
        "content",
        TEXT_MAX_BYTES + 2,
        TEXT_MAX_BYTES,
    ),
    "NUL in the text": ({"role": "user", "content": CANARY + "\0"}, "content", None, None),
    "NUL in a part": ({"role": "user", "content": [{"type": "text", "text": "\0"}]}, "content", None, None),
    "NUL in the name": ({"role": "user", "content": "x", "name": "\0"}, "name", None, None),
    "no name": ({"role": "user", "content": "x", "name": ""}, "name", 0, 1),
    "a long name": ({"role": "user", "content": "x", "name": "n" * 513}, "name", 513, 512),
    "a number": ({"role": "user", "content": 1}, "content", None, None),
    "a part without a type": ({"role": "user", "content": [{"text": "x"}]}, "content[0].type", None, None),
    "a part that is a string": ({"role": "user", "content": ["x"]}, "content[0]", None, None),
    "a part whose text is none": (
        {"role": "user", "content": [{"type": "text", "text": {"value": CANARY}}]},
        "content[0].text",
        None,
        None,
    ),
    "a moment without an offset": (
        {"role": "user", "content": "x", "occurred_at": "2026-03-07T12:00:00"},
        "occurred_at",
        None,
        None,
    ),
    "a moment outside of the calendar": (
        {"role": "user", "content": "x", "occurred_at": "0001-01-01T00:00:00+23:59"},
        "occurred_at",
        None,
        None,
    ),
}


@pytest.mark.parametrize(("message", "field", "value", "limit"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_with_a_message_is_named_and_never_quoted(
    message: dict[str, Any], field: str, value: int | None, limit: int | None
) -> None:
    error = refusal({"messages": [{"role": "user", "content": "fine"}] * 3 + [message]})
    assert (error.field, error.value, error.limit) == (f"messages[3].{field}", value, limit)
    assert CANARY not in error.message


def test_an_unknown_role_is_answered_with_the_choices() -> None:
    error = refusal({"messages": [{"role": "robot", "content": "x"}]})
    assert error.message == "isn't one of user, assistant, system, tool, developer, function, human, ai, bot, model"


def test_the_longest_text_is_taken() -> None:
    [memory] = body({"role": "user", "content": LONG}).memories
    assert len(memory.text.encode()) == TEXT_MAX_BYTES


ONE = {"role": "user", "content": "x"}
BESIDE: dict[str, tuple[dict[str, Any], str, str | None]] = {
    **{
        name: ({name: value}, name, "can't be given beside messages")
        for name, value in {
            "text": "x",
            "speaker": "Ann",
            "role": "user",
            "external_id": "1",
            "embedding": [1.0],
            "supersedes": "1",
        }.items()
    },
    "a typing error": ({"treahd": "t"}, "treahd", UNKNOWN_FIELD),
    "NUL": ({"subject": "\0"}, "subject", None),
    "metadata that is too deep": ({"metadata": {"a": json.loads("[" * 40 + "]" * 40)}}, "metadata", None),
    "metadata that is too large": ({"metadata": {"a": "x" * 17_000}}, "metadata", None),
    "a wrong type": ({"thread": 5}, "thread", None),
    "an unknown kind": ({"kind": "x"}, "kind", "isn't one of episodic, semantic, procedural, emotional, system"),
    "a moment outside of the calendar": ({"occurred_at": "0001-01-01T00:00:00+23:59"}, "occurred_at", None),
}


@pytest.mark.parametrize(("beside", "field", "message"), BESIDE.values(), ids=BESIDE)
@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_what_is_wrong_beside_the_messages_is_named(
    beside: dict[str, Any], field: str, message: str | None, first: bool
) -> None:
    error = refusal({**beside, "messages": [ONE]} if first else {"messages": [ONE], **beside})
    assert error.field == field
    assert message in {None, error.message}


@pytest.mark.parametrize("messages", [None, 1, {}, [], "x", [None], ["x"], [[ONE]]])
def test_messages_are_a_list_of_at_least_one_object(messages: object) -> None:
    assert refusal({"messages": messages}).field in {"messages", "messages[0]"}


def test_messages_belong_neither_into_an_array_nor_into_a_line() -> None:
    for form in ("json", "ndjson"):
        chat = {"messages": [ONE]}
        error = refusal([chat], form) if form == "json" else refusal(chat, form)
        assert error.field == "[0].messages"
        assert error.message == "can't be part of an array or a line: send messages in a separate request"


def test_the_name_of_the_field_may_be_escaped() -> None:
    assert len(decode(rb'{"m\u0065ssages": [{"role": "user", "content": "x"}]}', "json", None)) == 1


def test_a_small_body_cant_be_multiplied_into_very_many_bytes() -> None:
    metadata = {"a": "x" * 16_000}
    most = SHARED_MAX_BYTES // len(msgspec.json.encode({"metadata": metadata}))
    assert len(body(*[ONE] * most, metadata=metadata).memories) == most
    error = refusal({"messages": [ONE] * (most + 1), "metadata": metadata})
    assert (error.field, error.limit) == ("body", SHARED_MAX_BYTES)
    assert isinstance(error.value, int)
    assert error.value > SHARED_MAX_BYTES


texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
parts = st.builds(
    lambda kind, text: {"type": kind} if text is None else {"type": kind, "text": text},
    st.sampled_from([*sorted(TEXT_PARTS), "image_url", "refusal"]),
    st.none() | texts,
)
messages = st.fixed_dictionaries(
    {"role": st.sampled_from([*ROLES, "developer", "function"])},
    optional={
        "content": st.none() | texts | st.lists(parts, max_size=4),
        "name": st.none() | st.sampled_from(["Ann", "user"]),
        "tool_calls": st.just([{"id": "c"}]),
    },
)


@given(st.lists(messages, min_size=1, max_size=12))
def test_every_message_is_stored_or_skipped_and_every_other_part_is_counted(chat: list[dict[str, Any]]) -> None:
    try:
        found = body(*chat)
    except Invalid:
        found = Body([], len(chat), [Skipped(place) for place in range(len(chat))])
        assert not any(isinstance(each.get("content"), str) and each["content"].strip() for each in chat)
    gone = {each.message for each in found.skipped}
    stored = [each for place, each in enumerate(chat) if place not in gone]
    assert len(found.memories) + len(gone) == found.messages == len(chat)
    for message, memory in zip(stored, found.memories, strict=True):
        assert memory.text.strip()
        assert memory.speaker == message.get("name")
        if isinstance(message["content"], str):
            assert memory.text == message["content"]
    if found.memories:
        counted = sum(sum(each.parts.values()) for each in found.left_out)
        lists = [each["content"] for each in chat if isinstance(each.get("content"), list)]
        assert counted == sum(part["type"] not in TEXT_PARTS for content in lists for part in content)


@given(st.recursive(st.none() | st.integers() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_whatever_the_messages_are_a_body_is_read_or_refused(anything: object) -> None:
    for chat in (anything, [anything], [{"role": "user", "content": anything}], [{"role": anything, "content": "x"}]):
        errors: tuple[FieldError, ...] = ()
        try:
            found = read(msgspec.json.encode({"messages": chat}), "json", None)
        except Invalid as refused:
            found, errors = Body([]), refused.errors
        assert bool(found.memories) != bool(errors)
        assert all(error.field.startswith(("messages", "body")) for error in errors)
