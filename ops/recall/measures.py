"""How well a ranking finds the evidence of a question, and averages of that."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

CUTOFFS: Final = (5, 10, 20)
DEPTH: Final = 20
"""How far down the first hit counts for MRR; searches ask for at least so many."""
TOP: Final = 10
"""Of hit@10 and nDCG@10."""
HEADLINE: Final = "recall@10"
OVERALL: Final = "overall"


def grade(ranking: Sequence[str], evidence: Collection[str], cutoffs: Iterable[int] = CUTOFFS) -> dict[str, float]:
    """Scores of one ranking, each 0 to 1.

    recall@k is the share of the evidence among the first k, hit@10 whether any of it is among the first ten, mrr one
    by the rank of the first, and ndcg@10 takes evidence as relevant and all else as not.

    Args:
        ranking: Ids, best first; of one that comes twice, the first place counts.
        evidence: At least one id.
        cutoffs: The k's of recall@k.
    """
    wanted = set(evidence)
    places = [place for place, found in enumerate(dict.fromkeys(ranking), 1) if found in wanted]
    ideal = sum(_gain(place) for place in range(1, min(len(wanted), TOP) + 1))
    return {
        **{f"recall@{k}": sum(place <= k for place in places) / len(wanted) for k in sorted({*cutoffs, 10})},
        f"hit@{TOP}": float(any(place <= TOP for place in places)),
        "mrr": 1 / places[0] if places and places[0] <= DEPTH else 0.0,
        f"ndcg@{TOP}": sum(_gain(place) for place in places if place <= TOP) / ideal,
    }


def _gain(place: int) -> float:
    return 1 / math.log2(place + 1)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question in one mode.

    Attributes:
        milliseconds: How long the search took, on the wire and off.
    """

    conversation: str
    question: str
    category: str
    scores: Mapping[str, float]
    milliseconds: float


def summary(answers: Sequence[Answer], left_out: Collection[str]) -> dict[str, dict[str, float]]:
    """Means over the questions of each category, and over those that aren't of one left out as `overall`.

    `questions` is how many, `error` half the width of the 95 % interval of recall@10 by the sample's spread.
    """
    groups: dict[str, list[Mapping[str, float]]] = {}
    for answer in answers:
        for name in (answer.category, *(() if answer.category in left_out else (OVERALL,))):
            groups.setdefault(name, []).append(answer.scores)
    return {name: _means(groups[name]) for name in sorted(groups, key=lambda name: (name != OVERALL, name))}


def _means(scores: Sequence[Mapping[str, float]]) -> dict[str, float]:
    spread = statistics.stdev([each[HEADLINE] for each in scores]) if len(scores) > 1 else 0.0
    return {
        "questions": len(scores),
        **{name: statistics.fmean(each[name] for each in scores) for name in scores[0]},
        "error": 1.96 * spread / math.sqrt(len(scores)),
    }


def percentiles(answers: Sequence[Answer]) -> dict[str, float]:
    """Median and 95th percentile of the searches' milliseconds."""
    took = [answer.milliseconds for answer in answers]
    if len(took) == 1:
        took *= 2
    steps = statistics.quantiles(took, n=20, method="inclusive")
    return {"p50_ms": steps[9], "p95_ms": steps[18]}
