"""`ebbing quarantine`: hide what an API key or a source wrote in a period, list quarantines and lift them."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, fetch_list, given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Commands
from app.cli.core.filters import check_sources
from app.cli.core.output import (
    AsJson,
    Url,
    Yes,
    confirm,
    count_of,
    examples,
    plain,
    print_result,
    print_rows,
)
from app.cli.core.time_option import time_option
from app.domain.formatting import format_minute
from app.domain.ingest.sources import SOURCES

router = typer.Typer(
    name="quarantine",
    cls=Commands,
    help="Hide what a key or source wrote, and show it again.",
    no_args_is_help=True,
    epilog=examples(
        "ebbing quarantine place --key KEY_ID --after 2026-11-01",
        "ebbing quarantine list",
        "ebbing quarantine lift ID",
    ),
)

PATH: Final = "/v1/quarantines"
Id = Annotated[str, typer.Argument(help="Id of the quarantine.", metavar="ID")]


@router.command(
    epilog=examples(
        "ebbing quarantine place --key KEY_ID --dry-run",
        "ebbing quarantine place --source tool --after 2026-11-01 --before 2026-11-08 --yes",
    )
)
def place(
    *,
    key: Annotated[str | None, typer.Option("--key", help="Everything that the API key with this id wrote.")] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", callback=check_sources, help=f"Everything of this source: {', '.join(SOURCES)}."),
    ] = None,
    after: Annotated[str | None, time_option("--after", "Only what was written at this time or later.")] = None,
    before: Annotated[str | None, time_option("--before", "Only what was written before this. Default: now.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show how many memories would be hidden.")] = False,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Hide everything that an API key or a source wrote in a period, and the summaries made from it.

    Nothing is deleted: `ebbing quarantine lift` shows the same memories again.
    """
    from app.cli.core.client import Api

    if (key is None) == (source is None):
        raise typer.BadParameter("give either --key or --source")
    body: dict[str, Any] = given(key_id=key, source=source, after=after, before=before)
    with Api(find_connection(url)) as api:
        counts = api.call("POST", PATH, json=body).body
        if dry_run:
            print_result(counts, f"would hide {_describe_counts(counts)}", as_json=as_json)
            return
        if not yes:
            confirm(f"Hide {_describe_counts(counts)}?")
        placed = api.call("POST", PATH, json=body | {"before": counts["before"], "confirm": True}).body
    hidden = count_of(placed["memories"], "memory", "memories")
    print_result(placed, f"quarantine {plain(placed['id'])} is {placed['status']}: {hidden} hidden", as_json=as_json)
    if key is not None and not as_json:
        typer.echo(f"New memories of this key aren't hidden. To revoke it: ebbing keys revoke {plain(key)}", err=True)


@router.command("list", epilog=examples("ebbing quarantine list", "ebbing quarantine list --lifted --json"))
def list_quarantines(
    *,
    lifted: Annotated[bool, typer.Option("--lifted", help="Include lifted quarantines.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List quarantines, newest first."""
    found = fetch_list(url, PATH, "quarantines", lifted=lifted or None)
    rows = (
        (
            row["id"],
            _describe_terms(row),
            row["status"],
            row["memories"],
            format_minute(row["placed_at"]),
        )
        for row in found
    )
    heads = ["id", "covers", "status", "memories", "placed"]
    print_rows({"quarantines": found}, heads, rows, as_json=as_json)


@router.command(epilog=examples("ebbing quarantine lift ID", "ebbing quarantine lift ID --yes"))
def lift(quarantine_id: Id, *, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Lift a quarantine: its memories are shown again, unless an erasure or another quarantine covers them."""
    path = item_path(PATH, quarantine_id)
    if not yes:
        found = call(url, "GET", path)
        confirm(f"Show {count_of(found['memories'], 'memory', 'memories')} of quarantine {plain(found['id'])} again?")
    done = call(url, "POST", f"{path}/lift")
    print_result(done, f"quarantine {plain(done['id'])} is {done['status']}", as_json=as_json)


def _describe_counts(counts: dict[str, Any]) -> str:
    """Return how many memories and summaries a quarantine would hide, and how many are hidden already."""
    parts = [count_of(counts["memories"], "memory", "memories")]
    if counts["held"]:
        parts.append(f"{counts['held']:,} of them under a legal hold")
    if counts["summaries"]:
        parts.append(f"and {count_of(counts['summaries'], 'summary', 'summaries')} until regenerated without them")
    hidden = f" ({counts['hidden']:,} more are hidden already)" if counts["hidden"] else ""
    return ", ".join(parts) + hidden


def _describe_terms(found: dict[str, Any]) -> str:
    what = f"key {plain(found['key_id'])}" if found["key_id"] else f"source {found['source']}"
    since = f" from {format_minute(found['after'])}" if found["after"] else ""
    return f"{what}{since} to {format_minute(found['before'])}"
