"""Render sentences of several sources as one text with the speakers' names and, in a narrative, the days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Final

from app.domain.consolidation.group_types import Form
from app.domain.consolidation.sentences import join_sentences
from app.domain.salience.features import is_foreign, tokens_of
from app.domain.text.time_expressions import MONTHS

_LATER: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A sentence of a source.

    Attributes:
        source: Index of the source in chronological order.
        said_at: Seconds since 1970.
    """

    source: int
    text: str
    speaker: str | None
    said_at: float


def render_lines(lines: Sequence[SourceLine], form: Form) -> str:
    """Render sentences in the given order, one line per turn; in a narrative, each day's first line names the day."""
    if form == "narrative":
        return "\n".join(_render_days(lines))
    turns = groupby(lines, key=lambda line: line.speaker)
    return "\n".join(_turn(speaker, [line.text for line in turn]) for speaker, turn in turns)


def day(said_at: float) -> date:
    """Return the UTC date of a moment."""
    return datetime.fromtimestamp(said_at, UTC).date()


def _turn(speaker: str | None, texts: list[str]) -> str:
    return f"{speaker}: {join_sentences(texts)}" if speaker else join_sentences(texts)


def _render_days(lines: Sequence[SourceLine]) -> Iterator[str]:
    """Yield one line per turn. Each day's first line names the day: in words in English text, otherwise as ISO date."""
    is_english = not is_foreign([token for line in lines for token in tokens_of(line.text)])
    previous_day: date | None = None
    for (today, speaker), turn in groupby(lines, key=lambda line: (day(line.said_at), line.speaker)):
        text = join_sentences([line.text for line in turn])
        if today == previous_day:
            yield f"{speaker}: {text}" if speaker else text
            continue
        when = _when(today, previous_day) if is_english else today.isoformat()
        yield f"{when}, {speaker}: {text}" if speaker else f"{when}: {text}"
        previous_day = today


def _when(today: date, before: date | None) -> str:
    """Return a day in English: relative to the previous day if they are at most twelve days apart, otherwise a date."""
    days = (today - before).days if before else 0
    if days == 1:
        return "The next day"
    if 1 < days <= len(_LATER) + 1:
        return f"{_LATER[days - 2].capitalize()} days later"
    year = "" if before and before.year == today.year else f" {today.year}"
    return f"On {today.day} {MONTHS[today.month - 1].capitalize()}{year}"
