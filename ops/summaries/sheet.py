"""A CSV sheet of summaries for people to rate: each summary with its memories, and columns to fill in."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from app.domain.consolidation.group_types import Source
from app.domain.consolidation.rendering import day
from ops.summaries.probes import LEVELS, Labelled, Summarise

SUMMARIES: Final = 50
RATINGS: Final = ("complete 1-5", "true 1-5", "readable 1-5", "overall 1-5", "remark")
COLUMNS: Final = ("number", "group", "form", "level", "by", "memories", "summary", "key points", *RATINGS)


def write(path: Path, groups: Sequence[Labelled], summarise: Summarise) -> None:
    """Write `SUMMARIES` summaries, of all groups in turn and at every level."""
    # Each group recurs at another level, and neighbouring rows have different levels.
    wanted = ((group, LEVELS[(turn + place) % 3]) for turn in range(3) for place, group in enumerate(groups))
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(COLUMNS)
        for number, (group, level) in enumerate(islice(wanted, SUMMARIES), start=1):
            made = summarise(group.sources, group.form, level)
            memories = "\n".join(map(_shown, group.sources))
            points = "\n".join(made.key_points)
            by = made.model or made.method
            row = [number, group.group_id, group.form, level, by, memories, made.text, points]
            rows.writerow([*row, *("" for _ in RATINGS)])


def _shown(source: Source) -> str:
    said = f"{source.speaker}: {source.text}" if source.speaker else source.text
    return f"{day(source.said_at)} {said}"
