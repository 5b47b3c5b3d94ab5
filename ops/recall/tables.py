"""The results as tables, for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich import box
from rich.console import Console
from rich.table import Table

from ops.recall.measures import HEADLINE, OVERALL
from ops.recall.report import rankings

PARAPHRASE: Final = "paraphrase"
_NONE: Final = "–"


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print the document: the tables of each dataset, then the mean over the datasets if there are several."""
    if found["policy"]:
        console.print(f"Policy: {found['policy']}")
    for place, dataset in enumerate(found["datasets"]):
        if place:
            console.print()
        _show_dataset(dataset, console)
    if len(found["datasets"]) > 1:
        _print(_table_of_means(found), console)


def _show_dataset(dataset: Mapping[str, Any], console: Console) -> None:
    console.print(f"{dataset['dataset']}: {dataset['size']}. Embedder: {dataset['embedder']}.")
    _print(_table_overall(dataset), console)
    _print(_table_by_kind(dataset), console)
    if extra := _table_of_chats(dataset):
        _print(extra, console)
    if dataset["recalls"]:
        _print(_table_of_recalls(dataset["recalls"]), console)


def _table_overall(dataset: Mapping[str, Any]) -> Table:
    """Return all measures over the questions that count, by mode and baseline."""
    means = {name: figures["categories"][OVERALL] for name, figures in rankings(dataset).items()}
    first = next(iter(means.values()))
    names = [name for name in first if name not in {"questions", "error"}]
    left_out = [name for name in dataset["left_out"] if name in next(iter(rankings(dataset).values()))["categories"]]
    title = f"{first['questions']:,} questions" + (f", without {', '.join(left_out)}" if left_out else "")
    table = _table(title, *names, f"± of {HEADLINE}", "p50 ms", "p95 ms")
    for name, mean in means.items():
        took = [rankings(dataset)[name].get(each) for each in ("p50_ms", "p95_ms")]
        table.add_row(
            name,
            *(f"{mean[each]:.3f}" for each in (*names, "error")),
            *(_NONE if each is None else f"{each:.1f}" for each in took),
        )
    return table


def _table_by_kind(dataset: Mapping[str, Any]) -> Table:
    """Return recall@10 with its interval for each kind of question, by mode and baseline."""
    every = {name: figures["categories"] for name, figures in rankings(dataset).items()}
    table = _table(f"{HEADLINE} ± 95 %", "questions", *every)
    for kind, mean in next(iter(every.values())).items():
        if kind != OVERALL:
            cells = (f"{means[kind][HEADLINE]:.3f} ±{means[kind]['error']:.3f}" for means in every.values())
            table.add_row(kind, f"{mean['questions']:,}", *cells)
    return table


def _table_of_chats(dataset: Mapping[str, Any]) -> Table | None:
    """Return the figures that only some datasets have; None if this dataset has none of them."""
    every = rankings(dataset)
    first = next(iter(every.values()))
    table = _table("", "questions", *every)
    if PARAPHRASE in first["categories"]:
        means = [figures["categories"][PARAPHRASE] for figures in every.values()]
        table.add_row(
            f"recall@3, {PARAPHRASE}", f"{means[0]['questions']:,}", *(f"{mean['recall@3']:.3f}" for mean in means)
        )
    if "newest_first" in first:
        shares = [figures["newest_first"] for figures in every.values()]
        table.add_row(
            "newest above outdated", f"{shares[0]['questions']:,}", *(f"{share['share']:.3f}" for share in shares)
        )
    return table if table.row_count else None


def _table_of_recalls(recalls: Mapping[str, Mapping[str, float]]) -> Table:
    """Return the figures of `POST /v1/recall`."""
    names = list(dict.fromkeys(name for figures in recalls.values() for name in figures))
    names = [name for name in names if name not in {"conversations", "error"}]
    table = _table("POST /v1/recall", "number", *names, "± of found")
    for kind, figures in recalls.items():
        cells = (f"{figures[name]:.3f}" if name in figures else _NONE for name in (*names, "error"))
        table.add_row(kind, f"{figures['conversations']:,}", *cells)
    return table


def _table_of_means(found: Mapping[str, Any]) -> Table:
    """Return recall@10 overall by dataset, and the mean with equal weight for every dataset."""
    datasets = found["datasets"]
    table = _table(f"{HEADLINE}, overall", *(dataset["dataset"] for dataset in datasets), "mean", "±")
    for name, mean in found["mean"].items():
        each = [rankings(dataset)[name]["categories"][OVERALL][HEADLINE] for dataset in datasets]
        table.add_row(name, *(f"{value:.3f}" for value in (*each, mean[HEADLINE], mean["error"])))
    return table


def _print(table: Table, console: Console) -> None:
    console.print()
    console.print(table)


def _table(first: str, *names: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column(first)
    for name in names:
        table.add_column(name, justify="right")
    return table
