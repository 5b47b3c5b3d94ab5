"""Conversations with questions about them, in the common format of all readers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from app.domain.ingest.roles import Role

INVENTED: Final = Path(__file__).with_name("invented.jsonl")
"""73 invented memories and 41 questions: small talk, numbers and codes, five languages."""


class Memory(msgspec.Struct, frozen=True):
    """One turn of a conversation.

    Attributes:
        id: Its id in the conversation.
        session: The turn's session, which becomes a thread of the service.
        time: Time of the statement; UTC without an offset. May be the session's time.
        speaker: The speaker's name.
        role: The speaker's role in a conversation with an assistant.
    """

    id: str
    session: str | int
    time: datetime
    text: str
    speaker: str | None = None
    role: Role | None = None

    @property
    def moment(self) -> datetime:
        """Return the time of the statement, with an offset."""
        return self.time if self.time.tzinfo else self.time.replace(tzinfo=UTC)


class Question(msgspec.Struct, frozen=True):
    """A question about the conversation.

    Attributes:
        id: Its id in the conversation.
        category: The kind of question.
        evidence: Ids of the memories that answer it; empty for an unanswerable question.
        outdated: Ids of memories with an answer that is no longer true.
    """

    id: str
    category: str
    question: str
    evidence: tuple[str, ...]
    outdated: tuple[str, ...] = ()


class RecallCase(msgspec.Struct, frozen=True):
    """The latest messages of a conversation, and the memories that `POST /v1/recall` should return.

    Attributes:
        messages: The newest last; strings, or objects in the format of the API.
        wanted: Ids of relevant memories; empty if the right answer is none.
    """

    messages: tuple[str | dict[str, Any], ...]
    wanted: tuple[str, ...]


class Conversation(msgspec.Struct, frozen=True):
    """The memories of one tenant, in conversation order, and the questions about them.

    Attributes:
        notes: Changes made by the reader, for people.
    """

    conversation: str
    memories: tuple[Memory, ...]
    questions: tuple[Question, ...]
    recalls: tuple[RecallCase, ...] = ()
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse ambiguous or unknown ids, whose only symptom would be a lower recall.

        Raises:
            ValueError: An id is ambiguous or unknown.
        """
        known = {memory.id for memory in self.memories}
        if len(known) < len(self.memories):
            raise ValueError(f"conversation {self.conversation!r} has two memories with one id")
        for question in self.questions:
            if missing := {*question.evidence, *question.outdated} - known:
                raise ValueError(f"question {question.id!r} names unknown memories: {sorted(missing)}")
        for number, case in enumerate(self.recalls, 1):
            if missing := set(case.wanted) - known:
                raise ValueError(
                    f"conversation {self.conversation!r}, recall {number} names unknown memories: {sorted(missing)}"
                )

    def asked(self, most: int | None = None) -> list[Question]:
        """Return the questions with evidence; if there are more than `most`, an even sample of that size."""
        found = [question for question in self.questions if question.evidence]
        if most is None or most >= len(found):
            return found
        return [found[n * len(found) // most] for n in range(most)]


@dataclass(slots=True)
class Size:
    """Counts of a dataset, updated while it is read."""

    conversations: int = 0
    memories: int = 0
    questions: int = 0

    def add(self, conversation: Conversation) -> None:
        """Count a conversation and its questions with evidence."""
        self.conversations += 1
        self.memories += len(conversation.memories)
        self.questions += len(conversation.asked())

    def __str__(self) -> str:
        return f"{self.conversations:,} conversations, {self.memories:,} memories, {self.questions:,} questions"
