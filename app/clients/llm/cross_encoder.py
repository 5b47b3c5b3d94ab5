"""Score the relevance of texts to a query with a cross-encoder in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from app.clients.llm.responses import Spent, unnoted
from app.errors import Misconfigured


class CrossEncoder:
    """A cross-encoder in this process; thread-safe, with serialised calls.

    Args:
        name: The model's name.
        ask: Returns the scores of texts for a query.
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


def load_cross_encoder(name: str, threads: int) -> CrossEncoder:
    """Load a model of `fastembed` by name.

    Raises:
        Misconfigured: The package isn't installed or the model can't be loaded; the message says what to do.
    """
    try:
        from fastembed.rerank.cross_encoder import TextCrossEncoder  # noqa: PLC0415 - optional

        return CrossEncoder(name, TextCrossEncoder(model_name=name, threads=threads).rerank)
    except ImportError as error:
        raise Misconfigured(
            f"EBBING_RERANKER=cross-encoder needs the package {error.name}, which isn't installed: "
            "pip install 'ebbing[fastembed]'"
        ) from None
    except Exception as error:
        raise Misconfigured(
            f"the cross-encoder {name!r} can't be loaded ({type(error).__name__}): check EBBING_RERANKER_MODEL, and "
            "that it is on disk or can be downloaded"
        ) from error
