"""`ebbing privacy record`, `log`, `confirm`, `complete`, `deny`, `summary`: the log of data-subject requests."""

from __future__ import annotations

import math
from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, fetch_list, given, item_path
from app.cli.core.output import (
    AsJson,
    Url,
    Yes,
    confirm,
    examples,
    plain,
    print_json,
    print_result,
    print_rows,
    print_table,
)
from app.cli.core.time_option import time_option
from app.cli.privacy.erase import CaseReference, Controller, Received
from app.cli.privacy.erasure_requests import router

PATH: Final = "/v1/privacy/requests"
NATURES: Final = ("erasure", "access", "portable", "correction", "restriction", "objection")
MANNERS: Final = ("mail", "letter", "telephone", "form", "person", "api")
_CHANNELS: Final = ", ".join(MANNERS).replace("mail", "mail (e-mail)")
COUNTS: Final = ("received", "open", "done", "denied", "cancelled", "late")

Id = Annotated[str, typer.Argument(help="Request ID.", metavar="ID")]


@router.command(
    epilog=examples(
        "ebbing privacy record erasure --law gdpr --channel letter --received 2026-11-16",
        "ebbing privacy record correction --law gdpr --case DSR-18 --controller 'Example Ltd, Dublin'",
    )
)
def record(
    nature: Annotated[str, typer.Argument(help=f"Right that the person exercises: {', '.join(NATURES)}.")],
    *,
    law: Annotated[
        str, typer.Option("--law", help="Law that the request refers to: `gdpr`, `ccpa`, or `user` for none.")
    ] = "user",
    channel: Annotated[
        str,
        typer.Option(
            "--channel",
            help=f"Channel through which the request arrived: {_CHANNELS}.",
        ),
    ] = "mail",
    received_at: Received = None,
    controller: Controller = None,
    case_reference: CaseReference = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Record a request when it is received, before it is carried out.

    Check the identity (`ebbing privacy identity ID`), then carry the request out: `ebbing erase SUBJECT --request ID`,
    `ebbing export SUBJECT --request ID`, or by hand, recorded with `ebbing privacy complete ID`.
    """
    body = given(nature=nature, law=law, manner=channel, received_at=received_at)
    body |= given(controller=controller, case_reference=case_reference)
    done = call(url, "POST", PATH, json=body)
    due = f", to be answered by {done['due_at'][:10]}" if done["due_at"] else ", without a legal deadline"
    text = f"Request ID {plain(done['request_id'])}: recorded as received on {done['received_at'][:10]}{due}"
    print_result(done, text, as_json=as_json)


@router.command("confirm", epilog=examples("ebbing privacy confirm ID"))
def confirm_receipt(request_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Record that you confirmed to the requester that the request was received.

    `ebbing privacy letter ID acknowledgement` prints the confirmation for you to send.
    """
    done = call(url, "POST", f"{item_path(PATH, request_id)}/confirm")
    text = f"{plain(done['request_id'])}: receipt confirmed on {done['confirmed_at'][:10]}"
    print_result(done, text, as_json=as_json)


@router.command(epilog=examples("ebbing privacy complete ID", "ebbing privacy complete ID --yes"))
def complete(request_id: Id, *, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Record that a request was carried out by hand, such as a correction.

    Erasures and exports are recorded as completed automatically. `ebbing privacy letter ID completion` prints the
    answer for you to send.
    """
    path = f"{item_path(PATH, request_id)}/complete"
    if not yes:
        call(url, "POST", path, params={"dry_run": "true"})  # a refusal comes before the question
        confirm(f"Record {plain(request_id)} as completed? This can't be undone.")
    done = call(url, "POST", path)
    text = f"{plain(done['request_id'])}: completed on {done['answered_at'][:10]}"
    print_result(done, text, as_json=as_json)


@router.command(epilog=examples("ebbing privacy log", "ebbing privacy log --open --json"))
def log(
    *,
    only_open: Annotated[bool, typer.Option("--open", help="Only unanswered requests.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of requests.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List requests, latest receipt first, with their deadlines."""
    found = fetch_list(url, PATH, "requests", limit, only_open="true" if only_open else None)
    days = ("received_at", "confirm_by", "confirmed_at", "due_at", "answered_at")
    rows = (
        (
            *(each[name] for name in ("request_id", "nature", "law")),
            *((each[name] or "")[:10] + (_extended(each) if name == "due_at" else "") for name in days),
            each.get("identity_method") or "",
            each.get("case_reference") or "",
            "" if each["days_left"] is None else math.floor(each["days_left"]),
            describe_answer(each),
        )
        for each in found
    )
    heads = ["request ID", "nature", "law", *(name.removesuffix("_at").replace("_", " ") for name in days)]
    heads += ["identity check", "case"]
    print_rows({"requests": found}, [*heads, "days left", "answer"], rows, right=["days left"], as_json=as_json)


@router.command(epilog=examples("ebbing privacy summary", "ebbing privacy summary --after 2026-01-01 --json"))
def summary(
    *,
    after: Annotated[str | None, time_option("--after", "Only requests received at this time or later.")] = None,
    before: Annotated[str | None, time_option("--before", "Only requests received before this time.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Count the requests of a period (default: one year), with response times in days."""
    found = call(url, "GET", f"{PATH}/summary", params=given(after=after, before=before))
    if as_json:
        print_json(found)
        return
    typer.echo(f"received from {plain(found['after'])[:10]} to {plain(found['before'])[:10]}")
    rows = [
        (each["nature"], each["law"], *(each[name] for name in COUNTS), _days(each, "median"), _days(each, "mean"))
        for each in found["tallies"]
    ]
    heads = [*COUNTS, "median days", "mean days"]
    print_table(["nature", "law", *heads], rows, right=heads)
    held = ", ".join(f"{plain(name)} ({memories})" for name, memories in found["categories"].items())
    left_out = found.get("categories_left_out")  # absent from servers of the previous version
    more = f", and {left_out} more categories" if left_out else ""
    typer.echo(f"categories stored: {held or 'none'}{more}")


@router.command(epilog=examples("ebbing privacy deny ID --basis 'GDPR Art. 12(5)'"))
def deny(
    request_id: Id,
    *,
    basis: Annotated[
        str, typer.Option("--basis", help="Legal ground, stored for 24 months; must not contain personal data.")
    ],
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Deny a request and record the legal ground.

    `ebbing privacy letter ID refusal` prints the answer for you to send.
    """
    if not yes:
        confirm(f"Deny {plain(request_id)} ({plain(basis)})?")
    done = call(url, "POST", f"{item_path(PATH, request_id)}/deny", json={"basis": basis})
    print_result(done, f"{plain(done['request_id'])} is denied: {plain(done['basis'])}", as_json=as_json)


def _extended(each: dict[str, Any]) -> str:
    if not each.get("extended_at"):
        return ""
    return " (extended)" if each.get("notice_sent_at") else " (extended, no notice)"


def describe_answer(each: dict[str, Any]) -> str:
    """Describe the answer to a request: `open`, partial answer sent, or the outcome with its legal ground."""
    basis = each["basis"]
    if each["answer"] is None and each.get("partial_sent_at"):
        return "partial answer sent, delayed by a legal hold"
    return f"{each['answer'] or 'open'}{f': {basis}' if basis else ''}"


def _days(each: dict[str, Any], which: str) -> str:
    value = each[f"{which}_days"]
    return "" if value is None else f"{value:.1f}"
