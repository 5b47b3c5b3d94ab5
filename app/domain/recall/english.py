"""Load the English word lists and patterns of recall from `english.toml`, once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from app.domain.data_files import read_table


@dataclass(frozen=True, slots=True)
class Bridge:
    """An association from trigger words in a message to memories that share no word with the message.

    Attributes:
        asked: Trigger words in the message, in their base form.
        held: Pattern that matches the lower-cased text of a memory.
        markers: Substrings, one of which is in every text that `held` matches.
    """

    asked: frozenset[str]
    held: re.Pattern[str]
    markers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class English:
    """Word lists and compiled patterns; `english.toml` explains them.

    Attributes:
        days: Pattern for a day or month in lower-cased text; the matching group's name is its key in `day_names`.
        day_names: Days and months in the order of their bit flags.
        day_markers: Substrings, one of which is in every text that `days` matches.
    """

    small_talk: frozenset[str]
    worldly: re.Pattern[str]
    asides: re.Pattern[str]
    self: re.Pattern[str]
    own: re.Pattern[str]
    speaker: re.Pattern[str]
    when: re.Pattern[str]
    person: re.Pattern[str]
    refers_back: re.Pattern[str]
    question: re.Pattern[str]
    inverted: re.Pattern[str]
    personal: re.Pattern[str]
    bridges: Mapping[str, Bridge]
    days: re.Pattern[str]
    day_names: tuple[str, ...]
    day_markers: tuple[str, ...]


@lru_cache(maxsize=1)
def english() -> English:
    """Load and compile the lists and patterns; cached."""
    table = read_table(__package__, "english.toml")
    patterns: Mapping[str, str] = table["messages"]
    days: Mapping[str, str] = table["days"]
    bridges: list[Mapping[str, Any]] = table["bridges"]
    auxiliary = patterns["auxiliary"].strip()
    return English(
        small_talk=frozenset(patterns["small_talk"].split()),
        worldly=_pattern(rf"\s*(?:{patterns['worldly']})\b"),
        asides=_pattern(patterns["asides"]),
        self=_pattern(patterns["self"]),
        own=_pattern(patterns["own"]),
        speaker=_pattern(patterns["speaker"]),
        when=_pattern(patterns["when"]),
        person=_pattern(patterns["person"]),
        refers_back=_pattern(patterns["refers_back"]),
        question=_pattern(patterns["question"].replace("{auxiliary}", auxiliary)),
        inverted=_pattern(patterns["inverted"].replace("{auxiliary}", auxiliary)),
        personal=_pattern(patterns["personal"]),
        bridges={
            row["name"]: Bridge(frozenset(row["asked"].split()), _at_word(row["held"]), tuple(row["markers"]))
            for row in bridges
        },
        days=_at_word("(?:" + "|".join(f"(?P<{name}>{written})" for name, written in days.items()) + r")\b"),
        day_names=tuple(days),
        day_markers=tuple(table["markers"]["days"]),
    )


def _pattern(written: str) -> re.Pattern[str]:
    """Compile a case-insensitive pattern, joining its lines."""
    return re.compile(written.replace("\n", ""), re.IGNORECASE)


def _at_word(written: str) -> re.Pattern[str]:
    """Compile a pattern for lower-cased text that matches from the start of a word, joining its lines."""
    return re.compile(r"\b(?:" + written.replace("\n", "") + ")")
