"""The form of a conversation, the flags that link it to memories, and the gate."""

from __future__ import annotations

import pytest

from app.domain.recall import bridges, gate
from app.domain.recall.conversation_features import (
    ConversationFeatures,
    find_names,
    find_persons,
    is_question,
    read_form,
)
from app.domain.recall.english import english
from app.domain.search.request import QUERY_MAX_CHARACTERS
from app.domain.text.inflection import base_forms


def form(*said: str, known: frozenset[str] = frozenset()) -> ConversationFeatures:
    return read_form(said, known)


def openness(*said: str, known: frozenset[str] = frozenset(), rarest: float = 0.5, closest: float = 0.1) -> float:
    return gate.openness(gate.gate_features(form(*said, known=known), rarest, closest))


# --- Form ---


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("I need a present", 1.0),
        ("What suits us?", 1.0),
        ("the US economy", 0.0),
        ("Immediate results", 0.0),
        ("What should one cook?", 0.0),
    ],
)
def test_who_says_i_or_we_speaks_about_themselves(message: str, expected: float) -> None:
    assert form(message).about_self == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (["What is the capital of Peru?"], 1.0),
        (["Tell me a joke"], 1.0),  # reveals nothing about the speaker
        (["10 miles in kilometres"], 1.0),
        (["What is my gate code?"], 0.0),
        (["What a day. Is there tea?"], 0.0),
        (["And in Chile?", "What is the capital of Peru?"], 1.0),  # the oldest message begins as a question
        (["And ours?", "What is the capital of Peru?"], 0.0),
    ],
)
def test_questions_about_the_world_are_told_by_how_they_begin(said: list[str], expected: float) -> None:
    assert form(*said).worldly == expected


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("How do I boil an egg?", 1.0),
        ("How do I boil my eggs?", 0.0),
        ("How do I get there on Monday?", 0.0),
        ("How does one boil an egg?", 0.0),
        ("Should I boil an egg?", 0.0),
    ],
)
def test_a_question_anybody_may_ask_is_general_although_it_says_i(message: str, expected: float) -> None:
    assert form(message).general == expected


def test_small_talk_alone_is_phatic_and_a_share_of_it_is_told() -> None:
    assert (form("Thanks, that was great!").phatic, form("Thanks, that was great!").chatting) == (1.0, 1.0)
    assert (form("👍").phatic, form("👍").chatting) == (1.0, 1.0)
    mixed = form("Thanks, the boiler leaks again")
    assert (mixed.phatic, mixed.chatting) == (0.0, 1 / 3)
    assert form("ok", "The boiler leaks").phatic == 0.0


@pytest.mark.parametrize(
    ("message", "expected"),
    [("Dinner tonight", 1.0), ("at 9:30", 1.0), ("Six on Thursdays", 1.0), ("We march", 0.0), ("Dinner for six", 0.0)],
)
def test_what_names_a_time_is_told(message: str, expected: float) -> None:
    assert form(message).when == expected


def test_length_grows_with_content_words_up_to_twenty() -> None:
    few, more, most = (form("boiler " * n).length for n in (2, 20, 40))
    assert 0 < few < more == most


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Where do I keep my passport?", True),
        ("I am at the airport. Where is my passport?", True),
        ("My passport is gone. What is the capital of Peru?", False),
        ("I lost my passport", False),
        ("Where is the embassy?", False),
        ("Can you tell me a joke?", False),
        ("How do I boil an egg?", False),  # about nobody in particular
        ('Did I say "Monday?"', True),
    ],
)
def test_a_question_about_oneself_is_told_by_its_last_sentence(message: str, expected: bool) -> None:
    assert form(message).asks_about_self is expected


def test_the_newest_message_alone_decides_whether_something_is_asked() -> None:
    assert not form("Never mind.", "Where do I keep my passport?").asks_about_self


# --- Names ---


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("What does Ann drink?", {"ann"}),
        ("Is Orla allergic?", {"orla"}),
        ("What's Triin's job?", {"triin"}),
        ("Where didn’t Ben go?", {"ben"}),
        ("Who is the queen of Spain?", set()),
        ("What does she drink?", set()),
        ("Have I told you?", set()),
    ],
)
def test_a_person_asked_about_stands_behind_the_verb_or_owns_something(message: str, expected: set[str]) -> None:
    assert find_persons(message) == expected


def test_a_name_is_capitalised_inside_a_sentence_of_a_memory_or_labels_one() -> None:
    said = ["was orla at the harbour with ben on monday"]
    assert find_names(said, ["We met Orla. Harbour fees rose on Monday"], []) == {"orla"}
    assert find_names(said, [], ["Ben", "at sea"]) == {"ben"}
    assert find_names(said, ["orla went there"], []) == frozenset()


