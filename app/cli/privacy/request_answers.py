"""`ebbing privacy identity`, `extend`, `notice`, `partial` and `letter`: identity check and letters of a request."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.output import AsJson, Url, Yes, confirm, examples, plain, print_result
from app.cli.core.time_option import time_option
from app.cli.privacy.erasure_requests import HtmlFile, print_written, router
from app.cli.privacy.request_log import PATH, Id

LETTERS: Final = ("acknowledgement", "extension", "refusal", "completion", "partial")


@router.command(
    epilog=examples(
        "ebbing privacy identity ID --method account",
        "ebbing privacy identity ID --method document --note 'passport seen at the desk'",
    )
)
def identity(
    request_id: Id,
    *,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="Method of the check: `account`, `email` or `telephone` (on file), `document` (identity document), "
            "`person` (in person), `representative` or `other`.",
        ),
    ],
    note: Annotated[
        str | None, typer.Option("--note", help="Note on the check, deleted when the request is answered.")
    ] = None,
    checked_at: Annotated[str | None, time_option("--at", "Time of the check. Default: now.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Record how and when the requester's identity was checked."""
    body = given(method=method, note=note, checked_at=checked_at)
    done = call(url, "POST", f"{item_path(PATH, request_id)}/identity", json=body)
    text = f"{plain(done['request_id'])}: identity checked by {plain(done['identity_method'])} on "
    print_result(done, f"{text}{done['identity_checked_at'][:10]}", as_json=as_json)


@router.command(
    epilog=examples(
        "ebbing privacy extend ID --reason 'many requests at once'",
        "ebbing privacy extend ID --reason 'complex request' --months 1 --yes",
    )
)
def extend(
    request_id: Id,
    *,
    reason: Annotated[
        str, typer.Option("--reason", help="Reason, stated in the notice; must not contain personal data.")
    ],
    months: Annotated[
        int | None,
        typer.Option("--months", min=1, max=2, help="Further months under the GDPR. Default: 2. CCPA: always 45 days."),
    ] = None,
    notified_at: Annotated[
        str | None,
        time_option(
            "--notified",
            "Time at which the notice was sent. If it isn't sent yet, record it later: `ebbing privacy notice ID`.",
        ),
    ] = None,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Extend the legal deadline of a request once.

    Then send the notice, which `ebbing privacy letter ID extension` prints, before the first deadline, and record it
    with `ebbing privacy notice ID`.
    """
    body = given(reason=reason, months=months, notified_at=notified_at)
    path = f"{item_path(PATH, request_id)}/extend"
    if not yes:
        would = call(url, "POST", path, json=body | {"dry_run": True})
        confirm(f"Extend the deadline of {plain(request_id)} {_move(would)}?")
    done = call(url, "POST", path, json=body)
    text = f"{plain(done['request_id'])}: deadline moved {_move(done)}"
    if not done.get("notice_sent_at"):
        text += (
            f"; no notice is recorded yet: send it by {done['first_due_at'][:10]} (`ebbing privacy letter "
            f"{plain(request_id)} extension`), then record it (`ebbing privacy notice {plain(request_id)}`)"
        )
    print_result(done, text, as_json=as_json)


@router.command(epilog=examples("ebbing privacy notice ID", "ebbing privacy notice ID --at 2026-11-20"))
def notice(
    request_id: Id,
    *,
    sent_at: Annotated[str | None, time_option("--at", "Time at which the notice was sent. Default: now.")] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Record that you sent the requester the notice of an extension."""
    done = call(url, "POST", f"{item_path(PATH, request_id)}/notice", json=given(sent_at=sent_at))
    late = ", after the first deadline" if done["notice_sent_at"] > done["first_due_at"] else ""
    text = f"{plain(done['request_id'])}: notice of the extension sent on {done['notice_sent_at'][:10]}{late}"
    print_result(done, text, as_json=as_json)


@router.command(epilog=examples("ebbing privacy partial ID", "ebbing privacy partial ID --at 2026-11-20 --yes"))
def partial(
    request_id: Id,
    *,
    sent_at: Annotated[str | None, time_option("--at", "Time at which the letter was sent. Default: now.")] = None,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Record that you sent the requester the partial answer to an erasure that a legal hold delays.

    `ebbing privacy letter ID partial` prints this answer. It meets the legal deadline; the request remains open until
    the hold is released and the rest of the data is erased.
    """
    if not yes:
        confirm(f"Record the partial answer to {plain(request_id)} as sent? This can't be undone.")
    done = call(url, "POST", f"{item_path(PATH, request_id)}/partial", json=given(sent_at=sent_at))
    late = ", after the deadline" if done["due_at"] and done["partial_sent_at"] > done["due_at"] else ""
    text = f"{plain(done['request_id'])}: partial answer sent on {done['partial_sent_at'][:10]}{late}"
    print_result(done, text, as_json=as_json)


def _move(found: dict[str, Any]) -> str:
    return f"from {found['first_due_at'][:10]} to {found['due_at'][:10]}"


@router.command(
    epilog=examples("ebbing privacy letter ID acknowledgement", "ebbing privacy letter ID extension --html notice.html")
)
def letter(
    request_id: Id,
    name: Annotated[str, typer.Argument(help=f"One of {', '.join(LETTERS)}.", metavar="LETTER")],
    *,
    html: HtmlFile = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Print an answer to a request, with blanks for the requester's name. Ebbing doesn't send it.

    A warning lists what to do before you send it: texts to review, other unfinished erasures of the case, and legal
    holds without a legal ground.
    """
    from app.cli.core.client import Api

    path = f"{item_path(item_path(PATH, request_id) + '/letters', name)}?format={'html' if html else 'text'}"
    with Api(find_connection(url)) as api:
        response = api.fetch(path)
    page = response.text
    if open_work := response.headers.get("Ebbing-Open-Work"):
        typer.echo(f"warning: before you send the letter: {plain(open_work)}", err=True)
    if html is None:
        print_result({"letter": name, "text": page}, page.rstrip("\n"), as_json=as_json)
        return
    html.write_text(page, encoding="utf-8")
    print_written(html, {"letter": name}, as_json=as_json)
