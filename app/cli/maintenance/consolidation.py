"""`ebbing consolidation`: list merges and their lineage; approve, reject and undo them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import typer

from app.cli.core.calls import call, fetch_list, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Commands
from app.cli.core.output import AsJson, Url, examples, plain, print_json, print_result, print_rows
from app.cli.maintenance.jobs import follow_job, require_done
from app.domain.formatting import count_memories, format_minute, format_percent

router = typer.Typer(
    name="consolidation",
    cls=Commands,
    help="List consolidation runs and merges; approve, reject or undo merges.",
    no_args_is_help=True,
    epilog=examples(
        "ebbing consolidation runs",
        "ebbing consolidation merges --status waiting",
        "ebbing consolidation approve ID",
        "ebbing consolidation lineage ID",
        "ebbing consolidation undo ID",
    ),
)

PATH: Final = "/v1/consolidation"

Id = Annotated[str, typer.Argument(help="Id of the merge.", metavar="ID")]
Limit = Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of rows.")]
Status = Literal["waiting", "done", "rejected", "undone", "gone"]


@router.command(epilog=examples("ebbing consolidation runs", "ebbing consolidation runs --json | jq '.runs[0]'"))
def runs(*, limit: Limit = 20, url: Url = None, as_json: AsJson = False) -> None:
    """List consolidation runs, newest first."""
    found = fetch_list(url, f"{PATH}/runs", "runs", limit)
    names = ("looked_at", "linked", "merged", "summaries", "waiting")
    rows = (
        (
            format_minute(each["started_at"]),
            each["started_by"],
            *(each[name] for name in names),
            _share(each["reduction"]),
        )
        for each in found
    )
    heads = ["started", "by", *(name.replace("_", " ") for name in names), "reduction"]
    print_rows({"runs": found}, heads, rows, right=names, as_json=as_json)


@router.command(epilog=examples("ebbing consolidation merges", "ebbing consolidation merges --status waiting --json"))
def merges(
    *,
    status: Annotated[Status | None, typer.Option("--status", help="Only merges with this status.")] = None,
    limit: Limit = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List merges, newest first."""
    found = fetch_list(url, f"{PATH}/merges", "merges", limit, status=status)
    rows = (
        (each["id"], each["created_at"][:10], each["action"], _status(each), len(each["memories"]), each["method"])
        for each in found
    )
    heads = ["id", "created", "action", "status", "memories", "by"]
    print_rows({"merges": found}, heads, rows, right=["memories"], as_json=as_json)


@router.command(epilog=examples("ebbing consolidation show ID", "ebbing consolidation show ID --json"))
def show(merge_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Show the texts and the summary of a merge. For a waiting merge, generate a preview of its summary."""
    found = call(url, "GET", f"{_path(merge_id)}/preview")
    if as_json:
        print_json(found)
        return
    typer.echo(f"{plain(found['id'])} is {found['status']}")
    for each in found["texts"]:
        typer.echo(f"  {'kept  ' if each['kept'] else 'source'}  {plain(each['id'])}  {plain(each['text'])}")
    summary = found["summary"]
    typer.echo(f"summary ({summary['method']}): {plain(summary['text'])}" if summary else "no summary")


@router.command(epilog=examples("ebbing consolidation lineage ID", "ebbing consolidation lineage ID --json"))
def lineage(
    memory_id: Annotated[str, typer.Argument(help="Id of the memory.", metavar="ID")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the source memories of a summary, and the merges that used a memory."""
    found = call(url, "GET", f"{item_path('/v1/memories', memory_id)}/lineage")
    if as_json:
        print_json(found)
        return
    if found["made_from"] is not None:
        _show_lineage("created", found["made_from"])
    for merge in found["merged_into"]:
        _show_lineage("used", merge)
    if found["made_from"] is None and not found["merged_into"]:
        typer.echo(f"{plain(found['id'])} is not part of any merge")


def _show_lineage(part: str, merge: dict[str, Any]) -> None:
    into = f", summary {plain(merge['summary_id'])}" if merge["summary_id"] else ""
    typer.echo(f"{part} by merge {plain(merge['id'])} ({merge['action']}, {_status(merge)}{into})")
    for each in merge["memories"]:
        typer.echo(f"  {each['part']:<6}  {plain(each['id'])}")


@router.command(epilog=examples("ebbing consolidation approve ID"))
def approve(merge_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Approve a waiting merge and wait until it is applied."""
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        started = api.call("POST", f"{_path(merge_id)}/approve").body
        ended = follow_job(api, started["job_id"], quiet=as_json)
    if as_json or ended["status"] == "done":
        print_result(
            ended,
            f"applied merge {plain(merge_id)}: {count_memories(ended['done'])} summarised",
            as_json=as_json,
        )
    require_done(ended, "the merge was not applied", as_json=as_json)


@router.command(epilog=examples("ebbing consolidation reject ID"))
def reject(merge_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Reject a waiting merge; the same memories won't be proposed again."""
    _decide(merge_id, "reject", "is rejected", url, as_json=as_json)


@router.command(epilog=examples("ebbing consolidation undo ID"))
def undo(merge_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Undo a merge: delete its summary and reactivate its source memories unchanged."""
    _decide(merge_id, "undo", "is undone", url, as_json=as_json)


def _decide(merge_id: str, verb: str, told: str, url: str | None, *, as_json: bool) -> None:
    done = call(url, "POST", f"{_path(merge_id)}/{verb}")
    print_result(done, f"{plain(done['id'])} {told}", as_json=as_json)


def _path(merge_id: str) -> str:
    return item_path(f"{PATH}/merges", merge_id)


def _status(merge: dict[str, Any]) -> str:
    return f"{merge['status']}, stale" if merge["is_stale"] else str(merge["status"])


def _share(value: float | None) -> str:
    return "" if value is None else format_percent(value)
