"""Filled-in rating sheets: what is refused, means and agreement, and the page in the repository."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.domain.consolidation.extractive_summary import extract_summary
from ops.summaries import __main__, probes, ratings, sheet

Cells = dict[int, tuple[object, ...]]


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sheet as it is handed out."""
    path = tmp_path_factory.mktemp("sheet") / "empty.csv"
    sheet.write(path, probes.labelled(), extract_summary)
    return path


def fill(empty: Path, folder: Path, rater: str, given: Cells) -> Path:
    """Fill in a copy: four ratings, and a remark if given, by number."""
    with empty.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    for row in rows[1:]:
        cells = given.get(int(row[0]), ())
        row[8 : 8 + len(cells)] = map(str, cells)
    path = folder / f"{rater}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return path


def test_the_page_shows_means_shares_and_agreement_by_level(empty: Path, tmp_path: Path) -> None:
    ann = fill(empty, tmp_path, "ann", {1: (5, 5, 4, 5), 2: (3, 4, 4, 4, "short"), 3: (2, 2, 2, 2)})
    ben = fill(empty, tmp_path, "ben", {1: (5, 5, 4, 5), 2: (3, 4, 4, 4), 4: (5, 5, 5, 5)})
    text = ratings.page([ann, ben])
    assert "Raters: 2; summaries rated: 4; ratings: 6. The mean overall rating is 4.17, above the goal of 4." in text
    assert "| complete | 6 | 3.83 | 50% | 1.00 |" in text
    by_level = [line for line in text.splitlines() if line.startswith(("| light", "| medium", "| aggressive"))]
    assert by_level == [
        "| light | 3 | 5.00 | 100% | none |",
        "| medium | 2 | 4.00 | 0% | none |",
        "| aggressive | 1 | 2.00 | 0% | none |",
    ]
    low = fill(empty, tmp_path, "eve", {1: (4, 4, 4, 4)})
    assert "is 4.00, not above the goal of 4." in ratings.page([low]), "the goal is to exceed 4"


def test_agreement_is_krippendorffs_alpha(empty: Path, tmp_path: Path) -> None:
    """By hand for 1 1, 2 3, 5 5 and a 4 without a pair: observed 2 / 6, expected from all pairs of the six 202 / 30."""
    one = fill(empty, tmp_path, "one", {number: (value,) * 4 for number, value in {1: 1, 2: 2, 3: 5, 4: 4}.items()})
    two = fill(empty, tmp_path, "two", {number: (value,) * 4 for number, value in {1: 1, 2: 3, 3: 5}.items()})
    read = ratings.read([one, two])
    assert ratings.agreement(read, ratings.OVERALL) == pytest.approx(1 - (2 / 6) / (202 / 30))
    assert ratings.agreement(ratings.read([one]), ratings.OVERALL) is None


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({}, "no summary is rated"),
        ({1: (5, 5, 5, 6)}, "overall 1-5 of summary 1 must be 1 to 5, but is '6'"),
        ({1: (5, 4.5, 5, 5)}, "true 1-5 of summary 1 must be 1 to 5, but is '4.5'"),
        ({1: (5, 5, 5, 5), 2: (5, 5)}, "readable 1-5 of summary 2 must be 1 to 5, but is empty"),
    ],
)
def test_a_faulty_sheet_is_refused_with_its_row(empty: Path, tmp_path: Path, given: Cells, reason: str) -> None:
    path = fill(empty, tmp_path, "ann", given)
    with pytest.raises(ratings.FaultySheet, match=f"ann.csv: {reason}"):
        ratings.read([path])


def test_sheets_of_other_summaries_rows_or_columns_are_refused(empty: Path, tmp_path: Path) -> None:
    ann = fill(empty, tmp_path, "ann", {1: (5, 5, 5, 5)})
    ben = fill(empty, tmp_path, "ben", {1: (4, 4, 4, 4)})
    lines = ben.read_text(encoding="utf-8")
    with ben.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    rows[1][6] = "another summary"
    with ben.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    with pytest.raises(ratings.FaultySheet, match="ben: summary 1 isn't the one in ann"):
        ratings.read([ann, ben])
    with ben.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([*rows, rows[1]])
    with pytest.raises(ratings.FaultySheet, match=r"ben.csv: summary 1 is rated twice"):
        ratings.read([ben])
    ben.write_text(lines.replace("remark", "comment", 1), encoding="utf-8")
    with pytest.raises(ratings.FaultySheet, match=r"ben.csv: the columns must be number, group"):
        ratings.read([ben])


def test_the_command_writes_the_page(empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(ratings, "PAGE", page)
    sheets: list[Path] = []
    monkeypatch.setattr(ratings, "list_sheets", lambda: sheets)
    assert __main__.main(["ratings"]) == 0
    assert ratings.NOBODY in page.read_text(encoding="utf-8")
    sheets.append(fill(empty, tmp_path, "ann", {1: (5, 5, 5, 5)}))
    assert __main__.main(["ratings"]) == 0
    assert "Raters: 1" in page.read_text(encoding="utf-8")
    sheets.append(fill(empty, tmp_path, "ben", {}))
    assert __main__.main(["ratings"]) == 1
    assert "Raters: 1" in page.read_text(encoding="utf-8"), "a faulty sheet leaves the page as it was"


def test_the_page_in_the_repository_is_that_of_its_sheets() -> None:
    assert ratings.PAGE.read_text(encoding="utf-8") == ratings.page(ratings.list_sheets())
