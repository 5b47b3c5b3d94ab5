"""`ebbing webhooks`: receivers of changes, their secrets, and the deliveries to them."""

from __future__ import annotations

import time
from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import call, fetch_list, given, item_path
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.output import (
    AsJson,
    Url,
    Yes,
    confirm,
    count_of,
    examples,
    format_ago,
    format_both,
    plain,
    print_fields,
    print_json,
    print_result,
    print_rows,
)
from app.cli.core.time_option import time_option
from app.domain.formatting import format_minute

PATH: Final = "/v1/webhooks"
TEST_SECONDS: Final = 30.0
REPLAY_MAX: Final = 1_000
"""Maximum number of deliveries that one request of the API replays."""

router = typer.Typer(
    name="webhooks",
    cls=Commands,
    help="Send changes to receivers; list and replay deliveries.",
    no_args_is_help=True,
    epilog=examples(
        "ebbing webhooks create https://example.org/hook", "ebbing webhooks list", "ebbing webhooks test ID"
    ),
)

Id = Annotated[str, typer.Argument(help="Id of the webhook.", metavar="ID")]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", help="Type of change to send, such as memory.stored (repeatable). Default: all."),
]
Description = Annotated[str | None, typer.Option("--description", help="Description; must not contain personal data.")]


@router.command(
    epilog=examples(
        "ebbing webhooks create https://example.org/hook",
        "ebbing webhooks create https://example.org/hook --type memory.deleted --cloudevents",
    )
)
def create(
    receiver: Annotated[str, typer.Argument(help="Address of the receiver.", metavar="URL")],
    *,
    types: Types = None,
    description: Description = None,
    cloudevents: Annotated[bool, typer.Option("--cloudevents", help="Send structured CloudEvents.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send the changes from now on to a receiver. The secret that verifies them is shown only now."""
    body = given(url=receiver, types=types or None, description=description)
    made = call(url, "POST", PATH, json=body | ({"format": "cloudevents"} if cloudevents else {}))
    print_result(made, f"webhook {plain(made['id'])}\nsecret {plain(made['secret'])}", as_json=as_json)


@router.command("list", epilog=examples("ebbing webhooks list", "ebbing webhooks list --json"))
def list_webhooks(
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of webhooks.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List webhooks, newest first."""
    found = fetch_list(url, PATH, "webhooks", limit)
    rows = ((each["id"], _state(each), each["pending"], each["failed"], each["url"]) for each in found)
    print_rows({"webhooks": found}, ["id", "state", "pending", "failed", "url"], rows, as_json=as_json)


@router.command(epilog=examples("ebbing webhooks show ID"))
def show(webhook_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Show a webhook."""
    found = call(url, "GET", item_path(PATH, webhook_id))
    shown = {name: found[name] for name in ("id", "url", "description", "format", "pending", "failed", "missed")}
    shown |= {"state": _state(found), "types": ", ".join(found["types"] or ["all"])}
    shown["last success"] = format_both(found["succeeded_at"]) or "none"
    if found["old_secret_until"]:
        shown["old secret"] = f"signs until {format_minute(found['old_secret_until'])}"
    print_fields(found, shown, width=14, as_json=as_json)


@router.command(
    epilog=examples("ebbing webhooks update ID --pause", "ebbing webhooks update ID --receiver https://example.org/new")
)
def update(
    webhook_id: Id,
    *,
    receiver: Annotated[str | None, typer.Option("--receiver", help="New address of the receiver.")] = None,
    types: Types = None,
    all_types: Annotated[bool, typer.Option("--all-types", help="Send all types of changes.")] = False,
    description: Description = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--pause", help="Continue where it stopped, or stop sending.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Change, pause or enable a webhook; --enable also restarts one that was disabled."""
    body: dict[str, Any] = given(url=receiver, types=types or None, description=description)
    if all_types:
        if types:
            raise CommandFailure("give --type or --all-types, not both", Code.USAGE)
        body["types"] = None
    if enable is not None:
        body["status"] = "enabled" if enable else "paused"
    if not body:
        raise CommandFailure("nothing to change: give at least one option", Code.USAGE)
    done = call(url, "PATCH", item_path(PATH, webhook_id), json=body)
    print_result(done, f"webhook {plain(done['id'])}: {_state(done)}", as_json=as_json)


@router.command(epilog=examples("ebbing webhooks delete ID --yes"))
def delete(webhook_id: Id, *, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Delete a webhook with its secrets and pending deliveries."""
    if not yes:
        confirm(f"Delete the webhook {plain(webhook_id)} and its pending deliveries?")
    call(url, "DELETE", item_path(PATH, webhook_id))
    print_result({"id": webhook_id, "deleted": True}, f"deleted webhook {plain(webhook_id)}", as_json=as_json)


@router.command(epilog=examples("ebbing webhooks rotate ID", "ebbing webhooks rotate ID --overlap-hours 0"))
def rotate(
    webhook_id: Id,
    *,
    overlap_hours: Annotated[
        int, typer.Option("--overlap-hours", min=0, max=168, help="Hours for which messages have both signatures.")
    ] = 24,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Replace the secret. The new one is shown only now."""
    done = call(url, "POST", f"{item_path(PATH, webhook_id)}/rotate", json={"overlap_hours": overlap_hours})
    print_result(done, f"secret {plain(done['secret'])}", as_json=as_json)


@router.command("test", epilog=examples("ebbing webhooks test ID"))
def send_test(webhook_id: Id, *, url: Url = None, as_json: AsJson = False) -> None:
    """Send a test message and show the receiver's status. The exit code is 1 unless it is accepted."""
    path = item_path(PATH, webhook_id)
    delivery_id = call(url, "POST", f"{path}/test")["delivery_id"]
    until = time.monotonic() + TEST_SECONDS
    while True:
        sent = [each for each in fetch_list(url, f"{path}/deliveries", "deliveries", 50) if each["id"] == delivery_id]
        if (sent and sent[0]["status"] != "pending") or time.monotonic() >= until:
            break
        time.sleep(0.5)
    if not sent or sent[0]["status"] == "pending":
        raise CommandFailure(f"no result within {TEST_SECONDS:.0f} s: check `ebbing doctor`", Code.FAILED)
    text = _outcome(sent[0])
    if sent[0]["status"] == "failed":
        if as_json:
            print_json(sent[0])
        raise CommandFailure(f"the receiver didn't accept the test: {text}", Code.FAILED)
    print_result(sent[0], text, as_json=as_json)


@router.command(epilog=examples("ebbing webhooks deliveries ID", "ebbing webhooks deliveries ID --status failed"))
def deliveries(
    webhook_id: Id,
    *,
    status: Annotated[str | None, typer.Option("--status", help="`pending`, `delivered` or `failed`.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of deliveries.")] = 50,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the deliveries of the last 14 days, newest first."""
    found = fetch_list(url, f"{item_path(PATH, webhook_id)}/deliveries", "deliveries", limit, status=status)
    rows = (
        (each["id"], each["type"], each["status"], each["attempts"], _result(each), format_ago(each["next_at"]))
        for each in found
    )
    head = ["id", "type", "status", "attempts", "last result", "next"]
    print_rows({"deliveries": found}, head, rows, as_json=as_json)


@router.command(
    epilog=examples("ebbing webhooks replay ID --failed-since 2026-11-20", "ebbing webhooks replay ID DELIVERY")
)
def replay(
    webhook_id: Id,
    delivery_ids: Annotated[
        list[str] | None, typer.Argument(help="Ids of deliveries.", metavar="DELIVERY", show_default=False)
    ] = None,
    *,
    failed_since: Annotated[
        str | None, time_option("--failed-since", "All failed deliveries of changes since this day or time.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send deliveries again. Each message has the same `webhook-id` as at its first attempt."""
    if bool(delivery_ids) == (failed_since is not None):
        raise CommandFailure("give ids of deliveries, or --failed-since", Code.USAGE)
    body = given(ids=delivery_ids or None, failed_since=failed_since)
    done = call(url, "POST", f"{item_path(PATH, webhook_id)}/replay", json=body)
    number: int = done["replayed"]
    text = f"{count_of(number, 'delivery', 'deliveries')} to send again"
    if number >= REPLAY_MAX and failed_since is not None:
        text += "; there may be more failed ones: repeat the command after they were sent"
    print_result(done, text, as_json=as_json)


def _state(found: dict[str, Any]) -> str:
    if found["status"] == "disabled":
        return f"disabled ({found['reason']})"
    if found["status"] == "enabled" and found["failing_since"]:
        return f"failing since {format_minute(found['failing_since'])}"
    return str(found["status"])


def _result(each: dict[str, Any]) -> str:
    return f"{_outcome(each)}, {format_ago(each['attempted_at'])}" if each["outcome"] else ""


def _outcome(each: dict[str, Any]) -> str:
    """Return the outcome of an attempt with the receiver's status: `status 500`, `delivered 204`, `timeout`."""
    return f"{each['outcome']} {each['response'] or ''}".rstrip()
