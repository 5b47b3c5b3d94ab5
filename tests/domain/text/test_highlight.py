"""The part of a long text that matches a query best."""

from __future__ import annotations

from itertools import pairwise

import pytest

from app.domain.text.highlight import find_highlights, join_excerpt, split_windows

FILLER = "Nothing of note happened here on that long and quiet day. "
LONG = FILLER * 6 + "The walnuts made her ill. " + FILLER * 12 + "Mint tea helped with it. " + FILLER * 6


def cut(text: str, weights: dict[str, float], most: int = 1) -> list[str]:
    return [text[start:end] for start, end in find_highlights(text, weights, most)]


def test_windows_are_whole_sentences_of_about_300_characters_and_leave_out_only_white_space() -> None:
    parts = [LONG[start:end] for start, end in split_windows(LONG)]
    assert "".join(parts).replace(" ", "") == LONG.replace(" ", "")
    assert all(len(part) <= 300 and part.endswith(".") for part in parts)
    assert all(len(a) + len(b) > 240 for a, b in pairwise(parts))
    assert [LONG[start:end] for start, end in split_windows("\n a. b \n")] != []
    assert split_windows(" \n") == []


@pytest.mark.parametrize("text", ["x" * 1000, "word " * 200, "茶" * 700, "一句话。" * 200])
def test_a_sentence_without_an_end_is_cut_where_it_can_be(text: str) -> None:
    parts = [text[start:end] for start, end in split_windows(text)]
    assert "".join(parts).replace(" ", "") == text.replace(" ", "")
    assert max(map(len, parts)) <= 300
    assert all(part in {"word", ""} for each in parts if " " in each for part in each.split(" "))


def test_the_window_with_the_most_weight_of_the_words_wins_in_any_form_of_them() -> None:
    [found] = cut(LONG, {"walnut": 1.0, "tea": 0.4})
    assert "walnuts" in found
    [found] = cut(LONG, {"walnut": 0.3, "tea": 0.4})
    assert "Mint tea" in found


def test_a_word_counts_once_however_often_a_window_says_it() -> None:
    text = "Tea, tea, tea and tea. " + "x" * 290 + ". The walnuts and the tea."
    assert cut(text, {"tea": 0.4, "walnuts": 0.5}) == ["The walnuts and the tea."]


def test_the_first_window_wins_where_two_are_equal_or_none_has_a_word() -> None:
    first = LONG[slice(*split_windows(LONG)[0])]
    assert cut(LONG, {"piano": 1.0}) == [first]
    assert cut(LONG, {}) == [first]
    assert cut("", {"tea": 1.0}) == []


def test_the_best_two_come_in_the_order_of_the_text_with_what_is_left_out_marked() -> None:
    both = find_highlights(LONG, {"tea": 1.0, "walnuts": 0.4}, 2)
    assert ["walnuts" in LONG[slice(*span)] for span in both] == [True, False]
    shown = join_excerpt(LONG, both)
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert shown.count("…") == 3
    assert join_excerpt("One. Two.", find_highlights("One. Two.", {"two": 1.0})) == "One. Two."
    assert join_excerpt("", []) == ""


def test_a_code_block_is_cut_between_its_lines_alone() -> None:
    lines = [f"    value_{n} = compute. The({n})" for n in range(30)]
    text = "Here it is. ```py\nx\n```\n\n```py\n" + "\n".join(lines) + "\n```\nDone."
    parts = [text[start:end] for start, end in split_windows(text)]
    assert len(parts) > 2
    for part in parts:
        for line in part.splitlines():
            assert not line.strip().startswith("The(")
            assert not line.endswith("compute.")
