"""Scores of a ranking by the evidence of its question, and means over questions."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

CUTOFFS: Final = (5, 10, 20)
DEPTH: Final = 20
"""Lowest rank at which a first hit counts for MRR; searches request at least this many results."""
TOP: Final = 10
"""The k of hit@10 and nDCG@10."""
ALWAYS: Final = (3, TOP)
"""The k's of recall@k that every run measures, since the tables by kind need them."""
HEADLINE: Final = "recall@10"
OVERALL: Final = "overall"


def grade(ranking: Sequence[str], evidence: Collection[str], cutoffs: Iterable[int] = CUTOFFS) -> dict[str, float]:
    """Return the scores of one ranking, each 0 to 1.

    recall@k is the share of the evidence among the first k. hit@10 is 1 if any evidence is in the first ten. mrr is 1
    divided by the rank of the first evidence. ndcg@10 counts evidence as relevant and all other memories as irrelevant.

    Args:
        ranking: Ids, the best first; a repeated one counts once, at its first place.
        evidence: Ids, at least one.
        cutoffs: The k's.
    """
    wanted = set(evidence)
    places = [place for place, found in enumerate(dict.fromkeys(ranking), 1) if found in wanted]
    ideal = sum(_gain(place) for place in range(1, min(len(wanted), TOP) + 1))
    return {
        **{f"recall@{k}": sum(place <= k for place in places) / len(wanted) for k in sorted({*cutoffs, *ALWAYS})},
        f"hit@{TOP}": float(any(place <= TOP for place in places)),
        "mrr": 1 / places[0] if places and places[0] <= DEPTH else 0.0,
        f"ndcg@{TOP}": sum(_gain(place) for place in places if place <= TOP) / ideal,
    }


def newest_first(ranking: Sequence[str], evidence: Collection[str], outdated: Collection[str]) -> bool:
    """Return True if a memory of the evidence is among the first ten, and above every outdated one."""
    newest = next((place for place, found in enumerate(ranking[:TOP]) if found in evidence), None)
    older = next((place for place, found in enumerate(ranking[:DEPTH]) if found in outdated), DEPTH)
    return newest is not None and newest < older


def _gain(place: int) -> float:
    return 1 / math.log2(place + 1)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one question in one mode or baseline.

    Attributes:
        milliseconds: Duration of the search over HTTP; None for a baseline, which runs in this process.
        newest_first: Result of `newest_first`; None if the question has no outdated memories.
    """

    conversation: str
    question: str
    category: str
    scores: Mapping[str, float]
    milliseconds: float | None = None
    newest_first: bool | None = None


def summary(answers: Sequence[Answer], left_out: Collection[str]) -> dict[str, dict[str, float]]:
    """Return the means over the questions of each category; `overall` covers the categories that are not left out.

    `questions` is their number, `error` half the width of the 95 % interval of recall@10, by the sample's spread.
    """
    groups: dict[str, list[Mapping[str, float]]] = {}
    for answer in answers:
        for name in (answer.category, *(() if answer.category in left_out else (OVERALL,))):
            groups.setdefault(name, []).append(answer.scores)
    return {name: _means(groups[name]) for name in sorted(groups, key=lambda name: (name != OVERALL, name))}


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {
        "questions": len(scores),
        **{name: statistics.fmean(each[name] for each in scores) for name in scores[0]},
        "error": half_interval([each[HEADLINE] for each in scores]),
    }


def half_interval(values: Sequence[float]) -> float:
    """Return half the width of the 95 % interval of a mean, by the sample's spread; 0 for a single value."""
    return 1.96 * statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0


def percentiles(answers: Sequence[Answer]) -> dict[str, float]:
    """Return the median and the 95th percentile of the durations; empty if none was measured."""
    took = [answer.milliseconds for answer in answers if answer.milliseconds is not None]
    if not took:
        return {}
    if len(took) == 1:
        took *= 2
    steps = statistics.quantiles(took, n=20, method="inclusive")
    return {"p50_ms": steps[9], "p95_ms": steps[18]}
