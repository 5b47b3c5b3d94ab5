"""Metrics of a forgetting policy on a year's last day."""

from __future__ import annotations

import numpy as np
import pytest

from app.domain.simulation.measures import answered_questions, compute_measures, tells_fact
from app.domain.simulation.year import SimulatedFact, SimulatedStatement, Year

YEAR = Year(
    seed=0,
    days=30,
    said=(
        SimulatedStatement(1, "Ann", "old home", 0),
        SimulatedStatement(2, "Ann", "new home", 1),
        SimulatedStatement(3, "Ann", "a cat", 2),
        SimulatedStatement(4, "Ann", "our cat", 2),
        SimulatedStatement(5, "Ann", "hello"),
        SimulatedStatement(6, "Ann", "bye"),
    ),
    facts=(
        SimulatedFact("facts", "Ann", (0,), ("where?",), 2.0),
        SimulatedFact("facts", "Ann", (1,), ("where?",), np.inf),
        SimulatedFact("facts", "Ann", (2, 3), ("which pet?", "what animal?"), np.inf),
    ),
    asked=(),
)
NOTHING: list[list[int]] = [[], [], []]


def test_one_of_several_ways_in_which_it_was_said_is_enough() -> None:
    found = compute_measures(YEAR, 2, {1: "active", 3: "cold", 4: "active"}, [[4], [3], []], NOTHING, {0, 1, 2})
    assert (found.kept, found.active, found.wrongly_deleted) == (1, 0.5, 0)
    assert (found.active_set, found.unimportant_active) == (2, 0.5)
    assert found.found == pytest.approx(1 / 3)


def test_what_is_out_of_reach_doesn_t_count_there() -> None:
    found = compute_measures(YEAR, 0, {}, [[], [3], [2]], [[1], [], []], {0, 1})
    assert (found.found_in_reach, found.found_in_all_tiers) == (0.5, 1)
    assert found.wrongly_deleted == 1
    assert answered_questions(YEAR, [[0], [3], []]) == {1}, "an outdated fact is no answer"


@pytest.mark.parametrize(("hits", "outdated"), [([0, 1], 1.0), ([1, 0], 0.0), ([1], 0.0)])
def test_the_older_state_shall_not_come_first(hits: list[int], outdated: float) -> None:
    assert compute_measures(YEAR, 0, {}, [hits, [2], []], NOTHING, {0}).outdated_first == outdated


@pytest.mark.parametrize(
    ("summary", "is_told"),
    [
        ("Ann: Our new flat is in the old town of Porto. The bus was late again.", True),
        ("The old town of Porto is where our new flat is", True),
        ("Our new flat is in the old town. The train from Porto stood still.", False),
        ("Our new flat is in the old town of Leipzig", False),
        ("", False),
    ],
)
def test_a_summary_tells_a_memory_where_a_sentence_has_all_of_its_words(summary: str, is_told: bool) -> None:
    assert tells_fact(summary, "Our new flat is in the old town of Porto") == is_told


def test_each_sentence_of_a_memory_is_looked_for() -> None:
    assert tells_fact("The cat is ill. We move to Porto in May.", "We move to Porto. The cat is ill")
    assert not tells_fact("We move to Porto in May.", "We move to Porto. The cat is ill")
