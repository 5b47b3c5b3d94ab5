"""In-process models: optional packages, imported only when configured."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any, ClassVar

import numpy as np
import pytest

from app.clients.embedding import embedder, local_models
from app.clients.embedding.embedder import Embedder, embedder_of
from app.domain.text.embedding_input import PASSAGE_VERSION, MemoryText
from app.errors import Misconfigured
from app.settings import settings
from tests.waiting import PATIENCE_SECONDS

KINDS = ("fastembed", "sentence-transformers")
NAME = "small/model"


class Model:
    """Stub of both packages' models: a text's vector is its length and its word count."""

    loaded: ClassVar[list[str]] = []
    batches: ClassVar[list[list[str]]] = []

    prompts: ClassVar[dict[str, str]] = {"query": "", "document": ""}
    max_seq_length = 512

    def __init__(self, model_name: str, threads: int = 1) -> None:
        if model_name == "unknown":
            raise ValueError(model_name)
        assert threads == 1
        self.model = self
        self.loaded.append(model_name)

    def passage_embed(self, texts: Iterable[str], *, batch_size: int) -> Iterator[Any]:
        self.batches.append(list(texts))
        assert batch_size > 0
        yield from (vector(text) for text in texts)

    def query_embed(self, text: str) -> Iterator[Any]:
        yield vector(f"query: {text}")

    def encode_document(self, texts: list[str], *, prompt: str, batch_size: int, show_progress_bar: bool) -> Any:
        assert (show_progress_bar, prompt) == (False, "")
        return np.stack(list(self.passage_embed(texts, batch_size=batch_size)))

    def encode_query(self, text: str, *, prompt: str, show_progress_bar: bool) -> Any:
        assert (show_progress_bar, prompt) == (False, "")
        return vector(f"query: {text}")


def vector(text: str) -> Any:
    return np.array([len(text), len(text.split()), 1], dtype=np.float64)


def direction(text: str) -> Any:
    return pytest.approx(vector(text) / np.linalg.norm(vector(text)), abs=1e-6)


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> type[Model]:
    for module, name in (("fastembed", "TextEmbedding"), ("sentence_transformers", "SentenceTransformer")):
        fake = ModuleType(module)
        setattr(fake, name, Model)
        monkeypatch.setitem(sys.modules, module, fake)
    torch: Any = ModuleType("torch")
    torch.set_num_threads = [].append
    monkeypatch.setitem(sys.modules, "torch", torch)
    Model.loaded.clear()
    Model.batches.clear()
    return Model


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_it_is_an_embedder_of_a_space_of_its_own(packages: type[Model], kind: str) -> None:
    one: Embedder = local_models.load(kind, NAME)
    assert (one.model, one.dimensions, one.normalised) == (f"{kind}:{NAME}+{PASSAGE_VERSION}", 3, True)
    assert one.priced_as is None
    assert packages.loaded == [NAME]


def test_vectors_are_those_of_the_model_in_order_at_length_one(packages: type[Model], kind: str) -> None:
    one = local_models.load(kind, NAME)
    found = one.embed_memories([MemoryText("a red car"), MemoryText("  "), MemoryText("hi", "Ann", None, ("Bob: ho",))])
    assert found.dtype == np.float32
    assert found[0] == direction("a red car")
    assert not found[1].any()
    assert found[2] == direction("Ann: hi\n(before: Bob: ho)")
    assert packages.batches == [["a red car", "Ann: hi\n(before: Bob: ho)"]], "blank texts aren't embedded"
    assert one.embed_query("cars", {}) == direction("query: cars")
    assert not one.embed_query(" ", {}).any()
    assert one.embed_memories([]).shape == (0, 3)


def test_long_texts_are_cut(packages: type[Model], kind: str) -> None:
    local_models.load(kind, NAME).embed_memories([MemoryText("ü" * 30_000)])
    assert len(packages.batches[0][0].encode()) <= local_models.INPUT_MAX_BYTES


def test_a_package_that_is_not_there_is_named_with_the_way_to_it(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    for module in ("torch", kind.replace("-", "_")):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Misconfigured, match=rf"pip install 'ebbing\[{kind}\]'"):
        local_models.load(kind, NAME)


def test_a_model_that_does_not_load_is_named(packages: type[Model], kind: str) -> None:
    with pytest.raises(Misconfigured, match=r"'unknown'.*ValueError.*EBBING_EMBEDDING_MODEL"):
        local_models.load(kind, "unknown")


@pytest.mark.parametrize("given", [NAME, None])
def test_the_settings_choose_it(
    packages: type[Model], kind: str, given: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EBBING_EMBEDDER", kind)
    if given:
        monkeypatch.setenv("EBBING_EMBEDDING_MODEL", given)
    settings.cache_clear()
    embedder.embedder.cache_clear()
    try:
        one = embedder.embedder()
        assert packages.loaded == [given or settings().embedder_model]
        assert "/" in packages.loaded[0], "each kind has its own default model"
        assert embedder_of(kind, one.model, 3).model == one.model
    finally:
        settings.cache_clear()
        embedder.embedder.cache_clear()
        embedder._others.clear()


@pytest.mark.slow
def test_nothing_imports_them_unasked() -> None:
    code = (
        "import sys, app.main, app.clients.embedding.local_models, app.services.embedding.spaces; "
        "print([name for name in ('fastembed', 'sentence_transformers', 'torch') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS
    )
    assert done.stdout.strip() == "[]"
