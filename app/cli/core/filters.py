"""Options of several commands: filters of memories, the tenant, and the session of a use."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from app.cli.core.time_option import time_option
from app.domain.ingest.sources import SOURCES

Labels: TypeAlias = list[str] | None


def check_sources(given: str | list[str] | None) -> str | list[str] | None:
    """Return the given source or sources (option callback).

    Raises:
        typer.BadParameter: One isn't a source.
    """
    for source in [given] if isinstance(given, str) else given or []:
        if source not in SOURCES:
            raise typer.BadParameter(f"{source!r} isn't a source: use {', '.join(SOURCES[:-1])} or {SOURCES[-1]}")
    return given


Subject = Annotated[str | None, typer.Option("--subject", help="Only memories about this subject.")]
Tenant = Annotated[
    str | None, typer.Option("--tenant", help="Tenant id. Default: the tenant of the API key that you use.")
]
Session = Annotated[
    str | None,
    typer.Option(
        "--session",
        help="Session id. Within a session, repeated uses of a memory count once per interval; the policy sets the "
        "interval (default: one minute).",
    ),
]
Thread = Annotated[str | None, typer.Option("--thread", help="Only memories of this thread.")]
ExcludeThread = Annotated[
    str | None,
    typer.Option("--exclude-thread", help="Exclude memories of this thread, such as the current conversation."),
]
Tags = Annotated[Labels, typer.Option("--tag", help="Only memories with this tag. Repeatable; all tags must match.")]
Categories = Annotated[
    Labels,
    typer.Option(
        "--category",
        help="Only memories to which an application assigned this category. Repeatable; memories of any of the given "
        "categories match.",
    ),
]
Entities = Annotated[
    Labels, typer.Option("--entity", help="Only memories with this entity. Repeatable; all entities must match.")
]
Speaker = Annotated[str | None, typer.Option("--speaker", help="Only memories of the speaker with this name.")]
Metadata = Annotated[
    Labels,
    typer.Option(
        "--metadata",
        metavar="NAME=VALUE",
        help="Only memories with this metadata value. VALUE is JSON or plain text, such as source=crm. If VALUE is a "
        "list, the memory's list must contain all elements of VALUE. Repeatable; all values must match.",
    ),
]
ExternalId = Annotated[str | None, typer.Option("--external-id", help="Only the memory with this external id.")]
Ids = Annotated[Labels, typer.Option("--memory", help="Only the memory with this id. Repeatable; any of them matches.")]
Kinds = Annotated[
    Labels,
    typer.Option(
        "--kind",
        help="Only memories of this kind: episodic, semantic, procedural, emotional or system. Repeatable; memories of "
        "any of the given kinds match.",
    ),
]
Roles = Annotated[
    Labels,
    typer.Option(
        "--role",
        help="Only memories whose sender has this role, such as user. Repeatable; any of the given roles matches. "
        "Default: every role except system and tool.",
    ),
]
Sources = Annotated[
    Labels,
    typer.Option(
        "--source",
        callback=check_sources,
        help=f"Only memories of this source: {', '.join(SOURCES[:-1])} or {SOURCES[-1]}. Repeatable; memories of any "
        "of the given sources match.",
    ),
]
After = Annotated[
    str | None,
    time_option(
        "--after",
        "Only memories whose event time is at or after this time. If no event time is set, the acceptance time counts.",
    ),
]
Before = Annotated[
    str | None,
    time_option(
        "--before",
        "Only memories whose event time is before this time. If no event time is set, the acceptance time counts.",
    ),
]
