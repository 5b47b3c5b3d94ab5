"""Values in a text: their kinds, which ones are comparable, and which ones contradict each other."""

from __future__ import annotations

import pytest

from app.domain.corrections.values import are_comparable, differ, find_values


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("Saturday 14 February, 22:00", ["weekday", "date", "clock"]),
        ("on March 3rd, 2024 at 5 pm", ["date", "clock"]),
        ("2026-05-14", ["date"]),
        ("the 14th", ["date"]),
        ("tue thu at ten.", ["weekday", "weekday", "clock"]),
        ("in May", ["month"]),
        ("at Easter", ["feast"]),
        ("$1,200 or 40 euros", ["money", "money"]),
        ("20 mg and 15%", ["number", "share"]),
        ("you may come, we sat down and the sun shone", []),
        ("one of them", []),
    ],
)
def test_values_are_found_by_their_form(text: str, kinds: list[str]) -> None:
    assert [value.kind for value in find_values(text)] == kinds


@pytest.mark.parametrize(
    ("one", "other", "differs"),
    [
        ("14 May", "May 17", True),
        ("14 May", "the 14th", False),
        ("14 May", "in May", False),
        ("14 May", "in June", True),
        ("14 May", "at Easter", True),
        ("at 5 pm", "17:00", False),
        ("8:50", "9:50", True),
        ("Tuesdays", "tue", False),
        ("$1,200", "$1200", False),
        ("two nights", "3 nights", True),
        ("two nights", "2 night", False),
    ],
)
def test_of_the_same_kind_two_differ_or_not(one: str, other: str, differs: bool) -> None:
    [a], [b] = find_values(one), find_values(other)
    assert are_comparable(a, b)
    assert differ(a, b) is differs


@pytest.mark.parametrize(
    ("one", "other"), [("14 May", "9:30"), ("two nights", "two days"), ("Monday", "14 May"), ("$5", "5%")]
)
def test_values_of_different_things_are_not_compared(one: str, other: str) -> None:
    [a], [b] = find_values(one), find_values(other)
    assert not are_comparable(a, b)
