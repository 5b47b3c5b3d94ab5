"""Embeddings from a provider: request content, batching, and validation of vectors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from app.clients.embedding import embedder as embedders
from app.clients.embedding.embedder import Embedder
from app.clients.embedding.openai_embedder import INPUT_MAX_BYTES, OpenAIEmbedder
from app.clients.llm.provider import Patience
from app.clients.llm.resilience import ProviderFailed, Reason
from app.clients.llm.responses import Usage
from app.domain.text.embedding_input import CONTEXT_MAX_CHARACTERS, PASSAGE_VERSION, MemoryText, format_passage
from app.settings import settings
from tests.clients.asked import QUICK, Calls, asked
from tests.provider import model
from tests.provider.server import provider
from tests.waiting import PATIENCE_SECONDS

__all__ = ["asked"]

DAY = datetime(2026, 5, 4, 23, 30, tzinfo=UTC)


def embedder(asked: Calls, dimensions: int | None = 16, **more: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(asked.provider, "embed-small", dimensions, QUICK, **more)


def texts(*given: str) -> list[MemoryText]:
    return [MemoryText(text) for text in given]


def inputs(asked: Calls) -> list[Sequence[str]]:
    return [body["input"] for body in asked.fake.control.bodies]


def reason(one: OpenAIEmbedder, *given: str) -> tuple[Reason, str]:
    with pytest.raises(ProviderFailed) as failed:
        one.embed_memories(texts(*(given or ("a", "b"))))
    return failed.value.reason, failed.value.detail


def test_it_is_an_embedder_of_a_space_of_its_own(asked: Calls) -> None:
    one: Embedder = embedder(asked)
    assert (one.model, one.dimensions, one.normalised) == (f"embed-small+{PASSAGE_VERSION}", 16, True)


def test_vectors_are_those_of_the_model_in_order_at_length_one(asked: Calls) -> None:
    found = embedder(asked).embed_memories(texts("a red car", "blue whales"))
    assert found.dtype == np.float32
    assert found == pytest.approx(np.array([model.vector(text, 16) for text in ("a red car", "blue whales")]), abs=1e-6)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-6)
    [body] = asked.fake.control.bodies
    assert (body["encoding_format"], body["dimensions"], body["model"]) == ("base64", 16, "embed-small")


def test_a_memory_is_its_date_speaker_text_and_a_little_context() -> None:
    memory = MemoryText("I moved to Oslo.", "Ann", DAY, ("Bob: where do you\n live?", "Bob: " + "hi " * 200))
    first, before = format_passage(memory).split("\n")
    assert first == "2026-05-04 Ann: I moved to Oslo."
    assert before.startswith("(before: Bob: hi hi")
    assert before.endswith(" / Bob: where do you live?)")
    assert len(before) < CONTEXT_MAX_CHARACTERS + 50
    assert format_passage(MemoryText("Just this")) == "Just this"
    assert format_passage(MemoryText(" \n ", "Ann", DAY, ("Bob: hi",))) == ""


def test_a_query_is_sent_as_it_is(asked: Calls) -> None:
    found = embedder(asked).embed_query("red cars", {"red": 3.0})
    assert found == pytest.approx(np.array(model.vector("red cars", 16)), abs=1e-6)
    assert inputs(asked) == [["red cars"]]


def test_nothing_is_the_zero_vector_and_is_not_sent(asked: Calls) -> None:
    one = embedder(asked)
    found = one.embed_memories(texts("", "a", "  "))
    assert not found[[0, 2]].any()
    assert found[1].any()
    assert not one.embed_query("  ", {}).any()
    assert one.embed_memories([]).shape == (0, 16)
    assert inputs(asked) == [["a"]]


def test_a_query_is_accounted_for_too(asked: Calls) -> None:
    spent: list[Usage] = []
    one = embedder(asked)
    one.embed_query("red cars", {}, spent.append)
    assert one.priced_as == "embed-small"
    assert [(usage.calls, usage.input_tokens) for usage in spent] == [(1, 2)]


def test_a_known_size_need_not_be_asked_for(asked: Calls) -> None:
    assert embedder(asked, 1536, asks_dimensions=False).embed_memories(texts("a")).shape == (1, 1536)
    assert all("dimensions" not in body for body in asked.fake.control.bodies)
    assert asked.fake.calls == 1


def test_the_size_is_found_out_where_none_is_asked_for(asked: Calls) -> None:
    one = embedder(asked, None)
    assert one.embed_memories(texts("a")).shape == (1, 1536)
    assert one.dimensions == 1536
    assert all("dimensions" not in body for body in asked.fake.control.bodies)
    assert asked.fake.calls == 2


def test_calls_keep_to_count_and_budget(asked: Calls) -> None:
    spent: list[Usage] = []
    embedder(asked, batch_memories=2).embed_memories(texts("a", "", "b", "c"), spent.append)
    assert inputs(asked) == [["a", "b"], ["c"]]
    assert [usage.calls for usage in spent] == [1, 1]
    asked.fake.control.bodies.clear()
    embedder(asked, batch_tokens=250).embed_memories(texts(*["word " * 100] * 5))
    assert [len(each) for each in inputs(asked)] == [2, 2, 1]


def test_long_texts_are_cut_before_they_are_sent(asked: Calls) -> None:
    embedder(asked).embed_memories(texts("ü" * 30_000))
    assert len(inputs(asked)[0][0].encode()) <= INPUT_MAX_BYTES


def test_a_single_text_that_is_still_too_long_is_cut_further(asked: Calls) -> None:
    asked.fake.control.set(mode="too_long_input", times=2)
    assert embedder(asked).embed_memories(texts("word " * 1000)).any()
    assert [len(each[0]) for each in inputs(asked)] == pytest.approx([5000, 2500, 1250], abs=3)
    asked.fake.control.set(mode="too_long_input")
    assert reason(embedder(asked), "word " * 1000)[0] is Reason.TOO_LARGE
    assert reason(embedder(asked), "a", "b")[0] is Reason.TOO_LARGE, (
        "with several texts, the caller has to find the long one"
    )


def test_plain_numbers_and_another_order_are_understood(asked: Calls) -> None:
    expected = np.array([model.vector(text, 16) for text in ("a red car", "blue whales")])
    for mode in ("floats", "swapped", "no_usage"):
        asked.fake.control.set(mode=mode)
        assert embedder(asked).embed_memories(texts("a red car", "blue whales")) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("mode", "detail"),
    [
        ("wrong_count", "wrong count"),
        ("wrong_ids", "wrong count"),
        ("wrong_size", "wrong size"),
        ("nan", "invalid norm"),
        ("huge", "invalid norm"),
        ("zero", "invalid norm"),
        ("not_base64", "not base64"),
        ("html", "not JSON"),
    ],
)
def test_what_is_no_vector_is_refused(asked: Calls, mode: str, detail: str) -> None:
    asked.fake.control.set(mode=mode)
    assert reason(embedder(asked)) == (Reason.GARBAGE, detail)


def test_numbers_that_are_none_are_refused_as_numbers_too(asked: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "vector", lambda _text, size: [1e308] * size)
    asked.fake.control.set(mode="floats")
    assert reason(embedder(asked)) == (Reason.GARBAGE, "invalid norm")


def test_passing_failures_are_waited_out(asked: Calls) -> None:
    asked.fake.control.set(mode="rate_limit", times=1)
    assert embedder(asked).embed_memories(texts("a")).any()
    assert asked.slept == [0.25]


def test_a_query_waits_no_longer_than_a_query_may(asked: Calls) -> None:
    asked.fake.control.set(mode="hang")
    one = embedder(asked, query_patience=Patience(0.2))
    with pytest.raises(ProviderFailed, match="timeout"):
        one.embed_query("red cars", {})
    assert asked.slept == [], "a query isn't retried"


def test_the_settings_choose_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with provider() as fake:
        monkeypatch.setenv("EBBING_EMBEDDER", "openai")
        monkeypatch.setenv("EBBING_OPENAI_BASE_URL", fake.url)
        monkeypatch.setenv("EBBING_EMBEDDING_DIMENSIONS", "32")
        settings.cache_clear()
        embedders.embedder.cache_clear()
        try:
            one = embedders.embedder()
            assert isinstance(one, OpenAIEmbedder)
            assert one.embed_memories(texts("a red car")).shape == (1, 32)
            one._provider.close()
        finally:
            settings.cache_clear()
            embedders.embedder.cache_clear()


@pytest.mark.slow
def test_the_bundled_embedder_does_not_load_the_client() -> None:
    code = "import sys; from app.clients.embedding.embedder import embedder; embedder(); print('openai' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout.strip() == "False"
