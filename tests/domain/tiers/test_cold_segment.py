"""Segments and sealed records: intact data is read back, and any modification is detected."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.text.excerpt import KEPT_BYTES, abridge
from app.domain.tiers import cold_segment, encryption
from app.domain.tiers.cold_segment import DamagedSegment, SealedRecord
from tests.examples import draw

TENANT, OTHER = UUID(int=1), UUID(int=2)
KEY, NONCE = bytes(range(32)), bytes(12)
IDS = st.uuids()
RECORDS = st.lists(st.builds(SealedRecord, IDS, IDS, st.integers(0, 2**32 - 1), st.binary(min_size=1)), min_size=1)


def read(tenant_id: UUID, data: bytes) -> list[SealedRecord]:
    """Read and verify all records of a segment."""
    return [
        SealedRecord(entry.memory_id, entry.key_id, entry.text_version, cold_segment.record_body(data, entry))
        for entry in cold_segment.decode(tenant_id, data)
    ]


@given(RECORDS)
def test_what_was_written_comes_back(records: list[SealedRecord]) -> None:
    made = cold_segment.encode(TENANT, records)
    assert read(TENANT, made.data) == records
    assert cold_segment.decode(TENANT, made.data) == made.entries


@given(RECORDS, st.data())
def test_no_flipped_bit_passes(records: list[SealedRecord], data: st.DataObject) -> None:
    changed = bytearray(cold_segment.encode(TENANT, records).data)
    place = data.draw(st.integers(0, len(changed) * 8 - 1))
    changed[place // 8] ^= 1 << place % 8
    with pytest.raises(DamagedSegment):
        read(TENANT, bytes(changed))


@given(RECORDS, st.data())
def test_nothing_cut_off_passes(records: list[SealedRecord], data: st.DataObject) -> None:
    whole = cold_segment.encode(TENANT, records).data
    with pytest.raises(DamagedSegment):
        read(TENANT, whole[: data.draw(st.integers(0, len(whole) - 1))])


@given(st.binary(max_size=400), st.booleans())
def test_bytes_of_anybody_are_damaged_and_nothing_else(data: bytes, begins_well: bool) -> None:
    with pytest.raises(DamagedSegment):
        cold_segment.decode(TENANT, cold_segment.MAGIC + data if begins_well else data)


def test_another_tenants_segment_isnt_read() -> None:
    with pytest.raises(DamagedSegment, match="belongs to another tenant"):
        cold_segment.decode(OTHER, cold_segment.encode(TENANT, [SealedRecord(TENANT, OTHER, 1, b"x")]).data)


def test_a_record_is_found_in_a_range_and_only_there() -> None:
    made = cold_segment.encode(TENANT, [SealedRecord(UUID(int=n), OTHER, 1, b"x" * n) for n in range(1, 9)])
    third, fourth = made.entries[2:4]
    part = made.data[third.start : fourth.start + fourth.length]
    assert cold_segment.record_body(part, fourth, offset=third.start) == b"xxxx"
    for wrong in (made.entries[1], made.entries[4]):
        with pytest.raises(DamagedSegment):
            cold_segment.record_body(part, wrong, offset=third.start)


@pytest.mark.parametrize("bodies", [[], [b""], [b"x"] * (cold_segment.RECORDS_MAX + 1)])
def test_a_segment_that_couldnt_be_read_isnt_made(bodies: list[bytes]) -> None:
    with pytest.raises(ValueError, match="record"):
        cold_segment.encode(TENANT, [SealedRecord(TENANT, OTHER, 1, body) for body in bodies])


@given(st.binary())
def test_content_is_sealed_and_opened(content: bytes) -> None:
    bound = encryption.record_associated_data(TENANT, OTHER, 3)
    assert encryption.unseal(KEY, encryption.seal(KEY, NONCE, content, bound), bound) == content


@pytest.mark.parametrize(
    ("key", "bound"),
    [
        (bytes(32), encryption.record_associated_data(TENANT, OTHER, 3)),
        (KEY, encryption.record_associated_data(OTHER, OTHER, 3)),
        (KEY, encryption.record_associated_data(TENANT, TENANT, 3)),
        (KEY, encryption.record_associated_data(TENANT, OTHER, 4)),
    ],
    ids=["key", "tenant", "memory", "version"],
)
def test_it_opens_by_its_key_and_for_its_memory_alone(key: bytes, bound: bytes) -> None:
    sealed = encryption.seal(KEY, NONCE, b"secret", encryption.record_associated_data(TENANT, OTHER, 3))
    with pytest.raises(DamagedSegment, match="wrong key or modified data"):
        encryption.unseal(key, sealed, bound)


@given(st.binary(max_size=60))
def test_what_was_never_sealed_is_damaged(sealed: bytes) -> None:
    with pytest.raises(DamagedSegment):
        encryption.unseal(KEY, sealed, b"")


def test_content_of_no_size_or_too_large_isnt_inflated() -> None:
    for packed in (b"no zstd", b"\x28\xb5\x2f\xfd\xa0\xff\xff\xff\x7f"):
        with pytest.raises(DamagedSegment):
            encryption.unseal(KEY, encryption.encrypt(KEY, NONCE, packed, b""), b"")


@draw(100)
@given(st.text(alphabet=st.sampled_from("ab .!?\n。é😀"), max_size=4000))
def test_an_abridged_text_is_a_beginning_of_it_and_short(text: str) -> None:
    left = abridge(text)
    assert len(left.encode()) <= KEPT_BYTES
    assert text.startswith(left.removesuffix("…"))
    assert left == text or len(text.encode()) > KEPT_BYTES


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("One. Two. " + "x" * 2000, "One. Two."),
        ("word " * 500, "word…"),
        ("x" * 2000, "x…"),
        ("第一。" * 500, "第一。"),
    ],
)
def test_it_ends_at_a_sentence_else_at_a_word_else_anywhere(text: str, ends: str) -> None:
    assert abridge(text).endswith(ends)
