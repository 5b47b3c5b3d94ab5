"""The parts of relevance: what each one detects in a memory, and that it is zero elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
import pytest
from msgspec.structs import replace

from app.domain.ingest.roles import Role
from app.domain.search.candidate_types import Candidate
from app.domain.search.parameters import Ranking
from app.domain.search.signals import NEAR_DAYS, SIGNALS, compute_parts
from app.domain.text.words import asks_assistant, contains_question, is_in_first_person

NOON = datetime(2026, 3, 7, 12, tzinfo=UTC)


def memory(text: str, speaker: str | None = None, *, thread: str | None = None, fit: float = 1.0) -> Candidate:
    return Candidate(
        UUID(int=1), text, None, thread, speaker, None, None, [], None, NOON, "active", words=fit, relevance=0, cosine=0
    )


def turns(*fits: float) -> list[Candidate]:
    """Return consecutive turns of one thread, each linked to the one before."""
    ids = [UUID(int=n + 1) for n in range(len(fits))]
    before = [None, *ids]
    return [
        replace(memory("x", thread="t", fit=fit), memory_id=ids[n], before_id=before[n]) for n, fit in enumerate(fits)
    ]


def seen(name: str, query: str, *memories: Candidate, now: datetime | None = NOON) -> list[float]:
    """Return one part of each memory, unweighted, with the fit computed from words only."""
    weights = Ranking.model_validate({"soft_words": 0, "relevance": 0, name: 1})
    return [round(float(part), 3) for part in compute_parts(memories, query, weights, now).by_name[name]]


def test_every_part_has_a_weight_and_is_zero_to_one() -> None:
    memories = [memory("I went there last May", "Ann", thread="a"), memory("Why?", thread="a", fit=0.2), memory("")]
    for name in SIGNALS:
        assert all(0 <= part <= 1 for part in seen(name, "When did Ann go there in March 2026?", *memories))


def test_what_was_not_found_by_words_or_meaning_has_no_part() -> None:
    found = compute_parts(
        [memory("I am Ann", "Ann", thread="a", fit=0)], "When did Ann come in March 2026?", Ranking(), NOON
    )
    assert found.total.tolist() == [0]
    assert compute_parts([], "x", Ranking(), NOON).total.tolist() == []


def test_without_a_weight_a_part_is_nothing() -> None:
    assert seen("first_person", "x", memory("I do.")) == [1]
    none = compute_parts([memory("I do.")], "x", Ranking(first_person=0), NOON)
    assert none.by_name["first_person"].tolist() == [0]


def test_who_tells_of_themselves() -> None:
    reported = [memory("I moved", "Ann"), memory("Ann moved", "Bob"), memory("It rains", "Ann")]
    assert seen("first_person", "Where did Ann move?", *reported) == [1, 0, 0]


def test_the_users_words_count_unless_the_assistants_are_asked_for() -> None:
    said: list[Role | None] = ["user", "assistant", None, "tool"]
    reported = [replace(memory("x"), role=role) for role in said]
    assert seen("role", "Which tea do I drink?", *reported) == [1, 0, 1, 0]
    assert seen("role", "Which tea did you suggest?", *reported) == [0, 1, 1, 0]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("What did you recommend?", True),
        ("which tea had you kindly suggested", True),
        ("What was it you said about tea?", True),
        ("Where is your recipe?", True),
        ("Can you recommend a tea?", False),
        ("Did I tell you where I live?", False),
        ("What did Ann suggest?", False),
        ("", False),
    ],
)
def test_what_asks_for_the_assistants_words(query: str, expected: bool) -> None:
    assert asks_assistant(query) is expected


def test_the_latest_counts_when_the_present_is_asked_for() -> None:
    reported = [
        replace(memory("x"), memory_id=UUID(int=n), occurred_at=NOON + timedelta(days=day))
        for n, day in enumerate((2, 0, 1))
    ]
    assert seen("now", "Where do I live now?", *reported) == [1, 0, 0.5]
    assert seen("now", "Where did I live?", *reported) == [0, 0, 0]
    assert seen("now", "Where do I live now?", reported[0]) == [0]


def test_the_better_of_the_turns_beside_it_counts() -> None:
    assert seen("neighbours", "x", *turns(0.2, 0.8, 0.4)) == [1, 0.5, 1]
    first, _, third = turns(0.2, 0.8, 0.4)
    assert seen("neighbours", "x", first, third) == [0, 0], "the turn between them isn't a candidate"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm here", True),
        ("that is my dog", True),
        ("Ours won", True),
        ("tell us", True),
        ("Iris met Wendy in the US", False),
        ("Je suis ici", False),
        ("", False),
    ],
)
def test_the_first_person(text: str, expected: bool) -> None:
    assert is_in_first_person(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Really? I see.", True),
        ("\u771f\u7684\uff1f", True),
        ("\u0644\u0645\u0627\u0630\u0627\u061f", True),
        ("No!", False),
        ("", False),
    ],
)
def test_a_question(text: str, expected: bool) -> None:
    assert contains_question(text) is expected


def test_a_time_that_is_named_counts_less_by_the_day_around_it() -> None:
    days = (0, 1, NEAR_DAYS, 20)
    reported = [replace(memory("x"), occurred_at=NOON + timedelta(days=after)) for after in days]
    assert seen("moment", "on 7 March 2026", *reported) == [1, pytest.approx(1 - 0.5 / NEAR_DAYS, abs=1e-3), 0.071, 0]
    assert seen("moment", "in March 2026", *reported) == [1, 1, 1, 1]
    assert seen("moment", "what now?", *reported) == [0, 0, 0, 0]


def test_a_memory_without_its_own_time_happened_when_it_came() -> None:
    assert seen("moment", "yesterday", memory("x"), now=NOON + timedelta(days=1)) == [1]
    assert seen("moment", "yesterday", memory("x"), now=None) == [0]


def test_a_thread_counts_by_its_best_other_memory() -> None:
    reported = [
        memory("a", thread="long", fit=1.0),
        memory("b", thread="long", fit=0.5),
        memory("c", thread="long", fit=0.1),
    ]
    assert seen("thread", "x", *reported) == [0.5, 1, 1]


def test_without_a_thread_or_with_its_rest_forgotten_a_memory_is_as_good_as_its_own() -> None:
    assert seen("thread", "x", memory("a", fit=0.5), memory("b", fit=0.25)) == [1, 0.5]
    assert seen("thread", "x", memory("a", thread="left", fit=0.5), memory("b", fit=0.25)) == [1, 0.5]
    talk = [memory("a", thread="talk", fit=0.2), memory("b", thread="talk", fit=0.2)]
    assert seen("thread", "x", *talk, memory("c", thread="left", fit=0.4)) == [0.5, 0.5, 1]


def test_words_stand_in_for_the_meaning_of_what_has_no_vector_yet() -> None:
    edited = replace(memory("x", fit=1.0), is_embedded=False)
    found = compute_parts([edited, memory("y", fit=0.5)], "x", Ranking(), NOON, np.array([2.0, 1.0]))
    assert found.by_name["relevance"].tolist() == [0.5, 0.0]
    alone = compute_parts([edited], "x", Ranking(), NOON, np.array([2.0]))
    assert alone.by_name["relevance"].tolist() == [0.0], "without vectors, meaning counts for nothing"
