"""Strands Agents: `EbbingMemoryStore`, a store for its `MemoryManager`."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ebbing_client import operations
from ebbing_client.adapters.items import cut_text, make_external_id
from ebbing_client.adapters.steps import Steps, missing_package, run_async, write
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.client import Ebbing
from ebbing_client.results import Hit

try:
    from strands.memory.extraction.types import ExtractionConfig
    from strands.memory.types import AddMessagesContext, MemoryEntry, SearchOptions
    from strands.types.content import Message
except ImportError as error:
    raise missing_package("strands-agents", "strands") from error

NAME: Final = "strands"
QUERY_MAX_CHARACTERS: Final = 32_768
RESULTS_MAX: Final = 100


class EbbingMemoryStore:
    """A memory store for Strands: what an agent adds, and the messages of its conversations.

    A repeated write of the same fact, or of the same batch of messages, changes nothing.

    Args:
        client: `AsyncEbbing`, or `Ebbing`, whose calls then run in a thread.
        subject: Person of all memories that the store reads and writes.
        name: Name of the store in tools, and part of the memories' tag.
        description: Description of the store for the model.
        max_search_results: Maximum number of results, 1 to 100, unless a search asks for another number.
        writable: False for a store that an agent may only search.
        extraction: Strands' setting for storing messages; True stores them every few turns, without a model.
        thread: The conversation of the stored messages.
    """

    def __init__(
        self,
        client: Ebbing | AsyncEbbing,
        subject: str,
        *,
        name: str = "ebbing",
        description: str | None = "Long-term memory about the user and earlier conversations",
        max_search_results: int | None = None,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
        thread: str | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction = extraction
        self._client = client
        self._shared: dict[str, Any] = {"subject": subject, "tags": [f"{NAME}:{name}"]}
        self._thread = {} if thread is None else {"thread": thread}
        self._run = secrets.token_hex(16)

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the best memories for a query, best first."""
        limit = (options or {}).get("max_search_results") or self.max_search_results or 10
        if not query.strip():
            return []
        return await run_async(self._client, self._search(query[:QUERY_MAX_CHARACTERS], min(limit, RESULTS_MAX)))

    async def add(self, content: str, metadata: Mapping[str, Any] | None = None) -> str:
        """Store a fact and return the memory's id; searches find it when this returns."""
        name = (self._shared["subject"], self.name, _digest(content))
        body = {**self._shared, "text": content, "role": "assistant", "metadata": {"custom": dict(metadata or {})}}
        [memory_id] = await run_async(self._client, write([{**body, "external_id": _external_id(name)}]))
        return memory_id

    async def add_messages(self, messages: Sequence[Message], context: AddMessagesContext | None = None) -> list[str]:
        """Store messages with text and return the memories' ids."""
        numbers = context.sequence_numbers if context else None
        bodies = []
        for place, message in enumerate(messages):
            text = cut_text("\n".join(block["text"] for block in message["content"] if block.get("text")))
            if not text:
                continue
            body = {**self._shared, **self._thread, "text": text, "role": message["role"]}
            if numbers is not None:
                # Strands numbers messages from 0 in each run of an agent: the text's digest distinguishes these runs.
                body["external_id"] = _external_id((self._run, str(numbers[place]), _digest(text)))
            bodies.append(body)
        return await run_async(self._client, write(bodies))

    def _search(self, query: str, limit: int) -> Steps[list[MemoryEntry]]:
        results = yield operations.search(query, limit=limit, **self._shared)
        return [_entry(hit) for hit in results]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _external_id(parts: Sequence[str]) -> str:
    return make_external_id(NAME, parts, "subject")


def _entry(hit: Hit) -> MemoryEntry:
    at = hit.occurred_at or hit.created_at
    own = {"id": hit.id, "score": hit.score, "role": hit.role, "at": None if at is None else at.isoformat()}
    return MemoryEntry(content=hit.text, metadata={**dict(hit.metadata.get("custom") or {}), **own})
