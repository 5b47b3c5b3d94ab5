"""Labelled memories: conversations with questions, chats with labels, and the texts in `tests/salience`.

Each group comes with terse copies of its short memories, in a group of its own.
"""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from app.domain.salience.criteria import ScoringEvidence, Turn
from app.domain.salience.features import Floats
from app.domain.salience.keep_features import TURNS_BEFORE
from app.domain.salience.rules import judge, measure_features
from ops.recall.dataset import Conversation, Memory
from ops.recall.readers.choice import choose
from ops.salience.terse_copies import write_tersely

PARALLEL: Final = Path(__file__).parents[2] / "tests" / "salience" / "parallel.toml"
LABELLED: Final = Path(__file__).parents[2] / "tests" / "salience" / "labelled.jsonl"
NO, YES, BETWEEN = 0, 1, -1
"""Labels: doesn't matter, matters, and neither, which is left out."""
_SEED: Final = 1
_MATTERS, _HARDLY = 0.3, 0.15
_MARK = re.compile(r"\s*->->[\s\d,]*$")
"""Numbering that BEAM's authors left at the end of messages; no service ever receives one."""


@dataclass(frozen=True)
class Group:
    """The memories of one conversation, or a part of the labelled texts.

    Attributes:
        dataset: Name of the dataset's file or folder.
        name: The conversation's name.
        roles: The speakers' roles; empty for an unknown role.
        labels: `NO`, `YES` or `BETWEEN` for each memory, shape (n,).
        features: The features of the keep chance, shape (n, k).
        salience: The salience of the rules, shape (n,).
        form: `terse` for the terse copies of a plain group.
    """

    dataset: str
    name: str
    roles: tuple[str, ...]
    labels: npt.NDArray[np.int8]
    features: Floats
    salience: Floats
    form: Literal["plain", "terse"] = "plain"

    def select(self, rows: npt.NDArray[np.bool_]) -> Group:
        """Return these memories only."""
        roles = tuple(role for role, row in zip(self.roles, rows.tolist(), strict=True) if row)
        return replace(
            self, roles=roles, labels=self.labels[rows], features=self.features[rows], salience=self.salience[rows]
        )


class Pair(NamedTuple):
    """A group and its terse copies."""

    plain: Group
    terse: Group


def read_conversations(path: Path) -> Iterator[Pair]:
    """Yield the conversations of a dataset in any format of `ops.recall`.

    A chat whose memories have the field `matters` is labelled by it: 0 doesn't matter, 2 and 3 do. In other
    conversations, the evidence of any question matters.
    """
    reader = choose(path)
    for conversation in reader.read(path):
        marks = _read_marks(path, conversation) if reader.name == "chats" else {}
        yield _group(path.name.split(".")[0], conversation, marks)


def read_labelled(half: str) -> Pair:
    """Return one half of the texts labelled with criteria: from 0.3 a salience matters, below 0.15 it doesn't."""
    items = [msgspec.json.decode(line) for line in LABELLED.read_bytes().splitlines()]
    chosen = [item for item in items if item["half"] == half]
    evidence = [ScoringEvidence(item["text"], item.get("speaker")) for item in chosen]
    rated = [sum(item[name] for name in ("emotional", "novelty", "actionable", "personal")) / 40 for item in chosen]
    labels = [YES if value >= _MATTERS else NO if value < _HARDLY else BETWEEN for value in rated]
    return _measured("labelled", half, evidence, labels)


def read_parallel() -> dict[str, Floats]:
    """Return the features of the statements of `tests/salience/parallel.toml`, by language, in one order."""
    statements: list[dict[str, str]] = tomllib.loads(PARALLEL.read_text(encoding="utf-8"))["statement"]
    return {
        language: measure_features([ScoringEvidence(each[language], role="user") for each in statements])
        for language in statements[0]
    }


def list_evidence(memories: Sequence[Memory]) -> list[ScoringEvidence]:
    """Return the inputs of the rules for a conversation, as the service reads them: with the turns before."""
    threads: dict[str | int, list[Turn]] = defaultdict(list)
    evidence = []
    for memory in memories:
        turns = threads[memory.session]
        text = _MARK.sub("", memory.text)
        before = tuple(reversed(turns[-TURNS_BEFORE:]))
        evidence.append(ScoringEvidence(text, memory.speaker, role=memory.role, before=before))
        turns.append(Turn(text, memory.speaker, memory.role))
    return evidence


def _group(dataset: str, conversation: Conversation, marks: Mapping[str, int]) -> Pair:
    if marks:
        labels = [
            NO if marks[each.id] == 0 else YES if marks[each.id] >= 2 else BETWEEN for each in conversation.memories
        ]
    else:
        wanted = {memory_id for question in conversation.questions for memory_id in question.evidence}
        labels = [YES if memory.id in wanted else NO for memory in conversation.memories]
    return _measured(dataset, conversation.conversation, list_evidence(conversation.memories), labels)


def _read_marks(path: Path, conversation: Conversation) -> dict[str, int]:
    file = path / f"{conversation.conversation}.json" if path.is_dir() else path
    memories: list[dict[str, Any]] = msgspec.json.decode(file.read_bytes())["memories"]
    return {memory["id"]: memory["matters"] for memory in memories if "matters" in memory}


def _measured(dataset: str, name: str, evidence: Sequence[ScoringEvidence], labels: Sequence[int]) -> Pair:
    random = np.random.default_rng(_SEED)
    copies = [
        (replace(each, text=terse), label)
        for each, label in zip(evidence, labels, strict=True)
        if (terse := write_tersely(each.text, random)) is not None
    ]
    return Pair(
        _build_group(dataset, name, evidence, labels),
        replace(
            _build_group(dataset, name, [each for each, _ in copies], [label for _, label in copies]), form="terse"
        ),
    )


def _build_group(dataset: str, name: str, evidence: Sequence[ScoringEvidence], labels: Iterable[int]) -> Group:
    return Group(
        dataset,
        name,
        tuple(each.role or "" for each in evidence),
        np.array(list(labels), dtype=np.int8),
        measure_features(evidence),
        np.array([judgement.salience for judgement in judge(evidence)]),
    )
