"""Search: which memories are found, in which order, and which never."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest

from app.domain.policy.policy import Policy
from app.domain.search.parameters import Ranking
from app.domain.search.signals import SIGNALS
from tests.services.stored_memories import NOON, Shelf, shelf

__all__ = ["shelf"]


@pytest.fixture
def diary(shelf: Shelf) -> Shelf:
    """A few memories of two people on several topics, indexed and embedded."""
    shelf.put("puppy", "I adopted a puppy called Biscuit", speaker="Ann", subject="ann", thread="pets")
    shelf.put("vet", "Which vet do you go to?", speaker="Bob", subject="bob", thread="pets")
    shelf.put("piano", "My piano lessons start on Tuesday", speaker="Ann", subject="ann", kind="episodic")
    shelf.put("guitar", "My guitar lessons were fun", speaker="Bob", tags=["music", "fun"], kind="semantic")
    shelf.put("paris", "The flight to Paris leaves at nine", tags=["travel"], occurred_at=NOON - timedelta(days=30))
    shelf.index()
    shelf.embed()
    return shelf


def test_words_find_a_memory(diary: Shelf) -> None:
    assert diary.search_ids("Paris flight")[0] == "paris"


def test_another_form_of_the_word_finds_it(diary: Shelf) -> None:
    assert diary.search_ids("lesson on pianos")[0] == "piano"
    assert diary.search_ids("when does it leave?")[0] == "paris"


def test_an_irregular_form_finds_it_in_english(shelf: Shelf) -> None:
    shelf.put("went", "Ann went to the harbour")
    shelf.put("other", "Ann sang at the harbour")
    shelf.index()
    assert shelf.search_ids("harbours she goes to")[0] == "went"


def test_a_time_that_is_asked_for_is_held_against_the_event(shelf: Shelf) -> None:
    shelf.put("march", "We had fondue", occurred_at=NOON)
    shelf.put("later", "We had fondue", occurred_at=NOON + timedelta(days=60))
    shelf.index()
    assert shelf.search_ids(f"fondue in {NOON:%B %Y}")[0] == "march"
    assert shelf.search_ids(f"fondue in {NOON + timedelta(days=60):%B}")[0] == "later"


def test_meaning_finds_what_shares_no_word(diary: Shelf) -> None:
    [first, *_] = diary.search("airplane trip to France", explain=True)
    assert first.external_id == "paris"
    assert first.explain is not None
    assert first.explain["words"] == 0


def test_the_conversation_around_it_helps_to_find_a_turn(diary: Shelf) -> None:
    found = diary.search_ids("Biscuit")
    assert found[:2] == ["puppy", "vet"]


def test_the_named_speaker_comes_first(diary: Shelf) -> None:
    assert diary.search_ids("Ann's lessons")[0] == "piano"
    assert diary.search_ids("Bob's lessons")[0] == "guitar"


def test_the_speaker_may_be_written_in_the_text(shelf: Shelf) -> None:
    shelf.put("a", "Ann: lessons are fun")
    shelf.put("b", "Bob: lessons are fun")
    shelf.index()
    assert shelf.search_ids("What does Bob say about lessons?")[0] == "b"


def test_results_carry_the_memory(diary: Shelf) -> None:
    [first] = diary.search("guitar lessons", limit=1)
    assert first.id == diary.ids["guitar"]
    assert (first.text, first.speaker, first.kind) == ("My guitar lessons were fun", "Bob", "semantic")
    assert (first.subject, first.thread, first.tags) == (None, None, ["music", "fun"])
    assert (first.occurred_at, first.created_at, first.explain) == (None, NOON, None)


def test_partial_scores_add_up(diary: Shelf) -> None:
    for result in diary.search("Ann piano lessons", explain=True):
        assert result.explain is not None
        parts = {name: part for name, part in result.explain.items() if isinstance(part, float)}
        assert parts.keys() == {"words", "soft_words", "relevance", *SIGNALS}
        relevance = sum(parts.values())
        assert relevance * math.prod(result.explain["factors"].values()) == pytest.approx(result.score)
        assert 0 < result.score <= 3.5
    scores = [result.score for result in diary.search("lessons")]
    assert scores == sorted(scores, reverse=True)


def test_the_limit_holds(diary: Shelf) -> None:
    assert len(diary.search_ids("lessons", limit=1)) == 1


def test_weights_are_the_policys(diary: Shelf) -> None:
    by_words = Policy(ranking=Ranking(relevance=0, actor=0))
    assert {result.external_id for result in diary.search("Paris flight", by_words)} == {"paris"}
    own_words = Policy(ranking=Ranking(relevance=0, actor=0, context=0))
    assert [result.external_id for result in diary.search("Biscuit", own_words)] == ["puppy"]


def test_filters(diary: Shelf) -> None:
    query = "puppy vet piano guitar Paris flight lessons"
    cases: list[tuple[dict[str, object], set[str]]] = [
        ({"subject": "ann"}, {"puppy", "piano"}),
        ({"subject": "nobody"}, set()),
        ({"thread": "pets"}, {"puppy", "vet"}),
        ({"tags": ("music",)}, {"guitar"}),
        ({"tags": ("fun", "music")}, {"guitar"}),
        ({"tags": ("fun", "travel")}, set()),
        ({"kinds": ("episodic", "semantic")}, {"piano", "guitar"}),
        ({"kinds": ("procedural",)}, set()),
        ({"after": NOON}, {"puppy", "vet", "piano", "guitar"}),
        ({"before": NOON}, {"paris"}),
        ({"after": NOON - timedelta(days=30), "before": NOON}, {"paris"}),
        ({"after": NOON - timedelta(days=30), "before": NOON - timedelta(days=30)}, set()),
        ({"subject": "ann", "kinds": ("episodic",), "after": NOON}, {"piano"}),
    ]
    for filters, expected in cases:
        assert set(diary.search_ids(query, **filters)) == expected, filters


def test_a_memory_not_yet_embedded_is_found_by_its_words(diary: Shelf) -> None:
    diary.put("new", "The zeppelin has landed")
    diary.index("new")
    assert diary.search_ids("zeppelin")[0] == "new"


def test_a_memory_not_yet_indexed_is_found_by_its_meaning(diary: Shelf) -> None:
    diary.put("new", "The zeppelin has landed")
    diary.embed("new")
    assert diary.search_ids("zeppelin")[0] == "new"


def test_before_anything_is_embedded_words_suffice(shelf: Shelf) -> None:
    shelf.put("a", "apple")
    shelf.index()
    assert shelf.search_ids("apples") == ["a"]


def test_a_deleted_memory_is_never_found(diary: Shelf) -> None:
    diary.edit("paris", deleted_at=NOON)
    assert "paris" not in diary.search_ids("Paris flight")


def test_an_edited_memory_is_found_by_its_new_words_alone(diary: Shelf) -> None:
    diary.edit("paris", text="The ferry to Oslo leaves at nine")
    diary.index("paris")
    diary.embed("paris")
    words = Policy(ranking=Ranking(relevance=0, actor=0))
    assert [result.external_id for result in diary.search("Oslo", words)] == ["paris"]
    assert diary.search("Paris", words) == []


def test_another_tenants_memories_are_never_found(diary: Shelf) -> None:
    other = Shelf()
    assert other.search_ids("Paris flight") == []
    other.put("rome", "The flight to Rome")
    other.index()
    other.embed()
    assert other.search_ids("Paris flight") == ["rome"]


def test_a_query_without_usual_words_raises_nothing(diary: Shelf) -> None:
    for query in ("", " ", "?!", "\u200b", "🙂🙃", "日本語", "the and of", "who is it?", "a" * 3000):
        for result in diary.search(query, explain=True):
            assert 0 < result.score <= 3, query


def test_an_empty_query_finds_nothing(diary: Shelf) -> None:
    assert diary.search_ids("") == []


def test_signs_and_characters_of_other_scripts_are_found(shelf: Shelf) -> None:
    shelf.put("ja", "東京 タワー")
    shelf.put("el", "Καλημέρα κόσμε")
    shelf.put("fire", "🔥 🔥")
    shelf.put("en", "nothing of note")
    shelf.index()
    shelf.embed()
    assert shelf.search_ids("東京")[0] == "ja"
    assert shelf.search_ids("κόσμε")[0] == "el"
    assert shelf.search_ids("🔥")[0] == "fire"


def test_quotes_and_operators_are_plain_text(diary: Shelf) -> None:
    queries = [
        "'quoted'",
        '"Paris flight',
        "Paris & flight | !",
        "Paris <-> flight:*A",
        "flight\\",
        "o'clock \\' flight '' --",
        "flight); DROP TABLE memories; --",
        ":tenant %(tenant)s %s flight",
        "flight:A https://example.org/flight?a=b&c='d' a@b.org /usr/bin/flight 3.14e-7",
    ]
    for query in queries:
        found = diary.search_ids(query)
        assert isinstance(found, list), query
        if "Paris" in query:
            assert found[0] == "paris", query


def test_lexemes_with_quotes_and_backslashes_are_matched(shelf: Shelf) -> None:
    shelf.put("path", "see C:\\temp\\it's and https://example.org/a?b='c'")
    shelf.index()
    assert shelf.search_ids("https://example.org/a?b='c'") == ["path"]


def test_a_long_query_looks_up_its_rarest_words(diary: Shelf) -> None:
    padding = " ".join(f"word{n}" for n in range(500))
    assert diary.search_ids(f"{padding} Paris flight")[0] == "paris"


def test_equal_memories_come_latest_id_first(shelf: Shelf) -> None:
    shelf.put("a", "twins")
    shelf.put("b", "twins")
    shelf.index()
    later, earlier = sorted("ab", key=lambda key: shelf.ids[key], reverse=True)
    assert shelf.search_ids("twin") == [later, earlier]


FILLER = "The minutes of the meeting list who was present and which papers were read. " * 60
FACTS = {
    "boat": "Our sailing boat is moored in Hobart",
    "violin": "Grandfather's violin was repaired in Cremona",
    "dentist": "The dentist moved to the red house by the mill",
}


@pytest.mark.parametrize("last", [False, True])
def test_a_fact_of_a_long_memory_is_found_in_its_first_and_in_its_last_paragraph(shelf: Shelf, last: bool) -> None:
    for key, fact in FACTS.items():
        shelf.put(key, f"{FILLER}\n\n{fact}." if last else f"{fact}.\n\n{FILLER}")
    for n in range(12):
        shelf.put(f"other{n}", f"{FILLER} Paper {n} was put off.")
    shelf.index()
    shelf.embed()
    asked = {
        "boat": "Where does our boat lie?",
        "violin": "Who repaired the violin?",
        "dentist": "Where is the dentist?",
    }
    for key, query in asked.items():
        best = shelf.search(query)[0]
        assert best.external_id == key
        assert best.highlight is not None
        assert FACTS[key] in best.highlight
        assert len(best.highlight) < 310


def test_a_short_memory_has_no_highlight(diary: Shelf) -> None:
    assert [result.highlight for result in diary.search("Paris flight")] == [None] * len(diary.search("Paris flight"))
