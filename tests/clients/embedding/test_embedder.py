"""The bundled embedder: similarity, context, and texts without any meaning."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

from app.clients.embedding.embedder import embedder, embedder_of
from app.clients.embedding.static_embedder import FormerStaticEmbedder, StaticEmbedder, WordVectors, word_vectors
from app.domain.text.embedding_input import MemoryText, normalise_rows
from tests.waiting import PATIENCE_SECONDS

ODD = ["", "   ", "the and of", "🙂", "日本語", "\x00", "?!", "a" * 30_000, "x\u0301" * 99]


def vectors(*texts: str) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return embedder().embed_memories([MemoryText(text) for text in texts])


def test_there_is_one_embedder_a_process() -> None:
    assert embedder() is embedder()
    assert (embedder().dimensions, embedder().normalised) == (256, True)


def test_near_in_meaning_is_near_in_space() -> None:
    dog, puppy, tax = vectors("a dog", "some puppies", "income tax")
    assert dog @ puppy > dog @ tax + 0.1


def test_vectors_have_length_one() -> None:
    assert np.linalg.norm(vectors("a dog", "income tax", *ODD[2:]), axis=1) == pytest.approx(1, abs=1e-5)


def test_nothing_is_the_zero_vector() -> None:
    assert not vectors("", "   ").any()
    assert not embedder().embed_query("", {}).any()
    assert embedder().embed_memories([]).shape == (0, 256)


@pytest.mark.parametrize("text", ODD)
def test_odd_texts_give_no_nan(text: str) -> None:
    memory = MemoryText(text, context=(text, "Ann: hello"))
    assert np.isfinite(embedder().embed_memories([memory, MemoryText("hello")])).all()
    assert np.isfinite(embedder().embed_query(text, {})).all()


def test_a_batch_is_as_its_memories_one_by_one() -> None:
    texts = ["a dog", "", "income tax", "a dog", "the", "rain in Spain " * 5000]
    together = vectors(*texts)
    alone = np.concatenate([vectors(text) for text in texts])
    assert together == pytest.approx(alone, abs=1e-5)


def test_stop_words_carry_no_meaning() -> None:
    plain, wordy = vectors("dog garden", "there is a dog in the garden")
    assert plain == pytest.approx(wordy, abs=1e-5)


def test_turns_before_and_after_pull_a_short_memory_along() -> None:
    own, first, second = vectors("income tax", "a dog", "piano music")
    [before] = embedder().embed_memories([MemoryText("income tax", context=("a dog", "piano music"))])
    [after] = embedder().embed_memories([MemoryText("income tax", after=("a dog", "piano music"))])
    expected = own + 0.2 * first + 0.12 * second
    assert before == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    assert after == pytest.approx(before, abs=1e-5)


def test_a_long_memory_is_pulled_along_less() -> None:
    long = " ".join(f"ledger invoice tax{n}" for n in range(50))
    alone, dog = vectors(long, "a dog")
    [pulled] = embedder().embed_memories([MemoryText(long, context=("a dog",))])
    [short] = embedder().embed_memories([MemoryText("ledger invoice", context=("a dog",))])
    assert pulled == pytest.approx(normalise_rows(alone + 0.2 * 25 / 150 * dog), abs=1e-5)
    assert short @ dog > pulled @ dog


def test_repeating_a_word_changes_nothing() -> None:
    once, twice = vectors("a dog in a garden", "a dog in a garden, a dog")
    assert once == pytest.approx(twice, abs=1e-5)


def test_words_rare_in_general_weigh_more_in_a_memory() -> None:
    common, rare, both = vectors("people", "trombone", "people trombone")
    assert both @ rare > both @ common


def test_a_space_of_the_former_composition_is_still_served() -> None:
    own, first, second = vectors("tax", "dog", "piano")
    former = embedder_of("local", FormerStaticEmbedder.model, 256)
    [mixed] = former.embed_memories([MemoryText("tax", context=("dog", "piano"), after=("rain",))])
    assert mixed == pytest.approx(normalise_rows(own + 0.3 * first + 0.2 * second), abs=1e-5)
    assert former.embed_query("dog tax", {"dog": 5.0, "tax": 0.5}) @ first > 0.9
    assert former.model != embedder().model


def test_the_closest_word_of_a_text_stands_for_an_asked_one() -> None:
    found = word_vectors().closest(["dog", "piano"], [["puppy", "tax"], [], ["piano"]])
    assert found.shape == (3, 2)
    assert found[0, 0] > 0.4
    assert found[1].tolist() == [0, 0]
    assert found[2, 1] == pytest.approx(1, abs=1e-5)


def test_rare_words_weigh_more_in_a_query() -> None:
    dog, tax = vectors("dog", "tax")
    query = embedder().embed_query("dog tax", {"dog": 5.0, "tax": 0.5})
    assert query @ dog > query @ tax
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-5)


def test_words_remembered_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.clients.embedding.static_embedder._SPELLINGS", 10)
    small = StaticEmbedder()
    small._words = WordVectors()
    texts = [MemoryText(f"word{n} dog") for n in range(50)]
    for n in range(0, 50, 5):
        small.embed_memories(texts[n : n + 5])
    assert len(small._words._table) <= 10
    assert small.embed_memories(texts) == pytest.approx(embedder().embed_memories(texts), abs=1e-5)


def test_the_matrix_has_the_precision_of_its_file_and_vectors_that_of_the_service() -> None:
    known = word_vectors()
    assert known._matrix.dtype == np.float16
    assert known.vectors(["dog"]).dtype == known.unit_vectors(["dog"]).dtype == np.float32
    assert np.linalg.norm(known.unit_vectors(["dog"])) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("slice_words", [1, 2, 3])
def test_vectors_do_not_depend_on_how_many_are_computed_at_a_time(
    monkeypatch: pytest.MonkeyPatch, slice_words: int
) -> None:
    words = ["dog", "", "unbelievability", "tax", "trombone"]
    texts = [MemoryText("dog tax"), MemoryText(""), MemoryText("a trombone's unbelievability"), MemoryText("tax")]
    expected, whole = word_vectors().vectors(words), embedder().embed_memories(texts)
    monkeypatch.setattr("app.clients.embedding.static_embedder._SLICE_SPELLINGS", slice_words)
    monkeypatch.setattr("app.clients.embedding.static_embedder._SLICE_WORDS", slice_words)
    assert np.array_equal(word_vectors().vectors(words), expected)
    assert np.array_equal(embedder().embed_memories(texts), whole)


@pytest.mark.slow
def test_loading_leaves_logging_alone() -> None:
    code = (
        "import logging; from app.clients.embedding.embedder import embedder; embedder();"
        "root = logging.getLogger(); print(root.handlers, root.level)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout.strip() == f"[] {logging.WARNING}"
