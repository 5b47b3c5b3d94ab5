"""OpenAI Agents SDK: `EbbingSession`, a session whose items are memories, and tools for an agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ebbing_client.adapters import items as item_texts
from ebbing_client.adapters.log import Log, NewEntry
from ebbing_client.adapters.memory_tools import MemoryTools
from ebbing_client.adapters.steps import missing_package, run_async
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.client import Ebbing

try:
    from agents import FunctionTool, SessionSettings, function_tool
    from agents.items import TResponseInputItem
    from agents.memory.session_settings import resolve_session_limit
except ImportError as error:
    raise missing_package("openai-agents", "openai-agents") from error

_ROLES: Final = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}


class EbbingSession:
    """The history of a conversation: an exact, ordered list of items, each of which is also a memory.

    What users and assistants say is found by searches and recalls of other conversations; tool calls, their results and
    reasoning are left out of them. Entries aren't forgotten, and items of any size are stored.

    Args:
        session_id: Name of the conversation; the memories' thread. `clear_session` deletes all memories of the thread.
        client: `AsyncEbbing`, or `Ebbing`, whose calls then run in a thread.
        subject: Person of the conversation, so that erasures of the person delete it.
        tags: Tags of the memories.
        session_settings: The SDK's settings; `limit` is the number of items that `get_items` returns by default.
        is_kept: Protect the history from forgetting; False lets the tenant's policy forget old items, which the
            history then lacks.
    """

    def __init__(
        self,
        session_id: str,
        client: Ebbing | AsyncEbbing,
        *,
        subject: str | None = None,
        tags: Sequence[str] = (),
        session_settings: SessionSettings | None = None,
        is_kept: bool = True,
    ) -> None:
        self.session_id = session_id
        self.session_settings = session_settings
        self._client = client
        self._log = Log(session_id, subject, tuple(tags), is_kept)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the latest items, oldest first; without a limit, as many as the settings' limit, or all."""
        most = resolve_session_limit(limit, self.session_settings)
        return [entry.value for entry in await run_async(self._client, self._log.read(most))]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items; `get_items` has them when this returns."""
        entries = [NewEntry(item, _text(item), _role(item)) for item in items]
        await run_async(self._client, self._log.append(entries))

    async def pop_item(self) -> TResponseInputItem | None:
        """Delete the latest item and return it; None if there is none."""
        entry = await run_async(self._client, self._log.pop())
        return None if entry is None else entry.value

    async def clear_session(self) -> None:
        """Delete all items; they can be restored during the grace period of deletions."""
        await run_async(self._client, self._log.clear())


def memory_tools(
    client: Ebbing | AsyncEbbing, subject: str, *, tags: Sequence[str] = (), token_budget: int | None = None
) -> list[FunctionTool]:
    """Return the tools `remember`, `recall` and `forget` for `Agent(tools=…)`; see `MemoryTools`."""
    return [function_tool(tool) for tool in MemoryTools(client, subject, tuple(tags), token_budget).tools]


def _role(item: Mapping[str, Any]) -> str:
    """Return the role of a message; calls, results and reasoning have the role of tools."""
    return _ROLES.get(str(item.get("role")), "tool")


def _text(item: Mapping[str, Any]) -> str:
    """Return the words of a message, or the name and arguments or the output of a call; empty for anything else."""
    if "role" in item:
        content = item.get("content")
        if isinstance(content, str):
            return content
        parts = [part for part in content or () if isinstance(part, Mapping)]
        return "\n".join(str(part["text"]) for part in parts if isinstance(part.get("text"), str))
    if "output" in item:
        return item_texts.read_words(item["output"])
    return f"{item['name']} {item.get('arguments', '')}" if "name" in item else ""
