"""Anonymised text of a memory that is retained on a legal ground no longer identifies its subject."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.privacy.anonymisation import RedactedSpan, anonymise_text


def test_what_was_found_is_replaced_by_its_kind() -> None:
    text = "Call 555-0100 or ann@example.org."
    done = anonymise_text(text, [RedactedSpan(5, 13, "phone"), RedactedSpan(17, 32, "email")])
    assert done.text == "Call [phone] or [email]."
    assert done.removed == {"phone": 1, "email": 1}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Ann met ann, and ANN's sister Annabel.", "[name] met [name], and [name]'s sister Annabel."),
        ("Ann Lee wrote to Ann.", "[name] wrote to [name]."),
        ("Anna (a+b) said hi", "Anna [name] said hi"),
    ],
)
def test_names_go_as_whole_words_whatever_their_case(text: str, wanted: str) -> None:
    assert anonymise_text(text, [], ["Ann", "Ann Lee", "(a+b)", "", "a"]).text == wanted


def test_overlapping_places_become_one_of_the_longest_kind() -> None:
    done = anonymise_text(
        "x ann@example.org y",
        [RedactedSpan(2, 5, "name"), RedactedSpan(2, 17, "email"), RedactedSpan(10, 17, "host")],
        ["ann"],
    )
    assert (done.text, done.removed) == ("x [email] y", {"email": 1})


PLACES = st.builds(RedactedSpan, st.integers(-5, 40), st.integers(-5, 40), st.sampled_from(["email", "phone"]))


@given(st.text(max_size=30), st.lists(PLACES, max_size=6))
def test_nothing_of_any_place_is_left_and_all_else_is(text: str, spans: list[RedactedSpan]) -> None:
    done = anonymise_text(text, spans)
    covered = {place for span in spans for place in range(max(span.start, 0), min(span.end, len(text)))}
    kept = "".join(sign for place, sign in enumerate(text) if place not in covered)
    left = done.text
    for kind, times in done.removed.items():
        assert left.count(f"[{kind}]") >= times
    assert len(left) == len(kept) + sum(len(f"[{kind}]") * times for kind, times in done.removed.items())
    assert bool(covered) == bool(done.removed)
