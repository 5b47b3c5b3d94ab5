"""What summaries keep of labelled groups of memories: each group names facts that must survive, and traps.

A fact is a regular expression that a good summary matches, a trap one that no true summary does: another's number, a
denial turned round, a value that no longer holds.
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

from app.domain.consolidation.checking import Known, Refused, check
from app.domain.consolidation.parameters import Level
from app.domain.consolidation.records import Form, Source, Summary

GROUPS: Final = Path(__file__).parents[2] / "tests" / "consolidation" / "groups.jsonl"
LEVELS: Final[tuple[Level, ...]] = ("light", "medium", "aggressive")
IMPORTANCE: Final = 0.3

Summarise = Callable[[Sequence[Source], Form, Level], Summary]


@dataclass(frozen=True)
class Labelled:
    """Memories that belong together, and what is known of a good summary of them.

    Attributes:
        group_id: Its name.
        form: What the summary is to be.
        sources: The memories.
        facts: What it must match.
        traps: What it must not match.
    """

    group_id: str
    form: Form
    sources: list[Source]
    facts: list[re.Pattern[str]]
    traps: list[re.Pattern[str]]

    @property
    def characters(self) -> int:
        """Of all memories."""
        return sum(len(source.text) for source in self.sources)


@dataclass(frozen=True)
class Probed:
    """What became of all groups at a level.

    Attributes:
        level: How much shorter they were to be.
        by_model: Summaries that a model wrote.
        kept: Share of the facts that are in the summaries, 0 to 1.
        points: The same for their key points and them together.
        length: Characters of the summaries by those of the memories.
        unsupported: Summaries that say what no memory says, or fell into a trap.
    """

    level: Level
    by_model: int
    kept: float
    points: float
    length: float
    unsupported: int


def labelled(path: Path = GROUPS) -> list[Labelled]:
    """The groups of a file."""
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
    """What summaries of all groups keep at a level."""
    made = [summarise(group.sources, group.form, level) for group in groups]
    pairs = list(zip(groups, made, strict=True))
    facts = sum(len(group.facts) for group in groups)
    return Probed(
        level,
        sum(summary.method == "llm" for summary in made),
        sum(len(kept(group, summary.text)) for group, summary in pairs) / facts,
        sum(len(kept(group, "\n".join([summary.text, *summary.key_points]))) for group, summary in pairs) / facts,
        sum(len(summary.text) for summary in made) / sum(group.characters for group in groups),
        sum(bool(wrong(group, summary)) for group, summary in pairs),
    )


def kept(group: Labelled, text: str) -> list[str]:
    """The facts of a group that are in a text."""
    return [fact.pattern for fact in group.facts if fact.search(text)]


def wrong(group: Labelled, summary: Summary) -> list[str]:
    """The traps that a summary fell into, and what the checks find wrong with it."""
    found = [trap.pattern for trap in group.traps if trap.search(summary.text)]
    for part in (summary.text, *summary.key_points):
        try:
            check(part, Known(group.sources))
        except Refused as refused:
            found.append(str(refused))
    return found


def table(rows: Sequence[tuple[str, Probed]], groups: int) -> str:
    """The rows in Markdown."""
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
