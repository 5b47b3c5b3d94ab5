"""The sample that `ebbing demo` ingests: one year of an invented team, and questions about it.

Everything in it is made up. Each line of `memories.jsonl` is one memory as a client would send it.
`metadata.key` names the line; `metadata.repeats` points from a memory to the earlier one it says
again in other words, `metadata.updates` to the earlier one it settles or supersedes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["Question", "memories", "questions"]


@dataclass(frozen=True)
class Question:
    """Something a colleague asks a year later, and the keys of the memories that answer it."""

    query: str
    expected: tuple[str, ...]
    note: str


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def memories() -> list[dict[str, object]]:
    """All sample memories, oldest first."""
    # Split on "\n" alone: str.splitlines also breaks at characters that JSON allows inside a string.
    return [json.loads(line) for line in _read("memories.jsonl").split("\n") if line]


def questions() -> list[Question]:
    """All sample questions; `expected` holds `metadata.key` values of the memories."""
    return [
        Question(query=entry["query"], expected=tuple(entry["expected"]), note=entry["note"])
        for entry in json.loads(_read("questions.json"))
    ]
