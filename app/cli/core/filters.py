"""Options that select memories."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from app.cli.core.time_option import METAVAR, parse_time

Labels: TypeAlias = list[str] | None

Subject = Annotated[str | None, typer.Option("--subject", help="Only memories about this subject.")]
Thread = Annotated[str | None, typer.Option("--thread", help="Only memories of this thread.")]
ExcludeThread = Annotated[
    str | None,
    typer.Option("--exclude-thread", help="Exclude memories of this thread, such as the current conversation."),
]
Tags = Annotated[Labels, typer.Option("--tag", help="Only memories with this tag. Repeatable; all tags must match.")]
Categories = Annotated[
    Labels, typer.Option("--category", help="Only memories of this category. Repeatable; any category matches.")
]
Kinds = Annotated[Labels, typer.Option("--kind", help="Only memories of this kind. Repeatable; any kind matches.")]
Roles = Annotated[
    Labels,
    typer.Option(
        "--role",
        help="Only memories of this role. Repeatable; any role matches. Default: every role except system and tool.",
    ),
]
After = Annotated[
    str | None,
    typer.Option(
        "--after",
        callback=parse_time,
        metavar=METAVAR,
        help="Only memories whose event (if its time is unknown: acceptance) was at or after this time.",
    ),
]
Before = Annotated[
    str | None,
    typer.Option(
        "--before",
        callback=parse_time,
        metavar=METAVAR,
        help="Only memories whose event (if its time is unknown: acceptance) was before this time.",
    ),
]
