"""`ebbing reembed`: move tenants to the embedding model in the settings."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.connection import find_connection
from app.cli.core.errors import CommandFailure
from app.cli.core.output import AsJson, Url, count_of, examples, print_json, print_result, progress
from app.cli.maintenance.jobs import follow_job, require_done
from app.domain.formatting import count_memories

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
        bool,
        typer.Option(
            "--every-tenant", help="Move every tenant that uses another model; needs a key with the scope `admin`."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the memories to embed, without embedding them.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Start the job without waiting for it.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Move the key's tenant to the embedding model in the service's settings.

    Searches use the old model until every memory is embedded with the new one, then switch in one step. Ctrl-C doesn't
    stop the job; run the command again to follow it.
    """
    from app.cli.core.client import Api

    wanted = {"every_tenant": True} if every_tenant else {}
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        if dry_run:
            counts = _counts(api, wanted)
            print_result(
                {"counts": counts},
                f"{count_memories(counts['memories'])} would be embedded",
                as_json=as_json,
            )
            return
        started = api.call("POST", PATH, json=wanted, safe=True).body
        if no_wait:
            _show_started(started, as_json=as_json)
        elif every_tenant:
            left, moved = _follow_all(api, wanted, quiet=as_json), len(started["job_ids"])
            text = f"{count_of(moved, 'tenant', 'tenants')} moved" if moved else "all tenants already use this model"
            print_result({**started, "counts": left}, text, as_json=as_json)
        else:
            _show_ended(follow_job(api, started["job_id"], quiet=as_json), as_json=as_json)


def _counts(api: Api, wanted: dict[str, bool]) -> dict[str, int]:
    counts: dict[str, int] = api.call("POST", PATH, json={**wanted, "dry_run": True}, safe=True).body["counts"]
    return counts


def _follow_all(api: Api, wanted: dict[str, bool], *, quiet: bool) -> dict[str, int]:
    """Wait until every tenant has moved. Jobs of other tenants aren't visible, so poll the remaining counts.

    Raises:
        CommandFailure: The remaining counts didn't change for `STANDSTILL_SECONDS`.
    """
    left = _counts(api, wanted)
    most, since = left["memories"], time.monotonic()
    with progress("embedding", 1.0, quiet=quiet) as step:
        while left["tenants"]:
            note = f"{count_memories(left['memories'])} of {count_of(left['tenants'], 'tenant', 'tenants')} left"
            step(done=1 - left["memories"] / most if most else 0, note=note)
            time.sleep(POLL_SECONDS)
            before, asked = left, time.monotonic()
            left = _counts(api, wanted)
            if left != before:
                since = time.monotonic()
            elif time.monotonic() - since > STANDSTILL_SECONDS:
                raise CommandFailure(
                    f"{note} and no progress for {STANDSTILL_SECONDS:g} s; these tenants still use their old model: "
                    "check `ebbing doctor` and the log of the maintain worker"
                )
            time.sleep(time.monotonic() - asked)  # spend at most half of the time on counting
    return left


def _show_started(started: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(started)
        return
    for job_id in started.get("job_ids", [started.get("job_id")]):
        typer.echo(f"started job {job_id}")


def _show_ended(job: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(job)
    elif job["status"] == "done":
        typer.echo(f"{count_memories(job['done'])} embedded; searches use the new model")
        if aside := job["counts"].get("set_aside"):
            typer.echo(
                f"{aside:,} couldn't be embedded: see `ebbing dead-letters`; they are found by words only", err=True
            )
    require_done(job, "searches still use the old model", as_json=as_json)
