"""Read sheets that people have filled in, and write the page of their ratings (`ops/summaries.md`).

Each rater fills in a copy of one sheet, which `python -m ops.summaries sheet` writes, and stores the copy in
`ops/summaries/rated`; the file's name is the rater's. `python -m ops.summaries ratings` checks the files and writes the
page.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ops.summaries.sheet import COLUMNS, RATINGS

RATED: Final = Path(__file__).parent / "rated"
PAGE: Final = Path(__file__).parents[1] / "summaries.md"
CRITERIA: Final = RATINGS[:-1]
OVERALL: Final = CRITERIA[-1]
SCALE: Final = ("1", "2", "3", "4", "5")
GOAL: Final = 4.0
"""Mean overall rating that the specification asks summaries to exceed (seed 004, accuracy metrics)."""

HEAD: Final = """# Ratings of summaries by people

<!-- written by `python -m ops.summaries ratings` from the filled-in sheets; a test fails if it is outdated -->

The specification asks for summaries that people rate above 4 of 5. `python -m ops.summaries sheet` writes a sheet of
50 summaries with their memories, and columns for four ratings from 1 to 5. Each rater fills in a copy and stores it
under the rater's name in a folder `rated` beside `ops/summaries/sheet.py`.
"""
FOOT: Final = """Agreement is Krippendorff's alpha of raters of the same summaries: 1 is full agreement, 0 is chance.
The tables by level and by writer contain the overall rating."""
NOBODY: Final = "Nobody has filled in a sheet yet, so whether summaries meet the goal is unknown."


class FaultySheet(Exception):
    """A sheet that can't be evaluated; the message names file, row, column and value."""


@dataclass(frozen=True)
class Rating:
    """One person's ratings of one summary.

    Attributes:
        rater: The sheet's name.
        number: The summary's number in the sheet.
        level: Level of compression.
        by: The model that wrote the summary, or the method.
        shown: The text that was rated: memories, summary and key points.
        values: Rating of each criterion, 1 to 5.
    """

    rater: str
    number: int
    level: str
    by: str
    shown: tuple[str, str, str]
    values: dict[str, int]


def read(paths: Iterable[Path]) -> list[Rating]:
    """Return all ratings of filled-in sheets; rows without any rating are left out.

    Raises:
        FaultySheet: A sheet isn't one that `sheet.write` made, has a rating other than 1 to 5, a row that is rated
            incompletely or twice, no rating at all, or another summary under a number than the other sheets have.
    """
    ratings = [rating for path in paths for rating in _read_sheet(path)]
    first: dict[int, Rating] = {}
    for rating in ratings:
        other = first.setdefault(rating.number, rating)
        if other.shown != rating.shown:
            raise FaultySheet(
                f"{rating.rater}: summary {rating.number} isn't the one in {other.rater}: rate copies of one sheet"
            )
    return ratings


def _read_sheet(path: Path) -> list[Rating]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != COLUMNS:
            raise FaultySheet(f"{path.name}: the columns must be {', '.join(COLUMNS)}")
        ratings = [rating for row in rows if (rating := _read_row(path, row)) is not None]
    if not ratings:
        raise FaultySheet(f"{path.name}: no summary is rated")
    numbers = [rating.number for rating in ratings]
    for number in numbers:
        if numbers.count(number) > 1:
            raise FaultySheet(f"{path.name}: summary {number} is rated twice")
    return ratings


def _read_row(path: Path, row: dict[str, str | None]) -> Rating | None:
    """Return the ratings of a row; None if it has none."""
    cells = {name: (row[name] or "").strip() for name in COLUMNS}
    if not cells["number"].isdecimal():
        raise FaultySheet(f"{path.name}: number must be a whole number, not {cells['number']!r}")
    if not any(cells[name] for name in CRITERIA):
        return None
    for name in CRITERIA:
        if cells[name] not in SCALE:
            found = repr(cells[name]) if cells[name] else "empty"
            raise FaultySheet(f"{path.name}: {name} of summary {cells['number']} must be 1 to 5, but is {found}")
    shown = (cells["memories"], cells["summary"], cells["key points"])
    values = {name: int(cells[name]) for name in CRITERIA}
    return Rating(path.stem, int(cells["number"]), cells["level"], cells["by"], shown, values)


def agreement(ratings: Sequence[Rating], criterion: str) -> float | None:
    """Return Krippendorff's alpha of a criterion, with squared differences (interval scale): 1 is full agreement.

    The result is None if no summary has two ratings, or all ratings are equal, for which alpha isn't defined.
    """
    by_summary: dict[int, list[int]] = {}
    for rating in ratings:
        by_summary.setdefault(rating.number, []).append(rating.values[criterion])
    pairable = [np.array(values, np.float64) for values in by_summary.values() if len(values) > 1]
    if not pairable:
        return None
    every = np.concatenate(pairable)
    expected = _squares(every) / (every.size - 1)
    if not expected:
        return None
    return 1 - sum(_squares(values) / (values.size - 1) for values in pairable) / expected


def _squares(values: np.ndarray) -> float:
    """Return the sum of squared differences of all ordered pairs."""
    return float(2 * (values.size * (values**2).sum() - values.sum() ** 2))


def page(paths: Sequence[Path]) -> str:
    """Return the page for these sheets."""
    if not paths:
        return f"{HEAD}\n{NOBODY}\n"
    ratings = read(paths)
    mean = _mean(ratings, OVERALL)
    verdict = "above the goal" if mean > GOAL else "not above the goal"
    raters, summaries = len({one.rater for one in ratings}), len({one.number for one in ratings})
    counts = f"Raters: {raters}; summaries rated: {summaries}; ratings: {len(ratings)}."
    lines = [
        f"{counts} The mean overall rating is {mean:.2f}, {verdict} of {GOAL:g}.",
        "",
        *_table("criterion", [(name.removesuffix(" 1-5"), ratings, name) for name in CRITERIA]),
        "",
        *_table("level", _groups(ratings, lambda one: one.level)),
        "",
        *_table("written by", _groups(ratings, lambda one: one.by)),
        "",
        FOOT,
    ]
    return HEAD + "\n" + "\n".join(lines) + "\n"


def _groups(ratings: Sequence[Rating], key: Callable[[Rating], str]) -> list[tuple[str, list[Rating], str]]:
    names = dict.fromkeys(map(key, ratings))
    return [(name, [one for one in ratings if key(one) == name], OVERALL) for name in names]


def _table(head: str, rows: Sequence[tuple[str, Sequence[Rating], str]]) -> list[str]:
    lines = [f"| {head} | ratings | mean | share above 4 | agreement |", "|---|---|---|---|---|"]
    for name, ratings, criterion in rows:
        above = np.mean([one.values[criterion] > GOAL for one in ratings])
        alpha = agreement(ratings, criterion)
        shown = "none" if alpha is None else f"{alpha:.2f}"
        lines.append(f"| {name} | {len(ratings)} | {_mean(ratings, criterion):.2f} | {above:.0%} | {shown} |")
    return lines


def _mean(ratings: Sequence[Rating], criterion: str) -> float:
    return float(np.mean([one.values[criterion] for one in ratings]))


def list_sheets(folder: Path = RATED) -> list[Path]:
    """Return the filled-in sheets of a folder, by name."""
    return sorted(folder.glob("*.csv"))
