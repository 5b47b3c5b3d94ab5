"""Memory ids and the order of conversation."""

from __future__ import annotations

from uuid import RFC_4122, UUID

from hypothesis import given
from hypothesis import strategies as st

from app.domain.ingest.ids import (
    BATCH_MAX,
    RANDOM_BYTES,
    array_literal,
    extract_base,
    extract_index,
    extract_unix_ms,
    first_seq,
    generate_base,
    memory_uuids,
)

MILLISECONDS = st.integers(0, 2**48 - 1)
CHANCE = st.binary(min_size=RANDOM_BYTES, max_size=RANDOM_BYTES)
PLACES = st.integers(0, BATCH_MAX - 1)
# Redis counts up within a millisecond; it can't accept 2,048 requests of one tenant in that time.
ENTRIES = st.tuples(st.integers(1_704_067_200_000, 2_700_000_000_000), st.integers(0, 2047))


@given(MILLISECONDS, CHANCE)
def test_ids_are_uuids_of_version_7_that_tell_their_moment(unix_ms: int, chance: bytes) -> None:
    base = UUID(bytes=generate_base(unix_ms, chance))
    assert (base.version, base.variant) == (7, RFC_4122)
    assert extract_unix_ms(base) == unix_ms


@given(MILLISECONDS, CHANCE, PLACES)
def test_an_id_leads_back_to_its_request_and_place(unix_ms: int, chance: bytes, place: int) -> None:
    base = generate_base(unix_ms, chance)
    memory_id = UUID(memory_uuids(base, place + 1)[place])
    assert (extract_base(memory_id), extract_index(memory_id)) == (base, place)


def test_the_ids_of_a_request_are_unique_and_in_order() -> None:
    ids = memory_uuids(generate_base(1_760_000_000_000, bytes(8)), BATCH_MAX)
    assert len(set(ids)) == BATCH_MAX
    assert ids == sorted(ids)
    assert all(str(UUID(memory_id)) == memory_id for memory_id in ids)


@given(MILLISECONDS, MILLISECONDS, CHANCE, CHANCE, PLACES, PLACES)
def test_ids_of_a_later_millisecond_sort_later(
    one_ms: int, other_ms: int, one: bytes, other: bytes, place: int, other_place: int
) -> None:
    first = memory_uuids(generate_base(one_ms, one), place + 1)[place]
    second = memory_uuids(generate_base(other_ms, other), other_place + 1)[other_place]
    if one_ms != other_ms:
        assert (first < second) == (one_ms < other_ms)


@given(st.sets(CHANCE, min_size=2, max_size=2))
def test_requests_of_one_millisecond_share_an_id_only_by_58_bits_of_chance(chances: set[bytes]) -> None:
    one, other = chances
    used = [int.from_bytes(chance, "big") & 0x0FFF_3FFF_FFFF_FFFF for chance in (one, other)]
    assert (generate_base(7, one) == generate_base(7, other)) == (used[0] == used[1])


@given(ENTRIES, ENTRIES, PLACES, PLACES)
def test_the_order_of_speaking_is_that_of_entries_and_of_places_in_them(
    one: tuple[int, int], other: tuple[int, int], place: int, other_place: int
) -> None:
    first = first_seq("{}-{}".format(*one)) + place
    second = first_seq("{}-{}".format(*other)) + other_place
    assert (first < second) == ((*one, place) < (*other, other_place))
    assert 0 <= first < 2**63


def test_a_clock_of_long_ago_and_a_crowded_millisecond_still_have_a_place() -> None:
    assert first_seq("5-0") == 0
    crowded = [first_seq(f"1760000000000-{n}") for n in (2046, 2047, 2048, 10**6)]
    assert crowded == sorted(crowded)
    assert crowded[-1] < first_seq("1760000000001-0")


def test_ids_become_an_array_of_postgresql() -> None:
    assert array_literal([]) == "{}"
    assert array_literal(["a", "b"]) == "{a,b}"
