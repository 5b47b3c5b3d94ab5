"""Datasets of evidence recall: conversations, and questions that say which of their memories answer them.

JSON lines, plain or compressed by xz, a conversation a line; other fields may be there and are passed over:

    {"conversation": "allotment",
     "memories":  [{"id": "S1:1", "session": "1", "time": "2025-03-02T10:15:00", "speaker": "Mira", "text": "…"}],
     "questions": [{"id": "q1", "category": "single-hop", "question": "…", "evidence": ["S1:1"]}]}

Memories are in the order of speaking; a session is a thread; `time` without an offset is UTC, and may be the
session's. `evidence` lists ids of memories; a question without any isn't asked.
"""

from __future__ import annotations

import lzma
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

import msgspec

INVENTED: Final = Path(__file__).with_name("invented.jsonl")
"""73 memories and 41 questions, made up for this: small talk, numbers and codes, five languages."""


class Memory(msgspec.Struct, frozen=True):
    """A turn of a conversation, by its id there."""

    id: str
    session: str | int
    time: datetime
    text: str
    speaker: str | None = None

    @property
    def moment(self) -> datetime:
        """When it was said."""
        return self.time if self.time.tzinfo else self.time.replace(tzinfo=UTC)


class Question(msgspec.Struct, frozen=True):
    """A question, and the ids of the memories that answer it."""

    id: str
    category: str
    question: str
    evidence: tuple[str, ...]


class Conversation(msgspec.Struct, frozen=True):
    """What one tenant is told and asked."""

    conversation: str
    memories: tuple[Memory, ...]
    questions: tuple[Question, ...]

    def __post_init__(self) -> None:
        """Refuse ids that stand for two memories or none: they would only show as a lower recall.

        Raises:
            ValueError: There are such.
        """
        known = {memory.id for memory in self.memories}
        if len(known) < len(self.memories):
            raise ValueError(f"conversation {self.conversation!r} has two memories with one id")
        for question in self.questions:
            if missing := set(question.evidence) - known:
                raise ValueError(f"question {question.id!r} names memories that aren't there: {sorted(missing)}")

    def asked(self, most: int | None = None) -> list[Question]:
        """Its questions that have evidence; if more than so many, that many of them, evenly spread."""
        found = [question for question in self.questions if question.evidence]
        if most is None or most >= len(found):
            return found
        return [found[n * len(found) // most] for n in range(most)]


def read(path: Path) -> list[Conversation]:
    """The conversations of a file.

    Raises:
        OSError: It can't be read.
        ValueError: A line isn't a conversation; names the line.
    """
    with _opened(path) as lines:
        return [_conversation(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def counted(conversations: Sequence[Conversation]) -> str:
    """How much there is, for people."""
    memories = sum(len(conversation.memories) for conversation in conversations)
    questions = sum(len(conversation.asked()) for conversation in conversations)
    return f"{len(conversations)} conversations, {memories:,} memories, {questions:,} questions"


def _opened(path: Path) -> IO[bytes]:
    return lzma.open(path) if path.suffix == ".xz" else path.open("rb")


def _conversation(path: Path, number: int, line: bytes) -> Conversation:
    try:
        return msgspec.json.decode(line, type=Conversation)
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"{path}, line {number}: {error}") from error
