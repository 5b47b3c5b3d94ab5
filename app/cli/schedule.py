"""`ebbing schedule`: what is done by itself, when, and how it went."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote

import typer

from app.cli.failures import Code, Commands
from app.cli.jobs import follow
from app.cli.output import AsJson, Url, examples, plain, print_json, print_table
from app.cli.place import find

PATIENCE_SECONDS = 60.0

router = typer.Typer()
schedule = typer.Typer(
    cls=Commands,
    help="List, run, pause and resume what is done by itself; alone, it lists.",
    invoke_without_command=True,
)
router.add_typer(
    schedule,
    name="schedule",
    epilog=examples("ebbing schedule", "ebbing schedule run night --wait", "ebbing schedule runs night"),
)

Name = Annotated[str, typer.Argument(help="What, such as night.", metavar="NAME")]


@schedule.callback()
def list_schedule(context: typer.Context, url: Url = None, as_json: AsJson = False) -> None:
    """List what runs by itself, when it is due, and how it last went."""
    from app.cli.client import Api

    if context.invoked_subcommand is not None:
        return
    with Api(find(url)) as api:
        found = api.call("GET", "/v1/schedule").body
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["name"],
            "paused" if one["paused"] else _time(one["next_run_at"]),
            _span(one["late_seconds"]),
            f"{one['starts_at']} {one['time_zone']}",
            *_told(one["last_run"]),
        )
        for one in found["schedule"]
    ]
    print_table(["name", "next run", "late", "starts at", "last run", "status", "done"], rows, right=["late", "done"])


@schedule.command(epilog=examples("ebbing schedule run night", "ebbing schedule run night --wait --json"))
def run(
    name: Name,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is done; else `ebbing jobs watch` does.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Run it now, paused or not; where it is under way, nothing is begun.

    With --wait, the exit code is 0 only where it is done.
    """
    from app.cli.client import Api

    with Api(find(url), patience_seconds=PATIENCE_SECONDS) as api:
        started = api.call("POST", f"{_path(name)}/run", safe=True).body
        ended = follow(api, started["job_id"], quiet=as_json) if wait else None
    if as_json:
        print_json(ended or started)
    elif ended is None:
        typer.echo(f"job {started['job_id']} is started")
    else:
        typer.echo(f"{plain(name)} is {ended['status']}, {ended['done']:,} dealt with")
        print_table(["step", "done"], list(ended["counts"].items()), right=["done"])
    if ended is not None and ended["status"] != "done":
        raise typer.Exit(Code.FAILED)


@schedule.command(epilog=examples("ebbing schedule pause night"))
def pause(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Let it rest until it is resumed; a run under way goes on."""
    _set(name, "pause", url, as_json=as_json)


@schedule.command(epilog=examples("ebbing schedule resume night"))
def resume(name: Name, url: Url = None, as_json: AsJson = False) -> None:
    """Let it go on; what it has missed is caught up with once, where that isn't too long ago."""
    _set(name, "resume", url, as_json=as_json)


@schedule.command(
    epilog=examples("ebbing schedule runs night", "ebbing schedule runs night --json | jq .runs[0].counts")
)
def runs(
    name: Name,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Most runs.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List its runs, newest first."""
    from app.cli.client import Api

    with Api(find(url)) as api:
        found = api.call("GET", f"{_path(name)}/runs", params={"limit": limit}).body
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
    heads = ["date", "kind", "status", "late", "took", "done", "remark"]
    print_table(heads, rows, right=["late", "took", "done"])


def _set(name: str, what: str, url: str | None, *, as_json: bool) -> None:
    from app.cli.client import Api

    with Api(find(url)) as api:
        found = api.call("POST", f"{_path(name)}/{what}", safe=True).body
    if as_json:
        print_json(found)
    else:
        then = "rests until it is resumed" if found["paused"] else f"runs next at {_time(found['next_run_at'])}"
        typer.echo(f"{plain(name)} {then}")


def _path(name: str) -> str:
    return f"/v1/schedule/{quote(name, safe='')}"


def _told(last: dict[str, Any] | None) -> tuple[object, ...]:
    return (last["local_date"], last["status"].replace("_", " "), last["done"]) if last else ("none yet", "", "")


def _time(moment: str) -> str:
    return plain(moment)[:16].replace("T", " ")


def _span(seconds: float | None) -> str:
    if not seconds or seconds < 1:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
