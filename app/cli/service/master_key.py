"""`ebbing master-key`: show which master keys wrap the keys of cold storage, and rotate to the current one."""

from __future__ import annotations

from typing import Final

import typer

from app.cli.core.connection import load_settings, use_home
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.output import AsJson, count_of, examples, print_json, print_rows

REPORT_EVERY: Final = 10_000
"""Number of rewrapped keys between two lines of progress."""

router = typer.Typer(
    name="master-key",
    cls=Commands,
    help="Show which master keys wrap the keys of cold storage, and rotate to the current one.",
    invoke_without_command=True,
    epilog=examples("ebbing master-key", "ebbing master-key rotate"),
)


@router.callback()
def show_master_keys(context: typer.Context, *, as_json: AsJson = False) -> None:
    """Show each master key's id, its place in the settings, and the number of keys that it wraps.

    The command connects to the database directly (EBBING_DATABASE_URL), or to that of an `ebbing run` in the home.
    """
    if context.invoked_subcommand is not None:
        return
    from app.services.security import encryption_keys, master_keys

    _require_database()
    configured = [key.key_id for key in encryption_keys.list_master_keys()]
    counts = master_keys.count_wrapped()
    has_current = load_settings().master_key is not None
    shown = []
    for key_id in dict.fromkeys([*configured, *master_keys.find_missing(), *counts]):
        place = "other" if key_id in configured else "missing" if key_id else "not recorded"
        if has_current and key_id == configured[0]:
            place = "current"
        shown.append({"id": key_id, "place": place, "keys": counts.get(key_id, 0)})
    rows = ((row["id"] or "", row["place"], row["keys"]) for row in shown)
    print_rows({"master_keys": shown}, ["master key", "place", "keys"], rows, as_json=as_json)


@router.command("rotate", epilog=examples("ebbing master-key rotate", "ebbing master-key rotate --json"))
def rotate_master_key(*, as_json: AsJson = False) -> None:
    """Wrap all keys of cold storage with EBBING_MASTER_KEY. List earlier master keys in EBBING_OTHER_MASTER_KEYS.

    Texts and records in cold storage don't change. The service can stay running, and the command can be interrupted
    and run again. It connects to the database directly, as `ebbing master-key` does. The exit code is 1 if an old
    master key still wraps keys at the end, because a running process uses it as the current one.
    """
    from app.services.security import encryption_keys, master_keys

    _require_database()
    tenants = keys = reported = 0
    for progress in master_keys.rotate():
        tenants, keys = progress.tenants, progress.keys
        if keys - reported >= REPORT_EVERY:
            reported = keys
            typer.echo(f"{count_of(keys, 'key', 'keys')} wrapped again", err=True)
    in_use = master_keys.remove_unused()
    current = encryption_keys.current_master_key().key_id
    if as_json:
        print_json({"master_key": current, "tenants": tenants, "keys": keys, "in_use": in_use})
    else:
        wrapped = f"{count_of(keys, 'key', 'keys')} of {count_of(tenants, 'tenant', 'tenants')} wrapped again"
        typer.echo(f"{wrapped}; the current master key is {current}.")
        if in_use:
            todo = "give every process the same EBBING_MASTER_KEY, and run this command again"
            typer.echo(f"Still in use: {', '.join(in_use)}. {todo.capitalize()}.")
        else:
            typer.echo(
                "Remove old master keys from EBBING_OTHER_MASTER_KEYS once no backup of the key store needs them."
            )
    raise typer.Exit(Code.FAILED if in_use else Code.OK)


def _require_database() -> None:
    use_home()
    if load_settings().database_url is None:
        raise CommandFailure("EBBING_DATABASE_URL isn't set, and no `ebbing run` is running in the home")
