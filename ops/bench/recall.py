"""A running service as a retriever: the interface for a custom evidence-recall script.

    export EBBING_API_URL=http://127.0.0.1:8000 EBBING_API_KEY=ebb_…
    python recall_script.py --callable ops.bench.recall:factory

The key needs the scope `admin`: every conversation becomes a separate tenant. `make bench-recall` measures recall
itself; the format of a conversation is in `ops/recall/dataset.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from app.settings import settings
from ops.recall.dataset import Conversation
from ops.recall.service import Service, Stored


class Retriever:
    """Indexes conversations one after the other, and searches the last one."""

    def __init__(self, service: Service) -> None:
        """Use this service."""
        self._service = service
        self._stored: Stored | None = None

    def index(self, conversation: dict[str, Any]) -> None:
        """Create a tenant for the conversation and wait until all its memories are searchable."""
        self._stored = self._service.store(msgspec.convert(conversation, Conversation))

    def search(self, question: dict[str, Any], k: int) -> list[str]:
        """Return the turns found for a question, best first, by their ids in the conversation."""
        if self._stored is None:
            raise LookupError("there is no conversation yet: index one first")
        return self._stored.search(question["question"], k)


def factory() -> Retriever:
    """Return a retriever for the service that the environment names."""
    config = settings()
    if config.api_key is None:
        raise ValueError("set EBBING_API_KEY to a key with the scope admin")
    return Retriever(Service(config.api_url or "http://127.0.0.1:8000", config.api_key.get_secret_value()))
