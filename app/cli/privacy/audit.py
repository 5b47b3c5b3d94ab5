"""`ebbing audit`: what was done, by whom, and whether anybody has altered what is told of it."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.failures import Code, Commands, Failure
from app.cli.core.output import AsJson, Url, examples, print_json, print_table, progress
from app.cli.core.place import find

PATH: Final = "/v1/privacy/audit"

router = typer.Typer()
entries = typer.Typer(
    cls=Commands, help="List what was done to the tenant; or verify that list.", invoke_without_command=True
)
router.add_typer(
    entries,
    name="audit",
    epilog=examples(
        "ebbing audit",
        "ebbing audit --action policy_set",
        "ebbing audit --json | jq .entries[0]",
        "ebbing audit verify",
    ),
)


@entries.callback()
def list_entries(
    context: typer.Context,
    action: Annotated[str | None, typer.Option("--action", help="Only this, such as policy_set.")] = None,
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=500, help="Most entries.")] = 20,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List what was done to the tenant, newest first: by which key, and to how many."""
    from app.cli.core.client import Api

    if context.invoked_subcommand is not None:
        return
    params: dict[str, str | int] = {"limit": limit} | ({"action": action} if action else {})
    with Api(find(url)) as api:
        found = api.call("GET", PATH, params=params).body
    if as_json:
        print_json(found)
        return
    names = ("seq", "at", "actor", "action", "items")
    rows = [[*(entry[name] for name in names), _told(entry["details"])] for entry in found["entries"]]
    print_table([*names, "details"], rows, right=["seq", "items"])


@entries.command(
    epilog=examples(
        "ebbing audit verify", "ebbing audit verify --json | jq -r .anchor", "ebbing audit verify --anchor 1204:9f3c…"
    )
)
def verify(
    *,
    anchor: Annotated[
        str | None, typer.Option("--anchor", help="Where the chain stood once, as a verification has told.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Look at every entry, and name the first that is missing or was altered; the exit code is 1 then.

    It tells an anchor: noted where nobody who can write to the database can, it shows later too whether the end of the
    chain was cut off or all of it written anew.
    """
    from app.cli.core.client import Api

    params = {"anchor": anchor} if anchor else {}
    with Api(find(url)) as api, progress("verifying", 1.0, quiet=as_json, unit="entries") as step:
        found = api.call("GET", f"{PATH}/verify", params=params).body
        while found["next_cursor"]:
            step(done=found["verified"] / found["entries"], note=f"{found['verified']:,} entries")
            found = api.call("GET", f"{PATH}/verify", params={**params, "cursor": found["next_cursor"]}).body
    if as_json:
        print_json(found)
    if found["broken"] is None:
        if not as_json:
            typer.echo(f"all {found['verified']:,} entries are as they were written")
            typer.echo(f"anchor {found['anchor']}")
        return
    if as_json:
        raise typer.Exit(Code.FAILED)
    broken = found["broken"]
    raise Failure(f"the audit is broken at entry {broken['seq']:,}: {broken['why']}; those before it are well")


def _told(details: dict[str, Any]) -> str:
    shown = {name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in details.items()}
    return ", ".join(f"{name} {value}" for name, value in shown.items() if value not in (None, ""))
