"""The results as one JSON document."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ops.recall.measures import HEADLINE, OVERALL, Answer, percentiles, summary
from ops.recall.recalls import summarise
from ops.recall.run import Measured

VERSION: Final = 2


def document(datasets: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a run.

    Args:
        datasets: Its parts, at least one.
        facts: Further facts about the run: policy, how memories were sent.
    """
    return {"version": VERSION, **facts, "mean": _means(datasets), "datasets": list(datasets)}


def describe(name: str, reader: str, measured: Measured, left_out: Sequence[str]) -> dict[str, Any]:
    """Return the part of the document about one dataset.

    Args:
        name: The dataset's name.
        reader: The reader's name.
        measured: The results.
        left_out: Categories excluded from the overall figures.
    """
    every = measured.modes | measured.baselines
    return {
        "dataset": name,
        "reader": reader,
        "size": str(measured.size),
        "embedder": "; ".join(dict.fromkeys(measured.embedders)),
        "notes": measured.notes,
        "left_out": list(left_out),
        "modes": {mode: _figures(answers, left_out) for mode, answers in measured.modes.items()},
        "baselines": {name: _figures(answers, left_out) for name, answers in measured.baselines.items()},
        "recalls": {kind: summarise(recalled) for kind, recalled in measured.recalls.items()},
        # One entry per question with all modes and baselines, so that modes or runs can be compared in pairs.
        "questions": [
            {
                "conversation": asked.conversation,
                "id": asked.question,
                "category": asked.category,
                HEADLINE: {name: answers[n].scores[HEADLINE] for name, answers in every.items()},
            }
            for n, asked in enumerate(next(iter(every.values())))
        ],
    }


def rankings(dataset: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of a dataset's modes and baselines, by name."""
    return {**dataset["modes"], **dataset["baselines"]}


def below(means: Mapping[str, Mapping[str, float]], floors: Mapping[str, float]) -> list[str]:
    """Return a message for each mode whose recall@10 is under its floor.

    Args:
        means: The document's `mean`.
        floors: Floors by mode.
    """
    return [
        f"{mode}: {HEADLINE} is {means[mode][HEADLINE]:.4f}, under the floor of {floor:g}"
        for mode, floor in floors.items()
        if means[mode][HEADLINE] < floor
    ]


def _figures(answers: Sequence[Answer], left_out: Sequence[str]) -> dict[str, Any]:
    newest = [answer.newest_first for answer in answers if answer.newest_first is not None]
    share = {"newest_first": {"questions": len(newest), "share": statistics.fmean(newest)}} if newest else {}
    return {**percentiles(answers), "categories": summary(answers, left_out), **share}


def _means(datasets: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return recall@10 by mode and baseline with half its 95 % interval, with equal weight for every dataset."""
    overall = {
        name: [rankings(each)[name]["categories"][OVERALL] for each in datasets] for name in rankings(datasets[0])
    }
    return {
        name: {
            HEADLINE: statistics.fmean(each[HEADLINE] for each in means),
            "error": math.sqrt(sum(each["error"] ** 2 for each in means)) / len(means),
        }
        for name, means in overall.items()
    }
