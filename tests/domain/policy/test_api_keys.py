"""API keys: generated, parsed, and refused if a single character is wrong."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.policy import api_keys

IDS = st.binary(min_size=api_keys.ID_BYTES, max_size=api_keys.ID_BYTES)
SECRETS = st.binary(min_size=api_keys.SECRET_BYTES, max_size=api_keys.SECRET_BYTES)
KEY = api_keys.make_key(bytes(range(9)), bytes(range(32)))
SIGNS = string.ascii_letters + string.digits


@given(IDS, SECRETS)
def test_a_key_reads_back_and_matches_its_digest_alone(key_id: bytes, secret: bytes) -> None:
    text = api_keys.make_key(key_id, secret)
    read = api_keys.parse(text)
    assert read is not None
    assert text.startswith(f"ebb_{read.key_id}_{read.secret}")
    assert api_keys.matches_digest(read.secret, api_keys.digest_secret(read.secret))
    assert not api_keys.matches_digest(read.secret + "x", api_keys.digest_secret(read.secret))


@given(st.sets(st.tuples(IDS, SECRETS), min_size=2, max_size=2))
def test_different_bytes_make_different_keys(parts: set[tuple[bytes, bytes]]) -> None:
    assert len({api_keys.make_key(*part) for part in parts}) == 2


def test_a_single_wrong_character_is_refused_without_a_look_up() -> None:
    wrong = [KEY[:n] + sign + KEY[n + 1 :] for n in range(len(KEY)) for sign in SIGNS if sign != KEY[n]]
    assert [text for text in wrong if api_keys.parse(text) is not None] == []


def test_swapped_neighbours_are_refused() -> None:
    swapped = [KEY[:n] + KEY[n + 1] + KEY[n] + KEY[n + 2 :] for n in range(len(KEY) - 1) if KEY[n] != KEY[n + 1]]
    assert [text for text in swapped if api_keys.parse(text) is not None] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ebb_",
        KEY[:-1],
        KEY + "0",
        " " + KEY[1:],
        KEY.upper(),
        KEY.replace("ebb_", "ebc_"),
        KEY.replace("_", "-"),
        "é" + KEY[1:],
        KEY[:-1] + "é",
        "0" * len(KEY),
        "\0" * len(KEY),
    ],
)
def test_what_has_another_form_is_no_key(text: str) -> None:
    assert api_keys.parse(text) is None


@given(st.text(max_size=90))
def test_reading_never_fails(text: str) -> None:
    assert api_keys.parse(text) is None


def test_the_digest_tells_nothing_of_the_secret() -> None:
    read = api_keys.parse(KEY)
    assert read is not None
    assert len(api_keys.digest_secret(read.secret)) == 32
    assert read.secret.encode() not in api_keys.digest_secret(read.secret)
