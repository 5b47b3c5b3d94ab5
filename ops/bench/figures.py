"""Figures of a benchmark, compared with the bare cost of the same work, as a table and as JSON."""

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
    """The target of a figure, by its ratio to the floor, by its value, or by both. Reported, never asserted."""

    ratio_least: float | None = None
    ratio_most: float | None = None
    least: float | None = None
    most: float | None = None

    def text(self) -> str:
        """Return the goal as shown in the table: `≥ 0.6 ×, ≥ 200,000`."""
        parts = [
            ("≥", self.ratio_least, " ×"),
            ("≤", self.ratio_most, " ×"),
            ("≥", self.least, ""),
            ("≤", self.most, ""),
        ]
        return ", ".join(f"{sign} {_number(bound)}{unit}" for sign, bound, unit in parts if bound is not None)

    def is_reached(self, value: float, ratio: float | None) -> bool | None:
        """Return True if the figure reaches the goal; None without a goal."""
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
        work: Name of the measured work.
        unit: Unit of `values` and `floors`.
        values: One value per round.
        floor: Name of the work's reference; empty for none.
        floors: One reference value per round, each measured together with the value of the same round.
        generator: The load generator's CPU time as a share of all cores' time, 0 to 1.
        note: Facts that a reader needs to interpret the figure.
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
        """Return the median of the rounds."""
        return statistics.median(self.values)

    @property
    def ratios(self) -> list[float]:
        """Return the ratios of value to floor, round by round."""
        return [value / floor for value, floor in zip(self.values, self.floors, strict=False) if floor]

    @property
    def ratio(self) -> float | None:
        """Return the median of the rounds' ratios."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def spread(self) -> tuple[float, float]:
        """Return the smallest and largest ratio, or value if there is no floor."""
        rounds = self.ratios or list(self.values)
        return min(rounds), max(rounds)

    def row(self) -> dict[str, Any]:
        """Return the figure for the JSON document."""
        return {
            "work": self.work,
            "unit": self.unit,
            "value": self.value,
            "floor": self.floor or None,
            "floor_value": statistics.median(self.floors) if self.floors else None,
            "ratio": self.ratio,
            "goal": {name: bound for name, bound in asdict(self.goal).items() if bound is not None},
            "met": self.goal.is_reached(self.value, self.ratio),
            "generator_share": self.generator,
            "spread": list(self.spread),
            "values": list(self.values),
            "floors": list(self.floors),
            "note": self.note or None,
        }


@dataclass
class Plan:
    """The extent of the measurements, and the function that reports progress."""

    repeats: int
    quick: bool
    say: Callable[[str], None] = field(default=lambda _: None)

    def size(self, whole: int, small: int) -> int:
        """Return a number of rows, requests or queries: `whole`, or `small` for a quick run."""
        return small if self.quick else whole

    @property
    def seconds(self) -> float:
        """Return the duration of one burst of requests."""
        return 0.2 if self.quick else 0.8

    def rounds(self, *runs: Callable[[], T]) -> list[list[T]]:
        """Return the results of each run, round by round. Runs alternate, and every other round reverses their order.

        A machine that slows down or speeds up during the measurement therefore affects all of them.
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
        met = figure.goal.is_reached(figure.value, figure.ratio)
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
        "Medians of alternating rounds. ratio: figure divided by floor, median over the rounds; load: the load "
        "generator's share of all cores' CPU time; spread: smallest to largest ratio (or figure, without a floor)."
    )


def result(figures: Sequence[Figure], plan: Plan, seconds: float) -> dict[str, Any]:
    """Return the JSON document."""
    return {
        "version": 1,
        "quick": plan.quick,
        "repeats": plan.repeats,
        "seconds": round(seconds, 1),
        "cores": os.cpu_count(),
        "figures": [figure.row() for figure in figures],
    }


def _number(value: float) -> str:
    """Format a number with three significant digits and thousands separators."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        digits = len(str(int(abs(value))))
        return f"{round(value, 3 - digits):,.0f}"
    return f"{value:.3g}"
