"""`ebbing dead-letters`: list, replay and discard work that failed repeatedly."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.filters import Tenant
from app.cli.core.output import (
    AsJson,
    Url,
    confirm,
    count_of,
    examples,
    format_ago,
    format_both,
    plain,
    print_fields,
    print_json,
    print_result,
    print_table,
)
from app.domain.formatting import format_bytes
from app.domain.runbook import UNCOUNTED, reason_path

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATH: Final = "/v1/admin/dead-letters"
PATIENCE_SECONDS: Final = 120.0
RETURN_SECONDS: Final = 3.0
"""Time for which a replay waits for letters that fail again at once."""
POLL_SECONDS: Final = 0.5
RETURNED_MAX: Final = 500

router = typer.Typer(
    name="dead-letters",
    cls=Commands,
    help="List, show, replay and discard dead letters. Without a subcommand, list them.",
    invoke_without_command=True,
    epilog=examples(
        "ebbing dead-letters",
        "ebbing dead-letters show ID",
        "ebbing dead-letters replay --reason ProviderFailed --stage embed",
        "ebbing dead-letters discard ID --because 'sent again by hand'",
    ),
)

Id = Annotated[str, typer.Argument(help="Id of the dead letter.", metavar="ID")]
OneOrMany = Annotated[
    str | None, typer.Argument(help="Id of the dead letter; without it, give --reason.", metavar="[ID]")
]
Reason = Annotated[str | None, typer.Option("--reason", help="Only dead letters with this reason.")]
FailureReason = Annotated[str | None, typer.Option("--reason", help="Select by the reason for which the work failed.")]
Stage = Annotated[
    str | None, typer.Option("--stage", help="Only dead letters of this stage: drain, index, embed, score or rate.")
]


@router.callback()
def list_letters(
    context: typer.Context,
    stage: Stage = None,
    reason: Reason = None,
    *,
    discarded: Annotated[bool, typer.Option("--discarded", help="List discarded dead letters.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=500, help="Maximum number of dead letters.")] = 20,
    tenant: Tenant = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters, newest first, with counts by reason."""
    if context.invoked_subcommand is not None:
        return
    wanted = "true" if discarded else None
    params = given(stage=stage, reason=reason, discarded=wanted, limit=limit, tenant_id=tenant)
    found = call(url, "GET", PATH, params=params)
    if as_json:
        print_json(found)
        return
    names = ("id", "stage", "reason", "attempts", "replays")
    rows = [
        [
            *(row.get(name) for name in names),
            "unknown" if row["reason"] in UNCOUNTED else row["memories"],
            format_ago(row.get("created_at")),
            "yes" if row.get("replayable") else "no",
        ]
        for row in found["dead_letters"]
    ]
    print_table([*names, "memories", "created", "replayable"], rows, right=["attempts", "replays", "memories"])
    if found["reasons"]:
        typer.echo()
        columns = ("stage", "reason", "count", "came_back")
        rows = [[*(row.get(name) for name in columns), reason_path(row["reason"])] for row in found["reasons"]]
        print_table(["stage", "reason", "count", "came back", "runbook"], rows, right=["count", "came back"])


