"""What a benchmark gives: figures beside the bare cost of the same work, as a table and as JSON."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table

T = TypeVar("T")


@dataclass(frozen=True)
class Goal:
    """What a figure should reach, by its ratio to the floor, by its value, or by both. Stated, never asserted."""

    ratio_least: float | None = None
    ratio_most: float | None = None
    least: float | None = None
    most: float | None = None

    def text(self) -> str:
        """As in the table: `≥ 0.6 ×, ≥ 200,000`."""
        parts = [
            ("≥", self.ratio_least, " ×"),
            ("≤", self.ratio_most, " ×"),
            ("≥", self.least, ""),
            ("≤", self.most, ""),
        ]
        return ", ".join(f"{sign} {_number(bound)}{unit}" for sign, bound, unit in parts if bound is not None)

    def met(self, value: float, ratio: float | None) -> bool | None:
        """Whether the figure reaches it; None where nothing was asked."""
        asked = [
            actual >= bound if lower else actual <= bound
            for actual, bound, lower in (
                (ratio, self.ratio_least, True),
                (ratio, self.ratio_most, False),
                (value, self.least, True),
                (value, self.most, False),
            )
            if bound is not None and actual is not None
        ]
        return all(asked) if asked else None


NO_GOAL = Goal()


@dataclass(frozen=True)
class Figure:
    """One row of the table: medians over the rounds, and the rounds themselves.

    Attributes:
        work: What was done.
        unit: Of `values` and `floors`.
        values: One a round.
        floor: What the work is compared with; empty for none.
        floors: One a round, each measured beside the value of the same round.
        generator: The load generator's CPU time as a share of all cores' time, 0 to 1.
        note: What a reader must know to read it right.
    """

    work: str
    unit: str
    values: Sequence[float]
    floor: str = ""
    floors: Sequence[float] = ()
    goal: Goal = NO_GOAL
    generator: float | None = None
    note: str = ""

    @property
    def value(self) -> float:
        """The median round."""
        return statistics.median(self.values)

    @property
    def ratios(self) -> list[float]:
        """Value to floor, round by round."""
        return [value / floor for value, floor in zip(self.values, self.floors, strict=False) if floor]

    @property
    def ratio(self) -> float | None:
        """The median of the rounds' ratios."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def spread(self) -> tuple[float, float]:
        """Least and greatest of the ratios; of the values where there is no floor."""
        rounds = self.ratios or list(self.values)
        return min(rounds), max(rounds)

    def row(self) -> dict[str, Any]:
        """For the JSON."""
        return {
            "work": self.work,
            "unit": self.unit,
            "value": self.value,
            "floor": self.floor or None,
            "floor_value": statistics.median(self.floors) if self.floors else None,
            "ratio": self.ratio,
            "goal": {name: bound for name, bound in asdict(self.goal).items() if bound is not None},
            "met": self.goal.met(self.value, self.ratio),
            "generator_share": self.generator,
            "spread": list(self.spread),
            "values": list(self.values),
            "floors": list(self.floors),
            "note": self.note or None,
        }


@dataclass
class Plan:
    """How much to measure, and whom to tell."""

    repeats: int
    quick: bool
    say: Callable[[str], None] = field(default=lambda _: None)

    def size(self, whole: int, small: int) -> int:
        """A number of rows, requests or queries: the whole, or the small one for a quick run."""
        return small if self.quick else whole

    @property
    def seconds(self) -> float:
        """How long one burst of requests lasts."""
        return 0.2 if self.quick else 0.8

    def rounds(self, *runs: Callable[[], T]) -> list[list[T]]:
        """What each of the runs gave, round by round. They alternate, and every other round goes backwards.

        So a machine that slows down or speeds up meanwhile does so for all of them.
        """
        given: list[list[T]] = [[] for _ in runs]
        for turn in range(self.repeats):
            order = range(len(runs)) if turn % 2 == 0 else reversed(range(len(runs)))
            for n in order:
                given[n].append(runs[n]())
        return given


def show(figures: Sequence[Figure], console: Console) -> None:
    """Print the table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("work", "figure", "unit", "floor", "ratio", "goal", "", "load", "spread"):
        table.add_column(name, justify="left" if name in {"work", "unit", "floor", ""} else "right", overflow="fold")
    for figure in figures:
        met = figure.goal.met(figure.value, figure.ratio)
        floor = f"{figure.floor}: {_number(statistics.median(figure.floors))}" if figure.floors else ""
        table.add_row(
            figure.work,
            _number(figure.value),
            figure.unit,
            floor,
            "" if figure.ratio is None else f"{_number(figure.ratio)} ×",
            figure.goal.text(),
            {True: "met", False: "missed", None: ""}[met],
            "" if figure.generator is None else f"{figure.generator:.0%}",
            "–".join(_number(end) for end in figure.spread),
        )
    console.print(table)
    notes = dict.fromkeys(f"{figure.work}: {figure.note}" for figure in figures if figure.note)
    for note in notes:
        console.print(f"  {note}")
    console.print(
        "Medians of alternating rounds. ratio: figure to floor, the median of the rounds' own; load: the load "
        "generator's CPU time as a share of all cores'; spread: least to greatest ratio (figure, where no floor is)."
    )


def result(figures: Sequence[Figure], plan: Plan, seconds: float) -> dict[str, Any]:
    """The JSON document."""
    return {
        "version": 1,
        "quick": plan.quick,
        "repeats": plan.repeats,
        "seconds": round(seconds, 1),
        "cores": os.cpu_count(),
        "figures": [figure.row() for figure in figures],
    }


def _number(value: float) -> str:
    """Three significant digits, thousands by commas."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}"
    return f"{value:.3g}"
