"""Probes of summaries: labelled groups of memories with facts that a summary must retain, and traps.

A fact is a regular expression that a good summary matches. A trap is one that no true summary matches: another person's
number, a reversed denial, an outdated value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from app.domain.consolidation.group_types import Form, Source, Summary
from app.domain.consolidation.parameters import Level
from app.domain.consolidation.summary_checks import SourceFacts, check_summary
from app.domain.prompts import Unusable

GROUPS: Final = Path(__file__).parents[2] / "tests" / "consolidation" / "groups.jsonl"
LEVELS: Final[tuple[Level, ...]] = ("light", "medium", "aggressive")
IMPORTANCE: Final = 0.3

Summarise = Callable[[Sequence[Source], Form, Level], Summary]


@dataclass(frozen=True)
class Labelled:
    """A group of related memories with the labels of a good summary.

    Attributes:
        group_id: Its name.
        form: The form of the summary.
        sources: The memories.
        facts: Patterns that the summary must match.
        traps: Patterns that the summary must not match.
    """

    group_id: str
    form: Form
    sources: list[Source]
    facts: list[re.Pattern[str]]
    traps: list[re.Pattern[str]]

    @property
    def characters(self) -> int:
        """Return the number of characters of all memories."""
        return sum(len(source.text) for source in self.sources)


@dataclass(frozen=True)
class Probed:
    """The results for all groups at one level.

    Attributes:
        level: The level of compression.
        by_model: Number of summaries that a model wrote.
        kept: Share of the facts in the summaries, 0 to 1.
        points: Share of the facts in the summaries or their key points.
        length: Characters of the summaries divided by those of the memories.
        unsupported: Number of summaries with an unsupported statement or a trap.
    """

    level: Level
    by_model: int
    kept: float
    points: float
    length: float
    unsupported: int


def labelled(path: Path = GROUPS) -> list[Labelled]:
    """Return the groups of a file."""
    return [_group(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _group(given: dict[str, Any]) -> Labelled:
    sources = [
        Source(
            UUID(int=place + 1),
            each["text"],
            each["speaker"],
            datetime.fromisoformat(each["day"]).replace(tzinfo=UTC).timestamp() + 3600 * 8 + 60 * place,
            IMPORTANCE,
        )
        for place, each in enumerate(given["memories"])
    ]
    facts, traps = ([re.compile(each) for each in given[name]] for name in ("facts", "never"))
    return Labelled(given["id"], given["form"], sources, facts, traps)


def probe(groups: Sequence[Labelled], level: Level, summarise: Summarise) -> Probed:
    """Summarise all groups at a level, and measure the summaries."""
    made = [summarise(group.sources, group.form, level) for group in groups]
    pairs = list(zip(groups, made, strict=True))
    facts = sum(len(group.facts) for group in groups)
    return Probed(
        level,
        sum(summary.method == "llm" for summary in made),
        sum(len(find_facts(group, summary.text)) for group, summary in pairs) / facts,
        sum(len(find_facts(group, "\n".join([summary.text, *summary.key_points]))) for group, summary in pairs) / facts,
        sum(len(summary.text) for summary in made) / sum(group.characters for group in groups),
        sum(bool(wrong(group, summary)) for group, summary in pairs),
    )


def find_facts(group: Labelled, text: str) -> list[str]:
    """Return the facts of a group that a text contains."""
    return [fact.pattern for fact in group.facts if fact.search(text)]


def wrong(group: Labelled, summary: Summary) -> list[str]:
    """Return the traps that a summary matches, and the faults that the checks find."""
    found = [trap.pattern for trap in group.traps if trap.search(summary.text)]
    for part in (summary.text, *summary.key_points):
        try:
            check_summary(part, SourceFacts(group.sources))
        except Unusable as refused:
            found.append(str(refused))
    return found


def table(rows: Sequence[tuple[str, Probed]], groups: int) -> str:
    """Return the rows as a Markdown table."""
    lines = [
        f"| way | level | by a model, of {groups} | key facts kept | with key points | length | unsupported |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {way} | {row.level} | {row.by_model} | {row.kept:.0%} | {row.points:.0%} | {row.length:.0%} "
        f"| {row.unsupported} |"
        for way, row in rows
    ]
    return "\n".join(lines)
