"""Load the sample that `ebbing demo` ingests: one year of memories of a fictional team, and questions about them.

Each line of `memories.jsonl` is one memory as a client would send it. `metadata.key` identifies the line,
`metadata.repeats` refers to the earlier memory that it paraphrases, and `metadata.updates` to the earlier one that it
settles or supersedes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files

__all__ = ["SampleQuestion", "load_memories", "load_questions"]


@dataclass(frozen=True)
class SampleQuestion:
    """A question that a colleague asks a year later, and the keys of the memories that answer it."""

    query: str
    expected: tuple[str, ...]
    note: str


def _read(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")


def load_memories() -> list[dict[str, object]]:
    """Return all sample memories, oldest first."""
    # Split only on "\n": `str.splitlines` also splits at characters that JSON allows inside a string.
    return [json.loads(line) for line in _read("memories.jsonl").split("\n") if line]


def load_questions() -> list[SampleQuestion]:
    """Return all sample questions; `expected` contains `metadata.key` values of memories."""
    return [
        SampleQuestion(query=entry["query"], expected=tuple(entry["expected"]), note=entry["note"])
        for entry in json.loads(_read("questions.json"))
    ]
