"""Windows of long texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.ingest.memory import TEXT_MAX_BYTES
from app.domain.text.windows import WINDOW_SIZE, WINDOWS_MAX, divide

SENTENCE = "The minutes of the meeting list who was present. "
PIECES = st.sampled_from([SENTENCE, "\n\n", "word ", "x" * 700, "。", "```\nline one\nline two\n```\n", " ", "é?!"])


@given(pieces=st.lists(PIECES, max_size=60), repeat=st.integers(1, 40))
def test_windows_hold_all_of_the_text_but_white_space_and_never_overlap(pieces: list[str], repeat: int) -> None:
    text = "".join(pieces) * repeat
    spans = divide(text)
    assert len(spans) <= WINDOWS_MAX
    if len(text.strip()) > 4 * WINDOW_SIZE:
        assert spans
    if spans:
        edges = [0, *(edge for span in spans for edge in span), len(text)]
        assert edges == sorted(edges)
        between = (text[edges[n] : edges[n + 1]] for n in range(0, len(edges), 2))
        assert not "".join(between).strip()
        assert all(text[start:end].strip() == text[start:end] != "" for start, end in spans)


def test_a_text_of_at_most_two_windows_has_none() -> None:
    assert divide("a" * 2 * WINDOW_SIZE) == []
    assert len(divide("a b " * WINDOW_SIZE)) == 4


def test_windows_are_of_about_equal_length_up_to_the_last_one() -> None:
    text = SENTENCE * 81
    lengths = [end - start for start, end in divide(text)]
    assert max(lengths) - min(lengths) <= len(SENTENCE)
    assert abs(sum(lengths) / len(lengths) - WINDOW_SIZE) < len(SENTENCE)


@pytest.mark.parametrize("length", [TEXT_MAX_BYTES, 100_000])
def test_the_windows_of_a_very_long_text_are_longer_but_no_more(length: int) -> None:
    text = (SENTENCE * (length // len(SENTENCE) + 1))[:length]
    spans = divide(text)
    assert WINDOWS_MAX - 3 <= len(spans) <= WINDOWS_MAX
    assert text[spans[-1].start :].strip() == text[slice(*spans[-1])]
