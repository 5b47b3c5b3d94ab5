"""Show how salience and keep chance rank the statements of hard simulated years.

    python -m ops.simulation [--seeds 101 102 103] [--memories 3000]

No weight, word list or threshold was fitted to these years. Chatter may repeat verbatim; here, each distinct text of a
year counts once. The service also lowers the salience of near copies of earlier memories; these figures don't.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from app.domain.ingest.roles import Role
from app.domain.salience.criteria import ScoringEvidence, Turn
from app.domain.salience.features import Floats
from app.domain.salience.keep_features import TURNS_BEFORE
from app.domain.salience.rules import judge
from app.domain.simulation.hard.year import generate_hard_year
from app.domain.simulation.year import SimulatedStatement, Year
from ops.salience.figures import compute_area

SEEDS: Final = (101, 102, 103)
THRESHOLDS: Final = {"keep_chance": (0.08, 0.1, 0.115, 0.125, 0.15, 0.2), "salience": (0.1, 0.115, 0.125, 0.145, 0.15)}
GOAL: Final = 0.95
FEWEST: Final = 5
"""A group with fewer statements that matter isn't shown."""


class Judged(NamedTuple):
    """A statement and its scores.

    Attributes:
        statement: The statement; it matters if it states a fact.
        area: Kind of the fact; None for chatter.
        salience: Salience of the rules, 0 to 1.
        keep_chance: The fitted chance, 0 to 1.
    """

    statement: SimulatedStatement
    area: str | None
    salience: float
    keep_chance: float


def main(arguments: Sequence[str]) -> int:
    """Judge the years and print the figures."""
    parser = argparse.ArgumentParser(prog="python -m ops.simulation", description=__doc__)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--memories", type=int, default=3000)
    options = parser.parse_args(arguments)
    judged = [each for seed in options.seeds for each in judge_year(generate_hard_year(options.memories, seed=seed))]
    for score in THRESHOLDS:
        _show_areas(judged, score)
        high, low = split_scores(judged, score)
        kept = share_kept_with(high, low, GOAL)
        print(f"  a threshold that {GOAL:.0%} of what matters exceeds is exceeded by {kept:.1%} of the rest")
    for score, thresholds in THRESHOLDS.items():
        _show_kept(judged, score, thresholds)
    return 0


def judge_year(year: Year) -> list[Judged]:
    """Judge the distinct statements of a year by rules, each with the turns before it on its day."""
    threads: dict[tuple[str, int], list[Turn]] = defaultdict(list)
    evidence: dict[tuple[Role | None, str, bool], tuple[ScoringEvidence, SimulatedStatement]] = {}
    for statement in year.said:
        turns = threads[statement.person, int(statement.day)]
        speaker = None if statement.role == "assistant" else statement.person
        before = tuple(reversed(turns[-TURNS_BEFORE:]))
        inputs = ScoringEvidence(statement.text, speaker, role=statement.role, before=before)
        evidence.setdefault((statement.role, statement.text, statement.fact is None), (inputs, statement))
        turns.append(Turn(statement.text, speaker, statement.role))
    judgements = judge([inputs for inputs, _ in evidence.values()])
    return [
        Judged(
            statement,
            None if statement.fact is None else year.facts[statement.fact].area,
            judgement.salience,
            judgement.keep_chance,
        )
        for (_, statement), judgement in zip(evidence.values(), judgements, strict=True)
    ]


def list_groups(judged: Sequence[Judged]) -> Iterator[tuple[str, list[Judged]]]:
    """Yield all statements, then those of each role and of each language, with their names."""
    yield "all", list(judged)
    for role in ("user", "assistant"):
        yield role, [each for each in judged if each.statement.role == role]
    languages = sorted({each.statement.language for each in judged})
    for language in languages:
        yield language, [each for each in judged if each.statement.language == language]


def split_scores(judged: Sequence[Judged], score: str) -> tuple[Floats, Floats]:
    """Return the scores of the statements that matter, and of the others."""
    matters = np.array([each.area is not None for each in judged], np.bool_)
    scores = np.array([getattr(each, score) for each in judged], np.float64)
    return scores[matters], scores[~matters]


def share_kept_with(high: Floats, low: Floats, share: float) -> float:
    """Return the share of the low scores that reach the threshold which this share of the high scores reaches."""
    threshold = np.sort(high)[int((1 - share) * high.size)]
    return float((low >= threshold).mean())


def _show_areas(judged: Sequence[Judged], score: str) -> None:
    print(f"\n{score}: area under the ROC curve [95 % interval]")
    for name, group in list_groups(judged):
        high, low = split_scores(group, score)
        if high.size >= FEWEST:
            value, least, greatest, _ = compute_area(high, low)
            print(f"  {name:12} {value:.3f} [{least:.3f}, {greatest:.3f}]  {high.size} matter, {low.size} don't")


def _show_kept(judged: Sequence[Judged], score: str, thresholds: Sequence[float]) -> None:
    print(f"\n{score}: shares above a threshold (matters / doesn't)")
    print(f"  {'':12} " + "".join(f"{threshold:>15}" for threshold in thresholds))
    for name, group in list_groups(judged):
        high, low = split_scores(group, score)
        if high.size >= FEWEST:
            cells = [f"{(high > limit).mean():.3f} / {(low > limit).mean():.3f}" for limit in thresholds]
            print(f"  {name:12} " + "".join(f"{cell:>15}" for cell in cells))
    for area in sorted({each.area for each in judged if each.area is not None}):
        high = np.array([getattr(each, score) for each in judged if each.area == area])
        cells = [f"{(high > limit).mean():.3f}" for limit in thresholds]
        print(f"  {area:12} " + "".join(f"{cell:>15}" for cell in cells))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
