"""Parsing of a request body: every field, every limit, and errors that name fields without quoting text."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ingest.bodies import decode
from app.domain.ingest.memory import (
    EMBEDDING_MAX_DIMENSIONS,
    KINDS,
    LABEL_MAX_CHARACTERS,
    LABELS_MAX,
    METADATA_MAX_BYTES,
    METADATA_MAX_DEPTH,
    NAME_MAX_CHARACTERS,
    TEXT_MAX_BYTES,
    Written,
    decode_patch,
)
from app.domain.strength.links import GivenLink
from app.errors import UNKNOWN_FIELD, EbbingError, FieldError, Invalid, Unreadable

CANARY = "canary-4711"
NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)


def read(body: object, dimensions: int | None = None) -> list[Any]:
    return decode(body if isinstance(body, bytes) else json.dumps(body).encode(), "json", dimensions)


def refusal(body: object, dimensions: int | None = None) -> FieldError:
    """Return the only error that reading a body raises."""
    with pytest.raises(Invalid) as raised:
        read(body, dimensions)
    [error] = raised.value.errors
    return error


def nested(depth: int) -> Any:
    """Return objects nested this deep."""
    value: dict[str, Any] = {}
    for _ in range(depth - 1):
        value = {"a": value}
    return value


def test_every_field_is_taken_as_it_is() -> None:
    given = {
        "text": "The flight leaves at nine",
        "subject": "ann",
        "thread": "travel",
        "speaker": "Ann",
        "kind": "episodic",
        "occurred_at": "2026-03-07T12:00:00Z",
        "tags": ["a", "b"],
        "categories": ["health"],
        "entities": ["Paris"],
        "metadata": {"deep": [1, None, {"x": 1.5}]},
        "salience": 1,
        "multiplier": 2,
        "embedding": [1, 0.5, -3e10],
        "external_id": "42",
        "supersedes": "41",
        "role": "user",
        "source": "tool",
        "expires_at": "2126-03-07T12:00:00Z",
        "links": [{"to": "40", "kind": "about", "weight": 0.5}, {"to": "39"}],
        "written": {"at": "2026-03-07T12:00:00Z", "after": "1772884800000-1"},
    }
    [memory] = read(given, 3)
    expected = given | {"occurred_at": NOON, "tags": ("a", "b"), "categories": ("health",), "entities": ("Paris",)}
    expected |= {"expires_at": NOON.replace(year=2126), "keep_days": None}
    expected |= {"written": Written(NOON, "1772884800000-1")}
    expected |= {"links": (GivenLink("40", "about", 0.5), GivenLink("39", "related", 1.0))}
    assert {name: getattr(memory, name) for name in memory.__struct_fields__} == expected


def test_only_the_text_is_needed() -> None:
    [memory] = read({"text": "x"})
    assert {name for name in memory.__struct_fields__ if getattr(memory, name)} == {"text"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_five_kinds_are_known(kind: str) -> None:
    assert read({"text": "x", "kind": kind})[0].kind == kind


def test_one_object_an_array_and_lines_say_the_same() -> None:
    lines = b'{"text":"one"}\n{"text":"two"}\n'
    assert decode(lines, "ndjson", None) == read([{"text": "one"}, {"text": "two"}])
    assert read({"text": "one"}) == read([{"text": "one"}])
    assert read([]) == []
    assert decode(b"\n\n", "ndjson", None) == []


TEXTS = {
    "ascii": ("a", 1),
    "two bytes": ("é", 2),
    "three bytes": ("€", 3),
    "four bytes": ("😀", 4),
}


@pytest.mark.parametrize(("sign", "size"), TEXTS.values(), ids=TEXTS)
def test_text_is_limited_in_bytes(sign: str, size: int) -> None:
    most = TEXT_MAX_BYTES // size
    for escaped in (True, False):
        fits = json.dumps({"text": sign * most}, ensure_ascii=escaped).encode()
        assert read(fits)[0].text == sign * most
        error = refusal(json.dumps({"text": sign * (most + 1)}, ensure_ascii=escaped).encode())
        assert (error.field, error.limit) == ("text", TEXT_MAX_BYTES)
        assert error.value in {most + 1, (most + 1) * size}


LIMITS: dict[str, tuple[str, Any, Any, int | float]] = {
    "text": ("text", "a" * TEXT_MAX_BYTES, "a" * (TEXT_MAX_BYTES + 1), TEXT_MAX_BYTES),
    **{
        name: (name, "é" * NAME_MAX_CHARACTERS, "é" * (NAME_MAX_CHARACTERS + 1), NAME_MAX_CHARACTERS)
        for name in ("subject", "thread", "speaker", "external_id")
    },
    **{
        name: (name, ["é" * LABEL_MAX_CHARACTERS] * LABELS_MAX, ["a"] * (LABELS_MAX + 1), LABELS_MAX)
        for name in ("tags", "categories", "entities")
    },
    "salience": ("salience", 1, 1.5, 1),
    "multiplier": ("multiplier", 2.0, 2.0001, 2),
    "embedding": (
        "embedding",
        [1.0] * EMBEDDING_MAX_DIMENSIONS,
        [1.0] * (EMBEDDING_MAX_DIMENSIONS + 1),
        EMBEDDING_MAX_DIMENSIONS,
    ),
}


@pytest.mark.parametrize(("field", "edge", "above", "limit"), LIMITS.values(), ids=LIMITS)
def test_a_limit_holds_at_its_edge_and_is_named_above(field: str, edge: object, above: Any, limit: float) -> None:
    assert read({"text": "x", field: edge})
    error = refusal([{"text": "x"}, {"text": "x", field: above}])
    measured = len(above) if isinstance(above, str | list) else above
    assert (error.field, error.limit, error.value) == (f"[1].{field}", limit, measured)


@pytest.mark.parametrize("field", ["text", "subject", "thread", "speaker", "external_id"])
def test_an_empty_text_or_name_is_refused(field: str) -> None:
    error = refusal({"text": "x", field: ""})
    assert (error.field, error.value, error.limit) == (field, 0, 1)


@pytest.mark.parametrize("field", ["tags", "categories", "entities"])
def test_each_label_has_its_limits(field: str) -> None:
    error = refusal({"text": "x", field: ["a", "b" * (LABEL_MAX_CHARACTERS + 1)]})
    assert (error.field, error.limit) == (f"{field}[1]", LABEL_MAX_CHARACTERS)
    assert refusal({"text": "x", field: [""]}).limit == 1


@pytest.mark.parametrize(("field", "value"), [("salience", -0.01), ("multiplier", -1)])
def test_numbers_have_a_lower_limit(field: str, value: float) -> None:
    error = refusal({"text": "x", field: value})
    assert (error.field, error.value, error.limit) == (field, value, 0)


@pytest.mark.parametrize("blank", [" ", "\n\t ", "\u2003\u00a0", "\u3000"])
def test_a_blank_text_is_refused(blank: str) -> None:
    for escaped in (True, False):
        error = refusal(json.dumps({"text": blank}, ensure_ascii=escaped).encode())
        assert (error.field, error.message) == ("text", "must not be blank")


def test_metadata_is_limited_in_bytes() -> None:
    room = METADATA_MAX_BYTES - len('{"a":""}')
    assert read({"text": "x", "metadata": {"a": "b" * room}})
    error = refusal({"text": "x", "metadata": {"a": "b" * (room + 1)}})
    assert (error.field, error.value, error.limit) == ("metadata", METADATA_MAX_BYTES + 1, METADATA_MAX_BYTES)
    assert refusal({"text": "x", "metadata": {"a": "€" * room}}).limit == METADATA_MAX_BYTES


@pytest.mark.parametrize("depth", [METADATA_MAX_DEPTH + 1, 200, 450, 700, 950])
def test_metadata_is_limited_in_depth(depth: int) -> None:
    assert read({"text": "x", "metadata": nested(METADATA_MAX_DEPTH)})
    too_deep = '{"a":' * depth + "1" + "}" * depth
    try:
        error = refusal(f'{{"text":"x","metadata":{too_deep}}}'.encode())
    except Unreadable:  # nested deeper than the parser reads
        assert depth > 400
    else:
        assert (error.field, error.limit) == ("metadata", METADATA_MAX_DEPTH)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"text":"x","metadata":{"a":['])
def test_a_million_levels_are_refused_as_unreadable(opening: bytes) -> None:
    with pytest.raises((Unreadable, Invalid)):
        read(opening * 10**6)
    with pytest.raises(Unreadable, match="nested too deeply"):
        read(b'{"text":"x","metadata":{"a":' + opening.replace(b'"text"', b'"b"') * 10**6)


NUL_BODIES: dict[str, tuple[str, Any]] = {
    "text": ("text", {"text": "a\0b"}),
    **{name: (name, {"text": "x", name: "\0"}) for name in ("subject", "thread", "speaker", "external_id")},
    **{name: (name, {"text": "x", name: ["a", "b\0"]}) for name in ("tags", "categories", "entities")},
    "metadata value": ("metadata", {"text": "x", "metadata": {"a": [{"b": "\0"}]}}),
    "metadata key": ("metadata", {"text": "x", "metadata": {"a": {"\0": 1}}}),
    "metadata after a number": ("metadata", {"text": "x", "metadata": {"a": [1.5, "\0"]}}),
}


@pytest.mark.parametrize(("field", "body"), NUL_BODIES.values(), ids=NUL_BODIES)
def test_a_nul_character_is_refused_wherever_it_hides(field: str, body: object) -> None:
    error = refusal(body)
    assert error.field == field
    assert "NUL" in error.message


UNREADABLE = {
    "nothing": b"",
    "half": b'{"text":"x"',
    "rest": b'{"text":"x"} {"text":"y"}',
    "raw NUL": b'{"text":"a\0b"}',
    "raw newline": b'{"text":"a\nb"}',
    "not UTF-8": b'{"text":"a\xff\xfeb"}',
    "overlong UTF-8": b'{"text":"\xc0\x80"}',
    "surrogate in UTF-8": b'{"text":"\xed\xa0\x80"}',
    "lone high surrogate": rb'{"text":"\ud800"}',
    "lone low surrogate": rb'{"text":"\udc00x"}',
    "unknown escape": rb'{"text":"\x41"}',
    "NaN": b'{"text":"x","salience":NaN}',
    "Infinity": b'{"text":"x","embedding":[Infinity]}',
    "UTF-16": '{"text":"x"}'.encode("utf-16"),
    "byte order mark": b'\xef\xbb\xbf{"text":"x"}',
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_is_no_json_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable) as raised:
        read(body)
    assert CANARY not in str(raised.value)


UNREADABLE_RESTS = {
    "nothing": b"",
    "garbage": b"garbage",
    "a million levels": b',"metadata":' + b"[" * 10**6,
    "not UTF-8": b',"subject":"\xff"}',
}


@pytest.mark.parametrize("rest", UNREADABLE_RESTS.values(), ids=UNREADABLE_RESTS)
def test_a_wrong_field_is_named_even_if_the_rest_is_unreadable(rest: bytes) -> None:
    error = refusal(b'{"text":""' + rest)
    assert (error.field, error.limit) == ("text", 1)
    assert refusal(b'{"text":"x","tags":["a",""' + rest).field == "tags[1]"
    assert refusal(b'{"text":"x","tags":["a",""],"tags":[]}').field == "tags[1]"


def test_a_field_that_is_given_twice_is_named() -> None:
    assert refusal(b'{"text":"","text":5}').field == "text"


@pytest.mark.parametrize(("field", "limit"), [("salience", 1), ("multiplier", 2)])
@pytest.mark.parametrize("digits", [20, 300, 5000])
def test_a_huge_number_is_too_large(field: str, limit: int, digits: int) -> None:
    try:
        error = refusal(f'{{"text":"x","{field}":{"9" * digits}}}'.encode())
    except Unreadable:
        assert digits > 300
    else:
        assert error.field == field
        assert error.limit in {limit, None}
        assert msgspec.json.encode(error.value)


def test_a_huge_number_in_metadata_is_kept_or_refused() -> None:
    body = f'{{"text":"x","metadata":{{"a":{"9" * 400}}}}}'.encode()
    try:
        [memory] = read(body)
    except (Invalid, Unreadable):
        return
    assert json.loads(msgspec.json.encode(memory.metadata)) == {"a": int("9" * 400)}


def test_a_vector_has_the_size_of_the_space() -> None:
    assert read({"text": "x", "embedding": [1.0, 2.0]}, 2)
    error = refusal({"text": "x", "embedding": [1.0, 2.0]}, 3)
    assert (error.field, error.value, error.limit) == ("embedding", 2, 3)
    assert refusal({"text": "x", "embedding": []}).field == "embedding"


@pytest.mark.parametrize("vector", [[0, 0], [1e-320, 0.0], [1.5e308, 1.5e308]], ids=str)
def test_a_vector_needs_a_direction(vector: list[float]) -> None:
    error = refusal({"text": "x", "embedding": vector})
    assert error.field == "embedding"


WRONG: dict[str, tuple[str, Any]] = {
    "no text": ("text", {}),
    "number for text": ("text", {"text": 5}),
    "null text": ("text", {"text": None}),
    "object for name": ("subject", {"text": "x", "subject": {"a": CANARY}}),
    "string for tags": ("tags", {"text": "x", "tags": CANARY}),
    "number in tags": ("tags[1]", {"text": "x", "tags": [CANARY, 5]}),
    "list for metadata": ("metadata", {"text": "x", "metadata": [CANARY]}),
    "string for salience": ("salience", {"text": "x", "salience": CANARY}),
    "true for salience": ("salience", {"text": "x", "salience": True}),
    "string in vector": ("embedding[0]", {"text": "x", "embedding": [CANARY]}),
    "unknown kind": ("kind", {"text": "x", "kind": CANARY}),
    "no date": ("occurred_at", {"text": "x", "occurred_at": CANARY}),
    "date without offset": ("occurred_at", {"text": "x", "occurred_at": "2026-03-07T12:00:00"}),
    "no such day": ("occurred_at", {"text": "x", "occurred_at": "2026-02-30T12:00:00Z"}),
    "text as body": ("body", CANARY),
    "number as body": ("body", 5),
    "null as body": ("body", None),
    "1e999": ("salience", b'{"text":"x","salience":1e999}'),
    "1e999 in metadata": ("metadata[...]", b'{"text":"x","metadata":{"a":1e999}}'),
    "1e999 in vector": ("embedding[1]", b'{"text":"x","embedding":[1,1e999]}'),
    "unknown field": ("nickname", {"text": "x", "nickname": CANARY}),
}


@pytest.mark.parametrize(("field", "body"), WRONG.values(), ids=WRONG)
def test_a_wrong_field_is_named_and_its_content_never_quoted(field: str, body: Any) -> None:
    line = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = refusal(line)
    assert error.field == field
    assert CANARY not in f"{error.message}{error.value}{error.limit}"
    if field != "body":
        assert refusal(b'[{"text":"x"},{"text":"y"},' + line + b"]").field == f"[2].{field}"
    with pytest.raises(Invalid) as raised:
        decode(b'{"text":"x"}\n' + line, "ndjson", None)
    assert raised.value.errors[0].field == ("[1]" if field == "body" else f"[1].{field}")


@pytest.mark.parametrize("name", ["a", "a.b", "a`b", "a\nb", "tags[0]", "$", "", "x" * 5000])
def test_an_unknown_field_is_named_whatever_its_name(name: str) -> None:
    error = refusal([{"text": "x", name: 1}])
    assert error.message == UNKNOWN_FIELD
    assert error.field == f"[0].{name[:NAME_MAX_CHARACTERS]}"


MOMENTS = st.datetimes(
    datetime(1, 1, 2),  # noqa: DTZ001 - hypothesis adds the zone
    datetime(9999, 12, 30),  # noqa: DTZ001
    timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)


@given(MOMENTS)
def test_any_moment_with_an_offset_is_taken(moment: datetime) -> None:
    assert read({"text": "x", "occurred_at": moment.isoformat()})[0].occurred_at == moment


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"])
def test_a_moment_beyond_the_calendar_is_refused(moment: str) -> None:
    """PostgreSQL would store the moment, but Python couldn't read it back."""
    assert refusal({"text": "x", "occurred_at": moment}).field == "occurred_at"
    with pytest.raises(Invalid):
        decode_patch(json.dumps({"occurred_at": moment}).encode())


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
BODIES = st.dictionaries(st.sampled_from(["text", *LIMITS, "metadata", "kind", "occurred_at", "x"]), VALUES, max_size=5)


