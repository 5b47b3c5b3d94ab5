"""The bundled embedder: meaning, context, and texts that have none."""

from __future__ import annotations

import logging
import subprocess
import sys

import numpy as np
import pytest

from app.clients.embedder import StaticEmbedder, embedder
from app.domain.embedding import MemoryText

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


def test_context_pulls_by_three_and_two_tenths() -> None:
    own, first, second = vectors("income tax", "a dog", "piano music")
    [mixed] = embedder().embed_memories([MemoryText("income tax", context=("a dog", "piano music"))])
    expected = own + 0.3 * first + 0.2 * second
    assert mixed == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)


def test_rare_words_weigh_more_in_a_query() -> None:
    dog, tax = vectors("dog", "tax")
    query = embedder().embed_query("dog tax", {"dog": 5.0, "tax": 0.5})
    assert query @ dog > query @ tax
    assert np.linalg.norm(query) == pytest.approx(1, abs=1e-5)


def test_words_remembered_stay_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.clients.embedder._SPELLINGS", 10)
    small = StaticEmbedder()
    texts = [MemoryText(f"word{n} dog") for n in range(50)]
    for n in range(0, 50, 5):
        small.embed_memories(texts[n : n + 5])
    assert len(small._tokens) <= 10
    assert small.embed_memories(texts) == pytest.approx(embedder().embed_memories(texts), abs=1e-5)


def test_loading_leaves_logging_alone() -> None:
    code = (
        "import logging; from app.clients.embedder import embedder; embedder();"
        "root = logging.getLogger(); print(root.handlers, root.level)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == f"[] {logging.WARNING}"
