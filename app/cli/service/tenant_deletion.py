"""`ebbing tenants delete`, `cancel` and `report`: delete a tenant with everything that it has."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure
from app.cli.core.output import (
    AsJson,
    Url,
    Yes,
    ask,
    confirm,
    count_of,
    examples,
    plain,
    print_json,
    print_result,
    print_table,
)
from app.cli.privacy.erasure_requests import HtmlFile, print_report, print_written
from app.cli.service.tenants_and_keys import tenants
from app.domain.formatting import format_minute

router = tenants

PATH: Final = "/v1/admin/tenants"
_STORES: Final = {
    "tenant_files": "files of cold storage and exports",
    "tenant_queue": "requests that wait to be stored",
    "memories": "memories",
    "note_files": "notes of promoted memories",
    "bases": "shared PCA bases to refit",
    "tenant_rows": "settings, keys, schedules, jobs and reports",
    "tenant_keys": "encryption keys",
}

TenantId = Annotated[str, typer.Argument(help="Id of the tenant, as `ebbing tenants list` shows it.", metavar="ID")]


@router.command(
    "delete",
    epilog=examples(
        "ebbing tenants delete ID --dry-run", "ebbing tenants delete ID", "ebbing tenants delete ID --name acme --yes"
    ),
)
def delete_tenant(
    tenant_id: TenantId,
    *,
    name: Annotated[
        str | None,
        typer.Option("--name", help="Name of the tenant, as a confirmation. Without --yes, the command asks for it."),
    ] = None,
    grace_days: Annotated[
        int | None,
        typer.Option(
            "--grace-days",
            min=0,
            max=30,
            help="Grace period in days, during which the deletion can be cancelled. Default: 30.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be deleted, without deleting it.")
    ] = False,
    yes: Yes = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Delete a tenant with everything that it has. Its API keys are refused at once; its data is erased later.

    Until the grace period ends, the deletion can be cancelled with `ebbing tenants cancel ID`.
    """
    from app.cli.core.client import Api

    path, wanted = item_path(PATH, tenant_id), given(grace_days=grace_days)
    with Api(find_connection(url)) as api:
        if dry_run or not yes:
            would = api.call("DELETE", path, params=wanted | {"dry_run": "true"}).body
            if dry_run:
                _print_preview(would, as_json=as_json)
                return
            if would["status"] == "active":
                memories = count_of(would["stores"]["memories"], "memory", "memories")
                confirm(f"Refuse all keys of this tenant now, and erase {memories} and everything else of it?")
                name = name or ask("Name of the tenant")
        if name is None and yes:
            raise CommandFailure("the deletion isn't confirmed, nothing was changed: pass --name", Code.USAGE)
        done = api.call("DELETE", path, params=wanted | {"name": name or ""}).body
    print_result(done, _describe(done), as_json=as_json)


@router.command("cancel", epilog=examples("ebbing tenants cancel ID", "ebbing tenants cancel ID --yes"))
def cancel_deletion(tenant_id: TenantId, *, yes: Yes = False, url: Url = None, as_json: AsJson = False) -> None:
    """Cancel the deletion of a tenant during its grace period. Its API keys are accepted again."""
    from app.cli.core.client import Api

    path = f"{item_path(PATH, tenant_id)}/deletion"
    with Api(find_connection(url)) as api:
        if not yes:
            found = api.call("GET", path).body
            confirm(f"Cancel the deletion of the tenant {plain(found['name'])}, and accept its keys again?")
        done = api.call("POST", f"{path}/cancel").body
    print_result(done, f"{plain(done['name'])} is {done['status']}", as_json=as_json)


@router.command("report", epilog=examples("ebbing tenants report ID", "ebbing tenants report ID --html report.html"))
def report(tenant_id: TenantId, *, html: HtmlFile = None, url: Url = None, as_json: AsJson = False) -> None:
    """Show the report of a tenant's finished deletion: results per store, and what remains and why."""
    from app.cli.core.client import Api

    path = f"{item_path(PATH, tenant_id)}/deletion/report"
    with Api(find_connection(url)) as api:
        if html is not None:
            html.write_text(api.page(f"{path}?format=html"), encoding="utf-8")
            print_written(html, {"id": tenant_id}, as_json=as_json)
            return
        found = api.call("GET", path).body
    if as_json:
        print_json(found)
        return
    print_report(found)


def _print_preview(would: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(would)
        return
    rows = [(_STORES.get(name, name), count) for name, count in would["stores"].items() if count]
    rows += [(f"table {name}", count) for name, count in would["tables"].items() if count and name != "memories"]
    print_table(["store", "found"], rows, right=["found"])
    if would["status"] != "active":
        typer.echo(f"{plain(would['name'])} is {would['status'].replace('_', ' ')} already")
    if holds := would["holds"]:
        listed = ", ".join(plain(hold["hold_id"]) for hold in holds)
        typer.echo(f"Legal holds block the deletion until they are released: {listed}")
    typer.echo(f"Would erase {plain(would['name'])} after {format_minute(would['erase_after'])}.")


def _describe(done: dict[str, Any]) -> str:
    """Return the state of a deletion as a sentence."""
    if done["status"] == "deleted":
        return f"{plain(done['tenant_id'])} is deleted since {format_minute(done['deleted_at'])}"
    until = format_minute(done["erase_after"])
    cancel = f"cancel it until then with `ebbing tenants cancel {plain(done['tenant_id'])}`"
    return f"{plain(done['name'])} is being deleted: its data is erased after {until}; {cancel}"
