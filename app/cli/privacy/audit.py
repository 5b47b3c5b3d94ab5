"""`ebbing audit`: list the tenant's audit log and verify that it hasn't been altered."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, given
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.output import AsJson, Url, count_of, examples, print_fields, print_json, print_rows, progress
from app.domain.formatting import format_second

PATH: Final = "/v1/privacy/audit"
_NAMES: Final = dict.fromkeys(("erasure", "export", "request"), "request ID")
"""Displayed name, by name of a detail. The id of an erasure or export is the id of its request."""

_LISTS: Final = {"audit_log": "audit log", "erasure_list": "list of erasures"}

router = typer.Typer(
    name="audit",
    cls=Commands,
    help="List or verify the tenant's audit log. Without a subcommand, list the latest entries.",
    invoke_without_command=True,
    epilog=examples(
        "ebbing audit",
        "ebbing audit --action policy_set",
        "ebbing audit --subject 'Ann Lee'",
        "ebbing audit --target REQUEST_ID",
        "ebbing audit --entry 37",
        "ebbing audit --json | jq .entries[0]",
        "ebbing audit verify",
    ),
)


@router.callback()
def list_entries(
    context: typer.Context,
    action: Annotated[
        str | None, typer.Option("--action", help="Only entries with this action, such as policy_set.")
    ] = None,
    *,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject",
            help="Only entries about this person: give the name as it was stored with the memories. This also works "
            "after the erasure of the person's data. "
            "Also prints the name's keyed digests, which the report of an erasure states.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option("--target", help="Only entries about the request, erasure, export or legal hold with this ID."),
    ] = None,
    entry: Annotated[
        int | None, typer.Option("--entry", min=1, help="Only the entry with this number, with its hash.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Maximum number of entries.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List audit entries, newest first, with the key and the number of affected items."""
    if context.invoked_subcommand is not None:
        return
    wanted = given(limit=limit, action=action, subject=subject, target=target, seq=entry)
    found = call(url, "GET", PATH, params=wanted)
    if not as_json:
        for name, digest in (found.get("subject_digests") or {}).items():
            typer.echo(f"keyed digest of the name in the {_LISTS[name]}: {digest or 'none, because it has no entries'}")
    names = ("seq", "at", "actor", "action", "items")
    rows = (
        [*(format_second(each[name]) if name == "at" else each[name] for name in names), _describe_details(each)]
        for each in found["entries"]
    )
    if entry is not None and found["entries"]:
        [only] = found["entries"]
        print_fields(found, _describe_entry(only), width=22, as_json=as_json)
        return
    print_rows(found, [*names, "details"], rows, right=["seq", "items"], as_json=as_json)


@router.command(
    epilog=examples(
        "ebbing audit verify", "ebbing audit verify --json | jq -r .anchor", "ebbing audit verify --anchor 1204:9f3c…"
    )
)
def verify(
    *,
    anchor: Annotated[
        str | None, typer.Option("--anchor", help="Anchor printed by an earlier verification, to compare with.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Verify every entry of the audit log. If an entry is missing or altered, name the first one and exit with code 1.

    The command prints an anchor. Store it where database administrators can't change it: a later verification with
    --anchor then also detects a truncated or completely rewritten log.
    """
    from app.cli.core.client import Api

    params = {"anchor": anchor} if anchor else {}
    with Api(find_connection(url)) as api, progress("verifying", 1.0, quiet=as_json, unit="entries") as step:
        found = api.call("GET", f"{PATH}/verify", params=params).body
        while found["next_cursor"]:
            step(done=found["verified"] / found["entries"], note=count_of(found["verified"], "entry", "entries"))
            found = api.call("GET", f"{PATH}/verify", params={**params, "cursor": found["next_cursor"]}).body
    if as_json:
        print_json(found)
    if found["broken"] is None:
        if not as_json:
            typer.echo(f"verified {count_of(found['verified'], 'entry', 'entries')}: none is missing or altered")
            typer.echo(f"anchor {found['anchor']}")
        return
    if as_json:
        raise typer.Exit(Code.FAILED)
    broken = found["broken"]
    if anchor and anchor.partition(":")[0].strip() == str(broken["seq"]):
        raise CommandFailure(f"the audit log doesn't match the anchor at entry {broken['seq']:,}: {broken['why']}")
    raise CommandFailure(
        f"the audit log is broken at entry {broken['seq']:,}: {broken['why']}; earlier entries are intact"
    )


def _describe_details(entry: dict[str, Any]) -> str:
    details = entry["details"]
    shown = {name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in details.items()}
    return ", ".join(f"{_NAMES.get(name, name)} {value}" for name, value in shown.items() if value not in (None, ""))


def _describe_entry(entry: dict[str, Any]) -> dict[str, object]:
    """Return the fields of one entry by the names under which they are printed."""
    return {
        "entry": f"{entry['seq']:,}",
        "at": format_second(entry["at"]),
        "actor": entry["actor"],
        "action": entry["action"],
        "items": f"{entry['items']:,}",
        "details": _describe_details(entry),
        "digest of the name": entry["subject"] or "none",
        "digest of the IDs": entry["digest"] or "none",
        "hash": entry["hash"],
        "previous hash": entry["previous"],
    }
