"""`ebbing threads`: list threads, or the memories of one thread in order."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import fetch_list
from app.cli.core.filters import Sources, Subject
from app.cli.core.output import AsJson, Url, examples, plain, print_rows
from app.domain.formatting import format_minute

router = typer.Typer()

PATH: Final = "/v1/threads"


@router.command(
    epilog=examples(
        "ebbing threads",
        "ebbing threads --subject orla",
        "ebbing threads support-4711 --limit 20 --json",
        "ebbing threads support-4711 --source user",
    )
)
def threads(
    thread: Annotated[str | None, typer.Argument(help="List the memories of this thread.", metavar="THREAD")] = None,
    *,
    subject: Subject = None,
    source: Sources = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of entries.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List threads by name with their counts and times, or the memories of a thread in the order of acceptance."""
    if source and thread is None:
        raise typer.BadParameter("applies to the memories of a thread: give THREAD", param_hint="--source")
    if thread is not None:
        turns = fetch_list(
            url, "/v1/memories", "memories", limit, thread=thread, order="thread", subject=subject, sources=source
        )
        said = [
            (
                each["turn"],
                format_minute(each["occurred_at"] or each["created_at"]),
                _speaker(each),
                plain(each["text"]),
            )
            for each in turns
        ]
        print_rows({"memories": turns}, ["turn", "when", "speaker", "text"], said, right=["turn"], as_json=as_json)
        return
    found = fetch_list(url, PATH, "threads", limit, subject=subject)
    rows = [
        (
            plain(each["thread"]),
            each["memories"],
            format_minute(each["first_at"]),
            format_minute(each["last_at"]),
            _subjects(each),
        )
        for each in found
    ]
    heads = ["thread", "memories", "first", "last", "subjects"]
    print_rows({"threads": found}, heads, rows, right=["memories"], as_json=as_json)


def _speaker(memory: dict[str, Any]) -> str:
    return plain(memory["speaker"] or memory["role"] or "")


def _subjects(thread: dict[str, Any]) -> str:
    shown = ", ".join(map(plain, thread["subjects"]))
    more = thread["subject_count"] - len(thread["subjects"])
    return f"{shown} and {more:,} more" if more else shown
