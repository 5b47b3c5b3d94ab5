"""Envelopes: packed at the door, unpacked in the drain, and refused when something else put them there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.decoding import Format
from app.domain.envelope import Malformed, pack, unpack

BASE = bytes(range(16))
NAMES = st.text(st.characters(codec="ascii", exclude_characters=" "), max_size=64)
FORMS: st.SearchStrategy[Format] = st.sampled_from(["json", "ndjson"])


@given(st.binary(min_size=16, max_size=16), st.integers(1, 4096), FORMS, NAMES, NAMES, st.binary(max_size=200))
def test_what_is_packed_comes_back(
    base: bytes, memories: int, form: Format, request_id: str, trace: str, body: bytes
) -> None:
    _, count, _, header, _, packed = pack(base, memories, form, request_id, trace, body)
    assert isinstance(header, bytes)
    assert isinstance(packed, bytes)
    envelope = unpack("1760000000000-3", str(count).encode(), header, packed)
    assert (envelope.base, envelope.memories, envelope.form) == (base, memories, form)
    assert (envelope.request_id, envelope.trace, envelope.body) == (request_id, trace, body)
    assert envelope.accepted_ms == 1_760_000_000_000


HEADER = b"1j" + BASE + b"request trace"


@pytest.mark.parametrize(
    ("count", "header", "reason"),
    [
        (b"1", b"", "unknown envelope version"),
        (b"1", b"2" + HEADER[1:], "unknown envelope version"),
        (b"1", b"1", "envelope header out of shape"),
        (b"1", b"1x" + HEADER[2:], "envelope header out of shape"),
        (b"1", b"1j" + BASE[:15], "envelope header out of shape"),
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
    with pytest.raises(Malformed) as raised:
        unpack("1-0", count, header, b"secret text")
    assert str(raised.value) == reason


@given(st.binary(max_size=8), st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_an_envelope_or_malformed(count: bytes, header: bytes, body: bytes) -> None:
    try:
        envelope = unpack("1-0", count, b"1j" + header, body)
    except Malformed:
        return
    assert len(envelope.base) == 16
    assert envelope.memories >= 0
