"""Words of a text."""

from __future__ import annotations

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
