"""Recall by mode as tables and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from ops.recall.measures import HEADLINE, OVERALL, Answer, percentiles, summary

Measured = Mapping[str, Sequence[Answer]]
"""Answers by mode."""


def document(measured: Measured, left_out: Sequence[str], facts: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON document.

    Args:
        measured: What was measured.
        left_out: Categories that don't count overall.
        facts: What else is to be said: dataset, embedder, policy.
    """
    first = next(iter(measured.values()))
    return {
        "version": 1,
        **facts,
        "left_out": list(left_out),
        "modes": {
            mode: {**percentiles(answers), "categories": summary(answers, left_out)}
            for mode, answers in measured.items()
        },
        # In all modes by one question, so that two modes or two runs can be compared in pairs.
        "questions": [
            {
                "conversation": asked.conversation,
                "id": asked.question,
                "category": asked.category,
                HEADLINE: {mode: answers[n].scores[HEADLINE] for mode, answers in measured.items()},
            }
            for n, asked in enumerate(first)
        ],
    }


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print the document: all measures overall by mode, then recall@10 of each category by mode."""
    modes: Mapping[str, Any] = found["modes"]
    first = next(iter(modes.values()))["categories"]
    console.print(f"{found['dataset']}: {found['size']}. Embedder: {found['embedder']}.")
    if found["policy"]:
        console.print(f"Policy: {found['policy']}")
    _show_overall(modes, found["left_out"], console)
    table = _table(HEADLINE, "questions", *modes)
    for name in (name for name in first if name != OVERALL):
        means = [modes[mode]["categories"][name] for mode in modes]
        table.add_row(name, f"{means[0]['questions']:,}", *(f"{mean[HEADLINE]:.3f}" for mean in means))
    console.print()
    console.print(table)


def _show_overall(modes: Mapping[str, Any], left_out: Sequence[str], console: Console) -> None:
    means = {mode: figures["categories"][OVERALL] for mode, figures in modes.items()}
    first = next(iter(means.values()))
    names = [name for name in first if name not in {"questions", "error"}]
    title = f"{first['questions']:,} questions" + (f", without {', '.join(left_out)}" if left_out else "")
    table = _table(title, *names, f"± of {HEADLINE}", "p50 ms", "p95 ms")
    for mode, mean in means.items():
        scores = [f"{mean[name]:.3f}" for name in (*names, "error")]
        table.add_row(mode, *scores, f"{modes[mode]['p50_ms']:.1f}", f"{modes[mode]['p95_ms']:.1f}")
    console.print()
    console.print(table)


def _table(first: str, *names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first)
    for name in names:
        table.add_column(name, justify="right")
    return table
