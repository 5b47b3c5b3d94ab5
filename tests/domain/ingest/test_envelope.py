"""Envelopes: packed by the API, unpacked by the drain, and refused if anything else wrote them."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ingest.envelope import (
    MalformedEnvelope,
    add_writer,
    decode_envelope,
    first_position,
    pack,
    replay_header,
    strip_caller_ids,
)
from app.domain.ingest.json_input import Format
from app.domain.ingest.sources import UNKNOWN_WRITER, Writer

BASE = bytes(range(16))
NAMES = st.text(st.characters(codec="ascii", exclude_characters=" "), max_size=64)
ENTRY_IDS = st.builds("{}-{}".format, st.integers(0, 10**13), st.integers(0, 10**6))
FORMS: st.SearchStrategy[Format] = st.sampled_from(["json", "ndjson"])


@given(st.binary(min_size=16, max_size=16), st.integers(1, 4096), FORMS, NAMES, st.binary(max_size=200))
def test_what_is_packed_comes_back(base: bytes, memories: int, form: Format, trace: str, body: bytes) -> None:
    _, count, _, header, _, packed = pack(base, memories, form, trace, body)
    assert isinstance(header, bytes)
    assert isinstance(packed, bytes)
    envelope = decode_envelope("1760000000000-3", str(count).encode(), header, packed)
    assert (envelope.base, envelope.memories, envelope.form) == (base, memories, form)
    assert (envelope.trace, envelope.body) == (trace, body)
    assert envelope.accepted_ms == 1_760_000_000_000


@given(st.binary(min_size=16, max_size=16), FORMS, NAMES, st.lists(ENTRY_IDS, min_size=2, max_size=5))
def test_a_replay_keeps_everything_and_its_first_position(
    base: bytes, form: Format, trace: str, entry_ids: list[str]
) -> None:
    """The entry may be appended again any number of times, under any id."""
    first, *others = entry_ids
    header = pack(base, 1, form, trace, b"")[3]
    assert isinstance(header, bytes)
    assert first_position(first, header) == first
    before = decode_envelope(first, b"1", header, b"body")
    assert (before.position, before.first_entry_id) == (first, "")
    entry_id = first
    for other in others:
        header = replay_header(header, entry_id)
        after = decode_envelope(other, b"1", header, b"body")
        assert (after.entry_id, after.position, first_position(other, header)) == (other, first, first)
        assert after.accepted_ms == before.accepted_ms
        assert (after.base, after.form, after.trace) == (base, form, trace)
        entry_id = other


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("trace", ["", TRACE])
def test_entries_of_the_version_before_are_read(trace: str) -> None:
    header = b"1n" + BASE + f"request {trace}".encode()
    envelope = decode_envelope("1760000000000-3", b"2", header, b"x")
    assert (envelope.trace, envelope.position) == (trace, "1760000000000-3")
    assert replay_header(header, "1-0") == b"1n" + BASE + f" {trace} 1-0".encode(), "without the caller's request id"


@pytest.mark.parametrize("trace", ["", TRACE])
def test_the_version_before_reads_a_replay(trace: str) -> None:
    """The previous version read everything after the first space as the trace, which it only passed on."""
    header = replay_header(b"1n" + BASE + f"request {trace}".encode(), "1760000000000-3")
    assert header[:18] == b"1n" + BASE
    assert header[18:].decode("latin-1").partition(" ")[0] == ""


@pytest.mark.parametrize("sent_ms", [None, 1_760_000_000_000])
def test_the_version_before_reads_an_entry_without_a_request_id(sent_ms: int | None) -> None:
    """The previous version split the names at spaces: request id, trace, original entry id, time of sending."""
    header = pack(BASE, 1, "json", TRACE, b"", sent_ms=sent_ms)[3]
    assert isinstance(header, bytes)
    names = [*header[18:].decode().split(" ", 3), "", "", ""][:4]
    assert names == ["", TRACE, "", str(sent_ms or "")]


@pytest.mark.parametrize("writer", [UNKNOWN_WRITER, Writer("k1", "user")])
@pytest.mark.parametrize("times", ["", " 1-0", "  5", " 1-0 5"])
def test_the_ids_that_the_caller_chose_are_removed_and_nothing_else(writer: Writer, times: str) -> None:
    header = b"1n" + BASE + f"request-of-orla {add_writer(TRACE, writer)}{times}".encode()
    before = decode_envelope("9-0", b"2", header, b"x")
    traced = strip_caller_ids(header, keep_trace=True)
    assert (b"orla" in traced, decode_envelope("9-0", b"2", traced, b"x")) == (False, before)
    bare = strip_caller_ids(header, keep_trace=False)
    assert b"orla" not in bare
    assert TRACE.encode() not in bare
    assert decode_envelope("9-0", b"2", bare, b"x") == msgspec.structs.replace(before, trace="")
    assert strip_caller_ids(traced, keep_trace=True) == traced
    assert strip_caller_ids(bare, keep_trace=False) == bare


@given(st.binary(max_size=60), st.binary(max_size=4))
def test_what_is_no_envelope_is_replayed_as_it_is(header: bytes, start: bytes) -> None:
    header = start + header
    try:
        decode_envelope("1-0", b"1", header, b"")
    except MalformedEnvelope:
        assert replay_header(header, "1-0") == header
        assert [strip_caller_ids(header, keep_trace=keep_trace) for keep_trace in (True, False)] == [header, header]
        assert first_position("1-0", header) == "1-0"


HEADER = b"1j" + BASE + b"request trace"


@pytest.mark.parametrize(
    ("count", "header", "reason"),
    [
        (b"1", b"", "unknown envelope version"),
        (b"1", b"2" + HEADER[1:], "unknown envelope version"),
        (b"1", b"1", "envelope header out of shape"),
        (b"1", b"1x" + HEADER[2:], "envelope header out of shape"),
        (b"1", b"1j" + BASE[:15], "envelope header out of shape"),
        (b"1", HEADER + b" 1", "envelope header out of shape"),
        (b"1", HEADER + b" -1", "envelope header out of shape"),
        (b"1", HEADER + b" 1-0 1-0", "envelope header out of shape"),
        (b"1", HEADER + b" 1-" + b"9" * 5000, "envelope header out of shape"),
        (b"1", HEADER + b" \xb2-0", "envelope header out of shape"),
        (b"", HEADER, "envelope header out of shape"),
        (b"-1", HEADER, "envelope header out of shape"),
        (b"1.5", HEADER, "envelope header out of shape"),
        (b"nan", HEADER, "envelope header out of shape"),
        ("٣".encode(), HEADER, "envelope header out of shape"),
        (b"9" * 5000, HEADER, "envelope header out of shape"),
        (b"10000", HEADER, "envelope header out of shape"),
    ],
    ids=lambda part: part[:24].decode(errors="replace") if isinstance(part, bytes) else part,
)
def test_what_is_malformed_is_named_by_a_fixed_reason(count: bytes, header: bytes, reason: str) -> None:
    with pytest.raises(MalformedEnvelope) as raised:
        decode_envelope("1-0", count, header, b"secret text")
    assert str(raised.value) == reason


@given(st.binary(max_size=8), st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_an_envelope_or_malformed(count: bytes, header: bytes, body: bytes) -> None:
    try:
        envelope = decode_envelope("1-0", count, b"1j" + header, body)
    except MalformedEnvelope:
        return
    assert len(envelope.base) == 16
    assert envelope.memories >= 0
    assert envelope.accepted_ms >= 0
