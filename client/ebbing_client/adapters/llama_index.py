"""LlamaIndex: `EbbingMemoryBlock`, a block of long-term memory for its `Memory`."""

from __future__ import annotations

from typing import Any, Final

from ebbing_client import operations
from ebbing_client.adapters.items import cut_text
from ebbing_client.adapters.steps import Steps, missing_package, run_async, write
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.client import Ebbing
from ebbing_client.records import ROLES

try:
    from llama_index.core.base.llms.types import ChatMessage
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemoryBlock
except ImportError as error:
    raise missing_package("llama-index-core", "llama-index") from error

MESSAGES_MAX: Final = 100


class EbbingMemoryBlock(BaseMemoryBlock[str]):
    """A block that stores the messages that leave the short-term memory, and recalls those that matter for the chat.

    The text of a recall is inserted into the prompt; it is empty if nothing is relevant. `token_budget` limits it. When
    LlamaIndex must shorten a block of a `priority` above 0, it drops the text as a whole.
    """

    name: str = Field(default="ebbing", description="The name of the memory block.")
    client: Any = Field(description="`AsyncEbbing`, or `Ebbing`, whose calls then run in a thread.", exclude=True)
    subject: str | None = Field(default=None, description="Person of the memories; None recalls all memories.")
    tags: list[str] = Field(default_factory=list, description="Tags of stored memories; recalls return only these.")
    token_budget: int | None = Field(default=None, description="Maximum length; None uses the tenant's policy.")

    def __init__(self, *, client: Ebbing | AsyncEbbing, **fields: Any) -> None:
        super().__init__(client=client, **fields)

    async def _aget(self, messages: list[ChatMessage] | None = None, **_: Any) -> str:
        """Return the recalled memories as text for the prompt."""
        given = [_convert(message) for message in messages or ()]
        said = [{"role": each["role"], "content": each["text"]} for each in given if each["text"]]
        return await run_async(self.client, self._recall(said[-MESSAGES_MAX:])) if said else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Store messages with text; the session's id is their thread."""
        bodies = []
        for message in messages:
            body = _convert(message)
            session = message.additional_kwargs.get("session_id")
            body |= {"tags": self.tags} | ({"thread": str(session)} if session else {})
            body |= {} if self.subject is None else {"subject": self.subject}
            if body["text"]:
                bodies.append(body)
        await run_async(self.client, write(bodies))

    def _recall(self, messages: list[dict[str, str]]) -> Steps[str]:
        recalled = yield operations.recall(
            messages, subject=self.subject, tags=self.tags, token_budget=self.token_budget
        )
        return str(recalled.text)


def _convert(message: ChatMessage) -> dict[str, Any]:
    """Return a message as the fields of a memory; its text is empty if it has none."""
    role = getattr(message.role, "value", message.role)
    return {"text": cut_text(message.content or ""), "role": ROLES.get(str(role), "assistant")}
