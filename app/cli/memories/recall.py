"""`ebbing recall`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from app.cli.core.moments import METAVAR, moment
from app.cli.core.output import AsJson, Url, examples, print_json
from app.cli.core.place import find

router = typer.Typer()

NEWEST: Final = 100
"""How many messages are sent."""


@router.command(
    epilog=examples(
        "ebbing recall 'What shall I cook for Orla?'",
        "ebbing recall 'I am at the shop' 'Which tea does she like?' --subject orla --limit 3",
        "ebbing recall 'What shall I cook?' --least 0 --limit 3",
        "tail -n 5 chat.txt | ebbing recall - --budget 300",
    )
)
def recall(
    messages: Annotated[
        list[str],
        typer.Argument(help="The recent messages, the newest last; - for those on standard input, a line each."),
    ],
    *,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, max=20, help="Most memories (default: the policy's).")
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(
            "--least", min=0, max=1, help="Only memories of more relevance; 0 for the best (default: the policy's)."
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option("--budget", min=1, max=32_768, help="Most tokens of the text; else the policy's.")
    ] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Only about this subject.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="Only of this thread.")] = None,
    exclude_thread: Annotated[
        str | None, typer.Option("--exclude-thread", help="None of this thread: the conversation's own, say.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only with this tag; several mean all.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Only of this kind; several mean any.")] = None,
    role: Annotated[
        list[str] | None,
        typer.Option("--role", help="Only of this role; several mean any. Without it, all but system and tool."),
    ] = None,
    after: Annotated[
        str | None, typer.Option("--after", callback=moment, metavar=METAVAR, help="Only from this time on.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", callback=moment, metavar=METAVAR, help="Only before this time.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print what a conversation brings to mind, ready to be put before a model.

    Few memories, often none: those that have enough to do with it. Being recalled doesn't strengthen them; report with
    ebbing observe which were used.
    """
    from app.cli.core.client import Api

    given = {
        "limit": limit,
        "least": least,
        "token_budget": budget,
        "subject": subject,
        "thread": thread,
        "exclude_thread": exclude_thread,
        "tags": tag,
        "kinds": kind,
        "roles": role,
        "after": after,
        "before": before,
    }
    said = _said(messages)
    if not said:
        raise typer.BadParameter("there is no message on standard input")
    body = {"messages": said, **{name: value for name, value in given.items() if value or value == 0}}
    with Api(find(url)) as api:
        brought = api.call("POST", "/v1/recall", json=body, safe=True).body
    if as_json:
        print_json(brought)
    elif brought["context"]:
        typer.echo(brought["context"])
    else:
        typer.echo("nothing comes to mind" if not brought["memories"] else "nothing fits the budget", err=True)


def _said(messages: list[str]) -> list[str]:
    """The messages, with the lines of standard input in the place of `-`."""
    said: list[str] = []
    for message in messages:
        if message == "-":
            said += [line.strip() for line in typer.get_text_stream("stdin") if line.strip()]
        else:
            said.append(message)
    return said[-NEWEST:]
