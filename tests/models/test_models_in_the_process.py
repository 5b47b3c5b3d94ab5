"""In-process embedders with real models: prefixes, batches, limits, and the path from a memory to a search."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import fastembed
import numpy as np
import pytest

from app.clients.embedding import local_models
from app.clients.embedding.embedder import EmbedderUnavailable, embedder, embedder_of
from app.clients.embedding.local_models import BATCH, LocalModel
from app.clients.embedding.static_embedder import Vectors
from app.domain.search.request import SearchRequest
from app.domain.text.embedding_input import PASSAGE_VERSION, MemoryText
from app.domain.text.prefixes import Prefixes, family_prefixes
from app.errors import Misconfigured
from app.services.embedding.embed import embed_memories
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from app.services.monitoring import doctor
from app.services.search.search import search
from app.settings import IN_PROCESS
from tests.models import tiny
from tests.service import Service
from tests.services.embedder_move import Move, forget
from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
CELLO = "Ann plays the cello every Sunday"
SOUP = "Ben cooks the soup every Sunday"
ROOF = "Ben repairs the roof"


@pytest.fixture(params=sorted(IN_PROCESS), scope="module")
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def folder(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write(kind, tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def e5(folder: Path) -> Path:
    """Path of the model under a name whose family uses prefixes."""
    link = folder.parent / "e5-tiny"
    link.symlink_to(folder)
    return link


@pytest.fixture
def using(service: Service, kind: str) -> Iterator[Service]:
    service.configure(embedder=kind)
    forget()
    yield service
    forget()


def memories(*texts: str) -> list[MemoryText]:
    return [MemoryText(text) for text in texts]


def same(one: Vectors, other: Vectors) -> bool:
    return np.allclose(one, other, atol=1e-5)


# --- Prefixes ---


@pytest.mark.parametrize(
    ("name", "query", "document"),
    [
        ("intfloat/multilingual-e5-large", "query: ", "passage: "),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("BAAI/bge-small-en-v1.5", "Represent this sentence for searching relevant passages: ", ""),
        ("nomic-ai/nomic-embed-text-v1.5-Q", "search_query: ", "search_document: "),
        ("snowflake/snowflake-arctic-embed-m", "Represent this sentence for searching relevant passages: ", ""),
        ("Snowflake/snowflake-arctic-embed-m-v2.0", "query: ", ""),
        ("BAAI/bge-m3", "", ""),
        ("thenlper/gte-base", "", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "", ""),
        ("/models/e5-small/", "query: ", "passage: "),
    ],
)
def test_a_family_of_models_has_its_prefixes(name: str, query: str, document: str) -> None:
    assert family_prefixes(name) == Prefixes(query, document)


def test_prefixes_are_put_in_front_exactly_once(kind: str, folder: Path, e5: Path) -> None:
    plain, prefixed = local_models.load(kind, str(folder)), local_models.load(kind, str(e5))
    assert (plain.prefixes, prefixed.prefixes) == (Prefixes(), Prefixes("query: ", "passage: "))
    assert same(prefixed.embed_query("cello", {}), plain.embed_query("query: cello", {}))
    assert same(prefixed.embed_memories(memories(CELLO)), plain.embed_memories(memories(f"passage: {CELLO}")))
    assert not same(prefixed.embed_query("cello", {}), plain.embed_query("cello", {}))


def test_given_prefixes_take_the_place_of_the_family_s(kind: str, folder: Path, e5: Path) -> None:
    plain = local_models.load(kind, str(folder))
    given = local_models.load(kind, str(e5), query_prefix="search ", document_prefix="")
    assert same(given.embed_query("cello", {}), plain.embed_query("search cello", {}))
    assert same(given.embed_memories(memories(CELLO)), plain.embed_memories(memories(CELLO)))
    assert given.model == f"{kind}:{e5}+{PASSAGE_VERSION}"


def test_prefixes_that_a_model_s_files_name_come_before_its_family_s(tmp_path: Path) -> None:
    tiny.write_bert(tmp_path / "e5-own", prompts={"query": "represent ", "passage": "document "})
    tiny.write_bert(tmp_path / "plain")
    own, plain = (local_models.load("sentence-transformers", str(tmp_path / name)) for name in ("e5-own", "plain"))
    assert own.prefixes == Prefixes("represent ", "document ")
    assert same(own.embed_query("cello", {}), plain.embed_query("represent cello", {}))
    assert same(own.embed_memories(memories(CELLO)), plain.embed_memories(memories(f"document {CELLO}")))


def test_another_prefix_of_memories_is_another_space(kind: str, folder: Path) -> None:
    names = {local_models.load(kind, str(folder), document_prefix=prefix).model for prefix in ("", "a ", "b ")}
    assert len(names) == 3
    assert f"{kind}:{folder}+{PASSAGE_VERSION}" in names
    queries = {local_models.load(kind, str(folder), query_prefix=prefix).model for prefix in ("", "a ")}
    assert len(queries) == 1, "the query prefix doesn't affect stored vectors"


# --- Vectors ---


def test_vectors_are_units_whose_nearness_is_meaning(kind: str, folder: Path) -> None:
    model = local_models.load(kind, str(folder))
    found = model.embed_memories(memories(CELLO, "", SOUP, ROOF))
    assert found.shape == (4, tiny.WIDTH)
    assert found.dtype == np.float32
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 0, 1, 1], abs=1e-5)
    assert np.argmax(found @ model.embed_query("violoncello", {})) == 0
    assert np.argmax(found @ model.embed_query("broth", {})) == 2


def test_a_batch_runs_in_parts_of_texts_alike_in_length(kind: str, folder: Path) -> None:
    model = local_models.load(kind, str(folder))
    texts = [" ".join(["cello", "soup", "roof"][: 1 + n % 3] * (1 + n % 7)) for n in range(70)]
    alone = np.concatenate([model.embed_memories(memories(text)) for text in texts])
    runs = watch_runs(model)
    together = model.embed_memories(memories(*texts))
    assert [len(run) for run in runs] == [BATCH, BATCH, 70 - 2 * BATCH]
    lengths = [len(text) for run in runs for text in run]
    assert lengths == sorted(lengths)
    assert same(together, alone), "padding changes no vector, and the order is preserved"


def test_a_model_reads_the_beginning_of_a_long_memory(kind: str, folder: Path) -> None:
    model = local_models.load(kind, str(folder))
    assert model.reads_tokens == tiny.READS
    within, beyond = "cello " * (tiny.READS - 2), "cello " * tiny.READS
    long, longer, other = model.embed_memories(memories(within, beyond + "soup " * 9000, within[:-6] + "soup"))
    assert same(long, longer), "tokens after the limit are ignored"
    assert not same(long, other), "the last token within the limit counts"


def test_turns_before_a_memory_never_crowd_it_out(kind: str, folder: Path) -> None:
    model = local_models.load(kind, str(folder))
    text = "cello " * (tiny.READS - 2)
    alone, with_turns = model.embed_memories([MemoryText(text), MemoryText(text, context=("soup", "roof"))])
    assert same(alone, with_turns)


@pytest.mark.slow
def test_another_process_makes_the_same_vectors(kind: str, e5: Path) -> None:
    model = local_models.load(kind, str(e5))
    code = (
        "import numpy, sys; from app.clients.embedding.embedder import embedder; "
        "from app.domain.text.embedding_input import MemoryText; "
        "one = embedder(); found = [*one.embed_memories([MemoryText(sys.argv[1])]), one.embed_query(sys.argv[1], {})]; "
        "print(one.model); print(numpy.stack(found).tobytes().hex())"
    )
    settings = {"EBBING_EMBEDDER": kind, "EBBING_EMBEDDING_MODEL": str(e5)}
    done = subprocess.run(
        [sys.executable, "-c", code, CELLO],
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_SECONDS,
    )
    name, found = done.stdout.split()
    own = np.stack([*model.embed_memories(memories(CELLO)), model.embed_query(CELLO, {})])
    assert name == model.model
    assert same(np.frombuffer(bytes.fromhex(found), np.float32).reshape(own.shape), own)


def watch_runs(model: LocalModel) -> list[list[str]]:
    """Return a list that collects the texts of each subsequent run of the model."""
    runs: list[list[str]] = []
    documents = model._loaded.documents

    def watched(texts: list[str], prefix: str) -> object:
        runs.append(texts)
        return documents(texts, prefix)

    model._loaded = model._loaded._replace(documents=watched)
    return runs


# --- Threads and failures ---


def test_a_model_of_fastembed_uses_the_threads_that_are_set(tmp_path: Path) -> None:
    folder = tiny.write("fastembed", tmp_path / "tiny")
    made: list[int | None] = []
    with pytest.MonkeyPatch.context() as patch:
        kind = fastembed.TextEmbedding
        patch.setattr(fastembed, "TextEmbedding", Watched(kind, made))
        local_models.load("fastembed", str(folder))
        local_models.load("fastembed", str(folder), threads=3)
    assert made == [1, 3]


class Watched:
    """A proxy for a class that records the thread settings of its instances' sessions."""

    def __init__(self, kind: type, made: list[int | None]) -> None:
        self._kind = kind
        self._made = made

    def __getattr__(self, name: str) -> object:
        return getattr(self._kind, name)

    def __call__(self, **arguments: object) -> object:
        one = self._kind(**arguments)
        options = one.model.model.get_session_options()
        self._made.append(options.intra_op_num_threads)
        assert options.inter_op_num_threads == options.intra_op_num_threads
        return one


