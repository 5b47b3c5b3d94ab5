"""Arrange memories for rating by a model: turns of a conversation together, with the turns around them as context.

Each call shows a context turn once, even if it surrounds several memories. If the call also rates the turn, the turn is
shown as a memory instead.
Memories and context share the call's token budget, so context never enlarges a call; it leaves room for fewer memories.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from app.domain import prompts

MEMORIES_MAX: Final = 20
"""Maximum number of memories per call; more would lower the quality of the answers."""
TEXT_MAX_BYTES: Final = 12_000
"""Truncation limit for a memory's text in the prompt, about 3,000 tokens."""
TURNS_BEFORE: Final = 2
TURNS_AFTER: Final = 1
"""Number of context turns of a memory: at most three, with `TURN_MAX_CHARACTERS` each."""
TURN_MAX_CHARACTERS: Final = 400
"""Maximum length of a context turn; the beginning and the end of longer turns are shown."""

_MEMORY_TOKENS = 24  # position, id and JSON syntax of a memory's line
_CONTEXT_TOKENS = 10  # number of the conversation and JSON syntax of a context line
_CUT = " … "


@dataclass(frozen=True, slots=True)
class Conversation:
    """Key of a conversation: a thread and a subject. Turns of the thread about other subjects don't belong to it."""

    thread: str
    subject: str | None


@dataclass(frozen=True, slots=True)
class ContextTurn:
    """A turn shown beside a memory of its conversation: its text is from `excerpt`, prefixed with the speaker."""

    memory_id: UUID
    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class UnscoredText:
    """A memory to be rated.

    Attributes:
        text: The memory's text, prefixed with the speaker if known.
        conversation: The memory's conversation; None if it has no thread.
        seq: The memory's place in its thread.
        around: Up to `TURNS_BEFORE` turns before the memory and `TURNS_AFTER` after it, in their order.
    """

    memory_id: UUID
    text: str
    conversation: Conversation | None = None
    seq: int = 0
    around: tuple[ContextTurn, ...] = ()


def excerpt(text: str) -> str:
    """Return the text, or the beginning and the end of a text longer than `TURN_MAX_CHARACTERS`.

    A long turn often ends with its question.
    """
    if len(text) <= TURN_MAX_CHARACTERS:
        return text
    head = (TURN_MAX_CHARACTERS - len(_CUT)) // 2
    tail = TURN_MAX_CHARACTERS - len(_CUT) - head
    return f"{text[:head]}{_CUT}{text[-tail:]}"


def digest_text(memory: UnscoredText) -> bytes:
    """Hash what a model sees of a memory and its context, 32 bytes; equal digests need only one rating."""
    shown = prompts.clip(memory.text, TEXT_MAX_BYTES)
    if memory.around:
        before = [turn.text for turn in memory.around if turn.seq < memory.seq]
        after = [turn.text for turn in memory.around if turn.seq > memory.seq]
        shown = json.dumps([shown, before, after])
    return hashlib.blake2b(shown.encode(), digest_size=32).digest()


def join_conversations(memories: Sequence[UnscoredText]) -> list[UnscoredText]:
    """Return the memories grouped by conversation in the order of their first memories, and sorted by `seq` in each."""
    groups: dict[object, list[UnscoredText]] = {}
    for memory in memories:
        groups.setdefault(memory.conversation or memory.memory_id, []).append(memory)
    return [memory for group in groups.values() for memory in sorted(group, key=lambda each: each.seq)]


def split_batches(
    memories: Sequence[UnscoredText], tokens_max: int, memories_max: int = MEMORIES_MAX
) -> Iterator[list[UnscoredText]]:
    """Split memories, in the order of `join_conversations`, into batches that fit one call each.

    A memory that exceeds the budget, together with its context, forms its own batch.

    Args:
        memories: Any number.
        tokens_max: Token budget for the texts and the context of one call, 1 or more.
        memories_max: Maximum number of memories per call, 1 or more.
    """
    batch: list[UnscoredText] = []
    shown: dict[UUID, int] = {}
    for memory in join_conversations(memories):
        added = shown | _line_tokens(memory, shown)
        if batch and (len(batch) >= memories_max or sum(added.values()) > tokens_max):
            yield batch
            batch, added = [], _line_tokens(memory, {})
        batch.append(memory)
        shown = added
    if batch:
        yield batch


def _line_tokens(memory: UnscoredText, shown: Mapping[UUID, int]) -> dict[UUID, int]:
    """Return the token counts of a memory's line and of its context lines that aren't in `shown`, by memory id."""
    context = {
        turn.memory_id: _CONTEXT_TOKENS + prompts.tokens(turn.text)
        for turn in memory.around
        if turn.memory_id not in shown
    }
    return context | {memory.memory_id: _MEMORY_TOKENS + prompts.tokens(prompts.clip(memory.text, TEXT_MAX_BYTES))}


def list_lines(batch: Sequence[UnscoredText], mark: str) -> list[dict[str, Any]]:
    """Return the lines of a batch as JSON objects: memories with position and id, and context lines with neither.

    Args:
        batch: From `split_batches`, or a part of it in the same order.
        mark: The `delimiter` of the request.
    """
    rated = {memory.memory_id for memory in batch}
    lines: list[dict[str, Any]] = []
    conversations = 0
    runs = groupby(enumerate(batch, start=1), key=lambda each: each[1].conversation or each[1].memory_id)
    for _, run in runs:
        placed: dict[UUID, tuple[int, dict[str, Any]]] = {}
        for position, memory in run:
            placed |= {
                turn.memory_id: (turn.seq, {"context": turn.text})
                for turn in memory.around
                if turn.memory_id not in rated
            }
            shown = prompts.clip(memory.text, TEXT_MAX_BYTES)
            line = {"position": position, "id": prompts.handle(memory.memory_id, mark), "text": shown}
            placed[memory.memory_id] = (memory.seq, line)
        label: dict[str, Any] = {}
        if len(placed) > 1:
            conversations += 1
            label = {"conversation": conversations}
        lines += [label | line for _, line in sorted(placed.values(), key=lambda each: each[0])]
    return lines
