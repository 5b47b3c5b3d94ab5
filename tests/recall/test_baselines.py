"""The baselines rank by text alone, and recalls are sent as the plan specifies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from app.domain.ingest.roles import Role
from ops.recall.baselines import BASELINES, Ranker
from ops.recall.dataset import Conversation, Memory, Question, RecallCase
from ops.recall.run import AS_MESSAGES, CASES, Plan, _recall
from ops.recall.service import Service, Stored

MORNING = datetime(2026, 3, 7, tzinfo=UTC)


def memory(name: str, text: str, speaker: str | None = None, role: Role | None = None) -> Memory:
    return Memory(name, "s", MORNING, text, speaker, role)


GARDEN = (
    memory("a", "The tulips in the garden are red this year."),
    memory("b", "My car needs new brakes and a battery."),
    memory("c", "Our dog sleeps under the kitchen table."),
)


@pytest.mark.parametrize("name", BASELINES)
def test_a_baseline_puts_the_memory_about_the_question_first(name: str) -> None:
    ranker = Ranker(name, GARDEN)
    assert ranker.search("Which tulips are in the garden?", 3)[0] == "a"
    assert ranker.search("brakes of the car", 2)[0] == "b"
    assert len(ranker.search("brakes of the car", 2)) == 2


@pytest.mark.parametrize("name", BASELINES)
def test_a_question_without_words_that_count_ranks_in_the_order_of_speaking(name: str) -> None:
    empty = Ranker(name, (memory("x", " "), memory("y", "")))
    assert empty.search("", 5) == ["x", "y"]
    if name.startswith("bm25"):
        assert Ranker(name, GARDEN).search("what is it?", 5) == ["a", "b", "c"]


@pytest.mark.parametrize("name", BASELINES)
def test_a_persons_name_is_part_of_the_text_and_a_roles_is_not(name: str) -> None:
    said = (memory("x", "Yes, quite."), memory("y", "Yes, quite.", "Annabel"), memory("z", "Yes, quite.", "assistant"))
    assert Ranker(name, said).search("Annabel", 1) == ["y"]
    assert Ranker(name, said).search("assistant", 3).index("z") > Ranker(name, said).search("assistant", 3).index("x")


def test_length_counts_more_for_the_larger_b() -> None:
    """A long line loses to a short one at b = .75, and comes closer to it at b = .4."""
    long = "brakes brakes " + " ".join(f"filler{n}" for n in range(40))
    lines = (memory("long", long), memory("short", "brakes squeal"), memory("other", "a dog sleeps"))
    assert Ranker("bm25-b0.75", lines).search("brakes", 1) == ["short"]
    weak, strong = (BASELINES[name]([each.text for each in lines]) for name in ("bm25-b0.4", "bm25-b0.75"))
    ratios = [scores[0] / scores[1] for scores in (weak.scores("brakes"), strong.scores("brakes"))]
    assert ratios[0] > ratios[1]


def test_only_the_first_300_characters_count_for_the_short_mean() -> None:
    start = "the weather was grey again and again and again " * 8
    lines = (memory("late", start + "tulips tulips tulips in the garden"), memory("other", start))
    whole, short = Ranker("mean", lines), BASELINES["mean-300"]([each.text for each in lines])
    assert whole.search("tulips in the garden", 1) == ["late"]
    scores = short.scores("tulips in the garden").tolist()
    assert scores[0] == pytest.approx(scores[1])


class _Requests(Service):
    """Stub of a service that answers every recall with its first memory and records the requests."""

    def __init__(self) -> None:
        self.bodies: list[Mapping[str, Any]] = []

    def call(self, method: str, path: str, key: str, body: Any = None) -> Any:
        assert (method, path, key) == ("POST", "/v1/recall", "key")
        self.bodies.append(body)
        return {"memories": [{"id": "uuid-a"}]}


def recalls(plan: Plan) -> tuple[list[Mapping[str, Any]], dict[str, list[tuple[Any, Any, Any]]]]:
    conversation = Conversation(
        "c",
        GARDEN,
        (Question("q1", "x", "Tulips?", ("a",)), Question("q2", "x", "Cats?", ())),
        (RecallCase(("Hello.", "My garden!"), ("a", "b")),),
    )
    service = _Requests()
    found = _recall(Stored(service, "key", {"uuid-a": "a"}, "none"), conversation, plan)
    return service.bodies, {
        kind: [(each.wanted, each.brought, each.best) for each in recalled] for kind, recalled in found.items()
    }


def test_recalls_and_questions_are_sent_as_messages() -> None:
    bodies, found = recalls(Plan(("hybrid",), (), (5,)))
    assert bodies == [{"messages": ["Hello.", "My garden!"]}, {"messages": ["Tulips?"]}, {"messages": ["Cats?"]}]
    assert found == {
        CASES: [(("a", "b"), ["a"], None)],
        AS_MESSAGES: [(("a",), ["a"], None), ((), ["a"], None)],
    }


def test_the_best_five_are_asked_for_without_a_least_relevance() -> None:
    bodies, found = recalls(Plan(("hybrid",), (), (5,), recall_least=True))
    assert bodies[1] == {"messages": ["Hello.", "My garden!"], "least": 0, "limit": 5}
    assert found[CASES] == [(("a", "b"), ["a"], ["a"])]
    assert len(bodies) == 6
