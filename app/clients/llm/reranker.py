"""Define rerankers, models that read query and text together, and select the configured one."""

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
    """A model that scores texts for a query; thread-safe."""

    @property
    def model(self) -> str:
        """Display name of the model."""

    @property
    def priced_as(self) -> str | None:
        """Name in the setting `PRICES`; None if calls are free."""

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> Sequence[float]:
        """Return how well each text serves the query: finite numbers on any scale, higher is better.

        Args:
            texts: At least two memories, each prefixed with its day and speaker if known.
            spent: Receives each call's cost.
        """


class CrossEncoder:
    """A cross-encoder in this process; thread-safe, with serialised calls.

    Args:
        name: The model's name.
        ask: Scores a query and texts.
    """

    priced_as = None

    def __init__(self, name: str, ask: Callable[[str, Sequence[str]], Iterable[float]]) -> None:
        self.model = f"cross-encoder:{name}"
        self._ask = ask
        self._lock = threading.Lock()  # tokenizers aren't thread-safe

    def scores(self, query: str, texts: Sequence[str], spent: Spent = unnoted) -> list[float]:  # noqa: ARG002 - free
        """Return the model's logits."""
        with self._lock:
            return [float(score) for score in self._ask(query, texts)]


@lru_cache(maxsize=1)
def reranker() -> Reranker | None:
    """Return the configured reranker, loaded on first use; None if none is configured.

    Raises:
        Misconfigured: The configured reranker can't be loaded; the message says what to do.
    """
    config = settings()
    if config.reranker == "none":
        return None
    if config.reranker == "llm":
        from app.clients.llm import llm_reranker  # noqa: PLC0415 - saves the other rerankers half a second and 40 MB

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
    """Load a custom reranker from its entry point, calling it first if it is callable."""
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
