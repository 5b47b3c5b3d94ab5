"""`ebbing dead-letters`: list, replay and discard work that failed repeatedly."""

from __future__ import annotations

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

if TYPE_CHECKING:
    from app.cli.core.client import Api

PATH: Final = "/v1/admin/dead-letters"
PATIENCE_SECONDS: Final = 120.0

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
    names = ("id", "stage", "reason", "attempts", "memories")
    rows = [
        [
            *(row.get(name) for name in names),
            format_ago(row.get("created_at")),
            "yes" if row.get("replayable") else "no",
        ]
        for row in found["dead_letters"]
    ]
    print_table([*names, "created", "replayable"], rows, right=["attempts", "memories"])
    if found["reasons"]:
        typer.echo()
        columns = ("stage", "reason", "count")
        print_table(columns, [[row.get(name) for name in columns] for row in found["reasons"]], right=["count"])


@router.command(epilog=examples("ebbing dead-letters show ID"))
def show(letter_id: Id, tenant: Tenant = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show the metadata of a dead letter, without its content."""
    found = call(url, "GET", _path(letter_id), params=given(tenant_id=tenant))
    named = found | {"replayable": "yes" if found.get("replayable") else "no"}
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
        if letter_id is None:
            done = _repeat(api, f"{PATH}/replay", given(reason=reason, stage=stage), tenant, "replayed")
        else:
            api.call("POST", f"{_path(letter_id)}/replay", params=given(tenant_id=tenant))
            done = {"replayed": 1, "left": 0}
    _print_done(done, "replayed", as_json=as_json)


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
    reason: Reason = None,
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
    _print_done(done, "discarded", as_json=as_json)


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
    confirm(f"Delete the content of {count_of(count, 'dead letter', 'dead letters')}? This can't be undone.")


def _repeat(api: Api, path: str, body: dict[str, Any], tenant: str | None, did: str) -> dict[str, Any]:
    """Repeat the call until every dead letter that existed at the first call is processed."""
    total = 0
    while True:
        answer = api.call("POST", path, json=body, params=given(tenant_id=tenant), safe=True).body
        total += answer[did]
        if not answer["left"]:
            return {did: total, "left": 0}
        body["before"] = answer["before"]


def _print_done(done: dict[str, Any], did: str, *, as_json: bool) -> None:
    print_result(done, f"{did} {count_of(done[did], 'dead letter', 'dead letters')}", as_json=as_json)


def _path(letter_id: str) -> str:
    return item_path(PATH, letter_id)
