"""How well texts serve a query, by a model that reads both together: what a reranker is, and which there are."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib import metadata
from typing import Any, Final, Protocol, cast

from app.clients.llm.answers import Spent, unnoted
from app.errors import Misconfigured
from app.settings import settings

GROUP: Final = "ebbing.rerankers"
KINDS: Final = ("none", "llm", "cross-encoder")


class Reranker(Protocol):
    """A model that scores texts by a query; may be asked by many threads."""

    @property
    def model(self) -> str:
        """Its name, as shown to people."""

    @property
    def priced_as(self) -> str | None:
        """Name of what is paid for, as in the setting `PRICES`; None where calls cost nothing."""

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> Sequence[float]:
        """How well each text serves the query: on any scale, finite, the higher the better.

        Args:
            query: What was searched for.
            texts: Memories, each with its day and its speaker in front where known; at least two.
            spent: Told what each call cost.
        """


class CrossEncoder:
    """A cross-encoder in this process; asked by many threads, it takes one after the other.

    Args:
        name: The model's.
        ask: Makes scores of a query and texts.
    """

    priced_as = None

    def __init__(self, name: str, ask: Callable[[str, Sequence[str]], Iterable[float]]) -> None:
        self.model = f"cross-encoder:{name}"
        self._ask = ask
        self._lock = threading.Lock()  # tokenizers aren't for several threads

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> list[float]:  # noqa: ARG002 - free
        """How well each text serves the query: the model's logits."""
        with self._lock:
            return [float(score) for score in self._ask(query, texts)]


@lru_cache(maxsize=1)
def reranker() -> Reranker | None:
    """The reranker that the settings name, loaded on first use; None where they name none.

    Raises:
        Misconfigured: They name one that can't be; says what to do.
    """
    config = settings()
    if config.reranker == "none":
        return None
    if config.reranker == "llm":
        from app.clients.llm import llm_reranker  # noqa: PLC0415 - half a second and 40 MB that the others spare

        return llm_reranker.from_settings(config)
    if config.reranker == "cross-encoder":
        return _cross_encoder(config.rerank_model, config.embedding_threads)
    return _of_package(config.reranker)


def _cross_encoder(name: str, threads: int) -> CrossEncoder:
    try:
        from fastembed.rerank.cross_encoder import TextCrossEncoder  # noqa: PLC0415 - optional

        return CrossEncoder(name, TextCrossEncoder(model_name=name, threads=threads).rerank)
    except ImportError as error:
        raise Misconfigured(
            f"EBBING_RERANKER=cross-encoder needs a package that isn't there ({error.name}): "
            "pip install 'ebbing[fastembed]'"
        ) from None
    except Exception as error:
        raise Misconfigured(
            f"the cross-encoder {name!r} doesn't load ({type(error).__name__}): check EBBING_RERANKER_MODEL, and that "
            "it is on the disk or can be downloaded"
        ) from error


def _of_package(name: str) -> Reranker:
    """A reranker of one's own: what the entry point names, or what that makes when it is called."""
    entries = {entry.name: entry for entry in metadata.entry_points(group=GROUP)}
    if name not in entries:
        known = ", ".join([*KINDS, *sorted(entries)])
        raise Misconfigured(f"EBBING_RERANKER={name} is no reranker that is here: {known}")
    try:
        given: Any = entries[name].load()
        made = given() if callable(given) else given
    except Exception as error:
        raise Misconfigured(f"the reranker {name!r} ({entries[name].value}) doesn't load: {error!r}") from error
    if not (isinstance(getattr(made, "model", None), str) and callable(getattr(made, "scores", None))):
        raise Misconfigured(f"the reranker {name!r} ({entries[name].value}) needs a `model` and `scores(query, texts)`")
    if not isinstance(getattr(made, "priced_as", 0), str | None):
        raise Misconfigured(f"the reranker {name!r} ({entries[name].value}) needs `priced_as`, a name or None")
    return cast("Reranker", made)