def test_a_model_of_sentence_transformers_uses_the_threads_that_are_set(tmp_path: Path) -> None:
    tiny.write_bert(tmp_path / "tiny")
    torch: Any = pytest.importorskip("torch")
    for threads in (2, 1):
        local_models.load("sentence-transformers", str(tmp_path / "tiny"), threads=threads)
        assert torch.get_num_threads() == threads


@pytest.mark.parametrize("broken", ["empty", "no model", "no tokenizer"])
def test_a_folder_without_a_whole_model_names_the_setting(kind: str, folder: Path, tmp_path: Path, broken: str) -> None:
    there = tmp_path / "broken"
    there.mkdir()
    for file in [] if broken == "empty" else folder.glob("*.*"):
        if file.suffix not in {"no model": {".onnx", ".safetensors"}, "no tokenizer": {".json", ".txt"}}[broken]:
            (there / file.name).write_bytes(file.read_bytes())
    with pytest.raises(Misconfigured, match=r"broken.*EBBING_EMBEDDING_MODEL"):
        local_models.load(kind, str(there))


def test_the_doctor_names_what_does_not_load_and_how_much_is_read(using: Service, folder: Path) -> None:
    using.configure(embedding_model=folder)
    [finding] = doctor.embedder_loads()
    assert finding.detail.endswith(f"reads the first {tiny.READS} tokens of a memory")
    forget()
    using.configure(embedding_model=folder.parent)
    [finding] = doctor.embedder_loads()
    assert (finding.severity, "EBBING_EMBEDDING_MODEL" in finding.detail) == ("trouble", True)


