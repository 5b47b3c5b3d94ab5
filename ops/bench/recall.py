"""A running service as a retriever: what an evidence-recall script of one's own needs to index a conversation and ask.

    export EBBING_API_URL=http://127.0.0.1:8000 EBBING_API_KEY=ebb_…
    python recall_script.py --callable ops.bench.recall:factory

The key needs the scope `admin`: every conversation becomes a tenant of its own. `make bench-recall` measures recall
itself; the shape of a conversation is in `ops/recall/dataset.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from app.settings import settings
from ops.recall.dataset import Conversation
from ops.recall.service import Service, Stored


class Retriever:
    """Indexes one conversation after the other, and searches the last."""

    def __init__(self, service: Service) -> None:
        """Ask this service."""
        self._service = service
        self._stored: Stored | None = None

    def index(self, conversation: dict[str, Any]) -> None:
        """Make a tenant of the conversation and wait until all of it is searchable."""
        self._stored = self._service.store(msgspec.convert(conversation, Conversation))

    def search(self, question: dict[str, Any], k: int) -> list[str]:
        """The turns found for a question, best first, by their ids in the conversation."""
        if self._stored is None:
            raise LookupError("there is no conversation yet: index one first")
        return self._stored.search(question["question"], k)


def factory() -> Retriever:
    """A retriever for the service named by the environment."""
    config = settings()
    if config.api_key is None:
        raise ValueError("set EBBING_API_KEY to a key with the scope admin")
    return Retriever(Service(config.api_url or "http://127.0.0.1:8000", config.api_key.get_secret_value()))
