"""Load templates of statements, questions and small talk for the simulated year (`topics.toml`, `chatter.toml`)."""

from __future__ import annotations

from typing import Final, NamedTuple

from app.domain.data_files import read_table


class Topic(NamedTuple):
    """A kind of fact about a person.

    Attributes:
        area: Area of life.
        said: First-person statement templates; `{x}` is the value.
        asked: Question templates for the end of the year; `{who}` is the person.
        values: Possible values of `{x}`.
        changes: True if the value can change within a year.
    """

    area: str
    said: tuple[str, ...]
    asked: tuple[str, ...]
    values: tuple[str, ...]
    changes: bool = False


_TOPICS: Final = read_table(__package__, "topics.toml")
_CHATTER: Final = read_table(__package__, "chatter.toml")

PEOPLE: Final[tuple[str, ...]] = tuple(_TOPICS["people"])
TOPICS: Final = tuple(
    Topic(
        topic["area"], tuple(topic["said"]), tuple(topic["asked"]), tuple(topic["values"]), topic.get("changes", False)
    )
    for topic in _TOPICS["topics"]
)
CHATTER: Final[tuple[str, ...]] = tuple(_CHATTER["templates"])
"""Templates of small talk; `FILLINGS` lists the values for each placeholder."""
FILLINGS: Final[dict[str, tuple[str, ...]]] = {name: tuple(values) for name, values in _CHATTER["fillings"].items()}
