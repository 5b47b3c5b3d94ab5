"""Envelopes: packed by the API, unpacked by the drain, and refused if anything else wrote them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ingest.envelope import MalformedEnvelope, decode_envelope, first_position, pack, replay_header
from app.domain.ingest.json_input import Format

BASE = bytes(range(16))
NAMES = st.text(st.characters(codec="ascii", exclude_characters=" "), max_size=64)
ENTRY_IDS = st.builds("{}-{}".format, st.integers(0, 10**13), st.integers(0, 10**6))
FORMS: st.SearchStrategy[Format] = st.sampled_from(["json", "ndjson"])


@given(st.binary(min_size=16, max_size=16), st.integers(1, 4096), FORMS, NAMES, NAMES, st.binary(max_size=200))
def test_what_is_packed_comes_back(
    base: bytes, memories: int, form: Format, request_id: str, trace: str, body: bytes
) -> None:
    _, count, _, header, _, packed = pack(base, memories, form, request_id, trace, body)
    assert isinstance(header, bytes)
    assert isinstance(packed, bytes)
    envelope = decode_envelope("1760000000000-3", str(count).encode(), header, packed)
    assert (envelope.base, envelope.memories, envelope.form) == (base, memories, form)
    assert (envelope.request_id, envelope.trace, envelope.body) == (request_id, trace, body)
    assert envelope.accepted_ms == 1_760_000_000_000


@given(st.binary(min_size=16, max_size=16), FORMS, NAMES, NAMES, st.lists(ENTRY_IDS, min_size=2, max_size=5))
def test_a_replay_keeps_everything_and_its_first_position(
    base: bytes, form: Format, request_id: str, trace: str, entry_ids: list[str]
) -> None:
    """The entry may be appended again any number of times, under any id."""
    first, *others = entry_ids
    header = pack(base, 1, form, request_id, trace, b"")[3]
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
        assert (after.base, after.form, after.request_id, after.trace) == (base, form, request_id, trace)
        entry_id = other


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("trace", ["", TRACE])
def test_entries_of_the_version_before_are_read(trace: str) -> None:
    header = b"1n" + BASE + f"request {trace}".encode()
    envelope = decode_envelope("1760000000000-3", b"2", header, b"x")
    assert (envelope.request_id, envelope.trace, envelope.position) == ("request", trace, "1760000000000-3")
    assert replay_header(header, "1-0") == header + b" 1-0"


@pytest.mark.parametrize("trace", ["", TRACE])
def test_the_version_before_reads_a_replay(trace: str) -> None:
    """The previous version read everything after the first space as the trace, which it only passed on."""
    header = replay_header(b"1n" + BASE + f"request {trace}".encode(), "1760000000000-3")
    assert header[:18] == b"1n" + BASE
    assert header[18:].decode("latin-1").partition(" ")[0] == "request"


@given(st.binary(max_size=60), st.binary(max_size=4))
def test_what_is_no_envelope_is_replayed_as_it_is(header: bytes, start: bytes) -> None:
    header = start + header
    try:
        decode_envelope("1-0", b"1", header, b"")
    except MalformedEnvelope:
        assert replay_header(header, "1-0") == header
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
