"""`ebbing erase`: hide matching memories at once and erase them everywhere after the grace period."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import given
from app.cli.core.connection import find_connection
from app.cli.core.filters import After, Before, Categories, Labels, Tags
from app.cli.core.output import AsJson, Url, Yes, confirm, count_of, examples, plain, print_result
from app.cli.core.renamed_options import with_renamed_options

router = typer.Typer()

PATH: Final = "/v1/privacy/erasures"


@router.command(
    cls=with_renamed_options({"--kind": "--law"}),
    epilog=examples(
        "ebbing erase orla --dry-run",
        "ebbing erase orla --law gdpr",
        "ebbing erase --thread chat-17 --grace-days 0 --yes",
        "ebbing erase --id ID --id ID",
        "ebbing erase orla --category health --before 2026-01-01",
    ),
)
def erase(
    subject: Annotated[
        str | None, typer.Argument(help="Subject whose data is erased.", metavar="SUBJECT", show_default=False)
    ] = None,
    *,
    ids: Annotated[
        Labels, typer.Option("--id", help="Id of a memory. Repeatable; can't be combined with other conditions.")
    ] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="Only memories of this thread.")] = None,
    tags: Tags = None,
    categories: Categories = None,
    after: After = None,
    before: Before = None,
    law: Annotated[
        str,
        typer.Option("--law", help="`gdpr` or `ccpa` for a request under that law, `user` for any other deletion."),
    ] = "user",
    grace_days: Annotated[
        int | None,
        typer.Option(
            "--grace-days",
            min=0,
            max=30,
            help="Grace period in days, during which the erasure can be cancelled. Default: 30. With --law gdpr "
            "or ccpa: default 7, maximum 14.",
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, stored until the erasure completes.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be erased and when, without erasing it.")
    ] = False,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Erase memories by id, or all memories that match every given condition (subject, thread, tag, …).

    Matching memories are hidden from searches and lists before the command returns. Until the grace period ends, the
    erasure can be cancelled with `ebbing privacy cancel ID`.
    """
    from app.cli.core.client import Api
    from app.cli.core.errors import Code, CommandFailure

    by = given(tags=tags or None, categories=categories or None, after=after, before=before)
    body = given(subject=subject or None, ids=ids or None, thread=thread or None, filter=by or None)
    if not body:
        raise CommandFailure("nothing selected: give a SUBJECT, --id, --thread or another condition", Code.USAGE)
    body |= given(kind=law, grace_days=grace_days, reason=reason)
    with Api(find_connection(url)) as api:
        if dry_run or not yes:
            would = api.call("POST", PATH, json=body | {"dry_run": True}).body
            if dry_run:
                print_result(would, f"Would hide {_many(would)} at once, and {_when(would)}.", as_json=as_json)
                return
            confirm(f"Hide {_many(would)} at once, and {_when(would)}?")
        done = api.call("POST", PATH, json=body).body
    hidden = count_of(done["hidden"], "memory", "memories")
    print_result(done, f"Erasure {plain(done['erasure_id'])}: {hidden} hidden; it will {_when(done)}.", as_json=as_json)


def _many(would: dict[str, Any]) -> str:
    held = f" ({would['held']} under legal hold, erased after the hold is released)" if would["held"] else ""
    return count_of(would["memories"], "memory", "memories") + held


def _when(would: dict[str, Any]) -> str:
    due = f" (legal deadline {would['due_at'][:10]})" if would["due_at"] else ""
    return f"erase them permanently after {format_minute(would['erase_after'])}{due}"


def format_minute(moment: str) -> str:
    """Return a timestamp as date and time in UTC."""
    return f"{moment[:10]} {moment[11:16]} UTC"