def test_a_person_asked_about_may_begin_the_memory() -> None:
    assert find_names(["what does Ann drink?"], ["Ann likes her tea green"], []) == {"ann"}
    assert find_names(["what does ann drink?"], ["Ann likes her tea green"], []) == frozenset()
    assert find_names(["what does Ann drink?"], ["An answer", "she drinks tea"], []) == frozenset()


def test_a_question_about_a_known_person_counts_as_one_about_oneself() -> None:
    known = form("What does Ann drink?", known=frozenset({"ann"}))
    assert (known.about_self, known.worldly, known.name, known.asks_about_self) == (1.0, 0.0, 1.0, True)
    stranger = form("What does Ann drink?")
    assert (stranger.about_self, stranger.worldly, stranger.name, stranger.asks_about_self) == (0.0, 1.0, 0.0, False)
    named = form("What is the capital of Peru?", known=frozenset({"peru"}))
    assert (named.about_self, named.worldly, named.name, named.asks_about_self) == (0.0, 1.0, 1.0, False)


def test_a_question_ends_with_its_mark_in_any_script() -> None:
    assert all(map(is_question, ["Tea?", "Tea? ", '"Tea?"', "茶\uff1f", "شاي؟"]))
    assert not any(map(is_question, ["Tea", "Tea? No.", ""]))


# --- Gate ---


def test_the_gate_opens_for_what_people_live_and_shuts_for_the_world_and_small_talk() -> None:
    assert openness("My sister stays with us next week, what should I cook for her?") > 0.5
    assert openness("What is the capital of Mongolia?") < 0.1
    assert openness("Thanks, that's great!") < 0.01
    assert openness("How do I boil an egg?") < 0.2


def test_each_feature_moves_the_gate_its_own_way() -> None:
    features = gate.gate_features(form("The boiler leaks"), 0.5, 0.1)
    before = gate.openness(features)
    for name, weight in gate.WEIGHTS.items():
        after = gate.openness({**features, name: features[name] + 0.5})
        assert (after > before) == (weight > 0), name
    assert features.keys() == gate.WEIGHTS.keys()


# --- Bridges and days ---


def flags(*names: str) -> int:
    rules = english()
    places = {name: place for place, name in enumerate(rules.bridges)}
    places |= {name: bridges.DAYS_FROM + place for place, name in enumerate(rules.day_names)}
    return sum(1 << places[name] for name in names)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Orla is allergic to walnuts", ["eat", "heal"]),
        ("Triin CAN'T HAVE prawns", ["eat"]),
        ("I take 40 mg in the morning", ["heal"]),
        ("For future, keep it short and blunt", ["write"]),
        ("Jodie is off on Tues and in September", ["tuesday", "september"]),
        ("Mondays, wed, the weekend", ["monday", "wednesday", "weekend"]),
        ("Since May we may meet on 3 may", ["may"]),
        ("We may meet at a monastery", []),
        ("The boat race", []),
        ("", []),
    ],
)
def test_a_memory_holds_the_flags_of_its_text(text: str, names: list[str]) -> None:
    assert bridges.read_flags(text) == flags(*names)


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        (["What shall we bake on Saturday?"], ["eat", "saturday"]),
        (["he prescribes pills", "dentists!"], ["heal"]),
        (["we ate out"], ["eat"]),
        (["writing a letter", "and a cake"], ["eat", "write"]),
        (["we met at the station"], []),  # "at" isn't "ate"
        (["we win"], []),
    ],
)
def test_a_conversation_asks_for_flags_in_any_form_of_a_word(messages: list[str], names: list[str]) -> None:
    assert bridges.find_asked_flags(messages) == flags(*names)


def test_every_flag_fits_an_integer_of_the_database_and_days_begin_behind_the_bridges() -> None:
    rules = english()
    assert len(rules.bridges) <= bridges.DAYS_FROM
    assert bridges.DAYS_FROM + len(rules.day_names) <= 31
    assert flags(*rules.bridges) & ~bridges.BRIDGES_MASK == 0
    assert flags(*rules.day_names) & bridges.BRIDGES_MASK == 0
    assert bridges.split_flags(0b1011) == [1, 2, 8]


def test_the_longest_text_is_read_in_one_pass() -> None:
    assert bridges.read_flags("keep it " * (QUERY_MAX_CHARACTERS // 8)) == 0


def test_base_forms_take_off_one_ending() -> None:
    assert {"bake", "baking"} <= base_forms("baking")
    assert "berry" in base_forms("berries")
    assert "stop" in base_forms("stopped")
    assert "dish" in base_forms("dishes")
    assert "eat" in base_forms("ate")
    assert base_forms("bus") == {"bus"}
