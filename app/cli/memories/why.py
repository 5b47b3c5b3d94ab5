"""`ebbing why`: explain the tier of a memory."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.output import AsJson, Url, examples, plain, print_json
from app.cli.core.time_option import time_option

router = typer.Typer()


@router.command(epilog=examples("ebbing why ID", "ebbing why ID --as-of 2027-01-01", "ebbing why ID --json"))
def why(
    memory_id: Annotated[str, typer.Argument(help="Id of the memory.", metavar="ID")],
    *,
    as_of: Annotated[str | None, time_option("--as-of", "Evaluate as of this time. Default: now.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show a memory's tier, the rule and numbers behind it, and its next tier change if it isn't used."""
    found = call(url, "GET", f"{item_path('/v1/memories', memory_id)}/why", params=given(as_of=as_of))
    if as_json:
        print_json(found)
        return
    wanted = "" if found["wanted"] == found["tier"] else f", moving to {found['wanted']}"
    width = max(map(len, ("rule", "supersedes", "corrected by", *found["numbers"]))) + 3
    typer.echo(f"{'tier':<{width}}{found['tier']}{wanted}")
    typer.echo(f"{'rule':<{width}}{found['rule']}: {found['why']}")
    for name, value in found["numbers"].items():
        typer.echo(f"{name.replace('_', ' '):<{width}}{_short(value)}")
    for hold in found["holds"]:
        because = f": {plain(hold['reason'])}" if "reason" in hold else ""
        typer.echo(f"{'hold':<{width}}{hold['id']}, placed {hold['placed_at'][:10]}{because}")
    for named in found.get("supersedes", []):
        other = plain(named["named"]) if named["named"] is not None else named["superseded_id"]
        typer.echo(f"{'supersedes':<{width}}{other}: {named['why']}")
    for name in ("corrects", "corrected_by"):
        for other in found.get(name, []):
            typer.echo(f"{name.replace('_', ' '):<{width}}{other}")
    coming = found["next_change"]
    typer.echo(f"{'next':<{width}}{_describe_change(coming) if coming else 'no change expected'}")


def _short(value: object) -> str:
    from app.domain.rounding import round_for_people

    if isinstance(value, float):
        return round_for_people(value, 4)
    return "-" if value is None else str(value).lower()


def _describe_change(coming: dict[str, str]) -> str:
    return f"{coming['to']} on {coming['at'][:10]} ({coming['rule']}: {coming['why']})"