# --- From a memory to a search ---


def test_a_search_finds_a_memory_by_the_model_s_vectors_alone(using: Service, kind: str, folder: Path) -> None:
    using.configure(embedding_model=folder)
    tenant_id = using.tenant().tenant_id
    cello, soup, _ = using.send(tenant_id, CELLO, SOUP, ROOF)
    using.work()
    [space] = using.rows(
        "SELECT DISTINCT model, dimensions, embedder FROM embeddings JOIN embedding_spaces USING (space_id)"
    )
    assert tuple(space) == (f"{kind}:{folder}+{PASSAGE_VERSION}", tiny.WIDTH, kind)
    for query, wanted in (("violoncello", cello), ("broth", soup)):
        assert search(tenant_id, SearchRequest(query, mode="dense"))[0].id == wanted
        assert search(tenant_id, SearchRequest(query))[0].id == wanted
        assert search(tenant_id, SearchRequest(query, mode="lexical")) == []


def test_a_claim_holds_no_more_than_a_slow_model_can_do_in_its_time(
    using: Service, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    using.configure(embedding_model=folder, slice_seconds=600)
    sizes: list[int] = []

    def watched(tenant_id: UUID, ids: Sequence[UUID]) -> int:
        sizes.append(len(ids))
        return embed_memories(tenant_id, ids)

    monkeypatch.setattr(stage_runner, "embed_memories", watched)
    using.send(using.tenant().tenant_id, *(f"soup {n}" for n in range(130)))
    drain.drain_streams()
    assert stage_runner.embed() == 130
    assert sizes == [stage_runner.SLOW_EMBED_ROWS, 30], "the memories of one request are one item, which is split"


def test_a_tenant_moves_to_the_model_and_keeps_being_found(using: Service, kind: str, e5: Path) -> None:
    using.configure(embedder="local")
    forget()
    tenant_id = using.tenant().tenant_id
    [cello] = using.send(tenant_id, CELLO)
    using.work()
    using.configure(embedder=kind, embedding_model=e5)
    forget()
    Move.read(tenant_id).end()
    [soup] = using.send(tenant_id, SOUP)
    using.work()
    stored = using.rows("SELECT memory_id, model FROM embeddings JOIN embedding_spaces USING (space_id)")
    assert sorted(map(tuple, stored)) == [(cello, embedder().model), (soup, embedder().model)]
    model = embedder()
    nearest = int(np.argmax(model.embed_memories(memories(CELLO, SOUP)) @ model.embed_query("violoncello", {})))
    [best, *_] = search(tenant_id, SearchRequest("violoncello", mode="dense"))
    assert best.id == (cello, soup)[nearest]


def test_a_space_without_a_prefix_is_served_beside_one_with(using: Service, kind: str, folder: Path) -> None:
    using.configure(embedding_model=folder, embedding_document_prefix="document ")
    before = f"{kind}:{folder}+{PASSAGE_VERSION}"
    assert embedder().model != before
    assert embedder_of(kind, before, tiny.WIDTH).model == before
    assert embedder_of(kind, embedder().model, tiny.WIDTH).model == embedder().model
    with pytest.raises(EmbedderUnavailable, match="the model is now"):
        embedder_of(kind, f"{kind}:{folder}+{Prefixes('', 'other').tag}+{PASSAGE_VERSION}", tiny.WIDTH)
