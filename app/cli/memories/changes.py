"""`ebbing changes`: list or follow the feed of changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.calls import given
from app.cli.core.connection import find_connection
from app.cli.core.output import AsJson, Url, examples, print_json, print_rows
from app.domain.formatting import format_second

if TYPE_CHECKING:
    from app.cli.core.client import Api

router = typer.Typer()

PATH: Final = "/v1/changes"
PAGE_MAX: Final = 1000
POLL_SECONDS: Final = 1.0
PATIENCE_SECONDS: Final = 60.0


@router.command(
    epilog=examples(
        "ebbing changes --types erasure.completed,dead_letter.created",
        "ebbing changes --follow",
        "ebbing changes --cursor CURSOR --json | jq .next_cursor",
    )
)
def changes(
    *,
    types: Annotated[
        str | None, typer.Option("--types", help="Only these types, separated by commas, such as memory.deleted.")
    ] = None,
    cursor: Annotated[
        str | None,
        typer.Option("--cursor", help="Begin after the change with this cursor. Default: the oldest retained change."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print changes as they come; begin now unless --cursor is given.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of changes to list.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List changes in the order of their commits: time, type and id.

    The type says whose id it is: that of a memory, an erasure, an export, a dead letter or a job.

    With --json, --follow prints one JSON object per line. Changes are retained for the policy's `changes.keep_days`.
    """
    from app.cli.core.client import Api

    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS if follow else 0) as api:
        if follow:
            _follow(api, cursor or "newest", types, as_json=as_json)
            return
        found: dict[str, Any] = {"changes": [], "next_cursor": cursor, "has_more": True}
        while found["has_more"] and (wanted := limit - len(found["changes"])) > 0:
            page = _read(api, found["next_cursor"], types, min(wanted, PAGE_MAX))
            found = page | {"changes": found["changes"] + page["changes"]}
    rows = [(format_second(change["at"]), change["type"], change["id"]) for change in found["changes"]]
    print_rows(found, ["time", "type", "id"], rows, as_json=as_json)


def _follow(api: Api, cursor: str, types: str | None, *, as_json: bool) -> None:
    """Print changes until the command is interrupted."""
    while True:
        page = _read(api, cursor, types, PAGE_MAX)
        for change in page["changes"]:
            if as_json:
                print_json(change)
            else:
                typer.echo(f"{format_second(change['at'])}  {change['type']}  {change['id']}")
        cursor = page["next_cursor"]
        if not page["has_more"]:
            time.sleep(POLL_SECONDS)


def _read(api: Api, cursor: str | None, types: str | None, limit: int) -> dict[str, Any]:
    return api.call("GET", PATH, params=given(cursor=cursor, types=types, limit=limit)).body
