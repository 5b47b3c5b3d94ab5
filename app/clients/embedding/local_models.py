"""Embed texts with a model in this process, using `fastembed` or `sentence-transformers`.

Both are optional packages, imported when a model is loaded; they download models that aren't on disk. `fastembed` adds
no prefixes to queries and passages, and `sentence-transformers` only the prefixes named in a model's own files;
`app.domain.text.prefixes` has the prefixes of the known model families.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from app.clients.embedding.static_embedder import Vectors
from app.clients.llm.responses import Spent, unnoted
from app.domain.prompts import clip
from app.domain.text.embedding_input import PASSAGE_VERSION, MemoryText, format_passage, normalise_rows
from app.domain.text.prefixes import Prefixes, family_prefixes
from app.errors import Misconfigured
from app.settings import Settings

INPUT_MAX_BYTES: Final = 24_000
"""Truncation limit for a memory or query passed to the model, which uses only its first `reads_tokens` tokens."""
BATCH: Final = 32
"""Maximum number of texts per run of the model; more would need more memory for padding without saving time."""
AUTO: Final = "auto"
"""Use the prefix that the model's own files or its family define."""
MODEL_FILES: Final = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx", "onnx/model_quantized.onnx")
"""Paths of an ONNX model within its folder; the first that exists is used."""

_TAG: Final = re.compile(r"\+prefix-[0-9a-f]+$")
_DOCUMENT_PROMPTS: Final = ("document", "passage", "corpus")

Texts = list[str]


class LoadedModel(NamedTuple):
    """A loaded model.

    Attributes:
        documents: Returns vectors of texts, in order, after adding a prefix to each text.
        query: Returns the vector of a query after adding a prefix.
        own: Prefixes named in the model's files, otherwise the prefixes of its family.
        reads_tokens: Number of tokens of a text that the model uses, from its start; None if the package doesn't say.
    """

    documents: Callable[[Texts, str], Any]
    query: Callable[[str, str], Any]
    own: Prefixes
    reads_tokens: int | None


class LocalModel:
    """An embedding model in this process; thread-safe, with serialised runs.

    A blank text gets the zero vector, whose cosine to every vector is 0.

    Args:
        kind: The package, a value of the setting `EBBING_EMBEDDER`.
        name: The model's name in this package.
        prefixes: Prefixes for queries and documents.
    """

    normalised = True
    priced_as = None

    def __init__(self, kind: str, name: str, loaded: LoadedModel, prefixes: Prefixes) -> None:
        self.model = "+".join(filter(None, (f"{kind}:{name}", prefixes.tag, PASSAGE_VERSION)))
        self.prefixes = prefixes
        self.reads_tokens = loaded.reads_tokens
        self._loaded = loaded
        self._lock = threading.Lock()  # tokenizers aren't thread-safe
        self.dimensions: int = np.asarray(loaded.query("dimensions", "")).shape[-1]

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002 - free
        """Return vectors of memories, shape (n, dimensions), float32; norm 1, or 0 for a blank text.

        Texts of similar length share a run because the model pads all texts of a run to the longest one.
        """
        texts = [clip(format_passage(memory), INPUT_MAX_BYTES) for memory in batch]
        places = sorted((place for place, text in enumerate(texts) if text), key=lambda place: len(texts[place]))
        vectors_by_memory = np.zeros((len(batch), self.dimensions), dtype=np.float32)
        for start in range(0, len(places), BATCH):
            run = places[start : start + BATCH]
            with self._lock:  # a query waits for at most one run
                vectors = self._loaded.documents([texts[place] for place in run], self.prefixes.document)
            vectors_by_memory[run] = normalise_rows(np.asarray(vectors, dtype=np.float32))
        return vectors_by_memory

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002 - as above
        """Return the vector of a query, shape (dimensions,), float32; norm 1, or 0 for a blank query."""
        if not text.strip():
            return np.zeros(self.dimensions, dtype=np.float32)
        with self._lock:
            vector = self._loaded.query(clip(text, INPUT_MAX_BYTES), self.prefixes.query)
        return normalise_rows(np.asarray(vector, dtype=np.float32))


def from_settings(config: Settings) -> LocalModel:
    """Return the configured model.

    Raises:
        Misconfigured: As in `load`.
    """
    return _load_with(config, config.embedder, config.embedder_model, config.embedding_document_prefix)


def open_model(config: Settings, kind: str, tagged: str) -> LocalModel:
    """Return the model of a space, with a document prefix only if the vectors of the space were computed with one.

    Args:
        config: Settings with the query prefix, the document prefix (used if the space has one) and the threads.
        kind: `fastembed` or `sentence-transformers`.
        tagged: The space's model without its passage version.

    Raises:
        Misconfigured: As in `load`.
    """
    name = _TAG.sub("", tagged.removeprefix(f"{kind}:"))
    is_prefixed = _TAG.search(tagged) is not None
    return _load_with(config, kind, name, config.embedding_document_prefix if is_prefixed else "")


