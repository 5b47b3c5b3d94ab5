"""`ebbing erase`: hide matching memories at once and erase them everywhere after the grace period."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import given
from app.cli.core.connection import find_connection
from app.cli.core.filters import After, Before, Categories, Labels, Tags
from app.cli.core.output import AsJson, Url, Yes, confirm, count_of, examples, plain, print_result
from app.cli.core.renamed_options import with_renamed_options
from app.cli.core.time_option import time_option
from app.cli.privacy.near_names import AsWritten, end_dry_run, list_other_spellings, refuse_unknown, warn_unknown
from app.domain.formatting import format_minute

router = typer.Typer()

PATH: Final = "/v1/privacy/erasures"
Controller = Annotated[
    str | None,
    typer.Option(
        "--controller",
        help="Name and address of the company that answers the request, stated in reports, letters and exports.",
    ),
]
CaseReference = Annotated[
    str | None,
    typer.Option(
        "--case",
        help="Reference of the case or letter, stated in reports, letters and exports; must not contain personal data.",
    ),
]

Received = Annotated[
    str | None,
    time_option(
        "--received", "Time at which the request was received, from which legal deadlines count. Default: now."
    ),
]
RecordedRequest = Annotated[
    str | None,
    typer.Option(
        "--request",
        help="Carry out this recorded request (`ebbing privacy record`): its law and deadline apply.",
        metavar="ID",
    ),
]


@router.command(
    cls=with_renamed_options({"--kind": "--law"}),
    epilog=examples(
        "ebbing erase orla --dry-run",
        "ebbing erase orla --law gdpr",
        "ebbing erase orla --law gdpr --legal-basis b --case DSR-17 --controller 'Example Ltd, Dublin'",
        "ebbing erase orla --law gdpr --received 2026-11-16",
        "ebbing erase orla --request ID",
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
        str | None,
        typer.Option(
            "--law",
            help="`gdpr` or `ccpa` for a request under that law, `user` for any other deletion. Default: the law of "
            "--request, otherwise `user`.",
        ),
    ] = None,
    received_at: Received = None,
    recorded_request: RecordedRequest = None,
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
    controller: Controller = None,
    case_reference: CaseReference = None,
    legal_basis: Annotated[
        str | None,
        typer.Option(
            "--legal-basis",
            help="Legal basis, stated in the report: with --law gdpr a point of Art. 17(1), `a` to `f`, or any text.",
        ),
    ] = None,
    as_written: AsWritten = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be erased and when, without erasing it.")
    ] = False,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Erase memories by id, or all memories that match every given condition (subject, thread, tag, …).

    Matching memories are hidden from searches and lists before the command returns. Until the grace period ends, the
    erasure can be cancelled with `ebbing privacy cancel ID`; `ebbing privacy finish ID` ends the grace period now.
    """
    from app.cli.core.client import Api
    from app.cli.core.errors import Code, CommandFailure

    by = given(tags=tags or None, categories=categories or None, after=after, before=before)
    body = given(subject=subject or None, ids=ids or None, thread=thread or None, filter=by or None)
    if not body:
        raise CommandFailure("nothing selected: give a SUBJECT, --id, --thread or another condition", Code.USAGE)
    body |= given(kind=law, grace_days=grace_days, reason=reason)
    body |= given(received_at=received_at, request_id=recorded_request)
    body |= given(controller=controller, case_reference=case_reference, legal_basis=legal_basis)
    with Api(find_connection(url)) as api:
        if dry_run or not yes or subject:
            would = api.call("POST", PATH, json=body | {"dry_run": True}).body
            others = list_other_spellings(subject, would, recorded="erase" if recorded_request else None)
            if dry_run:
                hidden = count_of(would["memories"], "memory", "memories") + end_dry_run(subject, would)
                shown = f"Would hide {hidden}{_describe_effect(would, by_id=bool(ids))}{others}"
                if "near" in would and not would["memories"]:
                    shown = f"Nothing would be hidden{end_dry_run(subject, would)} {_describe_late_data(would)}"
                print_result(would, shown, as_json=as_json)
                return
            warn_unknown(subject, would)
            refuse_unknown(subject, would, as_written=as_written)
            if not yes:
                hidden = count_of(would["memories"], "memory", "memories")
                confirm(f"Hide {hidden}?{_describe_effect(would, by_id=bool(ids))}{others}")
            elif others:
                typer.echo(f"warning:{others}", err=True)
        done = api.call("POST", PATH, json=body).body
    hidden = count_of(done["hidden"], "memory", "memories")
    text = f"Request ID {plain(done['erasure_id'])}: {hidden} hidden.{_outcome(done['hidden'], done, by_id=bool(ids))}"
    print_result(done, text, as_json=as_json)


def _describe_effect(would: dict[str, Any], *, by_id: bool) -> str:
    """Return sentences about the memories in the scope of a previewed erasure."""
    return _name_already_hidden(would) + _outcome(would["memories"], would, by_id=by_id)


def _name_already_hidden(would: dict[str, Any]) -> str:
    """Return sentences about memories that are hidden already, which the preview counts separately; empty if none."""
    held = would.get("hidden_held") or 0  # absent from servers of the previous version, as is `already_hidden`
    deleted = (would.get("already_hidden") or 0) - held
    said = f" {deleted:,} more {'is' if deleted == 1 else 'are'} already being deleted." if deleted else ""
    if held:
        waiting = f"{count_of(held, 'other memory', 'other memories')} {'is' if held == 1 else 'are'} hidden already"
        said += f" {waiting} and {_stay_held(held, [] if would.get('held') else would['holds'])}."
    return said


def _describe_late_data(would: dict[str, Any]) -> str:
    """Return what an erasure of an unknown name, which requires --as-written, would do."""
    until = format_minute(would["erase_after"])
    return f"With --as-written, data that arrives under this name until {until} would be erased."


def _name_hold(hold: dict[str, Any]) -> str:
    ground = hold.get("ground")
    return plain(hold["hold_id"]) + (f" ({plain(ground).replace('_', ' ')})" if ground else "")


def _stay_held(held: int, holds: list[dict[str, Any]]) -> str:
    """Return a clause about memories that stay under legal hold: which holds, if `holds` has any, and until when."""
    several = len(holds) > 1
    named = f" {' and '.join(map(_name_hold, holds))}" if holds else ""
    until = "all are released" if several else "its release"
    return f"{'stays' if held == 1 else 'stay'} under legal hold{'s' * several}{named} until {until}"


def _outcome(hidden: int, found: dict[str, Any], *, by_id: bool) -> str:
    """Return the number of memories to be erased and the date, the memories under legal hold, and the deadline.

    Args:
        by_id: The erasure lists memories, so it covers no data that arrives later.
    """
    held, after = found.get("held") or 0, format_minute(found["erase_after"])
    lines = []
    if hidden > held and found["erase_after"] == found.get("requested_at"):
        lines.append(f"{hidden - held:,} will be erased permanently at once, which can't be cancelled")
    elif hidden > held:
        lines.append(f"{hidden - held:,} will be erased permanently after {after}")
    elif not held and not by_id:
        lines.append(f"Data that arrives until {after} will be erased too")
    if held:
        lines.append(f"{held:,} {_stay_held(held, found.get('holds', []))}")
    said = f" {'; '.join(lines)}." if lines else ""
    return said + (f" Legal deadline: {found['due_at'][:10]}." if found["due_at"] else "")
