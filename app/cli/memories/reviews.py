"""`ebbing reviews`, `ebbing review` and `ebbing history`: due reviews, their results, and a memory's events."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.filters import Subject, Thread
from app.cli.core.output import AsJson, Url, examples, print_json, print_result, print_rows, print_table
from app.cli.core.time_option import time_option
from app.domain.durations import DAY
from app.domain.formatting import format_number, format_relative, format_second, format_span

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
    if danger and flagged:
        raise CommandFailure("--danger and --flagged can't be combined", Code.USAGE)
    kind = "danger" if danger else "flagged" if flagged else None
    found = call(url, "GET", "/v1/reviews", params=given(limit=limit, subject=subject, thread=thread, by=kind))
    if as_json:
        print_json(found)
        return
    if not found["reviews"]:
        typer.echo(f"no memory is {'in danger' if danger else kind or 'due'}", err=True)
        return
    by = "priority" if danger else "urgency"
    numbers = [by, "importance", "strength"]
    heads = [*numbers, "overdue"]
    rows = [
        (
            *(f"{entry[name]:.2f}" for name in numbers),
            format_span(max(entry["overdue_days"], 0) * DAY),
            entry["review_count"],
            "failed" if entry["flagged"] else "",
            entry["id"],
            entry["text"],
        )
        for entry in found["reviews"]
    ]
    print_table([*heads, "reviews", "last", "id", "text"], rows, right=[*heads, "reviews"])
    if found["total"] > len(rows):
        typer.echo(f"{found['total'] - len(rows):,} more", err=True)


@router.command(epilog=examples("ebbing review ID --passed", "ebbing review ID --failed"))
def review(
    memory_id: Id,
    *,
    passed: Annotated[
        bool | None, typer.Option("--passed/--failed", help="Result of the review.", show_default=False)
    ] = None,
    at: Annotated[str | None, time_option("--at", "Time of the review. Default: now.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Record the result of a review. A pass counts as a use; a failure resets the interval to the policy's first."""
    if passed is None:
        raise CommandFailure("result missing: give --passed or --failed", Code.USAGE)
    body = given(result="passed" if passed else "failed", at=at)
    found = call(url, "POST", item_path("/v1/reviews", memory_id), json=body)
    strength = found["strength"]
    told = "" if found["changed"] else "already recorded; "
    text = (
        f"{told}strength {strength['before']:.3f} → {strength['after']:.3f}, next review "
        f"{format_relative(-found['interval_days'] * DAY)}, on {str(found['next_review_at'])[:10]}"
    )
    print_result(found, text, as_json=as_json)


@router.command(epilog=examples("ebbing history ID", "ebbing history ID --json | jq .history[0]"))
def history(
    memory_id: Id,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of entries.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the events of a memory, newest first."""
    found = call(url, "GET", f"{item_path('/v1/memories', memory_id)}/history", params={"limit": limit})
    names = ("before", "after", "strength")
    rows = (
        (format_second(entry["at"]), entry["kind"].replace("_", " "), *(_short(entry[name]) for name in names))
        for entry in found["history"]
    )
    print_rows(found, ["at", "event", *names], rows, right=names, as_json=as_json)


def _short(value: Any) -> Any:
    return format_number(value) if isinstance(value, float) else value
