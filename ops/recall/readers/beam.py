"""BEAM: one folder per chat, with `chat.json` and `probing_questions/probing_questions.json`.

A chat is a list of batches; a batch has groups of turns and, on its first turn, a date ("March-15-2024"). Every turn
becomes a memory, every batch a session. Questions are grouped by type, which becomes their category. The evidence,
`source_chat_ids`, is a list of turn ids, a list of such lists, or an object of lists ("first_statement",
"updated_info"): all contained ids count. A question without ids (all of the type "abstention", a few others) has no
evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from app.domain.ingest.roles import Role
from ops.recall.dataset import Conversation, Memory, Question
from ops.recall.readers.reader import Reader
from ops.recall.readers.texts import changes, storable

CHAT: Final = "chat.json"
QUESTIONS: Final = Path("probing_questions", "probing_questions.json")


class _Turn(msgspec.Struct, frozen=True):
    id: int
    role: Role
    content: str
    time_anchor: str | None = None


class _Batch(msgspec.Struct, frozen=True):
    batch_number: int
    turns: tuple[tuple[_Turn, ...], ...]


class _Question(msgspec.Struct, frozen=True):
    question: str
    source_chat_ids: Any = None


def read(path: Path) -> Iterator[Conversation]:
    """Yield the conversations of a folder of chats, or of one chat's folder, in the order of their numbers.

    Raises:
        OSError: A file is unreadable.
        ValueError: A file has another format; the message names the file.
    """
    for folder in _folders(path):
        yield _conversation(folder)


def fits(path: Path) -> bool:
    """Return True if the folder, or a folder in it, contains a chat."""
    return bool(_folders(path))


READER: Final = Reader("beam", "BEAM's folder of chats, such as chats/100K", fits, read)


def turn_ids(sources: object) -> list[str]:
    """Return the turn ids in a value of `source_chat_ids`, each once, in order of appearance."""
    return list(dict.fromkeys(_flat(sources)))


def _flat(sources: object) -> Iterator[str]:
    if isinstance(sources, Mapping):
        sources = list(sources.values())
    if isinstance(sources, list):
        for source in sources:
            yield from _flat(source)
    elif sources is not None:
        yield str(sources)


def _folders(path: Path) -> list[Path]:
    """Return the folders of chats, sorted numerically if their names are numbers (2 before 10)."""
    if (path / CHAT).is_file():
        return [path]
    found = [file.parent for file in path.glob(f"*/{CHAT}")]
    return sorted(found, key=lambda folder: (folder.name.zfill(9), folder.name))


def _conversation(folder: Path) -> Conversation:
    batches = _decoded(folder / CHAT, list[_Batch])
    asked = _decoded(folder / QUESTIONS, dict[str, list[_Question]])
    memories = [memory for batch in batches for memory in _memories(folder / CHAT, batch)]
    written = {str(turn.id): turn.content for batch in batches for group in batch.turns for turn in group}
    ids = {memory.id for memory in memories}
    unknown = sum(
        source not in ids for each in asked.values() for one in each for source in turn_ids(one.source_chat_ids)
    )
    questions = tuple(
        Question(
            f"{folder.name}-{kind}-{number}",
            kind,
            one.question,
            tuple(source for source in turn_ids(one.source_chat_ids) if source in ids),
        )
        for kind, each in asked.items()
        for number, one in enumerate(each, 1)
    )
    cut = sum(len(memory.text) < len(written[memory.id]) for memory in memories)
    notes = changes(cut, len(written) - len(memories), unknown)
    try:
        return Conversation(folder.name, tuple(memories), questions, notes=notes)
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error


def _memories(path: Path, batch: _Batch) -> Iterator[Memory]:
    turns = [turn for group in batch.turns for turn in group]
    anchor = next((turn.time_anchor for turn in turns if turn.time_anchor), None)
    if anchor is None:
        raise ValueError(f"{path}, batch {batch.batch_number}: no turn has a time_anchor")
    day = _day(path, anchor)
    for turn in turns:
        if turn.content.strip():
            yield Memory(str(turn.id), batch.batch_number, day, storable(turn.content), role=turn.role)


def _day(path: Path, anchor: str) -> datetime:
    try:
        return datetime.strptime(anchor, "%B-%d-%Y").replace(tzinfo=UTC)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _decoded(path: Path, shape: type[Any]) -> Any:
    try:
        return msgspec.json.decode(path.read_bytes(), type=shape, strict=False)
    except msgspec.DecodeError as error:
        raise ValueError(f"{path}: {error}") from error
