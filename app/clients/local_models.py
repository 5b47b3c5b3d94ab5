"""Text to vectors by a model that runs in this process: of `fastembed`, or of `sentence-transformers`.

Both are optional packages, imported when such a model is loaded; a model that isn't on the disk yet they download.
Prefixes that a model wants before passages and queries are theirs to know.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from app.clients.answers import Spent, unnoted
from app.clients.static_embedder import Vectors
from app.domain.embedding import PASSAGE_VERSION, MemoryText, passage, unit
from app.domain.scoring import clip
from app.errors import Misconfigured

INPUT_MAX_BYTES: Final = 24_000
"""What the model is given of a memory; it reads as much of its beginning as it can, mostly 512 tokens."""
BATCH: Final = 32
"""Texts at once: more costs memory for the padding, and no time less."""

Texts = list[str]


class LocalModel:
    """An embedding model in this process; may be used by many threads, one after the other.

    A text that is blank gets the zero vector, which is near nothing.

    Args:
        kind: Whose model it is, a value of the setting `EMBEDDER`.
        name: Its name there.
        of_passages: Makes vectors of texts, in order.
        of_query: Makes the vector of a query.
    """

    normalised = True
    priced_as = None

    def __init__(
        self, kind: str, name: str, of_passages: Callable[[Texts], Any], of_query: Callable[[str], Any]
    ) -> None:
        self.model = f"{kind}:{name}+{PASSAGE_VERSION}"
        self._of_passages = of_passages
        self._of_query = of_query
        self._lock = threading.Lock()  # tokenizers aren't for several threads
        self.dimensions: int = np.asarray(of_query("dimensions")).shape[-1]

    def embed_memories(self, batch: Sequence[MemoryText], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002 - free
        """Vectors of memories, shape (n, dimensions), float32; length 1, or 0 for a blank text."""
        texts = [clip(passage(memory), INPUT_MAX_BYTES) for memory in batch]
        places = [place for place, text in enumerate(texts) if text]
        found = np.zeros((len(batch), self.dimensions), dtype=np.float32)
        if places:
            with self._lock:
                vectors = self._of_passages([texts[place] for place in places])
            found[places] = unit(np.asarray(vectors, dtype=np.float32))
        return found

    def embed_query(self, text: str, idf: Mapping[str, float], spent: Spent = unnoted) -> Vectors:  # noqa: ARG002
        """The vector of a query, shape (dimensions,), float32; length 1, or 0 for a blank one."""
        if not text.strip():
            return np.zeros(self.dimensions, dtype=np.float32)
        with self._lock:
            vector = self._of_query(clip(text, INPUT_MAX_BYTES))
        return unit(np.asarray(vector, dtype=np.float32))


def load(kind: str, name: str) -> LocalModel:
    """The model of this name, downloaded if need be.

    Args:
        kind: `fastembed` or `sentence-transformers`.
        name: The model's name there.

    Raises:
        Misconfigured: The package isn't installed, or the model doesn't load; says what to do.
    """
    try:
        return _LOADERS[kind](name)
    except ImportError as error:
        raise Misconfigured(
            f"EBBING_EMBEDDER={kind} needs a package that isn't there ({error.name}): pip install 'ebbing[{kind}]'"
        ) from None
    except Exception as error:
        raise Misconfigured(
            f"the model {name!r} of {kind} doesn't load ({type(error).__name__}): check EBBING_EMBEDDING_MODEL, and "
            "that it is on the disk or can be downloaded"
        ) from error


def _fastembed(name: str) -> LocalModel:
    from fastembed import TextEmbedding  # noqa: PLC0415 - optional

    model = TextEmbedding(model_name=name)

    def of_passages(texts: Texts) -> Any:
        return np.stack(list(model.passage_embed(texts, batch_size=BATCH)))

    def of_query(text: str) -> Any:
        return next(iter(model.query_embed(text)))

    return LocalModel("fastembed", name, of_passages, of_query)


def _sentence_transformers(name: str) -> LocalModel:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - optional

    model = SentenceTransformer(name)
    of_passages = partial(model.encode_document, batch_size=BATCH, show_progress_bar=False)
    of_query = partial(model.encode_query, show_progress_bar=False)
    return LocalModel("sentence-transformers", name, of_passages, of_query)


_LOADERS: Final = {"fastembed": _fastembed, "sentence-transformers": _sentence_transformers}
