"""Names of subjects are compared without differences of case, Unicode form, accents and small misspellings."""

from __future__ import annotations

import unicodedata

import pytest

from app.domain.privacy.name_parts.name_matching import NearName, match_names, rank_names, reorder_names
from app.domain.privacy.subject_names import (
    fold_name,
    has_other_encoding,
    is_within_edits,
    spelling_variants,
)

STORED = ["chen", "Chén", "chen@example.com", "Chen Wei", "chan", "orla", "straße", "u-17"]


def likeness(name: str) -> dict[str, str]:
    return {each.subject: each.likeness for each in match_names(name, STORED)}


def test_a_name_matches_from_its_exact_form_to_a_misspelling() -> None:
    assert likeness("Chen") == {
        "chen": "case",
        "Chén": "spelling",
        "chen@example.com": "email",
        "Chen Wei": "part",
        "chan": "similar",
    }
    assert likeness("chen")["chen"] == "exact"
    assert likeness("STRASSE") == {"straße": "case"}
    assert likeness("u17") == {"u-17": "spelling"}
    assert likeness("zoe") == {}


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
def test_unicode_forms_of_a_name_are_equal(form: str) -> None:
    name = unicodedata.normalize(form, "Zoë Ångström")  # type: ignore[arg-type]
    assert fold_name(name) == fold_name("ZOË ÅNGSTRÖM")
    assert fold_name("Ｃｈｅｎ") == "chen"  # noqa: RUF001 - full-width letters


def test_usual_spellings_include_the_one_that_is_stored() -> None:
    assert {"chen", "CHEN", "Chen"} <= set(spelling_variants(" cHEN "))


def test_edits_are_counted_up_to_the_limit() -> None:
    assert is_within_edits("chen", "chne", 1), "a swap of neighbours is one edit"
    assert is_within_edits("chen", "che", 1)
    assert is_within_edits("abcdefgh", "abxdefxh", 2)
    assert not is_within_edits("abcdefgh", "abxdefxh", 1)
    assert not is_within_edits("chen", "nehc", 1)


@pytest.mark.parametrize(
    ("name", "stored"),
    [("Lindquist", "Nils Lindqvist"), ("Dvorrak", "Marek Dvořák"), ("Mareck", "marek.dvorak@example.com")],
)
def test_a_first_or_family_name_alone_is_found_with_a_wrong_letter(name: str, stored: str) -> None:
    others = ["Nils Berg", "Lara Quist", "Mark Twain", "Dora Rack", "example"]
    assert [(each.subject, each.likeness) for each in match_names(name, [stored, *others])] == [(stored, "similar")]


PEOPLE = ["Liam O'Brien", "Priya Raman", "Márta Kovács-Nagy", "liam.obrien@example.com", "Liam Brennan", "Peter Nagel"]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("O'Brien Liam", ["Liam O'Brien", "liam.obrien@example.com"]),
        ("O\u2019Brien, Liam", ["Liam O'Brien", "liam.obrien@example.com"]),
        ("Mr O'Brien", ["Liam O'Brien", "liam.obrien@example.com"]),
        ("O'Brian", ["Liam O'Brien", "liam.obrien@example.com"]),
        ("O Brien Liam", ["Liam O'Brien", "liam.obrien@example.com"]),
        ("L. O'Brien", ["Liam O'Brien", "liam.obrien@example.com"]),
        ("Dr Lian O'Brian", ["Liam O'Brien", "liam.obrien@example.com"]),
        ("Liam Patrick O'Brien", ["Liam O'Brien", "liam.obrien@example.com"]),
        ("Raman Priya", ["Priya Raman"]),
        ("P Raman", ["Priya Raman"]),
        ("Kovacs, Marta", ["Márta Kovács-Nagy"]),
        ("Frau Kovács-Nagy", ["Márta Kovács-Nagy"]),
        ("M. Kovács-Nagy", ["Márta Kovács-Nagy"]),
        ("Marta Kovacz", ["Márta Kovács-Nagy"]),
        ("Kovács-Nagy Márta", ["Márta Kovács-Nagy"]),
        ("Nagy", ["Márta Kovács-Nagy"]),
        ("Pat O'Brien", []),
        ("Liam Smith", []),
        ("Mr", []),
    ],
)
def test_words_of_a_name_are_compared_in_any_order(name: str, found: list[str]) -> None:
    assert [each.subject for each in rank_names(match_names(name, PEOPLE))] == found


