"""`ebbing schedule`: list, run, pause and resume scheduled maintenance."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.calls import call, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, Commands
from app.cli.core.output import AsJson, Url, examples, plain, print_json, print_table, progress
from app.cli.core.time_option import METAVAR, parse_time
from app.cli.maintenance.jobs import follow_job

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATIENCE_SECONDS: Final = 60.0
PAGE: Final = 1000
SHOWN: Final = 50

router = typer.Typer()
schedule = typer.Typer(
    cls=Commands,
    help="List, run, pause and resume scheduled maintenance. Without a subcommand, list the schedules.",
    invoke_without_command=True,
)
router.add_typer(
    schedule,
    name="schedule",
    epilog=examples(
        "ebbing schedule",
        "ebbing schedule run night --dry-run",
        "ebbing schedule run night --wait",
        "ebbing schedule runs night",
    ),
)

Name = Annotated[str, typer.Argument(help="Name of the schedule, such as night.", metavar="NAME")]


@schedule.callback()
def list_schedule(context: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """List the schedules with their next run and the result of the last one."""
    if context.invoked_subcommand is not None:
        return
    found = call(url, "GET", "/v1/schedule")
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["name"],
            "paused" if one["paused"] else _time(one["next_run_at"]),
            _span(one["late_seconds"]),
            f"{one['starts_at']} {one['time_zone']}",
            *_run_cells(one["last_run"]),
        )
        for one in found["schedule"]
    ]
    print_table(["name", "next run", "late", "starts at", "last run", "status", "done"], rows, right=["late", "done"])


@schedule.command(
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
    as_of: Annotated[
        str | None,
        typer.Option(
            "--as-of",
            callback=parse_time,
            metavar=METAVAR,
            help="Evaluate as of this time, such as 2026-11-20T18:00:00Z. Future times require --dry-run.",
        ),
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the job to end, like `ebbing jobs watch`.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Start a run now, even if the schedule is paused. If a run is in progress, no second one starts.

    With --wait, the exit code is 0 only if the run completes.
    """
    from app.cli.core.client import Api

    wanted = {} if as_of is None else {"as_of": as_of}
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
        did = sorted((what, count) for what, count in ended["counts"].items() if count)
        print_table(["step", "done"], did, right=["done"])
    if ended is not None and ended["status"] != "done":
        raise typer.Exit(Code.FAILED)


@schedule.command(epilog=examples("ebbing schedule pause night"))
def pause(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Pause scheduled runs. A run in progress continues."""
    _set(name, "pause", url, as_json=as_json)


@schedule.command(epilog=examples("ebbing schedule resume night"))
def resume(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Resume scheduled runs. If runs were missed recently, one run starts now."""
    _set(name, "resume", url, as_json=as_json)


@schedule.command(
    epilog=examples("ebbing schedule runs night", "ebbing schedule runs night --json | jq .runs[0].counts")
)
def runs(
    name: Name,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of runs.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List runs, newest first."""
    found = call(url, "GET", f"{_path(name)}/runs", params={"limit": limit})
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["local_date"],
            one["kind"].replace("_", " "),
            one["status"].replace("_", " "),
            _span(one["late_seconds"]),
            _span(one["seconds"]),
            one["done"],
            one["skipped"] or one["error"] or one["step"],
        )
        for one in found["runs"]
    ]
    heads = ["date", "kind", "status", "late", "duration", "done", "note"]
    print_table(heads, rows, right=["late", "duration", "done"])


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
    changes = found["changes"]
    if changes:
        rows = [tuple(change[name] for name in ("step", "id", "from", "to", "why")) for change in changes[:SHOWN]]
        print_table(["step", "id", "from", "to", "reason"], rows)
    if len(changes) > SHOWN:
        typer.echo(f"… and {len(changes) - SHOWN:,} more: --json lists them all")
    told = [
        (
            part["name"],
            part["note"] or ", ".join(f"{count:,} to {tier}" for tier, count in part["counts"].items()) or "nothing",
        )
        for part in found["steps"]
    ]
    print_table(["step", "changes"], told)


def _set(name: str, what: str, url: str | None, *, as_json: bool) -> None:
    found = call(url, "POST", f"{_path(name)}/{what}", safe=True)
    if as_json:
        print_json(found)
    else:
        then = "is paused" if found["paused"] else f"runs next at {_time(found['next_run_at'])}"
        typer.echo(f"{plain(name)} {then}")


def _path(name: str) -> str:
    return item_path("/v1/schedule", name)


def _run_cells(last: dict[str, Any] | None) -> tuple[object, ...]:
    return (last["local_date"], last["status"].replace("_", " "), last["done"]) if last else ("none yet", "", "")


def _time(moment: str) -> str:
    return plain(moment)[:16].replace("T", " ")


def _span(seconds: float | None) -> str:
    if not seconds or seconds < 1:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
