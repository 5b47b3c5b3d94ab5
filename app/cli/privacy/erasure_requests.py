"""`ebbing privacy requests`, `cancel`, `finish` and `report`: list, cancel, finish and report erasures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import fetch_list, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Commands
from app.cli.core.output import (
    AsJson,
    Url,
    Yes,
    confirm,
    count_of,
    examples,
    plain,
    print_json,
    print_result,
    print_rows,
    print_table,
)
from app.cli.privacy.erase import PATH
from app.domain.formatting import count_memories, format_minute

CASE: Final = {"controller": "controller", "case_reference": "case reference"}
"""Labels of the fields that name a request's case."""

router = typer.Typer(
    name="privacy",
    cls=Commands,
    help="List, show, cancel, finish and report erasures, and answer other privacy requests.",
    no_args_is_help=True,
    epilog=examples("ebbing privacy requests", "ebbing privacy show ID", "ebbing privacy report ID --html report.html"),
)

Id = Annotated[
    str, typer.Argument(help="Request ID, as `ebbing erase` and `ebbing privacy requests` show it.", metavar="ID")
]
HtmlFile = Annotated[
    Path | None,
    typer.Option("--html", help="Write a printable HTML page to this file.", dir_okay=False, writable=True),
]


@router.command(epilog=examples("ebbing privacy requests", "ebbing privacy requests --status held --json"))
def requests(
    *,
    status: Annotated[
        str | None,
        typer.Option(
            "--status",
            help="Only erasures with this status: `grace`, `running`, `held` (delayed by a legal hold), `verified` or "
            "`cancelled`.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of erasures.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List erasures only, newest first (all requests: `ebbing privacy log`)."""
    found = fetch_list(url, PATH, "erasures", limit, status=status)
    rows = (
        (
            each["erasure_id"],
            each["kind"],
            describe_status(each["status"]),
            each["hidden"],
            each.get("held") or "",
            ", ".join(hold["hold_id"] for hold in each.get("holds", ())),
            each.get("case_reference") or "",
            describe_scope(each),
            *((each[name] or "")[:10] for name in ("requested_at", "erase_after", "due_at")),
        )
        for each in found
    )
    heads = ["request ID", "law", "status", "hidden at once", "under legal hold", "legal holds", "case", "scope"]
    heads += ["requested", "erased after", "due"]
    print_rows({"erasures": found}, heads, rows, right=["hidden at once", "under legal hold"], as_json=as_json)


@router.command(epilog=examples("ebbing privacy cancel ID", "ebbing privacy cancel ID --yes"))
def cancel(
    request_id: Id,
    *,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Cancel an erasure during its grace period and restore the memories that it has hidden.

    If the erasure is the deletion of a single memory, the memory's id is accepted too.
    """
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        if not yes:
            found = api.call("GET", erasure_path(request_id)).body
            at_once = f"{found['hidden']} hidden at {format_minute(found['requested_at'])}"
            confirm(f"Restore all hidden memories ({at_once}, plus later matches)?")
        done = api.call("POST", f"{erasure_path(request_id)}/cancel").body
    text = f"Request ID {plain(done['erasure_id'])}: cancelled at {format_minute(done['cancelled_at'])}"
    print_result(done, text, as_json=as_json)


@router.command(epilog=examples("ebbing privacy finish ID", "ebbing privacy finish ID --yes"))
def finish(request_id: Id, *, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """End the grace period of an erasure now, or continue an interrupted erasure. This can't be undone.

    Memories under a legal hold remain until its release.
    """
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        if not yes:
            found = api.call("GET", erasure_path(request_id)).body
            hidden = count_of(found["hidden"], "memory", "memories")
            held = f", except {found['held']:,} under legal hold" if found.get("held") else ""
            confirm(f"Erase {hidden} (hidden at the request) and later matches now{held}? This can't be undone.")
        done = api.call("POST", f"{erasure_path(request_id)}/finish").body
    shown = plain(done["erasure_id"])
    text = f"Request ID {shown}: erasing starts now. Progress: `ebbing privacy show {shown}`"
    print_result(done, text, as_json=as_json)


@router.command(epilog=examples("ebbing privacy report ID", "ebbing privacy report ID --html report.html"))
def report(
    request_id: Id,
    *,
    html: HtmlFile = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Show the report of a completed erasure: results per store, retained data with legal grounds, and recipients."""
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        if html is not None:
            html.write_text(api.page(f"{erasure_path(request_id)}/report?format=html"), encoding="utf-8")
            print_written(html, {"id": request_id}, as_json=as_json)
            return
        found = api.call("GET", f"{erasure_path(request_id)}/report").body
    if as_json:
        print_json(found)
        return
    print_report(found)


def print_report(found: dict[str, Any]) -> None:
    """Print the report of a finished erasure as text."""
    _print_pairs({"request ID": found["erasure_id"], "law": found["kind"]} | describe_case(found))
    if counts := found.get("counts"):  # absent from servers of the previous version
        outcome = f"{counts['erased']:,} erased, {counts['held']:,} retained under legal hold"
        outcome += f", {counts['left']:,} still to be erased" if counts["left"] else ""
        if counts["held"] and not counts["erased"]:
            outcome = "none erased yet, all under legal hold"
        typer.echo(f"{count_memories(counts['in_scope'])} in scope: {outcome}")
    clocks = {name: moment for name, moment in found["clocks"].items() if moment}
    _print_pairs({name.removesuffix("_at").replace("_", " "): format_minute(clocks[name]) for name in clocks})
    if ended := found.get("grace_ended"):
        _print_pairs({"grace period": f"ended early with key {ended['by']}"})
    columns = ("found", "removed", "retained", "left")
    rows = [
        (each["store"], *(each.get(name, "") for name in columns))
        for each in found["stores"]
        if any(map(each.get, columns))
    ]
    print_table(["store", *columns], rows, right=columns)
    typer.echo(f"{len(found['stores']) - len(rows)} other stores had no matching data; --json and --html list them")
    _print_names(found)
    passes = found.get("passes", ())
    if len(passes) > 1:
        rows = [
            (number, format_minute(each["finished_at"]), each["memories"], each["held"], ", ".join(each["holds"]))
            for number, each in enumerate(passes, start=1)
        ]
        heads = ["pass", "finished", "erased", "under legal hold", "legal holds"]
        print_table(heads, rows, right=["pass", "erased", "under legal hold"])
    kept = [
        (each["what"], "" if each["count"] is None else each["count"], each["ground"], each.get("until", ""))
        for each in found["kept"]
        if each.get("code") != "released"  # a released hold retains nothing; the table of passes names it
    ]
    print_table(["retained", "count", "ground", "until"], kept, right=["count"])
    hosts = ", ".join(each["host"] for each in found["recipients"]) or "none"
    typer.echo(f"recipients: {plain(hosts)}")
    counts = found.get("counts")  # absent from servers of the previous version
    if not counts or any(counts.get(name) for name in ("in_scope", "anonymised", "systems")):
        expires = format_minute(found["backups"]["newest_affected_expires"])
        typer.echo(f"backups: the last backup with this data expires {expires}")


def _print_pairs(shown: dict[str, str]) -> None:
    for name, value in shown.items():
        typer.echo(f"{name:<16}{plain(value)}")


def describe_case(found: dict[str, Any]) -> dict[str, str]:
    """Return the controller, case reference and legal basis (in words) of an erasure, those that were given."""
    from app.domain.privacy.documents.report_page import describe_basis
    from app.domain.privacy.documents.texts import ENGLISH

    shown = {text: found[name] for name, text in CASE.items() if found.get(name)}
    if basis := found.get("legal_basis"):
        shown["legal basis"] = describe_basis(found["kind"], basis, ENGLISH)
    return shown


def _print_names(found: dict[str, Any]) -> None:
    """Print what may still name the person (operators' texts, other spellings), and the other erasures of the case."""
    if found.get("texts_redacted"):
        redacted = count_of(found["texts_redacted"], "text", "texts")
        verb = "was" if found["texts_redacted"] == 1 else "were"
        typer.echo(f"{redacted} of operators named the subject and {verb} redacted")
    if similar := (found.get("similar_names") or {}).get("memories"):
        typer.echo(f"{count_memories(similar)} stored under another spelling of the name, not part of this erasure")
    hidden_by = (found.get("similar_names") or {}).get("hidden_by", ())
    for each in hidden_by:
        state = "quarantine" if each["status"] == "quarantine" else f"erasure, {describe_status(each['status'])}"
        state += f", can be cancelled until {format_minute(each['erase_after'])}" if each["status"] == "grace" else ""
        count = count_memories(each["memories"])
        typer.echo(f"{count} under another spelling of the name hidden by {plain(each['id'])} ({state})")
    if more := (found.get("similar_names") or {}).get("hidden", 0) - sum(each["memories"] for each in hidden_by):
        further = count_of(more, "further memory", "further memories")
        typer.echo(f"{further} under another spelling of the name hidden by other erasures or quarantines")
    listed = (found.get("mentions") or {}).get("texts", ())
    if waiting := [each for each in listed if each.get("decision") is None]:
        text = f"{count_of(len(waiting), 'text', 'texts')} of operators may mention the subject by a part of the name"
        typer.echo(f"{text}: review with `ebbing privacy mentions {plain(found['erasure_id'])}`")
    if reviewed := [each for each in listed if each.get("decision") in ("redact", "keep")]:
        text = f"{count_of(len(reviewed), 'text', 'texts')} with a part of the name reviewed"
        typer.echo(f"{text}; `ebbing privacy mentions {plain(found['erasure_id'])}` lists the decisions")
    if gone := [each for each in listed if each.get("decision") == "gone"]:
        typer.echo(f"{count_of(len(gone), 'text', 'texts')} with a part of the name replaced or deleted since")
    for other in (found.get("same_case") or {}).get("erasures", ()):
        shown, state = plain(other["erasure_id"]), describe_status(other["status"])
        if "memories" in other:  # absent from servers of the version before
            count = count_memories(other["memories"])
            is_cancelled = other["status"] == "cancelled"
            rest = "hidden when it was entered; nothing was erased by it" if is_cancelled else "in scope"
            state = f"{state}, {count} {rest}"
        typer.echo(f"another erasure with the same case reference: {shown} ({state})")


@router.command(
    epilog=examples("ebbing privacy mentions ID", "ebbing privacy mentions ID --redact 1 --redact 3 --keep 2")
)
def mentions(
    request_id: Id,
    *,
    redact: Annotated[
        list[int] | None,
        typer.Option(
            "--redact", help="Number of a text that refers to the person; a standard sentence replaces it. Repeatable."
        ),
    ] = None,
    keep: Annotated[
        list[int] | None,
        typer.Option("--keep", help="Number of a text that refers to another person; retained. Repeatable."),
    ] = None,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List operators' notes and reasons with a part of an erased person's name, and decide about each one.

    The decision is whether the text refers to that person: such a text is redacted, the others are kept.
    """
    from app.cli.core.client import Api

    path = f"{erasure_path(request_id)}/mentions"
    with Api(find_connection(url)) as api:
        if redact and not yes:
            confirm(f"Replace {count_of(len(redact), 'text', 'texts')} by a standard sentence? This can't be undone.")
        if redact or keep:
            found = api.call("POST", path, json={"redact": redact or [], "keep": keep or []}).body
        else:
            found = api.call("GET", path).body
    rows = [
        (
            each["number"],
            f"{each['table']}.{each['column']}",
            each["record_id"] or "",
            each["decision"] or "",
            each["text"] or "(removed)",
        )
        for each in found["mentions"]
    ]
    print_rows(found, ["number", "record", "record ID", "decision", "text"], rows, right=["number"], as_json=as_json)
    if found.get("more") and not as_json:
        more = count_of(found["more"], "further text", "further texts")
        typer.echo(f"not listed: {more}, because the list is full, or the matching words occur in very many texts")


def print_written(page: Path, found: dict[str, str], *, as_json: bool) -> None:
    """Print the file that a page was written to: as JSON with these fields, or else as a remark."""
    if as_json:
        print_json(found | {"html": str(page)})
    else:
        typer.echo(f"written: {page}", err=True)


def erasure_path(request_id: str) -> str:
    """Return the path of an erasure."""
    return item_path(PATH, request_id)


def describe_status(status: str) -> str:
    """Return the status of an erasure in words."""
    return {"grace": "grace period", "held": "delayed by a legal hold"}.get(status, plain(status))


def describe_scope(found: dict[str, Any]) -> str:
    """Describe the scope of an erasure: `no longer stored` if the scope was deleted after the erasure ended."""
    if found["ids"]:
        return f"{len(found['ids'])} memories by id"
    by = {name: found[name] for name in ("subject", "thread") if found[name]} | (found["filter"] or {})
    if not by and found["status"] in ("verified", "cancelled"):
        return "no longer stored"
    return "; ".join(f"{name} {', '.join(value) if isinstance(value, list) else value}" for name, value in by.items())
