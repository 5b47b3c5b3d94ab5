"""LongMemEval: a JSON array of instances, each with a separate history and one question about it.

    [{"question_id": "e47becba", "question_type": "single-session-user", "question": "…", "answer": "…",
      "question_date": "2023/05/30 (Tue) 23:40", "haystack_dates": ["2023/05/20 (Sat) 02:21"],
      "haystack_session_ids": ["answer_280352e9"], "answer_session_ids": ["answer_280352e9"],
      "haystack_sessions": [[{"role": "user", "content": "…", "has_answer": true}]]}]

An instance becomes a conversation with a separate tenant. The evidence is the turns with `has_answer`; if no turn has
it, all turns of the answer sessions. An abstention question (its id ends in `_abs`) has no evidence. Instances are read
one at a time: the file with the largest histories has gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import ijson
import msgspec

from app.domain.ingest.roles import Role
from ops.recall.dataset import Conversation, Memory, Question
from ops.recall.readers.reader import Reader, first_sign
from ops.recall.readers.texts import changes, storable

ABSTENTION: Final = "_abs"
_START_BYTES: Final = 1024
# The day of the week is ignored: its name depends on the locale.
_DATE: Final = re.compile(r"(\d{4}/\d{2}/\d{2})(?: \(\w+\))?(?: (\d{2}:\d{2}))?")


class _Turn(msgspec.Struct, frozen=True):
    role: Role
    content: str
    has_answer: bool = False


class _Instance(msgspec.Struct, frozen=True):
    question_id: str
    question_type: str
    question: str
    haystack_session_ids: tuple[str, ...]
    haystack_dates: tuple[str, ...]
    haystack_sessions: tuple[tuple[_Turn, ...], ...]
    answer_session_ids: tuple[str, ...] = ()


def read(path: Path) -> Iterator[Conversation]:
    """Yield the instances of a file as conversations.

    Raises:
        OSError: The file is unreadable.
        ValueError: The file is not a JSON array, or an instance has another format; the message names the instance.
    """
    done = 0
    try:
        with path.open("rb") as file:
            for item in ijson.items(file, "item", use_float=True):
                yield _conversation(item)
                done += 1
    except (ijson.JSONError, msgspec.ValidationError, ValueError) as error:
        raise ValueError(f"{path}, instance {done + 1}: {error}") from error


def fits(path: Path) -> bool:
    """Return True for a file that begins with an array."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return first_sign(file.read(_START_BYTES)) == b"["


READER: Final = Reader("longmemeval", "LongMemEval's JSON array of instances (oracle, S, M)", fits, read)


def _conversation(item: Any) -> Conversation:
    one = msgspec.convert(item, _Instance)
    sessions = zip(one.haystack_session_ids, one.haystack_dates, one.haystack_sessions, strict=True)
    # A session may occur twice in a history, so its id combines its place and its name.
    dated = [(_moment(date), place, name, turns) for place, (name, date, turns) in enumerate(sessions)]
    memories: list[Memory] = []
    marked: list[str] = []
    of_answer: list[str] = []
    cut = blank = 0
    for moment, place, name, turns in sorted(dated, key=lambda session: session[:2]):
        for number, turn in enumerate(turns):
            if not turn.content.strip():
                blank += 1
                continue
            memory = Memory(f"{place}:{number}", f"{place} {name}", moment, storable(turn.content), role=turn.role)
            memories.append(memory)
            cut += len(memory.text) < len(turn.content)
            if turn.has_answer:
                marked.append(memory.id)
            if name in one.answer_session_ids:
                of_answer.append(memory.id)
    evidence = () if one.question_id.endswith(ABSTENTION) else tuple(marked or of_answer)
    question = Question(one.question_id, one.question_type, one.question, evidence)
    return Conversation(one.question_id, tuple(memories), (question,), notes=changes(cut, blank))


def _moment(text: str) -> datetime:
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"not a date like 2023/05/20 (Sat) 02:21: {text!r}")
    return datetime.strptime(f"{found[1]} {found[2] or '00:00'}", "%Y/%m/%d %H:%M").replace(tzinfo=UTC)
