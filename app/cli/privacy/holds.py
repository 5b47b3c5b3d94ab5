"""`ebbing hold`: place, list, show, correct and release legal holds, which block edits and deletion."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, fetch_list, given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.filters import After, Before, Categories, Kinds, Labels, Subject, Tags, Thread
from app.cli.core.output import (
    AsJson,
    Url,
    Yes,
    ask,
    confirm,
    count_of,
    examples,
    plain,
    print_fields,
    print_json,
    print_result,
    print_rows,
)
from app.cli.privacy.near_names import AsWritten, end_dry_run, list_other_spellings, refuse_unknown, warn_unknown
from app.domain.formatting import format_minute
from app.domain.privacy.legal_hold import HOLD_GROUNDS, NO_GROUND

router = typer.Typer(
    name="hold",
    cls=Commands,
    help="Place, list, show, correct and release legal holds.",
    no_args_is_help=True,
    epilog=examples(
        "ebbing hold place --subject orla --reason 'case 17'", "ebbing hold list", "ebbing hold release ID"
    ),
)

PATH: Final = "/v1/privacy/holds"

Id = Annotated[str, typer.Argument(help="Id of the hold.", metavar="ID")]


@router.command(
    epilog=examples(
        "ebbing hold place ID ID --reason 'case 17' --ground legal_claims --yes",
        "ebbing hold place --subject orla --reason 'case 17' --dry-run",
        "ebbing hold place --category health --after 2026-01-01 --before 2026-04-01 --reason 'audit of spring'",
    )
)
def place(
    memory_ids: Annotated[
        Labels, typer.Argument(help="Ids of the memories to hold.", metavar="ID", show_default=False)
    ] = None,
    *,
    reason: Annotated[
        str,
        typer.Option(
            "--reason",
            help="Reason, visible to keys with the scope `privacy`; must not contain the name given with --subject, or "
            "the name of a subject whose memories are selected with --thread or by id.",
        ),
    ],
    ground: Annotated[
        str | None,
        typer.Option(
            "--ground",
            help=f"Legal ground for retaining the data (GDPR Art. 17(3)), stated in letters and reports: "
            f"{', '.join(f'`{name}`' for name in HOLD_GROUNDS)}. Without --yes, the command asks for it.",
        ),
    ] = None,
    subject: Subject = None,
    thread: Thread = None,
    tags: Tags = None,
    categories: Categories = None,
    kinds: Kinds = None,
    after: After = None,
    before: Before = None,
    as_written: AsWritten = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how many memories the hold would cover.")] = False,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Place a hold on memories by id, or on all current and future memories that match every given condition."""
    from app.cli.core.client import Api

    labels = given(tags=tags or None, categories=categories or None, kinds=kinds or None)
    by = labels | given(thread=thread or None, after=after, before=before)
    body = given(memory_ids=memory_ids or None, subject=subject or None, filter=by or None)
    if not body:
        raise CommandFailure("nothing selected: give memory ids, --subject or another condition", Code.USAGE)
    ground = _read_ground(ground)
    later = "" if memory_ids else ", and future memories that meet its conditions"
    with Api(find_connection(url)) as api:
        if dry_run or not yes or subject:
            counted = api.call(
                "POST", PATH, json=body | {"reason": reason, "dry_run": True} | given(ground=ground)
            ).body
            others = list_other_spellings(subject, counted)
            if dry_run:
                text = f"Would hold {_many(counted)}{end_dry_run(subject, counted)}{others}"
                text += "" if ground else f" Note: {NO_GROUND}."
                print_result(counted, text, as_json=as_json)
                return
            warn_unknown(subject, counted)
            refuse_unknown(subject, counted, as_written=as_written)
            if not yes:
                confirm(f"Place a hold on {_many(counted)}{later}, until it is released?{others}")
                ground = ground or _ask_ground()
            elif others:
                typer.echo(f"warning:{others}", err=True)
        placed = api.call("POST", PATH, json=body | {"reason": reason} | given(ground=ground)).body
        found = placed if as_json else api.call("GET", _path(placed["id"])).body
    if as_json:
        print_json(placed)
    else:
        typer.echo(f"hold {plain(found['id'])} covers {_many(found)}{later}")
    if ground is None:
        advice = f"to state one, use `ebbing hold correct {plain(placed['id'])} --ground …`"
        typer.echo(f"warning: {NO_GROUND}; {advice}", err=True)


