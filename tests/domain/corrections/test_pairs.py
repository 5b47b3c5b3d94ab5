"""Corrections among pairs of statements: recall is high, and false positives are rare."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from uuid import UUID

import pytest

from app.domain.corrections import (
    Correction,
    EarlierStatement,
    find_corrections,
    may_correct,
    parse_statement,
    rarity,
)

PAIRS = tomllib.loads(Path(__file__).with_name("pairs.toml").read_text("utf8"))
FOUND_MIN = 0.7
WRONG_MAX = 0.05
OLD = UUID(int=1)


def corrections(old: str, new: str, memories: int = 2, documents: int = 2) -> list[Correction]:
    """Return the corrections in a tenant of `memories` memories, `documents` of which contain each shared word."""
    earlier, later = parse_statement(old), parse_statement(new)
    stems = Counter(
        word for one in (earlier, later) for word in {word.stem for each in one.clauses for word in each.words}
    )
    rarities = {word: rarity(count if count == 1 else documents, memories) for word, count in stems.items()}
    return find_corrections(later, [EarlierStatement(OLD, earlier)], rarities)


@pytest.mark.parametrize(("memories", "documents"), [(2, 2), (200, 4), (10_000, 20)])
def test_most_corrections_are_found_and_hardly_anything_else(memories: int, documents: int) -> None:
    found = [pair for pair in PAIRS["corrections"] if corrections(pair[0], pair[1], memories, documents)]
    wrong = [pair for pair in PAIRS["others"] if corrections(pair[0], pair[1], memories, documents)]
    assert len(found) >= FOUND_MIN * len(PAIRS["corrections"])
    assert len(wrong) <= WRONG_MAX * len(PAIRS["others"]), wrong


def test_what_corrects_passes_the_quick_look() -> None:
    for old, new in PAIRS["corrections"]:
        assert may_correct(new) or not corrections(old, new)
    assert not may_correct("We had pancakes with the children.")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("my flight is on the 14th", "flight's been moved to the 17th", "value"),
        ("The budget for the kitchen is £8,000.", "We've raised the kitchen budget to £9,500.", "value"),
        ("The gig at the Anchor is on 21 June.", "The gig at the Anchor is cancelled.", "ended"),
        ("He comes to Kaposvár in September.", "He is not coming in September. Kaposvár has to wait.", "ended"),
        ("it's a girl and she'll be Saara", "and she isn't Saara. so Hedi it is", "renamed"),
    ],
)
def test_the_reason_is_told(old: str, new: str, reason: str) -> None:
    assert [one.reason for one in corrections(old, new)] == [reason]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Ann met Bo on Monday.", "Ann met Bo on Tuesday."),
        ("The dentist is on Tuesday.", "If the dentist is moved to Friday, I can't come."),
        ("The dentist is on Tuesday.", "Could they have moved the dentist to Friday?"),
        ("The trip is on the 12th of June.", 'She reads: "The trip has been moved to the 20th of July" and cries.'),
        ("Sprint 1 ends on 4 April.", "Sprint 2 has been moved to 18 April."),
        ("My flight is on the 14th.", "Her flight has been moved to the 17th."),
        ("Tom's flight is on the 14th.", "Ann's flight has been moved to the 17th."),
        ("The grocery budget is $500.", "I've raised the gift budget to $300."),
        ("The call is at 9:30.", "The call has been moved to 9:30."),
        ("The train is at 9:30.", "The train was moved from 8:10 to 8:40."),
    ],
)
def test_what_only_looks_like_one_is_none(old: str, new: str) -> None:
    assert corrections(old, new) == []


def test_of_several_the_closest_counts_and_of_equals_the_latest() -> None:
    new = parse_statement("The flight to Oslo has been moved to the 17th.")
    said = ["My flight is on the 2nd.", "My flight to Oslo is on the 14th.", "My flight to Oslo is on the 15th."]
    earlier = [EarlierStatement(UUID(int=place), parse_statement(text)) for place, text in enumerate(said)]
    rarities = dict.fromkeys(("flight", "oslo"), 0.9)
    assert [one.corrected_id.int for one in find_corrections(new, earlier[::-1], rarities)] == [2]
    assert [one.corrected_id.int for one in find_corrections(new, earlier[:2][::-1], rarities)] == [1]


def test_a_common_word_alone_says_nothing() -> None:
    old, new = "my flight is on the 14th", "flight's been moved to the 17th"
    assert corrections(old, new, memories=1_000, documents=8)
    assert not corrections(old, new, memories=1_000, documents=300)
