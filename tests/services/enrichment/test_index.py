"""Indexing and embedding: the index rows of a memory after it was added, edited, moved or deleted."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from app.domain.policy.policy import Policy
from app.services.embedding.embed import embed_memories
from app.services.enrichment.index import index_memories
from app.store.embedding import embedding_spaces, embeddings
from app.store.enrichment import word_index
from tests.services.stored_memories import NOON, Shelf, shelf

__all__ = ["shelf"]


@pytest.fixture
def talk(shelf: Shelf) -> Shelf:
    """A thread of six indexed turns, each with a different fruit."""
    for key, fruit in zip("abcdef", ("apple", "banana", "cherry", "dates", "elderberry", "figs"), strict=True):
        shelf.put(key, fruit, thread="breakfast")
    shelf.index()
    return shelf


FRUITS = {"appl", "banana", "cherri", "date", "elderberri", "fig"}


def fruits(shelf: Shelf, key: str) -> set[str]:
    return shelf.words(key) & FRUITS


def test_own_words_are_date_speaker_and_text(shelf: Shelf) -> None:
    shelf.put("a", "I was painting a sunrise", speaker="Caroline")
    assert shelf.index() == 1
    assert shelf.own_words("a") == {"7", "march", "2026", "carolin", "paint", "sunris"}


def test_the_date_follows_the_time_zone_of_the_policy(shelf: Shelf) -> None:
    shelf.put("a", "late", occurred_at=NOON.replace(hour=23, minute=30))
    shelf.index(policy=Policy(time_zone="Europe/Berlin"))
    assert {"8", "march"} <= shelf.own_words("a")


def test_the_language_is_the_policys(shelf: Shelf) -> None:
    shelf.put("a", "Die Häuser brennen")
    shelf.index(policy=Policy(language="german"))
    assert {"haus", "brenn"} <= shelf.own_words("a")


def test_context_is_two_turns_before_and_after(talk: Shelf) -> None:
    assert fruits(talk, "a") == {"appl", "banana", "cherri"}
    assert fruits(talk, "c") == {"appl", "banana", "cherri", "date", "elderberri"}
    assert talk.own_words("c") & FRUITS == {"cherri"}


@pytest.mark.parametrize("order", [("abc", "def"), ("f", "a", "d", "b", "e", "c"), ("ace", "bdf")])
def test_context_is_the_same_in_whatever_batches_turns_are_indexed(shelf: Shelf, order: tuple[str, ...]) -> None:
    for key, fruit in zip("abcdef", ("apple", "banana", "cherry", "dates", "elderberry", "figs"), strict=True):
        shelf.put(key, fruit, thread="breakfast")
    for batch in order:
        shelf.index(*batch)
    assert fruits(shelf, "b") == {"appl", "banana", "cherri", "date"}
    assert fruits(shelf, "d") == {"banana", "cherri", "date", "elderberri", "fig"}
    assert shelf.counts() == shelf.true_counts()


def test_neighbours_indexed_at_the_same_time_see_each_other(shelf: Shelf) -> None:
    keys = [f"turn{n}" for n in range(40)]
    for n, key in enumerate(keys):
        shelf.put(key, f"shared fruit{n}", thread="t")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda start: shelf.index(*keys[start::8]), list(range(8)) * 2))
    for n, key in enumerate(keys):
        near = {f"fruit{m}" for m in range(max(0, n - 2), min(40, n + 3))}
        assert {word for word in shelf.words(key) if word.startswith("fruit")} == near
    assert shelf.counts() == shelf.true_counts()
    assert shelf.counts()["share"] == 40


def test_no_context_across_threads_or_without_one(shelf: Shelf) -> None:
    shelf.put("a", "apple", thread="one")
    shelf.put("b", "banana", thread="two")
    shelf.put("c", "cherry")
    shelf.put("d", "dates")
    shelf.index()
    assert [fruits(shelf, key) for key in "abcd"] == [{"appl"}, {"banana"}, {"cherri"}, {"date"}]


def test_indexing_again_changes_nothing(talk: Shelf) -> None:
    before = talk.rows("SELECT ctid, * FROM memory_words ORDER BY memory_id"), talk.counts()
    assert talk.index("b", "c") == 2
    assert (talk.rows("SELECT ctid, * FROM memory_words ORDER BY memory_id"), talk.counts()) == before


def test_counts_say_in_how_many_memories_a_word_is(shelf: Shelf) -> None:
    shelf.put("a", "apple apple", thread="t")
    shelf.put("b", "apple pie", thread="t")
    shelf.index()
    counts = shelf.counts()
    assert (counts["appl"], counts["pie"], counts["2026"], counts[""]) == (2, 1, 2, 2)


def test_an_edit_reaches_neighbours_and_counts(talk: Shelf) -> None:
    talk.edit("c", text="coconut")
    talk.index("c")
    assert "cherri" not in talk.words("a") | talk.words("c") | talk.words("e")
    assert all("coconut" in talk.words(key) for key in "abcde")
    assert talk.counts() == talk.true_counts()
    assert talk.rows("SELECT text_version FROM memory_words WHERE memory_id = :id", id=talk.ids["c"]) == [(2,)]


def test_a_move_to_another_thread_reaches_both(talk: Shelf) -> None:
    with talk.transaction() as tx:
        former = word_index.list_neighbours(tx, talk.tenant_id, [talk.ids["c"]])
    talk.edit("c", thread="lunch")
    index_memories(talk.tenant_id, [talk.ids["c"], *former])
    assert fruits(talk, "c") == {"cherri"}
    assert fruits(talk, "b") == {"appl", "banana", "date", "elderberri"}


def test_a_deleted_memory_leaves_no_word_behind(talk: Shelf) -> None:
    with talk.transaction() as tx:
        assert word_index.remove(tx, talk.tenant_id, [talk.ids["c"], talk.ids["d"]]) == 2
    talk.edit("c", deleted_at=NOON)
    talk.edit("d", deleted_at=NOON)
    assert talk.words("c") == set()
    assert fruits(talk, "b") == {"appl", "banana", "elderberri", "fig"}
    assert not {"cherri", "date"} & talk.counts().keys()
    assert talk.counts() == talk.true_counts()


def test_a_deleted_memory_is_neither_indexed_nor_context(shelf: Shelf) -> None:
    shelf.put("a", "apple", thread="t")
    shelf.put("b", "banana", thread="t", deleted_at=NOON)
    shelf.put("c", "cherry", thread="t")
    assert shelf.index() == 2
    assert fruits(shelf, "a") == {"appl", "cherri"}
    assert "banana" not in shelf.counts()


def test_removing_what_was_never_indexed_does_no_harm(talk: Shelf) -> None:
    before = talk.counts()
    talk.put("g", "grape", thread="breakfast")
    with talk.transaction() as tx:
        assert word_index.remove(tx, talk.tenant_id, [talk.ids["g"]]) == 0
    assert talk.counts() == before


def test_neighbours_are_two_turns_each_way(talk: Shelf) -> None:
    with talk.transaction() as tx:
        near = word_index.list_neighbours(tx, talk.tenant_id, [talk.ids["c"], talk.ids["d"]])
    assert set(near) == {talk.ids[key] for key in "abef"}


def test_tenants_do_not_meet(talk: Shelf) -> None:
    other = Shelf()
    other.put("a", "apricot", thread="breakfast")
    other.index()
    assert index_memories(other.tenant_id, [talk.ids["a"]]) == 0
    assert other.counts()[""] == 1
    assert talk.counts()[""] == 6


def vector(shelf: Shelf, key: str) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    [(value,)] = shelf.rows("SELECT embedding::real[] FROM embeddings WHERE memory_id = :id", id=shelf.ids[key])
    return np.array(value, dtype=np.float32)


def test_a_vector_takes_in_the_two_turns_before(shelf: Shelf) -> None:
    shelf.put("a", "Ann: I adopted a puppy", thread="t")
    shelf.put("b", "Bob: wonderful news", thread="t")
    shelf.put("c", "Bob: wonderful news")
    assert shelf.embed() == 3
    with_context, alone, puppy = vector(shelf, "b"), vector(shelf, "c"), vector(shelf, "a")
    assert with_context @ puppy > alone @ puppy + 0.1
    assert np.linalg.norm(with_context) == pytest.approx(1, abs=1e-3)


def test_the_context_of_a_vector_is_found_outside_the_batch(shelf: Shelf) -> None:
    for key, said in (("a", "Ann: I adopted a puppy"), ("b", "Bob: wonderful news")):
        shelf.put(key, said, thread="t")
    shelf.embed()
    together = vector(shelf, "b")
    shelf.embed("b")
    assert np.array_equal(vector(shelf, "b"), together)


def test_a_speaker_counts_once_wherever_it_is_given(shelf: Shelf) -> None:
    shelf.put("a", "Ann: I adopted a puppy")
    shelf.put("b", "I adopted a puppy", speaker="Ann")
    shelf.put("c", "Ann: I adopted a puppy", speaker="Ann")
    shelf.index()
    shelf.embed()
    assert shelf.own_words("a") == shelf.own_words("b") == shelf.own_words("c")
    assert np.array_equal(vector(shelf, "a"), vector(shelf, "b"))
    assert np.array_equal(vector(shelf, "a"), vector(shelf, "c"))


def test_a_text_without_meaning_gets_a_vector_without_direction(shelf: Shelf) -> None:
    shelf.put("a", " ")
    assert shelf.embed() == 1
    assert not vector(shelf, "a").any()


def test_a_vector_of_a_text_that_was_edited_meanwhile_is_not_written(shelf: Shelf) -> None:
    shelf.put("a", "apple")
    shelf.put("b", "banana")
    with shelf.transaction() as tx:
        texts = embeddings.read_texts(tx, shelf.tenant_id, list(shelf.ids.values()), ahead=True)
    shelf.edit("a", text="apricot")
    shelf.put("c", "cherry")
    with shelf.transaction() as tx:
        space = embedding_spaces.ensure_space(tx, "test", 3, "local")
        written = embeddings.write(tx, shelf.tenant_id, space.space_id, texts, np.eye(2, 3, dtype=np.float32))
    assert written == 1
    assert shelf.rows("SELECT memory_id FROM embeddings") == [(shelf.ids["b"],)]


def test_a_deleted_memory_is_not_embedded(shelf: Shelf) -> None:
    shelf.put("a", "apple", deleted_at=NOON)
    assert embed_memories(shelf.tenant_id, [shelf.ids["a"]]) == 0


def test_vectors_are_removed_in_every_space(shelf: Shelf) -> None:
    shelf.put("a", "apple")
    shelf.embed()
    with shelf.transaction() as tx:
        embeddings.remove(tx, shelf.tenant_id, [shelf.ids["a"]])
    assert shelf.rows("SELECT 1 FROM embeddings") == []
