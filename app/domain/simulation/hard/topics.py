"""Load the topics and the chatter of the hard year (`topics_*.toml`, `chatter_*.toml`)."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from app.domain.data_files import read_table
from app.domain.ingest.roles import Role

BREAK: Final = "⏎"
"""Stands for a line break in the data files."""
_CHANGES: Final = "*"


class HardTopic(NamedTuple):
    """A kind of fact about a person.

    Attributes:
        language: ISO 639-1 code of its wordings and questions.
        role: Who states it: the user or the assistant.
        area: `fact`, `preference`, `plan`, `decision` or `constraint`.
        said: Two wordings; if the user states the fact, the second is terse, a note or code. `{x}` is the value.
        asked: Questions for the end of the year; `{who}` is the person.
        values: Possible values of `{x}`.
        changes: True if the value can change within a year.
    """

    language: str
    role: Role
    area: str
    said: tuple[str, ...]
    asked: tuple[str, ...]
    values: tuple[str, ...]
    changes: bool


class Exchange(NamedTuple):
    """Turns of small talk, beginning with the user and alternating with the assistant.

    Attributes:
        language: ISO 639-1 code.
        kind: `phatic`, `passing`, `hearsay`, `request`, `knowledge`, `advice`, `code`, or `mixed` in other languages.
        turns: Templates; `@theme` is a long answer with sentences of `THEMES[language][theme]`.
    """

    language: str
    kind: str
    turns: tuple[str, ...]


def _read(*names: str) -> list[dict[str, Any]]:
    return [read_table(__package__, f"{name}.toml") for name in names]


def _read_topics() -> tuple[HardTopic, ...]:
    tables = _read(
        *(f"topics_{name}" for name in ("daily", "work", "people", "agreed", "german", "romance", "further"))
    )
    return tuple(
        _parse_topic(line, group["language"], group["role"])
        for table in tables
        for group in table["groups"]
        for line in group["topics"].strip().splitlines()
    )


def _parse_topic(line: str, language: str, role: Role) -> HardTopic:
    area, said, asked, values = _split(line.replace(BREAK, "\n"), " | ")
    return HardTopic(
        language=language,
        role=role,
        area=area.removeprefix(_CHANGES),
        said=_split(said, " || "),
        asked=_split(asked, " || "),
        values=_split(values, "; "),
        changes=area.startswith(_CHANGES),
    )


def _split(text: str, separator: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator))


_CHATTER: Final = _read("chatter_daily", "chatter_advice", "chatter_languages")

HARD_TOPICS: Final = _read_topics()
EXCHANGES: Final[tuple[Exchange, ...]] = tuple(
    Exchange(group["language"], group["kind"], _split(line.replace(BREAK, "\n"), ">>"))
    for table in _CHATTER
    for group in table["groups"]
    for line in group["exchanges"].strip().splitlines()
)
FILLINGS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(values) for table in _CHATTER for name, values in table.get("fillings", {}).items()
}
THEMES: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    language: {
        name: tuple(sentence.replace(BREAK, "\n") for sentence in sentences) for name, sentences in themes.items()
    }
    for table in _CHATTER
    for language, themes in table.get("themes", {}).items()
}
"""Sentences of the assistant by language and theme. `opening`, `closing`, `acknowledge` (a user's statement), `prompt`
(for such a statement) and `agree` (a user's consent to a proposal) aren't themes of answers."""
TURNS: Final = frozenset({"opening", "closing", "acknowledge", "prompt", "agree"})
