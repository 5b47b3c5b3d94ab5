"""Quality of summaries on labelled groups, and the sheet for human ratings."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.domain.consolidation.extractive_summary import extract_summary
from app.domain.consolidation.parameters import Level
from ops.summaries import probes, sheet

GROUPS = probes.labelled()


def test_labels_fit_their_memories() -> None:
    assert 30 <= len(GROUPS) <= 50
    for group in GROUPS:
        said = "\n".join(
            f"{source.speaker}: {source.text}" if source.speaker else source.text for source in group.sources
        )
        assert probes.find_facts(group, said) == [fact.pattern for fact in group.facts], group.group_id
        assert not any(trap.search(said) for trap in group.traps), group.group_id


@pytest.mark.parametrize(("level", "kept"), [("light", 0.88), ("medium", 0.73), ("aggressive", 0.6)])
def test_own_sentences_keep_most_key_facts_and_fall_into_no_trap(level: Level, kept: float) -> None:
    found = probes.probe(GROUPS, level, extract_summary)
    assert found.kept >= kept
    assert found.unsupported == 0
    assert found.length < {"light": 0.9, "medium": 0.7, "aggressive": 0.55}[level]


def test_the_sheet_has_fifty_summaries_beside_their_memories_and_room_for_ratings(tmp_path: Path) -> None:
    path = tmp_path / "sheet.csv"
    sheet.write(path, GROUPS, extract_summary)
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sheet.SUMMARIES
    assert {row["level"] for row in rows} == set(probes.LEVELS)
    assert all(row["summary"] and row["memories"] and not row["overall 1-5"] for row in rows)
    assert len({(row["group"], row["level"]) for row in rows}) == sheet.SUMMARIES
