"""Words of a text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.text import words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Don't ask Ann's dog!", ["don't", "ask", "ann", "s", "dog"]),
        ("snake_case, x-ray, 3.5 km", ["snake", "case", "x", "ray", "3", "5", "km"]),
        ("L’été à Paris", ["l’été", "à", "paris"]),
        ("?! ...", []),
    ],
)
def test_words_of_a_text(text: str, expected: list[str]) -> None:
    assert words.split_words(text) == expected


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_is_read_as_any_other_text(text: str) -> None:
    assert words.split_words(text) == words._WORD.findall(text.lower())


_WRITTEN = st.text(st.sampled_from("as1I'’ _.é\0\nthe"), max_size=12) | st.text(st.characters(), max_size=12)


@given(st.lists(_WRITTEN, max_size=6))
def test_heads_of_texts_are_those_of_each_text(texts: list[str]) -> None:
    assert words.split_heads(texts) == [words.content_words(text) for text in texts]


def test_a_head_ends_after_forty_content_words_and_six_hundred_characters() -> None:
    many, long = "Ada's dog " * 50, f"{'x' * 599}ab cd"
    assert words.split_heads([many, long, "the", ""]) == [["ada", "dog"] * 20, [f"{'x' * 599}a"], ["the"], []]


_FIRST_PERSON = {
    word for first in ("i", "me", "my", "myself", "mine", "we", "our", "ours") for word in (first, first.capitalize())
} | {"us"}
_PIECES = st.sampled_from([*sorted(_FIRST_PERSON), "Us", "ME", "time", "house", "wei", "_", "é", "'", "-", " ", "\n"])


@given(st.lists(_PIECES, max_size=8).map("".join))
def test_a_text_with_a_word_of_the_first_person_is_in_the_first_person(text: str) -> None:
    expected = not _FIRST_PERSON.isdisjoint(re.findall(r"\w+", text))
    assert words.is_in_first_person(text) == expected
