"""Ebbing behind the interface of mem0's `Memory`, for applications that were written for mem0.

```python
from ebbing_client.mem0 import Memory

memory = Memory()
memory.add("Ann drinks rooibos", user_id="ann")
memory.search("Which tea does Ann drink?", filters={"user_id": "ann"})
```

`user_id` is the subject of a memory, `run_id` its thread, and `agent_id` the tag `agent:…`. Differences from mem0:

- Texts are stored as they are: no model extracts facts from them, so `infer=True` and `prompt` are refused.
- Filters are equalities; keys other than the ids compare metadata. Scores are comparable only within one search, so
  `threshold` is refused.
- Search results count as used, which postpones their fading.
- `delete` and `delete_all` hide memories at once and erase them after the grace period. `delete_all` needs a key with
  the scope `privacy`.
- Earlier texts of an edited memory aren't retained: `history` has None for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ebbing_client.async_client import AsyncEbbing
from ebbing_client.client import Ebbing
from ebbing_client.errors import NotFound
from ebbing_client.mem0_shapes import (
    ALL_DELETED,
    DELETED,
    UNSET,
    UPDATED,
    AddOptions,
    Day,
    ListOptions,
    Messages,
    SearchOptions,
    check_unbuffered,
    list_arguments,
    list_changes,
    make_bodies,
    make_changes,
    make_erasure,
    search_arguments,
    show_added,
    shown,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

__all__ = ["AsyncMemory", "Memory"]

DEFAULT_WAIT = 5


class Memory:
    """Memories of an Ebbing service, with the interface of mem0's `Memory`.

    Args:
        ebbing: The client; by default a new one, which `close` closes. It must send its writes at once.
        wait: Seconds for which `add` waits until searches find the memories; None doesn't wait.
    """

    def __init__(self, ebbing: Ebbing | None = None, *, wait: int | None = DEFAULT_WAIT) -> None:
        self._is_own = ebbing is None
        self._ebbing = Ebbing() if ebbing is None else ebbing
        self._wait = wait
        check_unbuffered(self._ebbing)

    def add(self, messages: Messages, **options: Unpack[AddOptions]) -> dict[str, Any]:
        """Store a text or messages; each message with text becomes a memory. At least one id is required.

        Args:
            options: See `AddOptions`.

        Returns:
            `{"results": [{"id", "memory", "event": "ADD", "role"}]}`
        """
        bodies = make_bodies(messages, options)
        return show_added(bodies, self._ebbing.add(bodies, wait=self._wait).ids)

    def search(self, query: str, **options: Unpack[SearchOptions]) -> dict[str, Any]:
        """Return the best memories for a query, best first; `filters` need at least one id.

        Returns:
            `{"results": [{"id", "memory", "hash", "metadata", "score", "created_at", "updated_at", …}]}`
        """
        arguments = search_arguments(options)
        return {"results": [shown(hit) for hit in self._ebbing.search(query, **arguments)]}

    def get_all(self, **options: Unpack[ListOptions]) -> dict[str, Any]:
        """Return up to `top_k` memories, newest first; `filters` need at least one id."""
        top_k, filters = list_arguments(options)
        return {"results": [shown(memory) for memory in islice(self._ebbing.memories(**filters), top_k)]}

    def get(self, memory_id: str) -> dict[str, Any] | None:
        """Return a memory, or None if there is none with this id."""
        try:
            return shown(self._ebbing.get(memory_id))
        except NotFound:
            return None

    def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Day | None = UNSET,
        data: str | None = None,
    ) -> dict[str, str]:
        """Change a memory's text, metadata or expiration date; `data` is mem0's former name of `text`."""
        self._ebbing.update(memory_id, **make_changes(text, metadata, expiration_date, data))
        return dict(UPDATED)

    def delete(self, memory_id: str) -> dict[str, str]:
        """Delete a memory."""
        self._ebbing.delete(memory_id)
        return dict(DELETED)

    def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Delete all memories with these ids, of which at least one is required."""
        erasure = make_erasure({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        self._ebbing.call("POST", "/v1/privacy/erasures", json=erasure)
        return dict(ALL_DELETED)

    def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return the changes of a memory's text, oldest first; empty if there is no such memory."""
        try:
            return list_changes(self._ebbing.get(memory_id))
        except NotFound:
            return []

    def close(self) -> None:
        """Close the client, unless it was passed as an argument."""
        if self._is_own:
            self._ebbing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class AsyncMemory:
    """`Memory` for asyncio, with the same methods."""

    def __init__(self, ebbing: AsyncEbbing | None = None, *, wait: int | None = DEFAULT_WAIT) -> None:
        self._is_own = ebbing is None
        self._ebbing = AsyncEbbing() if ebbing is None else ebbing
        self._wait = wait
        check_unbuffered(self._ebbing)

    async def add(self, messages: Messages, **options: Unpack[AddOptions]) -> dict[str, Any]:
        """Store a text or messages; see `Memory.add`."""
        bodies = make_bodies(messages, options)
        return show_added(bodies, (await self._ebbing.add(bodies, wait=self._wait)).ids)

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> dict[str, Any]:
        """Return the best memories for a query; see `Memory.search`."""
        arguments = search_arguments(options)
        return {"results": [shown(hit) for hit in await self._ebbing.search(query, **arguments)]}

    async def get_all(self, **options: Unpack[ListOptions]) -> dict[str, Any]:
        """Return up to `top_k` memories, newest first; see `Memory.get_all`."""
        top_k, filters = list_arguments(options)
        found: list[dict[str, Any]] = []
        if top_k > 0:
            async for memory in self._ebbing.memories(**filters):
                found.append(shown(memory))
                if len(found) >= top_k:
                    break
        return {"results": found}

    async def get(self, memory_id: str) -> dict[str, Any] | None:
        """Return a memory, or None if there is none with this id."""
        try:
            return shown(await self._ebbing.get(memory_id))
        except NotFound:
            return None

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Day | None = UNSET,
        data: str | None = None,
    ) -> dict[str, str]:
        """Change a memory; see `Memory.update`."""
        await self._ebbing.update(memory_id, **make_changes(text, metadata, expiration_date, data))
        return dict(UPDATED)

    async def delete(self, memory_id: str) -> dict[str, str]:
        """Delete a memory."""
        await self._ebbing.delete(memory_id)
        return dict(DELETED)

    async def delete_all(
        self, user_id: str | None = None, agent_id: str | None = None, run_id: str | None = None
    ) -> dict[str, str]:
        """Delete all memories with these ids, of which at least one is required."""
        erasure = make_erasure({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        await self._ebbing.call("POST", "/v1/privacy/erasures", json=erasure)
        return dict(ALL_DELETED)

    async def history(self, memory_id: str) -> list[dict[str, Any]]:
        """Return the changes of a memory's text; see `Memory.history`."""
        try:
            return list_changes(await self._ebbing.get(memory_id))
        except NotFound:
            return []

    async def close(self) -> None:
        """Close the client, unless it was passed as an argument."""
        if self._is_own:
            await self._ebbing.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()
