"""`ebbing schedule`: list, run, pause and resume scheduled maintenance."""

from __future__ import annotations

from collections import Counter
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, Commands
from app.cli.core.output import (
    AsJson,
    Url,
    examples,
    format_both,
    plain,
    print_json,
    print_result,
    print_rows,
    print_table,
    progress,
)
from app.cli.maintenance.jobs import follow_job
from app.cli.maintenance.maintain import AsOf, Wait, print_changes
from app.domain.formatting import format_minute, format_span
from app.domain.jobs import EXAMINING, RESULTS

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATIENCE_SECONDS: Final = 60.0
PAGE: Final = 1000
SWEEP: Final = "sweep"
SWEEP_NOTE: Final = (
    "The step sweep only decides which tier a memory should have; it doesn't move the memory. The steps archive, cold "
    "and delete make the moves, so a memory has a row for its decision and one for each move."
)

OFFSET_NOTE: Final = (
    "A run starts later than `starts at` by a fixed offset per tenant, which spreads the load: at most "
    "`night.jitter_seconds` of the policy."
)

router = typer.Typer(
    name="schedule",
    cls=Commands,
    help="List, run, pause and resume scheduled maintenance. Without a subcommand, list the schedules.",
    invoke_without_command=True,
    epilog=examples(
        "ebbing schedule",
        "ebbing schedule run night --dry-run",
        "ebbing schedule run night --wait",
        "ebbing schedule runs night",
    ),
)

Name = Annotated[str, typer.Argument(help="Name of the schedule, such as night.", metavar="NAME")]


@router.callback()
def list_schedule(context: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """List the schedules with their next run and the result of the last one."""
    if context.invoked_subcommand is not None:
        return
    found = call(url, "GET", "/v1/schedule")
    rows = (
        (
            one["name"],
            "paused" if one["paused"] else _time(one["next_run_at"]),
            _span(one["late_seconds"]),
            f"{one['starts_at']} {one['time_zone']}",
            *_run_cells(one["last_run"]),
        )
        for one in found["schedule"]
    )
    heads = ["name", "next run", "late", "starts at", "last run", "status", "done"]
    print_rows(found, heads, rows, right=["late", "done"], as_json=as_json)
    if not as_json:
        typer.echo(OFFSET_NOTE)


@router.command(
    epilog=examples(
        "ebbing schedule run night",
        "ebbing schedule run night --wait --json",
        "ebbing schedule run night --dry-run --as-of 2030-01-01T00:00:00Z",
    )
)
def run(
    name: Name,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the changes of each step and their reasons without applying them.")
    ] = False,
    as_of: AsOf = None,
    wait: Wait = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start a run now, even if the schedule is paused. If a run is in progress, no second one starts.

    With --wait, the exit code is 0 only if the run completes.
    """
    from app.cli.core.client import Api

    wanted = given(as_of=as_of)
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        if dry_run:
            _show_preview(_preview(api, f"{_path(name)}/run", wanted, quiet=as_json), as_json=as_json)
            return
        started = api.call("POST", f"{_path(name)}/run", json=wanted, safe=True).body
        ended = follow_job(api, started["job_id"], quiet=as_json) if wait else None
    if as_json:
        print_json(ended or started)
    elif ended is None:
        typer.echo(f"started job {started['job_id']}")
    else:
        typer.echo(f"{plain(name)}: {ended['status']}, {ended['done']:,} processed")
        did = sorted((what, count) for what, count in ended["counts"].items() if count or what in RESULTS)
        print_table(["step", "processed"], did, right=["processed"])
        if any(step in ended["counts"] for step in EXAMINING):
            steps = f"{', '.join(EXAMINING[:-1])} and {EXAMINING[-1]}"
            typer.echo(f"{steps} count examined memories, whether or not they were changed.")
    if ended is not None and ended["status"] != "done":
        raise typer.Exit(Code.FAILED)


@router.command(epilog=examples("ebbing schedule pause night"))
def pause(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Pause scheduled runs. A run in progress continues."""
    _set(name, "pause", url, as_json=as_json)


@router.command(epilog=examples("ebbing schedule resume night"))
def resume(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Resume scheduled runs. If runs were missed recently, one run starts now."""
    _set(name, "resume", url, as_json=as_json)


@router.command(epilog=examples("ebbing schedule runs night", "ebbing schedule runs night --json | jq .runs[0].counts"))
def runs(
    name: Name,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of runs.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    found = call(url, "GET", f"{_path(name)}/runs", params={"limit": limit})
    rows = (
        (
            one["local_date"],
            one["kind"].replace("_", " "),
            one["status"].replace("_", " "),
            _span(one["late_seconds"]),
            _span(one["seconds"], least=0),
            one["done"],
            one["skipped"] or one["error"] or one["step"],
        )
        for one in found["runs"]
    )
    heads = ["date", "kind", "status", "late", "duration", "done", "note"]
    print_rows(found, heads, rows, right=["late", "duration", "done"], as_json=as_json)


def _preview(api: Api, path: str, wanted: dict[str, Any], *, quiet: bool) -> dict[str, Any]:
    """Fetch all pages of a preview, evaluated at the time of the first page."""
    changes: list[dict[str, Any]] = []
    steps: dict[str, dict[str, Any]] = {}
    with progress("checking", None, quiet=quiet) as step:
        while True:
            page = api.call("POST", path, json={**wanted, "dry_run": True, "limit": PAGE}, safe=True).body
            changes += page["changes"]
            for part in page["steps"]:
                known = steps.setdefault(part["name"], {**part, "counts": {}})
                known["counts"] = dict(Counter(known["counts"]) + Counter(part["counts"]))
            if page["next_cursor"] is None:
                return {"as_of": page["as_of"], "steps": list(steps.values()), "changes": changes, "next_cursor": None}
            wanted = {"as_of": page["as_of"], "cursor": page["next_cursor"]}
            step(note=f"{page['steps'][-1]['name']}, {len(changes):,} changes")


def _show_preview(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    if found["changes"]:
        columns = ["step", "id", "from", "to", "reason"]
        print_changes(columns, itemgetter("step", "id", "from", "to", "why"), found["changes"])
        if any(change["step"] == SWEEP for change in found["changes"]):
            typer.echo(f"\n{SWEEP_NOTE}\n")
    print_table(["step", "changes"], [(part["name"], _describe_step(part)) for part in found["steps"]])


def _describe_step(part: dict[str, Any]) -> str:
    """Return a step's note, or the number of its changes by tier."""
    if part["note"]:
        return str(part["note"])
    verb = "decided: " if part["name"] == SWEEP else ""
    return ", ".join(f"{count:,} {verb or 'to '}{tier}" for tier, count in part["counts"].items() if count) or "nothing"


def _set(name: str, what: str, url: str | None, *, as_json: bool) -> None:
    found = call(url, "POST", f"{_path(name)}/{what}")
    then = "is paused" if found["paused"] else f"runs next at {format_both(found['next_run_at'])}"
    print_result(found, f"{plain(name)} {then}", as_json=as_json)


def _path(name: str) -> str:
    return item_path("/v1/schedule", name)


def _run_cells(last: dict[str, Any] | None) -> tuple[object, ...]:
    return (last["local_date"], last["status"].replace("_", " "), last["done"]) if last else ("none yet", "", "")


def _time(moment: str) -> str:
    return format_minute(moment)


def _span(seconds: float | None, least: float = 1) -> str:
    return format_span(seconds) if seconds is not None and seconds >= least else ""
