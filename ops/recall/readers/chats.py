"""Chats of one person with an assistant: one JSON file per person, or a folder of such files.

    {"persona": "…", "language": "en",
     "memories":  [{"id": "m1", "thread": "t1", "role": "user", "time": "2026-01-05T08:00:00Z", "text": "…",
                    "matters": 2}],
     "questions": [{"question": "…", "evidence": ["m1"], "kind": "update", "answer": "…", "outdated": []}],
     "recalls":   [{"messages": ["…"], "wanted": ["m1"]}]}

The kind of a question becomes its category. `matters` and `answer` are not used here.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from app.domain.ingest.roles import Role
from ops.recall.dataset import Conversation, Memory, Question, RecallCase
from ops.recall.readers.reader import Reader, first_sign

_START_BYTES: Final = 1024


class _Message(msgspec.Struct, frozen=True):
    id: str
    thread: str
    role: Role
    time: datetime
    text: str


class _Question(msgspec.Struct, frozen=True):
    question: str
    evidence: tuple[str, ...]
    kind: str
    outdated: tuple[str, ...] = ()


class _Chat(msgspec.Struct, frozen=True):
    memories: tuple[_Message, ...]
    questions: tuple[_Question, ...]
    recalls: tuple[RecallCase, ...] = ()


def read(path: Path) -> list[Conversation]:
    """Return the conversations of a file or folder, in the order of the files' names.

    Raises:
        OSError: A file is unreadable.
        ValueError: A file is not a chat; the message names the file.
    """
    return [_conversation(file) for file in _files(path)]


def fits(path: Path) -> bool:
    """Return True if the path, or a file of the folder, ends in .json and begins with an object."""
    return any(_is_object(file) for file in _files(path))


READER: Final = Reader("chats", "a JSON file, or a folder of them, with memories, questions and recalls", fits, read)


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.json")) if path.is_dir() else [path]


def _is_object(path: Path) -> bool:
    with path.open("rb") as file:
        return path.suffix == ".json" and first_sign(file.read(_START_BYTES)) == b"{"


def _conversation(path: Path) -> Conversation:
    try:
        chat = msgspec.json.decode(path.read_bytes(), type=_Chat)
        return Conversation(
            path.stem,
            tuple(Memory(said.id, said.thread, said.time, said.text, role=said.role) for said in chat.memories),
            tuple(
                Question(f"{path.stem}-{number}", asked.kind, asked.question, asked.evidence, asked.outdated)
                for number, asked in enumerate(chat.questions, 1)
            ),
            chat.recalls,
        )
    except (msgspec.DecodeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error
