"""`ebbing queue`: show whether Redis is the installation's and what it lost, and go on with another one."""

from __future__ import annotations

from typing import Final

import typer

from app.cli.core.calls import call
from app.cli.core.errors import Commands
from app.cli.core.output import AsJson, Url, Yes, confirm, count_of, examples, print_json, print_result, print_table

PATH: Final = "/v1/admin/queue"

router = typer.Typer(
    name="queue",
    cls=Commands,
    help="Show whether Redis is this installation's queue, and the requests that it lost.",
    invoke_without_command=True,
    epilog=examples("ebbing queue", "ebbing queue accept --yes"),
)


@router.callback()
def show_queue(context: typer.Context, *, url: Url = None, as_json: AsJson = False) -> None:
    """Show the queue's state, and the requests that were accepted and lost, by tenant."""
    if context.invoked_subcommand is not None:
        return
    found = call(url, "GET", PATH)
    if as_json:
        print_json(found)
        return
    typer.echo(found["refused"] or "Redis is this installation's queue.")
    lost = found["lost_requests"]
    typer.echo(f"{count_of(lost, 'request', 'requests')} lost" if lost else "No request is known to be lost.")
    names = ("tenant", "requests", "memories", "first_at", "last_at", "found_at")
    if found["gaps"]:
        print_table(names, [[gap.get(name) for name in names] for gap in found["gaps"]])


@router.command("accept", epilog=examples("ebbing queue accept", "ebbing queue accept --yes"))
def accept_queue(
    *,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Go on with the present Redis: requests that it doesn't have and that weren't stored are lost.

    Also marks the losses shown by `ebbing queue` as known. Check EBBING_REDIS_URL first: another installation that uses
    this Redis would then be refused.
    """
    if not yes:
        confirm("Requests that this Redis doesn't have and that weren't stored are lost. Go on?")
    found = call(url, "POST", f"{PATH}/accept")
    text = found["refused"] or "Requests are accepted again. Losses are counted within a minute: `ebbing queue`."
    print_result(found, text, as_json=as_json)
