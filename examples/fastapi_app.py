"""Serve a chat endpoint with memory: recall before the reply, store and report uses after it.

    python examples/fastapi_app.py

    curl -s http://127.0.0.1:8080/chat -H 'Content-Type: application/json' \
      -d '{"user": "ann", "conversation": "c1", "messages": [{"role": "user", "content": "My son is six"}]}'
    curl -s -X DELETE http://127.0.0.1:8080/users/ann

The caller sends the conversation's messages, newest last, as to a chat model. Replies come from the functions of
`chat_loop.py`: without a model unless `CHAT_MODEL` is set. While Ebbing is unavailable, the chat continues without
memories.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Annotated, Any, Literal

from fastapi import BackgroundTasks, FastAPI
from granian.constants import Interfaces
from granian.server import Server
from pydantic import BaseModel, Field

from chat_loop import HISTORY_MESSAGES, Memories, Message, choose_reply, take_citations
from ebbing_client import Ebbing, EbbingError

RECALL_SECONDS = 5.0
"""Deadline of a recall: a user waits for the reply."""

log = logging.getLogger(__name__)
app = FastAPI(title="Chat with memory")
ebbing = cache(Ebbing)


class ChatMessage(BaseModel):
    """A message of the conversation."""

    role: Literal["user", "assistant"]
    content: str


class ChatRequest(BaseModel):
    """The conversation of a user; the newest message is last."""

    user: str
    conversation: str
    messages: Annotated[list[ChatMessage], Field(min_length=1)]


@app.post("/chat")
def chat(request: ChatRequest, after_response: BackgroundTasks) -> dict[str, Any]:
    """Return the reply, and the ids of the memories that it used."""
    history: list[Message] = [message.model_dump() for message in request.messages[-HISTORY_MESSAGES:]]
    recalled = recall(request.user, history)
    shown, used = take_citations(choose_reply()(recalled.text, history), recalled.ids)
    said = [history[-1], {"role": "assistant", "content": shown}]
    after_response.add_task(remember, request.user, request.conversation, said, used)
    return {"reply": shown, "memories": used}


@app.delete("/users/{user}", status_code=202)
def erase(user: str) -> dict[str, Any]:
    """Hide the user's memories at once, and erase them after the grace period."""
    erasure = ebbing().forget(user, law="gdpr")
    return {"hidden": erasure.hidden, "erase_after": erasure.erase_after}


def recall(user: str, history: list[Message]) -> Memories:
    """Return the relevant memories, or none while Ebbing is unavailable."""
    try:
        recalled = ebbing().recall(history, subject=user, timeout=RECALL_SECONDS)
        return Memories(recalled.text, recalled.ids)
    except EbbingError as error:
        log.warning("recall failed, replying without memories: %s", type(error).__name__)
        return Memories("", ())


def remember(user: str, conversation: str, said: list[Message], used: list[str]) -> None:
    """Store the question and the reply, and report the used memories."""
    try:
        ebbing().add_messages(said, subject=user, thread=conversation)
        ebbing().observe(used, session=conversation)
    except EbbingError as error:
        log.warning("messages or uses were not stored: %s", type(error).__name__)


if __name__ == "__main__":
    Server("fastapi_app:app", port=int(os.environ.get("PORT", "8080")), interface=Interfaces.ASGI).serve()
