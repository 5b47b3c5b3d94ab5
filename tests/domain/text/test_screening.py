"""Screening a batch of texts: false positives are allowed, but no text with a finding is missed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.domain.corrections import english_patterns, may_correct, parse_statement
from app.domain.privacy.pii_detection import detect_pii, may_be
from app.domain.recall import bridges
from app.domain.recall.english import english
from app.domain.text.markers import Markers, Signs
from app.domain.text.screening import screen_texts
from tests.examples import draw

PAIRS = tomllib.loads((Path(__file__).parents[1] / "corrections" / "pairs.toml").read_text("utf8"))
SENTENCES = [text for pairs in PAIRS.values() for pair in pairs for text in pair]
PLAIN = "We had pancakes with the children."
PERSONAL = [
    "Write to ann@example.org",
    "ann\uff20web.de",
    "née le 3 mai 1980",
    "a1b2c3d4e5f6a7b8c9d0",
    "the PIN is 4711",
]
EDGES = ["", " ", ".", "\n", "’", "“", "é", "_", "3", "`x`", '"', "\u017f", "\u0130", "\u0131", "x"]
SPOKEN = sorted(
    {word for text in SENTENCES for word in text.split()}
    | english_patterns.ENDS_WORDS
    | english_patterns.CHANGES_WORDS
    | english_patterns.VALUES_WORDS
    | english_patterns.NEGATIONS
    | {
        "anyone",
        "no`x`longer",
        "5pm",
        "$5now",
        "is",
        "to",
        "Isn't",
        "ISN’T",
        "Not",
        "not,",
        "\n",
        "mon\u017fday",
        "\u0130s",
    }
)
SPEECH = st.lists(st.sampled_from(SPOKEN), max_size=14).map(" ".join)
WRITTEN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)  # as stored
AROUND = st.sampled_from(EDGES)


def among_others(text: str, before: str = PLAIN, after: str = PLAIN) -> tuple[bool, bool, bool]:
    """Return the screening result of a text between two others."""
    personal, reminders, corrections = screen_texts([before, text, after])
    return bool(personal[1]), bool(reminders[1]), bool(corrections[1])


def check_corrections(text: str) -> None:
    if parse_statement(text).says_change:
        assert may_correct(text)
        assert among_others(text)[2]


def test_a_text_without_markers_is_named_for_nothing_whatever_is_beside_it() -> None:
    assert among_others(PLAIN, "Reach ann@example.org", "Not on Monday, the 3rd of May, any more") == (
        False,
        False,
        False,
    )
    assert not may_correct(PLAIN)
    assert [list(each) for each in screen_texts([])] == [[], [], []]
    assert [list(each) for each in screen_texts([""])] == [[False], [False], [False]]


def test_most_sentences_that_correct_nothing_are_not_read() -> None:
    others = [pair[1] for pair in PAIRS["others"]]
    assert sum(map(may_correct, others)) < len(others)
    assert not may_correct("I'm not sure, and that isn't so bad.")
    assert not may_correct("It's now or never.")


@pytest.mark.parametrize("text", SENTENCES)
def test_no_sentence_that_says_a_change_is_missed(text: str) -> None:
    check_corrections(text)


@given(SPEECH)
@example("no `x` longer mine")  # the text on both sides of code is joined
@example("It is $5now")
@example("Camborne, not Gwennap\nso there")
@example("She isn't Saara\nat all")
@example("The \u0130mport i\u017f \u017fcrapped.")
@example("now\u0307 it is at 5")
@draw(67)
def test_no_text_that_says_a_change_is_missed(text: str) -> None:
    check_corrections(text)


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            english_patterns.CHANGED,
            english_patterns.SHIFTED,
            english_patterns.NEW_ATTRIBUTE,
            english_patterns.ENDED_BEFORE,
            english_patterns.ENDED_AFTER,
        ),
        *(english_patterns.ANY_MORE, english_patterns.CONTRAST, english_patterns.NAMED_NO_MORE),
    ],
    ids=lambda pattern: pattern.pattern[:16],
)
@given(st.data())
@draw(8)
def test_whatever_a_pattern_of_changes_matches_is_read(pattern: re.Pattern[str], data: st.DataObject) -> None:
    matched = data.draw(st.from_regex(pattern).filter(lambda text: len(text) < 200))
    check_corrections(f"{data.draw(AROUND)}{matched} Friday at 5{data.draw(AROUND)}")
    check_corrections(matched)


@pytest.mark.parametrize(
    "pattern",
    [*(each.held for each in english().bridges.values()), english().days],
    ids=[0, 1, 2, "days"],
)
@given(st.data())
@draw(13)
def test_every_text_with_a_reminder_is_named(pattern: re.Pattern[str], data: st.DataObject) -> None:
    text = data.draw(AROUND) + data.draw(st.from_regex(pattern)) + data.draw(AROUND)
    assert among_others(text)[1] or not bridges.read_flags(text)
    assert among_others(text.upper())[1] or not bridges.read_flags(text.upper())


@given(st.lists(st.one_of(st.sampled_from(PERSONAL), WRITTEN, SPEECH, AROUND), max_size=6))
@draw(50)
def test_every_text_with_something_personal_is_named_in_any_batch(texts: Sequence[str]) -> None:
    texts = [*texts, "".join(texts)]
    named = screen_texts(texts).personal
    for place, text in enumerate(texts):
        if may_be(text):
            assert named[place], text
        else:
            assert not detect_pii(text)


def test_a_marker_is_a_word_or_a_part_of_one_in_any_case() -> None:
    texts = ["Not now", "a knot", "noted", "wasn't", "it’s NOT", "not", "Pin 12", "İt is", "", "re-not é"]
    found = Markers({"word": [" not "], "part": ["pin", "0"]}).find(Signs(texts))
    assert list(found["word"]) == [True, False, False, False, True, True, False, True, False, True]
    assert list(found["part"]) == [False, False, False, False, False, False, True, True, False, False]


def test_characters_and_runs_are_counted_text_by_text() -> None:
    signs = Signs(["a1 b2", "", "no", "x" * 20 + " 7", "y" * 19, "z" * 10, "z" * 10])
    assert list(signs.count("0123456789")) == [2, 0, 0, 1, 0, 0, 0]
    assert list(signs.has_run(20)) == [False, False, False, True, False, False, False]
