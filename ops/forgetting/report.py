"""The results as one JSON document, and as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from ops.forgetting import curves
from ops.forgetting.curves import HALF, SHARES, Floats
from ops.forgetting.run import FOUND, KEPT, Measured, Talk

VERSION: Final = 1
_SHOWN: Final = (0.1, 0.2, 0.3, 0.5, 0.6, 0.8)
_NONE: Final = "–"


def describe(name: str, reader: str, measured: Measured, seed: int) -> dict[str, Any]:
    """Return the part of the document about one dataset."""
    return {
        "dataset": name,
        "reader": reader,
        "size": str(measured.size),
        "notes": measured.notes,
        "usages": {usage: _usage(talks, seed) for usage, talks in measured.talks.items()},
    }


def _usage(talks: Sequence[Talk], seed: int) -> dict[str, Any]:
    reference = np.concatenate([talk.reference for talk in talks])
    checked = np.array([pair for talk in talks for pair in talk.checked])
    return {
        "questions": len(reference),
        "keep_all": float(reference.mean()),
        "methods": {name: _method(talks, name, reference, seed) for name in talks[0].methods},
        **({"check": _check(checked)} if checked.size else {}),
    }


def _method(talks: Sequence[Talk], name: str, reference: Floats, seed: int) -> dict[str, Any]:
    found = np.concatenate([talk.methods[name][FOUND] for talk in talks], axis=1)
    kept = np.concatenate([talk.methods[name][KEPT] for talk in talks], axis=1)
    relative = [curves.relative_to(row, reference) for row in found]
    return {
        "area": curves.area(relative),
        "half": relative[HALF],
        "half_error": curves.half_interval(found[HALF], reference, seed),
        "curve": [
            {"share": share, "found": float(row.mean()), "relative": part, "evidence_kept": float(held.mean())}
            for share, row, part, held in zip(SHARES, found, relative, kept, strict=True)
        ],
        **({"own": _own(talks, name, reference)} if name in talks[0].own else {}),
    }


def _own(talks: Sequence[Talk], profile: str, reference: Floats) -> dict[str, float]:
    own = [talk.own[profile] for talk in talks]
    found = np.concatenate([each.found for each in own])
    by_curve = np.concatenate([each.by_curve for each in own])
    return {
        "active": sum(each.active for each in own) / sum(talk.memories for talk in talks),
        "found": float(found.mean()),
        "relative": curves.relative_to(found, reference),
        "by_curve": curves.relative_to(by_curve, reference),
        "evidence_kept": float(np.concatenate([each.kept for each in own]).mean()),
    }


def _check(pairs: Floats) -> dict[str, float]:
    """Return the difference of the curves from tenants that store only the kept memories, in recall@10."""
    differences = pairs[:, 0] - pairs[:, 1]
    return {
        "points": len(pairs),
        "mean_difference": float(differences.mean()),
        "mean_absolute": float(np.abs(differences).mean()),
        "largest": float(np.abs(differences).max()),
    }


def show(document: Mapping[str, Any], console: Console) -> None:
    """Print a table for each dataset and model of uses."""
    for dataset in document["datasets"]:
        console.print(f"\n{dataset['dataset']}: {dataset['size']}")
        for usage, figures in dataset["usages"].items():
            console.print(f"\nuses: {usage}; recall@10 of all memories: {figures['keep_all']:.3f}")
            console.print(_table(figures["methods"]))
            if "check" in figures:
                check = figures["check"]
                console.print(
                    f"curves − tenants that store only the kept memories, {check['points']} points: mean "
                    f"{check['mean_difference']:+.3f}, mean absolute {check['mean_absolute']:.3f}, largest "
                    f"{check['largest']:.3f} of recall@10"
                )


def _table(methods: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return recall@10 relative to all memories, by method and share kept, and what each profile's policy leaves."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("kept")
    columns = (
        "area",
        *(f"{share:.0%}" for share in _SHOWN),
        "± at 50%",
        "evidence, 50%",
        "own: active",
        "found",
        "evidence",
    )
    for name in columns:
        table.add_column(name, justify="right")
    for name, method in methods.items():
        points = {point["share"]: point for point in method["curve"]}
        own = method.get("own")
        table.add_row(
            name,
            f"{method['area']:.3f}",
            *(f"{points[share]['relative']:.3f}" for share in _SHOWN),
            f"{method['half_error']:.3f}",
            f"{points[SHARES[HALF]]['evidence_kept']:.3f}",
            *(f"{own[key]:.3f}" if own else _NONE for key in ("active", "relative", "by_curve", "evidence_kept")),
        )
    return table
