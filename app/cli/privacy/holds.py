"""`ebbing hold`: place, list, show and release legal holds, which block edits, merges, deletion and archiving."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, Final

import typer

from app.cli.core.calls import item_path
from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.filters import After, Before, Categories, Kinds, Labels, Subject, Tags, Thread
from app.cli.core.output import AsJson, Url, confirm, count_of, examples, plain, print_json, print_table

router = typer.Typer()
hold = typer.Typer(cls=Commands, help="Place, list, show and release legal holds.", no_args_is_help=True)
router.add_typer(
    hold,
    name="hold",
    epilog=examples(
        "ebbing hold place --subject orla --reason 'case 17'", "ebbing hold list", "ebbing hold release ID"
    ),
)

PATH: Final = "/v1/privacy/holds"
PAGE: Final = 500

Id = Annotated[str, typer.Argument(help="Id of the hold.", metavar="ID")]


@hold.command(
    epilog=examples(
        "ebbing hold place ID ID --reason 'case 17' --yes",
        "ebbing hold place --subject orla --reason 'case 17' --dry-run",
        "ebbing hold place --category health --after 2026-01-01 --before 2026-04-01 --reason 'audit of spring'",
    )
)
def place(
    memory_ids: Annotated[
        Labels, typer.Argument(help="Ids of the memories to hold.", metavar="ID", show_default=False)
    ] = None,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Reason; visible only to keys with the scope `privacy`.")],
    subject: Subject = None,
    thread: Thread = None,
    tags: Tags = None,
    categories: Categories = None,
    kinds: Kinds = None,
    after: After = None,
    before: Before = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show how many memories the hold would cover.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Place a hold on memories by id, or on all current and future memories that match the conditions together."""
    from app.cli.core.client import Api

    given = {"thread": thread, "tags": tags, "categories": categories, "kinds": kinds, "after": after, "before": before}
    by = {name: value for name, value in given.items() if value}
    wanted = {"memory_ids": memory_ids, "subject": subject, "filter": by}
    body = {name: value for name, value in wanted.items() if value}
    if not body:
        raise CommandFailure("nothing selected: give memory ids, --subject or another condition", Code.USAGE)
    later = "" if memory_ids else ", and future memories that meet its conditions"
    with Api(find_connection(url)) as api:
        if dry_run or not yes:
            counted = api.call("POST", PATH, json=body | {"reason": reason, "dry_run": True}).body
            if dry_run:
                print_json(counted) if as_json else typer.echo(f"Would hold {_many(counted)}.")
                return
            confirm(f"Place a hold on {_many(counted)}{later}, until it is released?")
        placed = api.call("POST", PATH, json=body | {"reason": reason}).body
        found = placed if as_json else api.call("GET", _path(placed["id"])).body
    if as_json:
        print_json(placed)
    else:
        typer.echo(f"hold {plain(found['id'])} covers {_many(found)}{later}")


@hold.command("list", epilog=examples("ebbing hold list", "ebbing hold list --all --json"))
def list_holds(
    *,
    released: Annotated[bool, typer.Option("--all", help="Include released holds.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Maximum number of holds.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List holds, newest first."""
    from app.cli.core.client import Api, pages

    params: dict[str, str | int] = {"limit": min(limit, PAGE)} | ({"released": "true"} if released else {})
    with Api(find_connection(url)) as api:
        found = list(islice(pages(api, PATH, "holds", params), limit))
    if as_json:
        print_json({"holds": found})
        return
    rows = [
        (each["id"], _day(each["placed_at"]), _day(each["released_at"]), _describe_scope(each), each["reason"])
        for each in found
    ]
    print_table(["id", "placed", "released", "scope", "reason"], rows)


@hold.command(epilog=examples("ebbing hold show ID", "ebbing hold show ID --json | jq .memories"))
def show(hold_id: Id, url: Url = None, as_json: AsJson = False) -> None:
    """Show a hold and the number of memories it currently covers."""
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        found = api.call("GET", _path(hold_id)).body
    if as_json:
        print_json(found)
        return
    shown = {"id": found["id"], "scope": _describe_scope(found), "covers": _many(found), "reason": found["reason"]}
    for did in ("placed", "released"):
        if found[f"{did}_at"]:
            shown[did] = f"{_minute(found[f'{did}_at'])} by key {found[f'{did}_by']}"
    for name, value in shown.items():
        typer.echo(f"{name:<10}{plain(value)}")


@hold.command(epilog=examples("ebbing hold release ID", "ebbing hold release ID --yes"))
def release(
    hold_id: Id,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Skip the confirmation prompt.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Release a hold. Unless another hold or rule protects them, its memories can be changed and deleted again."""
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        if not yes:
            found = api.call("GET", _path(hold_id)).body
            question = f"Release the hold of {_day(found['placed_at'])} ({plain(found['reason'])}) on {_many(found)}?"
            confirm(question)
        done = api.call("POST", f"{_path(hold_id)}/release").body
    if as_json:
        print_json(done)
    else:
        typer.echo(f"released hold {plain(done['id'])} at {_minute(done['released_at'])}")


def _path(hold_id: str) -> str:
    return item_path(PATH, hold_id)


def _describe_scope(found: dict[str, Any]) -> str:
    """Describe the scope of a hold."""
    if found["memory_ids"]:
        return f"{len(found['memory_ids'])} memories by id"
    by = ({"subject": found["subject"]} if found["subject"] else {}) | (found["filter"] or {})
    words = {name: ", ".join(value) if isinstance(value, list) else value for name, value in by.items()}
    return "; ".join(
        f"{name} {_minute(value) if name in ('after', 'before') else value}" for name, value in words.items()
    )


def _many(found: dict[str, Any]) -> str:
    aside = f" (and {found['hidden']} hidden by pending erasures)" if found["hidden"] else ""
    return count_of(found["memories"], "memory", "memories") + aside


def _day(moment: str | None) -> str:
    return "" if moment is None else moment[:10]


def _minute(moment: str) -> str:
    return f"{moment[:10]} {moment[11:16]} UTC"
