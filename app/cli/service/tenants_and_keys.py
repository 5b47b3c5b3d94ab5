"""`ebbing tenants` and `ebbing keys`: administer tenants and API keys."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.cli.core.calls import call, fetch_list, given, item_path
from app.cli.core.errors import Commands
from app.cli.core.filters import check_sources
from app.cli.core.output import AsJson, Url, examples, print_fields, print_result, print_rows
from app.cli.core.time_option import time_option
from app.domain.formatting import format_minute
from app.domain.ingest.sources import SOURCES
from app.domain.policy.api_keys import SCOPES

router = typer.Typer()
tenants = typer.Typer(cls=Commands, help="Create, list and delete tenants.", no_args_is_help=True)
keys = typer.Typer(cls=Commands, help="Create, list and revoke API keys.", no_args_is_help=True)
router.add_typer(
    tenants,
    name="tenants",
    epilog=examples("ebbing tenants create acme", "ebbing tenants list", "ebbing tenants delete ID --dry-run"),
)
router.add_typer(keys, name="keys", epilog=examples("ebbing keys create reader --scope read", "ebbing keys list"))


@tenants.command("create", epilog=examples("ebbing tenants create acme", "ebbing tenants create acme --json"))
def create_tenant(
    name: Annotated[str, typer.Argument(help="Unique name of the tenant.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Create a tenant and its first API key. The key is shown only once."""
    _show_made(call(url, "POST", "/v1/admin/tenants", json={"name": name}), as_json=as_json)


@tenants.command("list", epilog=examples("ebbing tenants list"))
def list_tenants(url: Url = None, as_json: AsJson = False) -> None:
    """List tenants by name."""
    found = fetch_list(url, "/v1/admin/tenants", "tenants")
    rows = (
        (row["tenant_id"], row["name"], _moment(row.get("created_at")), row.get("status", "active").replace("_", " "))
        for row in found
    )
    print_rows({"tenants": found}, ["tenant_id", "name", "created", "status"], rows, as_json=as_json)


@keys.command("create", epilog=examples("ebbing keys create reader --scope read", "ebbing keys create nightly"))
def create_key(
    name: Annotated[str, typer.Argument(help="Name of the key, shown in lists.")],
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Tenant of the new key. Default: the tenant of the API key that you use."),
    ] = None,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            "--scope",
            help=f"Grant this scope: {', '.join(f'`{name}`' for name in SCOPES)}. Repeatable. "
            "Default: every scope except `admin`.",
        ),
    ] = None,
    expires: Annotated[str | None, time_option("--expires", "Expiry time of the key.")] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            callback=check_sources,
            help="Most trusted source that the key may give to memories that it writes. From most to least trusted: "
            f"{', '.join(f'`{name}`' for name in SOURCES)}. Default: `unknown`.",
        ),
    ] = None,
    *,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Create an API key. The key is shown only once."""
    body = given(name=name, tenant_id=tenant, scopes=scope or None, expires_at=expires, source=source)
    _show_made(call(url, "POST", "/v1/admin/keys", json=body), as_json=as_json)


@keys.command("list", epilog=examples("ebbing keys list", "ebbing keys list --json"))
def list_keys(
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Only keys of this tenant. Default: keys of all tenants.")
    ] = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List API keys without their secrets, of one tenant or of all."""
    found = fetch_list(url, "/v1/admin/keys", "keys", tenant_id=tenant)
    names, dates = ("key_id", "tenant_id", "name", "scopes", "source"), ("created_at", "expires_at", "revoked_at")
    rows = ((*(_cell(row.get(name)) for name in names), *(_moment(row.get(name)) for name in dates)) for row in found)
    heads = [*names, *(name.removesuffix("_at") for name in dates)]
    print_rows({"keys": found}, heads, rows, as_json=as_json)


@keys.command("revoke", epilog=examples("ebbing keys revoke 0abcDEF123xyz"))
def revoke_key(
    key_id: Annotated[str, typer.Argument(help="Id of the key: the part between the first two underscores.")],
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Revoke an API key; it is rejected everywhere within 5 seconds."""
    from app.cli.core.errors import Code, CommandFailure

    if key_id.startswith("ebb_"):
        message = "this looks like a complete key, and its secret is now in your shell history: give only the key id"
        raise CommandFailure(message, Code.USAGE)
    call(url, "DELETE", item_path("/v1/admin/keys", key_id))
    print_result({"key_id": key_id, "revoked": True}, f"{key_id} is revoked", as_json=as_json)


@keys.command(epilog=examples("EBBING_DATABASE_URL=postgresql://… ebbing keys bootstrap"))
def bootstrap(as_json: AsJson = False) -> None:
    """Create the tenant `default` and an API key with all scopes, directly in the database of EBBING_DATABASE_URL.

    For new installations, which have no key yet. The key is shown only once.
    """
    from app.cli.service.bootstrap import make_key

    made = make_key()
    _show_made({"tenant_id": made.tenant_id, "name": "default", "api_key": made.text}, as_json=as_json)


def _show_made(made: dict[str, Any], *, as_json: bool) -> None:
    shown = {name: _cell(value) for name, value in made.items() if value is not None}
    print_fields(made, shown, width=11, as_json=as_json)
    if not as_json:
        typer.echo("Save the key now: it can't be shown again.", err=True)


def _moment(given: str | None) -> str:
    return "" if given is None else format_minute(given)


def _cell(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
