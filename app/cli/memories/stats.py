"""`ebbing stats`: show counts of memories, pending work and self-test results."""

from __future__ import annotations

from typing import Any

import typer

from app.cli.core.calls import call
from app.cli.core.output import AsJson, Url, examples, print_json, print_table
from app.domain.formatting import format_bytes, format_latency, format_percent, format_span

router = typer.Typer()


@router.command(epilog=examples("ebbing stats", "ebbing stats --json | jq .pending"))
def stats(url: Url = None, as_json: AsJson = False) -> None:
    """Show counts and queue sizes of your tenant: the tenant of the API key."""
    found = call(url, "GET", "/v1/stats")
    if as_json:
        print_json(found)
        return
    rows: list[tuple[object, ...]] = [("memories", tier, count, "") for tier, count in found["memories"].items()]
    rows += [("pending", stage, count, "") for stage, count in found["pending"].items()]
    rows += [
        ("queue", name, lane["depth"], format_span(lane["oldest_age_seconds"]) if lane["depth"] else "")
        for name, lane in found["lanes"].items()
    ]
    if room := found.get("room"):  # absent in older API versions
        shown = {name: room[f"{name}_bytes"] for name in ("text", "vector", "quota")}
        rows += [("storage", name, format_bytes(value), "") for name, value in shown.items() if value is not None]
    rows.append(("dead letters", "", found["dead_letters"], ""))
    if night := found.get("last_night"):
        failed = f" ({', '.join(night['failed_steps'])})" if night["failed_steps"] else ""
        rows.append(("last night", f"{night['status'].replace('_', ' ')}{failed}", "", night["local_date"]))
    print_table(["what", "which", "count", "oldest"], rows, right=["count", "oldest"])
    if compared := found.get("rating_agreement"):
        typer.echo()
        _show_agreement(compared)
    if tested := found.get("self_tests"):
        typer.echo()
        _show_tested(tested)


def _show_agreement(compared: list[dict[str, Any]]) -> None:
    """Print how far the last ratings by a model agree with the rules, by model and prompt version."""
    heads = ["ratings by model", "prompt", "compared", "rank correlation with rules", "mean difference"]
    rows = [
        (
            *(each["model"], each["prompt_version"], each["ratings"]),
            "too few" if each["rank_correlation"] is None else f"{each['rank_correlation']:.2f}",
            f"{each['mean_difference']:+.2f}",
        )
        for each in compared
    ]
    print_table(heads, rows, right=heads[2:])


def _show_tested(runs: list[dict[str, Any]]) -> None:
    """Print self-test runs, newest first: pass rate by kind, and latencies with their target."""
    kinds = sorted({kind for run in runs for kind in run["passed"]} - {"retrieval_speed"})
    heads = ["self-tests", *(kind.replace("_", " ") for kind in kinds), "empty recalls", "p50", "p95", "target"]
    rows = [
        (
            run["as_of"][:10],
            *(
                f"{format_percent(run['passed'][kind])} of {run['tests'][kind]:,}" if kind in run["tests"] else ""
                for kind in kinds
            ),
            format_percent(run["recall_empty"])
            if run.get("recall_empty") is not None
            else "",  # absent in older API versions
            *("" if run[name] is None else format_latency(run[name]) for name in ("p50_ms", "p95_ms", "target_ms")),
        )
        for run in runs
    ]
    print_table(heads, rows, right=heads[1:])