@router.command("list", epilog=examples("ebbing hold list", "ebbing hold list --all --json"))
def list_holds(
    *,
    released: Annotated[bool, typer.Option("--all", help="Include released holds.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of holds.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List holds, newest first."""
    found = fetch_list(url, PATH, "holds", limit, released="true" if released else None)
    rows = (
        (
            *(each["id"], _day(each["placed_at"]), _day(each["released_at"]), _describe_scope(each)),
            *((each.get("ground") or "").replace("_", " "), each["reason"]),
        )
        for each in found
    )
    print_rows({"holds": found}, ["id", "placed", "released", "scope", "ground", "reason"], rows, as_json=as_json)


@router.command(epilog=examples("ebbing hold show ID", "ebbing hold show ID --json | jq .memories"))
def show(hold_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Show a hold and the number of memories it currently covers."""
    found = call(url, "GET", _path(hold_id))
    shown = {"id": found["id"], "scope": _describe_scope(found), "covers": _many(found), "reason": found["reason"]}
    shown["ground"] = _ground(found)
    for number, change in enumerate(found.get("changes", ()), start=1):  # absent from servers of the previous version
        before = f"ground {_ground(change)}, reason {change['reason']}"
        shown[f"change {number}"] = (
            f"{format_minute(change['changed_at'])} by key {change['changed_by']}; before: {before}"
        )
    if blocked := _blocked(found):
        shown["blocks"] = blocked
    for did in ("placed", "released"):
        if found[f"{did}_at"]:
            shown[did] = f"{format_minute(found[f'{did}_at'])} by key {found[f'{did}_by']}"
    if found.get("release_reason"):
        shown["because"] = found["release_reason"]
    print_fields(found, shown, width=10, as_json=as_json)


@router.command(
    epilog=examples("ebbing hold correct ID --ground legal_claims", "ebbing hold correct ID --reason 'case 17, appeal'")
)
def correct(
    hold_id: Id,
    *,
    ground: Annotated[
        str | None,
        typer.Option(
            "--ground",
            help=f"Legal ground for retaining the data (GDPR Art. 17(3)): "
            f"{', '.join(f'`{name}`' for name in HOLD_GROUNDS)}; `none` if there is none.",
        ),
    ] = None,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason; must not name the subject.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Add or correct the ground or the reason of a hold, in force or released. The previous values are retained."""
    ground = _read_ground(ground, or_none=True)
    body: dict[str, Any] = given(ground=ground, reason=reason)
    if ground == "none":
        body["ground"] = None
    if not body:
        raise CommandFailure("nothing to correct: give --ground, --reason or both", Code.USAGE)
    done = call(url, "PATCH", _path(hold_id), json=body)
    print_result(done, f"corrected hold {plain(done['id'])}: ground {_ground(done)}", as_json=as_json)


@router.command(epilog=examples("ebbing hold release ID", "ebbing hold release ID --reason 'case 17 is settled' --yes"))
def release(
    hold_id: Id,
    *,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason",
            help="Reason, stored with the hold; must not name the subject. Without --yes, the command asks for it.",
        ),
    ] = None,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Release a hold. Its memories can then be edited and deleted, unless another hold or rule protects them.

    Erasures that only this hold delays erase its memories at once.
    """
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        if not yes:
            found = api.call("GET", _path(hold_id)).body
            waiting = _waiting(found)
            if waiting:
                typer.echo(f"warning: on release, {waiting} at once; this can't be undone", err=True)
            question = f"Release the hold of {_day(found['placed_at'])} ({plain(found['reason'])}) on {_many(found)}?"
            confirm(question)
            reason = reason or ask("Reason for the release (no personal data; empty for none)")
        done = api.call("POST", f"{_path(hold_id)}/release", json=given(reason=reason)).body
    text = f"released hold {plain(done['id'])} at {format_minute(done['released_at'])}"
    waiting = _waiting(done, "continued")
    print_result(done, text + (f"; {waiting} now" if waiting else ""), as_json=as_json)


def _ground(found: dict[str, Any]) -> str:
    return (found.get("ground") or "not stated").replace("_", " ")


def _ask_ground() -> str | None:
    """Ask for the legal ground of a hold; None if the answer is empty."""
    return _read_ground(ask(f"Legal ground ({', '.join(HOLD_GROUNDS)}; empty for none)"))


def _read_ground(given_ground: str | None, *, or_none: bool = False) -> str | None:
    """Return the API's name of a ground, which may be given with spaces, as in printed outputs; None if it is empty.

    Args:
        or_none: Accept `none`.

    Raises:
        CommandFailure: No ground has this name.
    """
    ground = (given_ground or "").strip().lower().replace(" ", "_")
    accepted = (*HOLD_GROUNDS, *(["none"] if or_none else []))
    if ground and ground not in accepted:
        raise CommandFailure(
            f"no legal ground is named `{plain(given_ground)}`, nothing was changed: use {', '.join(accepted)}",
            Code.USAGE,
        )
    return ground or None


def _waiting(found: dict[str, Any], key: str = "waiting") -> str:
    """Return the erasures that a release continues, as a clause; empty if there are none.

    Servers of the previous version return no waiting erasures.
    """
    waiting = found.get(key) or {}
    if not waiting.get("erasures"):
        return ""
    erasures, memories = waiting["erasures"], count_of(waiting["memories"], "memory", "memories")
    verb = "deletes" if erasures == 1 else "delete"
    return f"{count_of(erasures, 'waiting erasure', 'waiting erasures')} {verb} {memories}"


def _blocked(found: dict[str, Any]) -> str:
    """Return the erasures that a hold blocks and what its release deletes; empty if there are none."""
    waiting = found.get("waiting") or {}
    if not waiting.get("erasures"):
        return ""
    pronoun = "it deletes" if waiting["erasures"] == 1 else "they delete"
    memories = count_of(waiting["memories"], "memory", "memories")
    return f"{count_of(waiting['erasures'], 'erasure', 'erasures')}; on release, {pronoun} {memories}"


def _path(hold_id: str) -> str:
    return item_path(PATH, hold_id)


def _describe_scope(found: dict[str, Any]) -> str:
    """Describe the scope of a hold."""
    if found["memory_ids"]:
        return f"{count_of(len(found['memory_ids']), 'memory', 'memories')} by id"
    by = ({"subject": found["subject"]} if found["subject"] else {}) | (found["filter"] or {})
    words = {name: ", ".join(value) if isinstance(value, list) else value for name, value in by.items()}
    return "; ".join(
        f"{name} {format_minute(value) if name in ('after', 'before') else value}" for name, value in words.items()
    )


def _many(found: dict[str, Any]) -> str:
    """Return the number of memories that a hold covers, and how many of them erasures hide."""
    hidden = found["hidden"]
    covered = count_of(found["memories"] + hidden, "memory", "memories")
    if not hidden:
        return covered
    by = "by a pending erasure" if hidden == 1 else "by pending erasures"
    return f"{covered} (hidden {by})" if not found["memories"] else f"{covered} ({hidden:,} of them hidden {by})"


def _day(moment: str | None) -> str:
    return "" if moment is None else moment[:10]
