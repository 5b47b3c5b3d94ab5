"""Pydantic AI: `EbbingHistory`, the stored message history of a conversation, and tools for an agent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ebbing_client.adapters.log import Log, NewEntry
from ebbing_client.adapters.memory_tools import MemoryTools
from ebbing_client.adapters.steps import missing_package, run_async
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.client import Ebbing

try:
    from pydantic_ai import Tool
    from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, TextPart, UserPromptPart
except ImportError as error:
    raise missing_package("pydantic-ai-slim", "pydantic-ai") from error


class EbbingHistory:
    """The messages of a conversation: `load` returns them for `message_history`, `append` adds `result.new_messages()`.

    Messages come back unchanged and aren't forgotten. What users and the agent say is found by searches and recalls of
    other conversations; tool calls and their results are left out of them.

    Args:
        session_id: Name of the conversation; the memories' thread. `clear` deletes all memories of the thread.
        client: `AsyncEbbing`, or `Ebbing`, whose calls then run in a thread.
        subject: Person of the conversation, so that erasures of the person delete it.
        tags: Tags of the memories.
        is_kept: Protect the history from forgetting; False lets the tenant's policy forget old messages, which the
            history then lacks.
    """

    def __init__(
        self,
        session_id: str,
        client: Ebbing | AsyncEbbing,
        *,
        subject: str | None = None,
        tags: Sequence[str] = (),
        is_kept: bool = True,
    ) -> None:
        self._client = client
        self._log = Log(session_id, subject, tuple(tags), is_kept)

    async def load(self, limit: int | None = None) -> list[ModelMessage]:
        """Return the latest messages, oldest first; None returns all of them.

        With a limit, the list begins with a user's prompt, so that no result lacks its tool call: it may be shorter.
        """
        entries = await run_async(self._client, self._log.read(limit))
        messages: list[ModelMessage] = ModelMessagesTypeAdapter.validate_python([entry.value for entry in entries])
        if limit is None:
            return messages
        first = next((place for place, message in enumerate(messages) if _is_prompt(message)), len(messages))
        return messages[first:]

    async def append(self, messages: Sequence[ModelMessage]) -> None:
        """Store messages, such as `result.new_messages()`; `load` has them when this returns."""
        values = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
        pairs = zip(messages, values, strict=True)
        entries = [NewEntry(value, _text(message), _role(message)) for message, value in pairs]
        await run_async(self._client, self._log.append(entries))

    async def clear(self) -> None:
        """Delete all messages; they can be restored during the grace period of deletions."""
        await run_async(self._client, self._log.clear())


def memory_tools(
    client: Ebbing | AsyncEbbing, subject: str, *, tags: Sequence[str] = (), token_budget: int | None = None
) -> list[Tool[Any]]:
    """Return the tools `remember`, `recall` and `forget` for `Agent(tools=…)`; see `MemoryTools`."""
    return [Tool(tool, takes_ctx=False) for tool in MemoryTools(client, subject, tuple(tags), token_budget).tools]


def _is_prompt(message: ModelMessage) -> bool:
    return isinstance(message, ModelRequest) and any(isinstance(part, UserPromptPart) for part in message.parts)


def _text(message: ModelMessage) -> str:
    """Return what the user or the agent says in a message; empty for calls, results and thoughts alone."""
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            texts.append(part.content)
        elif isinstance(part, UserPromptPart):
            texts += (
                [part.content] if isinstance(part.content, str) else [c for c in part.content if isinstance(c, str)]
            )
    return "\n".join(texts)


def _role(message: ModelMessage) -> str:
    """Return the role of a message; messages without text have the role `tool`."""
    if not _text(message):
        return "tool"
    return "user" if isinstance(message, ModelRequest) else "assistant"
