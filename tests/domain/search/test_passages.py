"""The passage of a long text with which a query's words are compared."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from app.domain.search.passages import LENGTH, PassageFinder
from app.domain.text.words import HEAD_CHARACTERS

FILLER = "Nothing of note happened on that long and quiet day at the lake. " * 20
RARITY = {"allergic": 4.0, "walnuts": 5.0, "orla": 3.0}


def test_a_short_text_has_no_passage() -> None:
    assert PassageFinder(RARITY).find("Orla is allergic to walnuts.") == []


def test_the_last_sentence_of_a_long_text_is_found() -> None:
    found = PassageFinder(RARITY).find(f"{FILLER}Orla has a walnut allergy.")
    assert {"orla", "walnut", "allergy"} <= set(found)


def test_of_several_passages_the_one_with_the_rarest_words_is_taken() -> None:
    text = f"{FILLER}Orla came. Orla left. {FILLER}No walnuts for allergic people. {FILLER}"
    assert {"walnuts", "allergic"} <= set(PassageFinder(RARITY).find(text))


def test_a_word_that_is_repeated_counts_once() -> None:
    text = f"{FILLER}Orla, Orla, Orla, Orla. {FILLER}Walnuts. {FILLER}"
    assert "walnuts" in PassageFinder(RARITY).find(text)


def test_without_a_word_of_the_query_there_is_no_passage() -> None:
    assert PassageFinder(RARITY).find(FILLER) == []
    assert PassageFinder({}).find(FILLER) == []


@given(st.text(max_size=2000), st.dictionaries(st.text(min_size=1, max_size=8), st.floats(0.1, 9), max_size=6))
def test_any_text_and_any_words_can_be_searched(text: str, rarity: dict[str, float]) -> None:
    found = PassageFinder(rarity).find(text)
    assert len(found) <= LENGTH
    assert not found or len(text) > HEAD_CHARACTERS
    assert all(re.search(re.escape(word), text.lower()) for word in found)
