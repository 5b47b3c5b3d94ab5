"""Chat in the terminal with an assistant that remembers earlier conversations.

    python examples/chat_loop.py --user ann

For each message, the loop recalls relevant memories, puts them into the system prompt, prints the reply, reports the
memories that the reply used, and stores both messages. If a question recalls nothing, the loop searches for the closest
memories instead. `/forget` deletes the memories that the last reply used, and `/undo` restores them. Ctrl-D ends the
conversation; start the loop again to ask about it.

Without a model, the reply repeats the memories. To use a model, set `CHAT_MODEL` and `OPENAI_API_KEY`; for a server
other than OpenAI's also `OPENAI_BASE_URL`, for example http://127.0.0.1:11434/v1 for Ollama.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import httpx

from ebbing_client import Ebbing, EbbingError

HISTORY_MESSAGES = 20
"""Number of recent messages in the prompt. Older messages reach the prompt again if they are recalled."""
INSTRUCTIONS = "You are a helpful assistant. If a reply uses a memory, append the memory's id in square brackets.\n\n"
CLOSEST = "No memory is clearly relevant. These are the closest:\n"
CITED = re.compile(r"\s*\[([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\]")

Message = dict[str, str]
"""A chat message: `{"role": "user", "content": "Hello"}`."""
Reply = Callable[[str, list[Message]], str]
"""A function that returns the reply to the last message, given the recalled memories as text."""


class Memories(NamedTuple):
    """Memories for the prompt: their text, which is empty if none is relevant, and the ids in that text."""

    text: str
    ids: Sequence[str]


def reply_without_model(memories: str, messages: list[Message]) -> str:
    """Repeat the user's words from the memories, with the ids that a model would append."""
    lines = re.findall(r"^\[(\S+)\] \S+ user: (.+)$", memories, re.MULTILINE)
    if not lines:
        return "No earlier conversation says that." if is_question(messages[-1]) else "I will remember that."
    said = " ".join(f"You told me: {text} [{memory_id}]" for memory_id, text in lines)
    return f"I am not sure. {said}" if memories.startswith(CLOSEST) else said


def reply_by_model(memories: str, messages: list[Message]) -> str:
    """Ask the model for a reply."""
    url = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
    prompt = [{"role": "system", "content": INSTRUCTIONS + memories}, *messages]
    response = httpx.post(
        f"{url}/chat/completions",
        headers={"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '')}"},
        json={"model": os.environ["CHAT_MODEL"], "messages": prompt},
        timeout=120,
    )
    return str(response.raise_for_status().json()["choices"][0]["message"]["content"])


def choose_reply() -> Reply:
    """Return the function for the model in `CHAT_MODEL`, or the one without a model."""
    return reply_by_model if os.environ.get("CHAT_MODEL") else reply_without_model


def take_citations(reply: str, offered: Iterable[str]) -> tuple[str, list[str]]:
    """Return the reply without the ids of memories, and those recalled ids that the reply contained."""
    cited = set(CITED.findall(reply))
    return CITED.sub("", reply), [memory_id for memory_id in offered if memory_id in cited]


def is_question(message: Message) -> bool:
    """Return true if a message ends with a question mark."""
    return message["content"].rstrip().endswith("?")


def find_memories(ebbing: Ebbing, user: str, conversation: str, history: list[Message]) -> Memories:
    """Return the memories relevant to the conversation; for a question without any, the closest ones."""
    recalled = ebbing.recall(history, subject=user)
    if recalled.ids or not is_question(history[-1]):
        return Memories(recalled.text, recalled.ids)
    # The messages of this conversation are in the prompt already.
    closest = ebbing.search(
        history[-1]["content"], limit=3, subject=user, roles=["user"], exclude_thread=conversation, reinforce=False
    )
    lines = [f"[{hit.id}] {hit.created_at:%Y-%m-%d} user: {' '.join(hit.text.split())}" for hit in closest]
    return Memories(CLOSEST + "\n".join(lines), closest.ids) if lines else Memories("", ())


def chat(ebbing: Ebbing, user: str, texts: Iterable[str], reply: Reply) -> Iterator[str]:
    """Yield the reply to each text of the user."""
    conversation = f"chat-{secrets.token_hex(4)}"
    history: list[Message] = []
    used: list[str] = []
    erasures: list[str] = []
    for text in texts:
        if text == "/forget":
            used, erasures = [], [ebbing.delete(memory_id).erasure_id for memory_id in used]
            done = f"Deleted memories: {len(erasures)}. /undo restores them."
            yield done if erasures else "The last reply used no memory, so nothing is deleted."
            continue
        if text == "/undo":
            for erasure_id in erasures:
                ebbing.cancel_erasure(erasure_id)
            yield f"Restored memories: {len(erasures)}." if erasures else "There is nothing to restore."
            erasures = []
            continue
        question = {"role": "user", "content": text}
        history = [*history, question][-HISTORY_MESSAGES:]
        recalled = find_memories(ebbing, user, conversation, history)
        shown, used = take_citations(reply(recalled.text, history), recalled.ids)
        yield shown
        answer = {"role": "assistant", "content": shown}
        ebbing.observe(used, session=conversation)
        ebbing.add_messages([question, answer], subject=user, thread=conversation)
        history.append(answer)


def read_lines() -> Iterator[str]:
    """Yield the lines that the user types, until the input ends."""
    while True:
        try:
            line = input("You: ").strip()
        except EOFError:
            return
        if line:
            yield line


def main() -> None:
    """Chat until the input ends."""
    parser = argparse.ArgumentParser(description="Chat with an assistant that remembers earlier conversations.")
    parser.add_argument("--user", default="ann", help="your application's id of the user")
    user = parser.parse_args().user
    try:
        with Ebbing() as ebbing:
            for shown in chat(ebbing, user, read_lines(), choose_reply()):
                print(f"Assistant: {shown}")
    except EbbingError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