def test_the_same_words_in_another_order_are_the_same_name() -> None:
    stored = ["Chen Wei", "Mr Chen Wei", "Mrs Chen Wei", "Wei", "Chen Wei Ling", "Chen W", "Anne-Marie Chen"]
    likeness = {each.subject: each.likeness for each in match_names("Mr Wei Chen", stored)}
    assert likeness == {
        "Chen Wei": "words",
        "Mr Chen Wei": "words",
        "Mrs Chen Wei": "part",  # another title may mean another person
        "Wei": "part",
        "Chen Wei Ling": "part",
        "Chen W": "part",
    }
    assert [each.likeness for each in match_names("Chen, Annemarie", stored)] == ["words"]
    assert [each.likeness for each in match_names("Na Li", ["Li Na", "Li Nan", "Na"])] == ["words", "part"]
    assert [each.likeness for each in match_names("17 customer", ["customer 17", "customer 18"])] == ["words"]


def test_the_name_with_the_most_equal_words_and_letters_is_ranked_first() -> None:
    stored = ["Nagy", "Marta", "Marta Szabo", "Marta Kovacz", "Márta Kovács-Nagy", "Kovacs", "Marta Kovacs Junior Berg"]
    counted = (each._replace(memories=len(each.subject)) for each in match_names("Marta Kovacs", stored))
    assert [each.subject for each in rank_names(counted)] == [
        "Márta Kovács-Nagy",
        "Marta Kovacz",
        "Marta Kovacs Junior Berg",
        "Kovacs",
        "Marta",
    ]


def test_very_long_names_are_compared_up_to_twelve_words() -> None:
    words = [chr(97 + n) * 5 for n in range(24)]
    stored = [" ".join(reversed(words)), " ".join([*reversed(words[:12]), *words[12:]])]
    assert [each.subject for each in match_names(" ".join(words), stored)] == stored[1:]


@pytest.mark.parametrize(
    ("name", "stored"),
    [("O'Brien, Liam", "Liam O'Brien"), ("Liam O'Brien", "O'Brien, Liam"), ("Raman Priya", "Priya, Raman")],
)
def test_a_name_is_also_sought_in_the_orders_in_which_it_is_stored(name: str, stored: str) -> None:
    assert stored in reorder_names(name)
    assert reorder_names("Liam") == reorder_names("Liam,") == []


def test_short_names_have_no_similar_ones() -> None:
    assert not list(match_names("anna", ["Anne Frank"])), "too short to be compared with words of longer names"
    assert not list(match_names("bob", ["rob", "bab"]))


def test_the_closest_likeness_of_a_subject_is_ranked_first() -> None:
    found = [NearName("b", "similar", 9), NearName("a", "part", 1), NearName("a", "case", 1), NearName("c", "part", 5)]
    assert [(each.subject, each.likeness) for each in rank_names(found)] == [
        ("a", "case"),
        ("c", "part"),
        ("b", "similar"),
    ]


@pytest.mark.parametrize("name", ["chen", "orlando", "mariacarla", "0b53e4dc4ebc0011"])
def test_no_near_name_is_lost_by_the_filter_before_the_comparison(name: str) -> None:
    near = one_edit(name)
    if len(name) >= 8:
        near |= {word for each in sorted(near)[::5] for word in one_edit(each)}
    expected = {word for word in near - {name} if is_within_edits(name, word, 2 if len(name) >= 8 else 1)}
    assert {each.subject for each in match_names(name, expected)} == expected
    assert len(expected) > len(near) / 2


def one_edit(word: str) -> set[str]:
    places = range(len(word))
    return (
        {word[:n] + word[n + 1 :] for n in places}
        | {word[:n] + "q" + word[n:] for n in places}
        | {word[:n] + "q" + word[n + 1 :] for n in places}
        | {word[:n] + word[n + 1] + word[n] + word[n + 2 :] for n in places[:-1]}
    )


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ("Zo\u00eb", "Zoe\u0308", True),
        ("Zo\u00eb", "Zo\u00eb", False),
        ("Zo\u00eb", "zoe\u0308", False),
        ("chen", "Chen", False),
    ],
)
def test_names_of_the_same_letters_may_differ_in_their_unicode_form(one: str, other: str, differs: bool) -> None:
    assert has_other_encoding(one, other) is has_other_encoding(other, one) is differs