def _load_with(config: Settings, kind: str, name: str, document_prefix: str) -> LocalModel:
    return load(
        kind,
        name,
        query_prefix=config.embedding_query_prefix,
        document_prefix=document_prefix,
        threads=config.embedding_threads,
    )


def load(
    kind: str, name: str, *, query_prefix: str = AUTO, document_prefix: str = AUTO, threads: int = 1
) -> LocalModel:
    """Load a model by name or from a folder; a model given by name is downloaded if needed.

    Args:
        kind: `fastembed` or `sentence-transformers`.
        name: The model's name in this package, or the path of a folder with its files.
        query_prefix: Prefix of each query; `AUTO` for the model's own.
        document_prefix: Prefix of each memory; `AUTO` for the model's own.
        threads: Threads per run of the model.

    Raises:
        Misconfigured: The package isn't installed or the model can't be loaded; the message says what to do.
    """
    try:
        loaded = _LOADERS[kind](name, threads)
        prefixes = Prefixes(
            loaded.own.query if query_prefix == AUTO else query_prefix,
            loaded.own.document if document_prefix == AUTO else document_prefix,
        )
        return LocalModel(kind, name, loaded, prefixes)
    except ImportError as error:
        raise Misconfigured(
            f"EBBING_EMBEDDER={kind} needs the package {error.name}, which isn't installed: "
            f"pip install 'ebbing[{kind}]'"
        ) from None
    except Exception as error:
        raise Misconfigured(
            f"the model {name!r} of {kind} can't be loaded ({type(error).__name__}): check EBBING_EMBEDDING_MODEL, and "
            "that it is on disk or can be downloaded"
        ) from error


def _fastembed(name: str, threads: int) -> LoadedModel:
    from fastembed import TextEmbedding  # noqa: PLC0415 - optional

    folder = Path(name)
    is_folder = folder.is_dir()
    if is_folder:
        _register(name, folder)
    options: dict[str, Any] = {"specific_model_path": name} if is_folder else {}
    model = TextEmbedding(model_name=name, threads=threads, **options)

    def documents(texts: Texts, prefix: str) -> Any:
        return np.stack(list(model.passage_embed([prefix + text for text in texts], batch_size=BATCH)))

    def query(text: str, prefix: str) -> Any:
        return next(iter(model.query_embed(prefix + text)))

    truncation = getattr(getattr(model.model, "tokenizer", None), "truncation", None)
    return LoadedModel(documents, query, family_prefixes(name), truncation["max_length"] if truncation else None)


def _register(name: str, folder: Path) -> None:
    """Register a folder with an ONNX model in `fastembed`, under its path.

    Raises:
        FileNotFoundError: The folder contains no model.
    """
    from fastembed import TextEmbedding  # noqa: PLC0415 - optional
    from fastembed.common.model_description import ModelSource, PoolingType  # noqa: PLC0415 - optional

    if any(known["model"].lower() == name.lower() for known in TextEmbedding.list_supported_models()):
        return
    file = next((place for place in MODEL_FILES if (folder / place).is_file()), None)
    if file is None:
        raise FileNotFoundError(MODEL_FILES[0])
    pooling = PoolingType.CLS if _takes_first_token(folder) else PoolingType.MEAN
    TextEmbedding.add_custom_model(
        name,
        pooling=pooling,
        normalization=True,
        sources=ModelSource(hf=name),  # never downloaded: the folder contains the files
        dim=0,  # `LocalModel` determines the dimensions by a run
        model_file=file,
    )


def _takes_first_token(folder: Path) -> bool:
    """Return true if the model pools by its first token, according to the config file of sentence-transformers."""
    file = folder / "1_Pooling" / "config.json"
    if not file.is_file():
        return False
    config = json.loads(file.read_text(encoding="utf-8"))
    return bool(config.get("pooling_mode_cls_token")) or config.get("pooling_mode") == "cls"


def _sentence_transformers(name: str, threads: int) -> LoadedModel:
    import torch  # noqa: PLC0415 - optional
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - optional

    torch.set_num_threads(threads)
    model = SentenceTransformer(name)
    family = family_prefixes(name)
    prompts = {key: prompt for key, prompt in (model.prompts or {}).items() if prompt}
    own = Prefixes(
        prompts.get("query", family.query),
        next((prompts[key] for key in _DOCUMENT_PROMPTS if key in prompts), family.document),
    )

    # An explicit prompt, even an empty one, overrides the model's own.
    def documents(texts: Texts, prefix: str) -> Any:
        return model.encode_document(texts, prompt=prefix, batch_size=BATCH, show_progress_bar=False)

    def query(text: str, prefix: str) -> Any:
        return model.encode_query(text, prompt=prefix, show_progress_bar=False)

    return LoadedModel(documents, query, own, model.max_seq_length)


_LOADERS: Final = {"fastembed": _fastembed, "sentence-transformers": _sentence_transformers}
