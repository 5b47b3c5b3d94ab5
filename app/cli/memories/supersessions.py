"""`ebbing supersede`: list, add, approve, reject and undo supersessions of memories."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, fetch_list, item_path
from app.cli.core.errors import Commands
from app.cli.core.output import AsJson, Url, examples, plain, print_json, print_result, print_rows

router = typer.Typer(
    name="supersede",
    cls=Commands,
    help="List, add and undo supersessions, and decide on proposed ones.",
    no_args_is_help=True,
    epilog=examples(
        "ebbing supersede list --status proposed", "ebbing supersede approve ID", "ebbing supersede add NEWER OLDER"
    ),
)

PATH: Final = "/v1/supersessions"
SHOWN: Final = 60
"""Maximum characters of a printed text."""

Id = Annotated[str, typer.Argument(help="Id of the supersession.", metavar="ID")]


@router.command(
    "list",
    epilog=examples(
        "ebbing supersede list --status proposed",
        "ebbing supersede list --memory ID",
        "ebbing supersede list --json | jq '.supersessions[].id'",
    ),
)
def list_supersessions(
    *,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="Only supersessions with this status: active, waiting (for the older memory), proposed or rejected.",
        ),
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", help="Only supersessions of this memory.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of supersessions.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List supersessions and proposals, newest first."""
    found = fetch_list(url, PATH, "supersessions", limit, status=status, memory=memory)
    rows = (
        (each["id"], _status(each), each["source"], _text(each["memory"]), _text(each["supersedes"]) or each["named"])
        for each in found
    )
    print_rows({"supersessions": found}, ["id", "status", "by", "newer", "older"], rows, as_json=as_json)


@router.command(epilog=examples("ebbing supersede add NEWER OLDER", "ebbing supersede add fact-2 fact-1 --json"))
def add(
    newer: Annotated[
        str, typer.Argument(help="Memory that is current: its id, or your own id for it.", metavar="NEWER")
    ],
    older: Annotated[
        str, typer.Argument(help="Memory that is outdated: its id, or your own id for it.", metavar="OLDER")
    ],
    *,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Mark a memory as superseding another: searches return the newer one with a reference to the older."""
    _show(call(url, "POST", PATH, json={"memory": newer, "supersedes": older}), as_json=as_json)


@router.command(epilog=examples("ebbing supersede approve ID"))
def approve(supersession_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Approve a proposed supersession."""
    _show(call(url, "POST", f"{_path(supersession_id)}/approve"), as_json=as_json)


@router.command(epilog=examples("ebbing supersede reject ID"))
def reject(supersession_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Reject a proposed supersession; it won't be proposed again."""
    _show(call(url, "POST", f"{_path(supersession_id)}/reject"), as_json=as_json)


@router.command(epilog=examples("ebbing supersede undo ID", "ebbing supersede undo ID --json"))
def undo(supersession_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Undo a supersession: the older memory becomes current again."""
    call(url, "DELETE", _path(supersession_id))
    print_result({"id": supersession_id, "undone": True}, f"{plain(supersession_id)} is undone", as_json=as_json)


def _show(found: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    typer.echo(f"{plain(found['id'])} is {_status(found)}")
    typer.echo(f"  newer  {plain(_text(found['memory']))}")
    typer.echo(f"  older  {plain(_text(found['supersedes']))}")


def _status(found: dict[str, Any]) -> str:
    reason = f" ({found['reason']})" if found["reason"] else ""
    return f"{found['status']}{reason}"


def _text(memory: dict[str, Any]) -> str:
    text = " ".join((memory["text"] or "").split())
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _path(supersession_id: str) -> str:
    return item_path(PATH, supersession_id)
