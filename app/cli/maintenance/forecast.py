"""`ebbing forecast`: predict the number of memories per tier, under the current policy or a changed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, given
from app.cli.core.filters import Subject
from app.cli.core.output import AsJson, Url, examples, print_json, print_table
from app.cli.core.set_option import parse_assignments
from app.cli.maintenance.plots import TIERS, Plot

router = typer.Typer()

NOW: Final = "current policy"
WHAT_IF: Final = "what-if"
DAILY_UP_TO: Final = 14
WEEKLY_UP_TO: Final = 400
IDS_SHOWN: Final = 3


@router.command(
    epilog=examples(
        "ebbing forecast",
        "ebbing forecast --days 365 --set forgetting.profile=mnemex --plot year.svg",
        "ebbing forecast --set tiers.archived_below=0.2 --set importance.weights.salience=0.6",
        "ebbing forecast --policy slower.json --json | jq .moves",
    )
)
def forecast(
    *,
    days: Annotated[int, typer.Option("--days", min=0, max=3_650, help="Number of days to predict.")] = 90,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="FIELD=VALUE", help="Policy field to change in the what-if forecast. Repeatable."
        ),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            "--policy",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="JSON file with policy fields to change; --set takes precedence.",
        ),
    ] = None,
    subject: Subject = None,
    plot: Plot = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Predict how many memories each tier will have on the coming days, assuming no uses and no new memories.

    With --set or --policy, also predict the tiers under the changed policy and list the memories that would move at
    once. The command is read-only.
    """
    changes = parse_assignments(sets or [], _read(policy)) if sets or policy else None
    found = call(url, "POST", "/v1/forecast", json=given(days=days, policy=changes, subject=subject))
    if plot is not None:
        from app.cli.maintenance import plots

        title = ", ".join(sets or []) or (policy.name if policy else "")
        plots.tiers(
            plot, {NOW: found["days"]} | ({f"{WHAT_IF}: {title}": found["what_if"]} if changes is not None else {})
        )
    if as_json:
        print_json(found)
        return
    _print_days(found)
    _print_moves(found)
    if threshold := found.get("found_threshold"):
        typer.echo(describe_threshold(threshold))
    if plot is not None:
        typer.echo(f"plot written: {plot}", err=True)


def _read(policy: Path | None) -> dict[str, Any]:
    if policy is None:
        return {}
    try:
        held = json.loads(policy.read_bytes())
    except ValueError as error:
        raise typer.BadParameter(f"{policy}: invalid JSON: {error}") from None
    if not isinstance(held, dict):
        raise typer.BadParameter(f"{policy} must contain a JSON object")
    return held


def _print_days(found: dict[str, Any]) -> None:
    now, changed = found["days"], found.get("what_if")
    last = len(now) - 1
    step = 1 if last <= DAILY_UP_TO else 7 if last <= WEEKLY_UP_TO else 30
    places = [*range(0, last, step), last]
    sides = [now] if changed is None else [now, changed]
    heads = [*TIERS] if changed is None else [*TIERS, *(f"{WHAT_IF} {tier}" for tier in TIERS)]
    rows = [
        [now[place]["date"], place, *(f"{side[place][tier]:,}" for side in sides for tier in TIERS)] for place in places
    ]
    print_table(["date", "day", *heads], rows, right=["day", *heads])


def describe_threshold(found: dict[str, Any]) -> str:
    """Return a sentence with the threshold of the keep chance that follows from `tiers.target_active_share`."""
    limit = ", limited by other protections or the range of thresholds" if found["limited"] else ""
    return (
        f"target_active_share: the threshold of the keep chance would be {found['threshold']:.3g}, which keeps "
        f"{found['share']:.0%} of {found['memories']:,} memories active{limit}"
    )


def _print_moves(found: dict[str, Any]) -> None:
    if found.get("what_if") is None:
        return
    typer.echo()
    if not found["moves"]:
        typer.echo("the change would not move any memory at once")
        return
    for move in found["moves"]:
        ids = move["ids"][:IDS_SHOWN]
        more = ", …" if move["memories"] > len(ids) else ""
        typer.echo(
            f"{move['memories']:,} would move at once from {move['from']} to {move['to']}: {', '.join(ids)}{more}"
        )
