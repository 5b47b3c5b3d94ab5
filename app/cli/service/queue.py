"""`ebbing queue`: check Redis's identity, list lost requests, and accept another Redis as the queue."""

from __future__ import annotations

from typing import Final

import typer

from app.cli.core.calls import call
from app.cli.core.errors import Commands
from app.cli.core.output import AsJson, Url, Yes, confirm, count_of, examples, print_json, print_result, print_table
from app.domain.formatting import format_minute

PATH: Final = "/v1/admin/queue"

router = typer.Typer(
    name="queue",
    cls=Commands,
    help="Check that Redis is the one that this installation used before, and list the lost requests by tenant.",
    invoke_without_command=True,
    epilog=examples("ebbing queue", "ebbing queue accept --yes"),
)


@router.callback()
def show_queue(context: typer.Context, *, url: Url = None, as_json: AsJson = False) -> None:
    """Show the queue's state, and the accepted requests that were lost, by tenant."""
    if context.invoked_subcommand is not None:
        return
    found = call(url, "GET", PATH)
    if as_json:
        print_json(found)
        return
    typer.echo(found["refused"] or "Redis is this installation's queue.")
    lost = found["lost_requests"]
    typer.echo(f"{count_of(lost, 'request', 'requests')} lost" if lost else "No request is known to be lost.")
    names, dates = ("tenant", "requests", "memories"), ("first_at", "last_at", "found_at")
    if found["gaps"]:
        rows = [
            (*(gap.get(name) for name in names), *(format_minute(gap.get(name)) for name in dates))
            for gap in found["gaps"]
        ]
        heads = [*names, *(name.removesuffix("_at") for name in dates)]
        print_table(heads, rows, right=["requests", "memories"])


@router.command("accept", epilog=examples("ebbing queue accept", "ebbing queue accept --yes"))
def accept_queue(
    *,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Accept this Redis as the queue. Requests answered with 202 are then lost if neither it nor PostgreSQL has them.

    Also marks the losses shown by `ebbing queue` as known. If another installation uses this Redis, accepting it here
    locks that installation out: check EBBING_REDIS_URL first.
    """
    if not yes:
        confirm("Accept this Redis? Requests that are neither in it nor in PostgreSQL are lost.")
    found = call(url, "POST", f"{PATH}/accept")
    text = found["refused"] or "Requests are accepted again. Losses are counted within a minute: `ebbing queue`."
    print_result(found, text, as_json=as_json)
