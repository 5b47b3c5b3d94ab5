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
    plain,
    print_fields,
    print_json,
    print_result,
    print_rows,
)
from app.domain.formatting import format_minute

PATH: Final = "/v1/webhooks"
TEST_SECONDS: Final = 30.0

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
    print_result(made, f"webhook {plain(made['id'])}, secret {plain(made['secret'])}", as_json=as_json)


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
    print_fields(found, shown, width=12, as_json=as_json)


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
    """Change, pause or enable a webhook; it also continues after it was disabled."""
    body: dict[str, Any] = given(url=receiver, types=types or None, description=description)
    if all_types:
        body["types"] = None
    if enable is not None:
        body["status"] = "enabled" if enable else "paused"
    if not body:
        raise CommandFailure("nothing to change: give at least one option", Code.USAGE)
    done = call(url, "PATCH", item_path(PATH, webhook_id), json=body)
    print_result(done, f"webhook {plain(done['id'])}: {_state(done)}", as_json=as_json)


@router.command(epilog=examples("ebbing webhooks delete ID --yes"))
def delete(webhook_id: Id, *, yes: Yes = False, url: Url = None) -> None:
    """Delete a webhook with its secrets and pending deliveries."""
    if not yes:
        confirm(f"Delete the webhook {plain(webhook_id)} and its pending deliveries?")
    call(url, "DELETE", item_path(PATH, webhook_id))
    typer.echo(f"deleted webhook {plain(webhook_id)}")


@router.command(epilog=examples("ebbing webhooks rotate ID", "ebbing webhooks rotate ID --overlap-hours 0"))
def rotate(
    webhook_id: Id,
    *,
    overlap_hours: Annotated[
        int, typer.Option("--overlap-hours", min=0, max=168, help="Hours for which the old secret signs, too.")
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
    text = f"{sent[0]['outcome']}, status {sent[0]['response'] or 'none'}"
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
        (each["id"], each["type"], each["status"], each["attempts"], each["response"] or "", _result(each))
        for each in found
    )
    head = ["id", "type", "status", "attempts", "response", "last result"]
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
        str | None, typer.Option("--failed-since", help="All failed deliveries of changes since this day or time.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send deliveries again, with the ids of their first attempts."""
    if bool(delivery_ids) == (failed_since is not None):
        raise CommandFailure("give ids of deliveries, or --failed-since", Code.USAGE)
    if failed_since is not None and len(failed_since) == len("2026-11-20"):
        failed_since += "T00:00:00Z"
    body = given(ids=delivery_ids or None, failed_since=failed_since)
    done = call(url, "POST", f"{item_path(PATH, webhook_id)}/replay", json=body)
    print_result(done, f"{count_of(done['replayed'], 'delivery', 'deliveries')} to send again", as_json=as_json)


def _state(found: dict[str, Any]) -> str:
    if found["status"] == "disabled":
        return f"disabled ({found['reason']})"
    if found["status"] == "enabled" and found["failing_since"]:
        return f"failing since {format_minute(found['failing_since'])}"
    return str(found["status"])


def _result(each: dict[str, Any]) -> str:
    if not each["outcome"]:
        return ""
    return f"{each['outcome']}, {format_minute(each['attempted_at'])}"
