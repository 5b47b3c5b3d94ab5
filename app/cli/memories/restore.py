"""`ebbing restore`: restore memories from the archive and from cold storage."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from app.cli.core.calls import item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import AsJson, Url, examples, plain, print_json
from app.cli.maintenance.jobs import follow_job

PATIENCE_SECONDS: Final = 60.0

router = typer.Typer()


@router.command(epilog=examples("ebbing restore ID", "ebbing restore ID ID --wait", "ebbing restore ID --json"))
def restore(
    memory_ids: Annotated[list[str], typer.Argument(help="Ids of the memories.", metavar="ID")],
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until memories in cold storage are restored.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Restore memories: from the archive at once, from cold storage by a background job. Each counts as a use."""
    from app.cli.core.client import Api

    answers: list[dict[str, object]] = []
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        for memory_id in memory_ids:
            answer = api.call("POST", f"{item_path('/v1/memories', memory_id)}/restore", safe=True)
            job_id = answer.body.get("job_id")
            if job_id is not None and wait:
                ended = follow_job(api, job_id, quiet=as_json)
                if ended["status"] != "done" or ended["counts"].get("failed"):
                    raise CommandFailure(
                        f"{plain(memory_id)} was not restored: see `ebbing jobs show {plain(job_id)}`", Code.FAILED
                    )
            answers.append({"id": memory_id, "job_id": job_id})
            if not as_json:
                coming = job_id is not None and not wait
                typer.echo(
                    f"{plain(memory_id)} " + (f"is being restored by job {plain(job_id)}" if coming else "is active")
                )
    if as_json:
        print_json({"restored": answers})
