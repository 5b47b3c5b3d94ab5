"""Which messages a recall reads, and what a memory's form says about its knowledge."""

from __future__ import annotations

import pytest

from app.domain.recall.conversation_features import read_form
from app.domain.recall.focus import find_focus, needs_context, stands_alone
from app.domain.recall.knowledge import PRESUPPOSITION, QUESTION, STATEMENT, knowledge
from app.domain.recall.parameters import Recall
from app.domain.recall.request import WindowMessage
from app.domain.recall.threshold import SHARE_OF_BEST, raise_threshold


def turns(*said: str) -> list[WindowMessage]:
    """Return messages, newest first; those that start with `>` are the assistant's."""
    return [WindowMessage(text, text.lstrip(">"), by_user=not text.startswith(">")) for text in said]


@pytest.mark.parametrize(
    ("said", "focus"),
    [
        (["How old is my boy?", ">You drive a Fiat.", "Which car is mine?"], ["How old is my boy?"]),
        (
            ["What should we pack?", "Mum comes to the island.", ">Nice."],
            ["What should we pack?", "Mum comes to the island."],
        ),
        (["One", "Two"], ["One", "Two"]),
        ([">Anything else?", "No"], ["Anything else?", "No"]),
    ],
)
def test_a_recall_reads_what_people_say_since_the_assistants_last_message(said: list[str], focus: list[str]) -> None:
    assert [turn.said for turn in find_focus(turns(*said))] == focus


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("Can I take it with me?", True),
        ("What shall I tell him?", True),
        ("What about the children?", True),
        ("Is that safe?", True),
        ("What can I have for dinner?", False),
        ("What should I wear this evening?", False),
        ("That's lovely, thanks!", False),
        ("Why do they call it a leap year?", False),
    ],
)
def test_only_what_refers_back_to_a_life_needs_earlier_messages(said: str, expected: bool) -> None:
    assert needs_context(turns(said), read_form([said], frozenset())) is expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("How old is my boy?", True),
        ("And how old is my boy?", False),
        ("My boy is old.", False),
        ("Who am I to her?", False),
    ],
)
def test_a_question_about_oneself_stands_alone_if_it_continues_nothing(said: str, expected: bool) -> None:
    assert stands_alone(turns(said)[0], read_form([said], frozenset())) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hi there!", QUESTION),
        ("Good morning. How are you today?", QUESTION),
        ("what should I cook tonight?", QUESTION),
        ("which laptop should I buy?", QUESTION),
        ("how do i get coffee stains out of a shirt", QUESTION),
        ("any ideas for the kids' lunch?", QUESTION),
        ("Thanks a lot!", QUESTION),
        ("is it ok for my nut allergy?", PRESUPPOSITION),
        ("Can I eat grapes, since I have diabetes?", PRESUPPOSITION),
        ("Is there a train to Porto?", PRESUPPOSITION),
        ("Does it hold 340 litres?", PRESUPPOSITION),
        ("My car is a blue Fiat", STATEMENT),
        ("We moved on Saturday. Any tips for boxes?", STATEMENT),
        ("when I was ten we lived in Rome", STATEMENT),
        ("what I like best is tea", STATEMENT),
        ("Kas see sobib pähkliallergiaga?", STATEMENT),
        ("Sopii the pähkinäallergialleni tämä kakku varmasti?", STATEMENT),
        ("👍", STATEMENT),
        ("what is a leap year? " * 60, STATEMENT),
    ],
)
def test_a_question_is_knowledge_only_as_far_as_it_presupposes_something(text: str, expected: float) -> None:
    assert knowledge(text) == expected


def test_no_default_threshold_lets_a_question_without_knowledge_pass() -> None:
    rules = Recall()
    assert min(rules.relevance_above, rules.relevance_above_for_questions, rules.best_above_for_questions) >= QUESTION
    assert rules.relevance_above < PRESUPPOSITION


def test_the_best_memory_raises_the_threshold_but_never_above_itself() -> None:
    assert raise_threshold(0.12, 0.2) == 0.12
    assert raise_threshold(0.12, 0.9) == pytest.approx(SHARE_OF_BEST * 0.9)
    assert raise_threshold(0.5, 0.9) == 0.5
    assert raise_threshold(0.04, 1.0) == pytest.approx(0.15)
    assert raise_threshold(0.0, 1.0) == 0.0