@router.command(epilog=examples("ebbing dead-letters show ID"))
def show(letter_id: Id, tenant: Tenant = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show the metadata of a dead letter, without its content."""
    found = call(url, "GET", _path(letter_id), params=given(tenant_id=tenant))
    named = found | {"replayable": "yes" if found.get("replayable") else "no"}
    if found.get("reason") in UNCOUNTED:
        named["memories"] = "unknown"
    texts = {name.removesuffix("_at").replace("_", " "): _describe(name, value) for name, value in named.items()}
    shown = {name: text for name, text in texts.items() if text}
    print_fields(found, shown, width=16, as_json=as_json)


@router.command(
    epilog=examples("ebbing dead-letters replay ID", "ebbing dead-letters replay --reason DataError --stage drain")
)
def replay(
    letter_id: OneOrMany = None,
    reason: Reason = None,
    stage: Stage = None,
    tenant: Tenant = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Replay one dead letter, or all with the same reason. Work that fails again becomes a new dead letter."""
    from app.cli.core.client import Api

    _check_choice(letter_id, reason, stage)
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        earlier = set() if as_json else _list_replayed(api, tenant)
        if letter_id is None:
            done = _repeat(api, f"{PATH}/replay", given(reason=reason, stage=stage), tenant, "replayed")
            _require_some(done["replayed"], reason, stage)
        else:
            letter = api.call("POST", f"{_path(letter_id)}/replay", params=given(tenant_id=tenant)).body
            done = {"replayed": 1, "left": 0, "came_back": int(letter.get("replays", 0) > 0)}
        if as_json:
            print_json(done)
            return
        queued, before = done["replayed"], done["came_back"]
        typer.echo(f"queued {count_of(queued, 'dead letter', 'dead letters')} again")
        if before:
            typer.echo(f"{before:,} of them had been replayed before and came back")
        returned = _count_returned(api, queued, earlier, tenant)
    if returned:
        typer.echo(f"{returned:,} came back: fix the cause before the next replay, see `ebbing dead-letters`")
    else:
        typer.echo("none has come back yet: check `ebbing dead-letters` in a minute")


@router.command(
    epilog=examples(
        "ebbing dead-letters discard ID --because 'sent again by hand'",
        "ebbing dead-letters discard --reason Unreadable --because 'sent by a removed client' --yes",
    )
)
def discard(
    because: Annotated[
        str, typer.Option("--because", help="Reason for discarding, stored with the dead letter for 90 days.")
    ],
    letter_id: OneOrMany = None,
    reason: FailureReason = None,
    stage: Stage = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt for --reason.")] = False,
    tenant: Tenant = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete the content of one dead letter, or of all with the same reason. This can't be undone."""
    from app.cli.core.client import Api

    _check_choice(letter_id, reason, stage)
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        if letter_id is not None:
            api.call("POST", f"{_path(letter_id)}/discard", json={"reason": because}, params=given(tenant_id=tenant))
            done = {"discarded": 1, "left": 0}
        else:
            if not yes:
                _confirm(api, reason, stage, tenant)
            body = given(reason=reason, stage=stage, because=because)
            done = _repeat(api, f"{PATH}/discard", body, tenant, "discarded")
            _require_some(done["discarded"], reason, stage)
    text = f"discarded {count_of(done['discarded'], 'dead letter', 'dead letters')}"
    print_result({name: done[name] for name in ("discarded", "left")}, text, as_json=as_json)


def _require_some(count: int, reason: str | None, stage: str | None) -> None:
    """Raise a failure if no letter had the given reason: the reason may be misspelled."""
    if not count:
        named = f"{reason!r} in stage {stage}" if stage else f"{reason!r}"
        raise CommandFailure(f"no dead letter has the reason {named}: `ebbing dead-letters` lists the reasons")


def _count_returned(api: Api, queued: int, earlier: set[str], tenant: str | None) -> int:
    """Return the number of replayed letters that failed again within `RETURN_SECONDS`, at most a page of them.

    Args:
        queued: Number of letters that were replayed.
        earlier: Ids of the letters that had come back before this replay.
    """
    returned = 0
    for _ in range(int(RETURN_SECONDS / POLL_SECONDS)):
        time.sleep(POLL_SECONDS)
        returned = len(_list_replayed(api, tenant) - earlier)
        if returned >= min(queued, RETURNED_MAX):
            break
    return returned


def _list_replayed(api: Api, tenant: str | None) -> set[str]:
    """Return the ids of the newest letters that came back after a replay."""
    letters = api.call("GET", PATH, params=given(limit=RETURNED_MAX, tenant_id=tenant)).body["dead_letters"]
    return {row["id"] for row in letters if row.get("replays")}


def _describe(name: str, value: object) -> str:
    """Return a field of a dead letter as text."""
    if name == "payload_bytes" and isinstance(value, int):
        return format_bytes(value)
    if name.endswith("_at") and isinstance(value, str):
        return format_both(value)
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else plain(value)


def _check_choice(letter_id: str | None, reason: str | None, stage: str | None) -> None:
    if (letter_id is None) == (reason is None):
        raise CommandFailure("give either the id of one dead letter or --reason", Code.USAGE)
    if letter_id is not None and stage is not None:
        raise CommandFailure("--stage needs --reason and can't be combined with an id", Code.USAGE)


def _confirm(api: Api, reason: str | None, stage: str | None, tenant: str | None) -> None:
    params = given(reason=reason, stage=stage, limit=1, tenant_id=tenant)
    count = sum(row["count"] for row in api.call("GET", PATH, params=params).body["reasons"])
    _require_some(count, reason, stage)
    confirm(f"Delete the content of {count_of(count, 'dead letter', 'dead letters')}? This can't be undone.")


def _repeat(api: Api, path: str, body: dict[str, Any], tenant: str | None, did: str) -> dict[str, Any]:
    """Repeat the call until every dead letter that existed at the first call is processed."""
    total = came_back = 0
    while True:
        answer = api.call("POST", path, json=body, params=given(tenant_id=tenant), safe=True).body
        total += answer[did]
        came_back += answer.get("came_back", 0)
        if not answer["left"]:
            return {did: total, "left": 0, "came_back": came_back}
        body["before"] = answer["before"]


def _path(letter_id: str) -> str:
    return item_path(PATH, letter_id)
