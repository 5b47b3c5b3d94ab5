"""`ebbing reembed`: move to the embedding model that the settings name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.failures import Code, Failure
from app.cli.core.output import AsJson, Url, examples, plain, print_json, progress
from app.cli.core.place import find
from app.cli.maintenance.jobs import follow

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATH: Final = "/v1/maintenance/reembed"
PATIENCE_SECONDS: Final = 60.0
STANDSTILL_SECONDS: Final = 300.0
POLL_SECONDS: Final = 1.0

router = typer.Typer()


@router.command(
    epilog=examples("ebbing reembed --dry-run", "ebbing reembed", "ebbing reembed --every-tenant --no-wait")
)
def reembed(
    *,
    every_tenant: Annotated[
        bool, typer.Option("--every-tenant", help="All that are in another space; needs a key of the scope admin.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the memories to be embedded.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Start it, and don't wait for its end.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Move the key's tenant to the embedding model that the service's settings name.

    Meanwhile memories are found as before; the new model takes over in one step, once all are embedded by it. Stopped
    with Ctrl-C the job goes on, and the same command follows it again.
    """
    from app.cli.core.client import Api

    wanted = {"every_tenant": True} if every_tenant else {}
    with Api(find(url), patience_seconds=PATIENCE_SECONDS) as api:
        if dry_run:
            _show_counts(_counts(api, wanted), as_json=as_json)
            return
        started = api.call("POST", PATH, json=wanted, safe=True).body
        if no_wait:
            _show_started(started, as_json=as_json)
        elif every_tenant:
            _show_all(started, _follow_all(api, wanted, quiet=as_json), as_json=as_json)
        else:
            _show_ended(follow(api, started["job_id"], quiet=as_json), as_json=as_json)


def _counts(api: Api, wanted: dict[str, bool]) -> dict[str, int]:
    counts: dict[str, int] = api.call("POST", PATH, json={**wanted, "dry_run": True}, safe=True).body["counts"]
    return counts


def _follow_all(api: Api, wanted: dict[str, bool], *, quiet: bool) -> dict[str, int]:
    """Wait until every tenant has moved: jobs of others can't be looked at, so what is left is counted.

    Raises:
        Failure: Nothing has moved for `STANDSTILL_SECONDS`.
    """
    left = _counts(api, wanted)
    most, since = left["memories"], time.monotonic()
    with progress("embedding", 1.0, quiet=quiet) as step:
        while left["tenants"]:
            note = f"{left['memories']:,} memories of {left['tenants']:,} tenants left"
            step(done=1 - left["memories"] / most if most else 0, note=note)
            time.sleep(POLL_SECONDS)
            before, asked = left, time.monotonic()
            left = _counts(api, wanted)
            if left != before:
                since = time.monotonic()
            elif time.monotonic() - since > STANDSTILL_SECONDS:
                raise Failure(
                    f"{note}, and nothing has moved for {STANDSTILL_SECONDS:g} s: the tenants stay as they are; "
                    "`ebbing doctor` and the log of the lane maintain say why"
                )
            time.sleep(time.monotonic() - asked)  # counting is work too: at most half of the time
    return left


def _show_counts(counts: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json({"counts": counts})
    else:
        typer.echo(f"{counts['memories']:,} memories would be embedded")


def _show_started(started: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(started)
        return
    for job_id in started.get("job_ids", [started.get("job_id")]):
        typer.echo(f"job {job_id} is started")


def _show_all(started: dict[str, Any], left: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print_json({**started, "counts": left})
        return
    moved = len(started["job_ids"])
    typer.echo(f"{moved:,} tenants have moved" if moved else "all tenants are there already")


def _show_ended(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(job)
    elif job["status"] == "done":
        typer.echo(f"{job['done']:,} memories embedded, and searched by the new model")
        if aside := job["counts"].get("set_aside"):
            typer.echo(
                f"{aside:,} the model couldn't do: they are among the dead letters, and found by words", err=True
            )
    if job["status"] != "done":
        if not as_json:
            reason = f" ({plain(job['error'])})" if job.get("error") else ""
            message = f"the job {job['id']} is {job['status']}{reason}: memories are found as before"
            raise Failure(message)
        raise typer.Exit(Code.FAILED)
