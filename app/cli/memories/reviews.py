"""`ebbing reviews`, `ebbing review` and `ebbing history`: due reviews, their results, and a memory's events."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.core.calls import item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.filters import Subject, Thread
from app.cli.core.output import AsJson, Url, examples, print_json, print_table
from app.cli.core.time_option import METAVAR, parse_time

router = typer.Typer()

Id = Annotated[str, typer.Argument(help="Id of the memory.", metavar="ID")]


@router.command(epilog=examples("ebbing reviews", "ebbing reviews --subject orla --limit 5", "ebbing reviews --danger"))
def reviews(
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, max=1000, help="Maximum number of memories.")
    ] = None,
    subject: Subject = None,
    thread: Thread = None,
    danger: Annotated[
        bool,
        typer.Option(
            "--danger", help="List memories that are close to being forgotten instead of those due for review."
        ),
    ] = False,
    flagged: Annotated[
        bool,
        typer.Option(
            "--flagged", help="List memories whose last review or self-test failed instead of those due for review."
        ),
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the memories to review now, most urgent first."""
    from app.cli.core.client import Api

    if danger and flagged:
        raise CommandFailure("--danger and --flagged can't be combined", Code.USAGE)
    kind = "danger" if danger else "flagged" if flagged else None
    wanted = {"limit": limit, "subject": subject, "thread": thread, "by": kind}
    params = {name: value for name, value in wanted.items() if value is not None}
    with Api(find_connection(url)) as api:
        found = api.call("GET", "/v1/reviews", params=params).body
    if as_json:
        print_json(found)
        return
    if not found["reviews"]:
        typer.echo(f"no memory is {'in danger' if danger else kind or 'due'}", err=True)
        return
    by = "priority" if danger else "urgency"
    numbers = [by, "importance", "strength", "overdue_days"]
    heads = [name.replace("_", " ") for name in numbers]
    rows = [
        (
            *(f"{entry[name]:.2f}" for name in numbers),
            entry["review_count"],
            "failed" if entry["flagged"] else "",
            entry["id"],
            entry["text"],
        )
        for entry in found["reviews"]
    ]
    print_table([*heads, "reviews", "last", "id", "text"], rows, right=[*heads, "reviews"])
    if found["total"] > len(rows):
        typer.echo(f"{found['total'] - len(rows)} more", err=True)


@router.command(epilog=examples("ebbing review ID --passed", "ebbing review ID --failed"))
def review(
    memory_id: Id,
    *,
    passed: Annotated[
        bool | None, typer.Option("--passed/--failed", help="Result of the review.", show_default=False)
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", callback=parse_time, metavar=METAVAR, help="Time of the review. Default: now.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Record the result of a review. A pass counts as a use; after a failure, the next review is in one day."""
    from app.cli.core.client import Api

    if passed is None:
        raise CommandFailure("result missing: give --passed or --failed", Code.USAGE)
    given = {"result": "passed" if passed else "failed"} | ({"at": at} if at else {})
    with Api(find_connection(url)) as api:
        found = api.call("POST", item_path("/v1/reviews", memory_id), json=given, safe=at is not None).body
    if as_json:
        print_json(found)
        return
    strength = found["strength"]
    told = "" if found["changed"] else "already recorded; "
    typer.echo(
        f"{told}strength {strength['before']:.3f} → {strength['after']:.3f}, next review in "
        f"{found['interval_days']:g} days, on {str(found['next_review_at'])[:10]}"
    )


@router.command(epilog=examples("ebbing history ID", "ebbing history ID --json | jq .history[0]"))
def history(
    memory_id: Id,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of entries.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of a memory, newest first."""
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        found = api.call("GET", f"{item_path('/v1/memories', memory_id)}/history", params={"limit": limit}).body
    if as_json:
        print_json(found)
        return
    names = ("before", "after", "strength")
    rows = [(entry["at"], entry["kind"], *(_short(entry[name]) for name in names)) for entry in found["history"]]
    print_table(["at", "event", *names], rows, right=names)


def _short(value: Any) -> Any:
    return f"{value:.4g}" if isinstance(value, float) else value
