"""`ebbing privacy show`: a privacy request, with the erasure or export that answers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from app.cli.core.calls import item_path
from app.cli.core.connection import find_connection
from app.cli.core.output import AsJson, Url, count_of, examples, plain, print_json, print_table
from app.cli.privacy.erasure_requests import (
    CASE,
    Id,
    describe_case,
    describe_scope,
    describe_status,
    erasure_path,
    router,
)
from app.cli.privacy.export import PATH as EXPORTS
from app.cli.privacy.request_log import PATH as REQUESTS
from app.cli.privacy.request_log import describe_answer
from app.domain.formatting import format_minute

if TYPE_CHECKING:
    from app.cli.core.client import Api

_EXPORTED: Final = ("access", "portable")
_ERASURE_DATES: Final = {
    "requested_at": "entered",
    "erase_after": "grace period ends",
    "due_at": "legal deadline",
    "started_at": "started",
    "verified_at": "verified",
    "cancelled_at": "cancelled",
}
_REQUEST_DATES: Final = {
    "received_at": "received",
    "confirm_by": "confirm by",
    "confirmed_at": "receipt confirmed",
    "first_due_at": "first deadline",
    "due_at": "legal deadline",
    "notice_sent_at": "extension notice",
    "partial_sent_at": "partial answer",
    "answered_at": "answered",
}


@router.command(epilog=examples("ebbing privacy show ID", "ebbing privacy show ID --json | jq .executed"))
def show(request_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Show a request with its dates and answer, and the progress of its erasure or export."""
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        erasure = _find(api, erasure_path(request_id))
        logged = _find(api, item_path(REQUESTS, request_id))
        export = None
        if erasure is None:
            logged = logged or api.call("GET", item_path(REQUESTS, request_id)).body
            export = _find(api, item_path(EXPORTS, request_id)) if logged["nature"] in _EXPORTED else None
    if erasure is not None:
        _show_erasure(erasure, logged or {}, as_json=as_json)
    else:
        _show_request(logged or {}, export, as_json=as_json)


def _find(api: Api, path: str) -> dict[str, Any] | None:
    """Return the JSON at a path, or None if the API has nothing there."""
    from app.cli.core.client import ApiRefusal

    try:
        return api.call("GET", path).body
    except ApiRefusal as refusal:
        if refusal.status == 404:
            return None
        raise


def _show_erasure(found: dict[str, Any], logged: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(found | ({"request": logged} if logged else {}))
        return
    shown: dict[str, object] = {
        "request ID": found["erasure_id"],
        "law": found["kind"],
        "status": describe_status(found["status"]),
    }
    shown |= {"scope": describe_scope(found), "hidden at once": found["hidden"]}
    if found.get("held"):  # absent from servers of the previous version
        shown["under legal hold"] = found["held"]
        shown["legal holds"] = ", ".join(map(_describe_hold, found["holds"]))
    shown |= describe_case(found)
    shown |= _describe_identity(logged)
    dates = {text: logged.get(name) for name, text in _REQUEST_DATES.items()}
    dates |= {text: found[name] for name, text in _ERASURE_DATES.items()}
    if found["erase_after"] == found["requested_at"]:
        del dates[_ERASURE_DATES["erase_after"]]
    _print(shown | {text: format_minute(moment) for text, moment in dates.items() if moment})
    done = {each["step"]: each for each in found["executed"]}
    rows = [
        (each["store"], each["found"], done[each["step"]]["removed"] if each["step"] in done else "")
        for each in found["plan"] or ()
    ]
    if rows:
        print_table(["store", "found", "removed"], rows, right=["found", "removed"])


def _show_request(logged: dict[str, Any], export: dict[str, Any] | None, *, as_json: bool) -> None:
    if as_json:
        print_json(logged | {"export": export})
        return
    shown: dict[str, object] = {"request ID": logged["request_id"], "nature": logged["nature"], "law": logged["law"]}
    shown["answer"] = describe_answer(logged)
    shown |= {text: logged[name] for name, text in CASE.items() if logged.get(name)}
    shown |= _describe_identity(logged)
    shown |= {text: format_minute(logged[name]) for name, text in _REQUEST_DATES.items() if logged.get(name)}
    if export is not None:
        from app.domain.privacy.export import describe_counts

        lines = describe_counts(export["counts"])
        shown["export"] = export["status"] + (f" ({lines})" if lines else "")
        if export["status"] in ("running", "ready"):
            shown["export expires"] = format_minute(export["expires_at"])
    _print(shown)


def _print(shown: dict[str, object]) -> None:
    for name, value in shown.items():
        typer.echo(f"{name:<19}{plain(value)}")


def _describe_identity(logged: dict[str, Any]) -> dict[str, object]:
    if not logged.get("identity_method"):
        return {}
    return {"identity check": f"{logged['identity_method']}, {format_minute(logged['identity_checked_at'])}"}


def _describe_hold(hold: dict[str, Any]) -> str:
    """Describe a legal hold: its id, the number of memories, and its ground."""
    ground = f", {hold['ground'].replace('_', ' ')}" if hold.get("ground") else ""
    return f"{hold['hold_id']} ({count_of(hold['memories'], 'memory', 'memories')}{ground})"
