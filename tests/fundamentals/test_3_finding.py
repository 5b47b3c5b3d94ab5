"""Chapter 3: finding memories.

A search needs only words. The service looks for memories that share words with the query (rare words count more)
and for memories with a similar meaning, and ranks both together. A line of a conversation is also found by its
context: the answer "Yes, twice" is about the question before it.
"""

from __future__ import annotations

import math

import pytest

from app.domain.search.signals import SIGNALS
from tests.fundamentals.client import Client, Given


def test_a_memory_is_found_by_its_words(ebbing: Client) -> None:
    wanted, _ = ebbing.remember("The dentist is on Elm Street.", "Lunch was good today.")

    assert ebbing.search("where is the dentist?")[0].id == wanted


def test_a_rare_word_counts_for_more_than_a_common_one(ebbing: Client) -> None:
    *_, wanted = ebbing.remember(*(f"Meeting {number} went well." for number in range(5)), "The zeppelin went down.")

    assert ebbing.search("the zeppelin meeting")[0].id == wanted


def test_a_memory_is_found_by_its_meaning_without_a_word_in_common(ebbing: Client) -> None:
    wanted, *_ = ebbing.remember("My car broke down on the motorway.", "We baked bread.", "The roses are in bloom.")

    best = ebbing.search("automobile trouble", explain=True)[0]

    assert best.id == wanted
    assert best.explain is not None
    assert best.explain["words"] == 0
    assert best.explain["relevance"] > 0


def test_an_answer_is_found_by_the_words_of_the_question_before_it(ebbing: Client) -> None:
    _, answer, other = ebbing.remember(
        {"text": "Have you ever been to Lisbon?", "thread": "holidays"},
        {"text": "Yes, twice.", "thread": "holidays"},
        {"text": "Yes, often.", "thread": "exercise"},
    )

    found = {result.id: result.explain or {} for result in ebbing.search("Lisbon", explain=True)}

    assert found[answer]["words"] > 0
    assert found.get(other, {}).get("words", 0) == 0


MEALS: list[Given] = [
    {"text": "Dinner was soup.", "subject": "ana", "thread": "may", "tags": ["food", "hot"], "kind": "episodic"},
    {"text": "Dinner was salad.", "subject": "ben", "thread": "may", "tags": ["food"], "kind": "semantic"},
    {"text": "Dinner was cake.", "subject": "ana", "thread": "june", "occurred_at": "2020-06-01T20:00:00Z"},
]


@pytest.mark.parametrize(
    ("fields", "places"),
    [
        ({}, {0, 1, 2}),
        ({"subject": "ana"}, {0, 2}),
        ({"thread": "may"}, {0, 1}),
        ({"tags": ["food"]}, {0, 1}),
        ({"tags": ["food", "hot"]}, {0}),  # all tags must match
        ({"kinds": ["episodic", "semantic"]}, {0, 1}),  # any kind may match
        ({"before": "2021-01-01T00:00:00Z"}, {2}),
        ({"after": "2021-01-01T00:00:00Z"}, {0, 1}),
    ],
)
def test_filters_say_among_which_memories_to_look(ebbing: Client, fields: dict[str, object], places: set[int]) -> None:
    ids = ebbing.remember(*MEALS)

    found = {result.id for result in ebbing.search("dinner", **fields)}

    assert found == {ids[place] for place in places}


def test_a_score_is_the_sum_of_parts_that_explain_shows(ebbing: Client) -> None:
    ebbing.remember({"text": "The concert was on 3 May.", "speaker": "Carla"})

    [best] = ebbing.search("when was the concert that Carla spoke of?", explain=True)

    assert best.explain is not None
    parts = {name: part for name, part in best.explain.items() if isinstance(part, float)}
    assert set(parts) == {"words", "soft_words", "relevance", *SIGNALS}
    assert best.score == pytest.approx(sum(parts.values()) * math.prod(best.explain["factors"].values()))
    assert best.explain["ranks"] == {"words": 1, "relevance": 1}
    assert set(best.explain["matched"]) == {"concert", "carla"}


def test_at_most_as_many_results_as_asked_for(ebbing: Client) -> None:
    ebbing.remember(*(f"note {number}" for number in range(8)))

    assert len(ebbing.search("note", limit=3)) == 3


def test_what_the_system_and_tools_said_is_found_when_asked_for(ebbing: Client) -> None:
    ebbing.remember(
        {"text": "Answer questions about the harbour.", "role": "system"},
        {"text": "When does the harbour open?", "role": "user"},
    )

    usual = ebbing.search("harbour")
    asked = ebbing.search("harbour", roles=["system"])

    assert [result.text for result in usual] == ["When does the harbour open?"]
    assert [result.text for result in asked] == ["Answer questions about the harbour."]
