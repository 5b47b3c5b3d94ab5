"""`ebbing jobs`: list, watch and cancel background jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import (
    AsJson,
    Url,
    examples,
    format_ago,
    format_both,
    plain,
    print_json,
    print_result,
    print_rows,
    progress,
)
from app.cli.core.renamed_options import with_renamed_group_options
from app.domain.formatting import format_second
from app.domain.jobs import RESULTS

if TYPE_CHECKING:
    from app.cli.core.client import Api

POLL_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60.0
ENDED: Final = frozenset({"done", "failed", "cancelled"})

router = typer.Typer(
    name="jobs",
    cls=with_renamed_group_options({"--kind": "--type"}),
    help="List, show, watch and cancel background jobs. Without a subcommand, list them.",
    invoke_without_command=True,
    epilog=examples("ebbing jobs", "ebbing jobs --status running", "ebbing jobs watch ID"),
)

Id = Annotated[str, typer.Argument(help="Id of the job.", metavar="ID")]


@router.callback()
def list_jobs(
    context: typer.Context,
    status: Annotated[
        str | None,
        typer.Option("--status", help="Only jobs with this status: queued, running, done, failed or cancelled."),
    ] = None,
    job_type: Annotated[str | None, typer.Option("--type", help="Only jobs of this type, such as reembed.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Maximum number of jobs.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    if context.invoked_subcommand is not None:
        return
    found = call(url, "GET", "/v1/jobs", params=given(status=status, kind=job_type, limit=limit))
    rows = (
        (job["id"], job["kind"], _status(job), _progress(job), format_ago(job.get("created_at")), job.get("error"))
        for job in found["jobs"]
    )
    heads = ["id", "type", "status", "done", "created", "error"]
    print_rows(found, heads, rows, right=["done"], as_json=as_json)


@router.command(epilog=examples("ebbing jobs show ID", "ebbing jobs show ID --json | jq .log"))
def show(job_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Show a job and its log."""
    _print(call(url, "GET", _path(job_id)), as_json=as_json)


@router.command(epilog=examples("ebbing jobs watch ID", "ebbing jobs watch ID && echo well"))
def watch(job_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Wait until a job ends. The exit code is 0 only if its status is `done`.

    Interrupting this command doesn't stop the job.
    """
    from app.cli.core.client import Api

    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        ended = follow_job(api, job_id, quiet=as_json)
    _print(ended, as_json=as_json)
    if ended["status"] != "done":
        raise typer.Exit(Code.FAILED)


@router.command(epilog=examples("ebbing jobs cancel ID"))
def cancel(job_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Cancel a job: it stops after its current step; completed work is not reverted."""
    found = call(url, "POST", f"{_path(job_id)}/cancel")
    print_result(found, f"cancelling {job_id}: it stops after its current step", as_json=as_json)


def follow_job(api: Api, job_id: str, *, quiet: bool) -> dict[str, Any]:
    """Wait until a job ends, with a progress bar unless `quiet`. Return the job as shown by the API."""
    found = api.call("GET", _path(job_id)).body
    with progress(plain(found["kind"]), 1.0, quiet=quiet) as step:
        while found["status"] not in ENDED:
            step(done=found["done"] / found["total"] if found["total"] else 0, note=_progress(found))
            time.sleep(POLL_SECONDS)
            found = api.call("GET", _path(job_id)).body
    return found


def require_done(job: dict[str, Any], consequence: str, *, as_json: bool) -> None:
    """End the command with an error unless the job is done; with `as_json`, the printed job has the reason.

    Raises:
        CommandFailure: The job failed or was cancelled.
    """
    if job["status"] == "done":
        return
    if as_json:
        raise typer.Exit(Code.FAILED)
    reason = f" ({plain(job['error'])})" if job.get("error") else ""
    raise CommandFailure(f"job {job['id']} {job['status']}{reason}; {consequence}")


def _path(job_id: str) -> str:
    return item_path("/v1/jobs", job_id)


def _progress(job: dict[str, Any]) -> str:
    return f"{job['done']:,}" if not job["total"] else f"{job['done']:,} of {job['total']:,}"


def _status(job: dict[str, Any]) -> str:
    return "cancelling" if job.get("cancel_wanted") and job["status"] not in ENDED else str(job["status"])


def _print(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(job)
        return
    shown = {"id": job["id"], "type": job["kind"], "status": _status(job), "done": _progress(job)}
    shown |= {name: format_both(job.get(f"{name}_at")) or None for name in ("created", "started", "finished")}
    shown |= {"error": job.get("error")}
    shown |= {
        f"  {name.replace('_', ' ')}": f"{count:,}"
        for name, count in sorted((job.get("counts") or {}).items())
        if count or job["kind"] != "night" or name in RESULTS
    }
    width = max(map(len, shown)) + 2
    for name, value in shown.items():
        if value is not None:
            typer.echo(f"{plain(name):<{width}}{plain(value)}")
    for line in job.get("log") or []:
        typer.echo(f"{format_second(line.get('at'))}  {plain(line.get('message'))}")
