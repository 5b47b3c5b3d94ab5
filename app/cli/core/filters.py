"""Options of several commands: filters of memories, the tenant, and the session of a use."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from app.cli.core.time_option import time_option

Labels: TypeAlias = list[str] | None

Subject = Annotated[str | None, typer.Option("--subject", help="Only memories about this subject.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Tenant id. Default: the key's own tenant.")]
Session = Annotated[
    str | None,
    typer.Option("--session", help="Session id; repeated uses in one session reinforce a memory only after a pause."),
]
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
After = Annotated[str | None, time_option("--after", "Only memories from this time on.")]
Before = Annotated[str | None, time_option("--before", "Only memories before this time.")]
