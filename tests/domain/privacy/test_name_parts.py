"""Parts of a person's names in texts, which may mean this person or another."""

from __future__ import annotations

import unicodedata

import pytest

from app.domain.privacy.name_parts.finder import NamePartFinder

MEI = NamePartFinder(["Mei Chen"])


@pytest.mark.parametrize(
    "text",
    ["Chen called", "call from CHEN.", "chen's lawyer", "about Ms. Chén", unicodedata.normalize("NFD", "chén"), "Mei"],
)
def test_a_part_counts_as_a_whole_word_in_any_case_and_unicode_form(text: str) -> None:
    assert MEI.find(text)


@pytest.mark.parametrize("text", ["kitchen", "Chens Garten", "Meier & Co", "Che n", ""])
def test_a_part_of_a_word_does_not_count(text: str) -> None:
    assert not MEI.find(text)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("mei.chen@example.com", {"mei", "chen"}),
        ("Ana de la Cruz-Ortega", {"ana", "cruz", "ortega"}),
        ("Ludwig van der Berg", {"ludwig", "berg"}),
        ("Li Bo", set()),
        ("Chen", set()),
        ("customer 17", set()),
        ("mei.chen87@example.com", {"mei"}),
        ("support desk", {"desk"}),
        ("陈 美丽莎", set()),
    ],
)
def test_names_of_several_words_have_parts_of_three_letters_or_more(name: str, parts: set[str]) -> None:
    assert NamePartFinder([name]).parts == parts


def test_an_ordinary_word_counts_only_with_a_capital_within_a_sentence() -> None:
    finder = NamePartFinder(["May Baker"])
    found = ("the letter of May arrived", "complaint of Mrs. X; see Baker file", "sent to BAKER")
    ordinary = ("may be closed", "May be closed", "closed. May follow", "a baker's shop", "Baker: closed")
    assert [bool(finder.find(text)) for text in (*found, *ordinary)] == [True] * len(found) + [False] * len(ordinary)