def refused(read_it: Callable[[bytes], object], body: bytes) -> EbbingError | None:
    """Return the error that refuses a body, or None if it is accepted; any other exception is a failure."""
    try:
        read_it(body)
    except (Invalid, Unreadable) as error:
        return error
    return None


@given(BODIES | st.lists(BODIES, max_size=3) | VALUES)
def test_whatever_json_comes_is_read_or_refused_with_a_reason(body: Any) -> None:
    encoded = json.dumps(body).encode()
    error = refused(lambda given: decode(given, "json", 2), encoded)
    if isinstance(error, Invalid):
        assert error.errors
        for named in error.errors:
            assert named.field or named.message == UNKNOWN_FIELD
            assert msgspec.json.encode(named.value)


@given(st.binary(max_size=64))
def test_whatever_bytes_come_are_read_or_refused(body: bytes) -> None:
    as_json = refused(lambda given: decode(given, "json", None), body)
    refused(lambda given: decode(given, "ndjson", None), body)
    refused(decode_patch, body)
    assert as_json is not None or json.loads(body) is not None


def test_a_patch_tells_left_out_from_null() -> None:
    assert decode_patch(b'{"subject":null,"tags":[]}') == {"subject": None, "tags": ()}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b'{"text":" "}', "text"),
        (b'{"text":null}', "text"),
        (rb'{"text":"a\u0000"}', "text"),
        (rb'{"metadata":{"a":"\u0000"}}', "metadata"),
        (b'{"embedding":[1]}', "embedding"),
        (b'{"external_id":"a"}', "external_id"),
        (b'{"salience":2}', "salience"),
        (b"[]", "body"),
    ],
)
def test_a_patch_has_the_same_limits(body: bytes, field: str) -> None:
    with pytest.raises(Invalid) as raised:
        decode_patch(body)
    assert raised.value.errors[0].field == field


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_patch_that_is_no_json_is_unreadable(body: bytes) -> None:
    with pytest.raises((Unreadable, Invalid)):
        decode_patch(body)
