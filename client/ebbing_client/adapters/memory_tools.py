"""Functions that an agent calls as tools: remember, recall and forget, within the memories of one person."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ebbing_client import operations
from ebbing_client.adapters.steps import Steps, run_async
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.call import encode
from ebbing_client.client import Ebbing
from ebbing_client.errors import Invalid, NotFound

Tool: TypeAlias = Callable[..., Coroutine[Any, Any, str]]

NOTHING: Final = "No memory is relevant."
WAIT_SECONDS: Final = 5


@dataclass(frozen=True)
class MemoryTools:
    """Tools with names, types and docstrings, from which frameworks make descriptions for the model.

    Args:
        client: `AsyncEbbing`, or `Ebbing`, whose calls then run in a thread.
        subject: Person of all memories that the tools read and write. The model can't choose it.
        tags: Tags of the memories that `remember` stores.
        token_budget: Maximum length of what `recall` returns; None uses the tenant's policy.
    """

    client: Ebbing | AsyncEbbing
    subject: str
    tags: Sequence[str] = ()
    token_budget: int | None = None

    @property
    def tools(self) -> list[Tool]:
        """The three functions."""
        return [self.remember, self.recall, self.forget]

    async def remember(self, text: str) -> str:
        """Store a fact about the user or the task for later conversations.

        Args:
            text: One fact, in a sentence that is understandable on its own.
        """
        return await run_async(self.client, self._remember(text))

    async def recall(self, question: str) -> str:
        """Return what earlier conversations say about a question.

        Args:
            question: The question, in plain words.
        """
        return await run_async(self.client, self._recall(question))

    async def forget(self, memory_id: str) -> str:
        """Delete a memory that is wrong or that the user wants to be forgotten.

        Args:
            memory_id: Id of the memory, shown in brackets in the result of `recall`.
        """
        return await run_async(self.client, self._forget(memory_id))

    def _remember(self, text: str) -> Steps[str]:
        body = {"text": text, "subject": self.subject, "role": "assistant", "tags": list(self.tags)}
        try:
            added = yield operations.write(encode(body), operations.new_key(), wait=WAIT_SECONDS)
        except Invalid as error:
            return f"Not stored: {_reason(error)}."
        return f"Stored as [{added.ids[0]}]."

    def _recall(self, question: str) -> Steps[str]:
        try:
            recalled = yield operations.recall(question, subject=self.subject, token_budget=self.token_budget)
        except Invalid as error:
            return f"Not recalled: {_reason(error)}."
        return recalled.text or NOTHING

    def _forget(self, memory_id: str) -> Steps[str]:
        unknown = f"There is no memory [{memory_id}]."
        try:
            memory = yield operations.get(memory_id.strip("[] "))
            if memory.subject != self.subject:
                return unknown
            yield operations.delete(memory.id)
        except (NotFound, Invalid):
            return unknown
        return f"Deleted [{memory.id}]."


def _reason(error: Invalid) -> str:
    """Return the field and the reason for a model, which can then correct its call."""
    return ", ".join(f"{field.field} {field.message}" for field in error.fields) or error.title
