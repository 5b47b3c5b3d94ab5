"""`ebbing links`: add, list and remove links between memories."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from app.cli.core.connection import find_connection
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.output import AsJson, Url, examples, print_json, print_table

router = typer.Typer()
links = typer.Typer(cls=Commands, help="Add, list and remove links between memories.", no_args_is_help=True)
router.add_typer(
    links, name="links", epilog=examples("ebbing links add FROM TO", "ebbing links list ID", "ebbing links remove ID")
)

PAGE = 1_000

Memory = Annotated[str | None, typer.Argument(help="Id of a memory at either end of the link.", metavar="[ID]")]
From = Annotated[str | None, typer.Option("--from", help="Only links from this memory.")]
To = Annotated[str | None, typer.Option("--to", help="Only links to this memory.")]
Kind = Annotated[str | None, typer.Option("--kind", help="Only links of this kind.")]


@links.command(epilog=examples("ebbing links add FROM TO", "ebbing links add FROM TO --kind caused --weight 0.5"))
def add(
    from_id: Annotated[str, typer.Argument(help="Id of the memory at the start of the link.", metavar="FROM")],
    to_id: Annotated[str, typer.Argument(help="Id of the memory at the end of the link.", metavar="TO")],
    *,
    kind: Annotated[str | None, typer.Option("--kind", help="Kind of the link. Default: `related`.")] = None,
    weight: Annotated[
        float | None, typer.Option("--weight", min=0, max=1, help="Weight of the link, 0 to 1. Default: 1.")
    ] = None,
    both_ways: Annotated[bool, typer.Option("--both-ways", help="Also add the reverse link.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Link a memory to another. If the link exists, update its weight."""
    given = {"from": from_id, "to": to_id, "kind": kind, "weight": weight, "both_ways": both_ways or None}
    done = _call("POST", url, json={name: value for name, value in given.items() if value is not None})
    if as_json:
        print_json(done)
    else:
        typer.echo(f"{done['added']} added, {done['updated']} updated")


@links.command("list", epilog=examples("ebbing links list ID", "ebbing links list --from ID --kind caused --json"))
def list_links(
    memory: Memory = None,
    *,
    from_id: From = None,
    to_id: To = None,
    kind: Kind = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of links.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the links of one memory, or all links."""
    from app.cli.core.client import Api, pages

    params = _parameters(memory, from_id, to_id, kind) | {"limit": min(limit, PAGE)}
    with Api(find_connection(url)) as api:
        found = list(islice(pages(api, "/v1/links", "links", params), limit))
    if as_json:
        print_json({"links": found})
        return
    names = ("from", "to", "kind", "weight", "source", "created_at")
    rows = [[f"{link[name]:.3g}" if name == "weight" else link.get(name) for name in names] for link in found]
    print_table(names, rows, right=["weight"])


@links.command(
    epilog=examples("ebbing links remove ID", "ebbing links remove --from ID --to ID --both-ways --kind caused")
)
def remove(
    memory: Memory = None,
    *,
    from_id: From = None,
    to_id: To = None,
    kind: Kind = None,
    both_ways: Annotated[bool, typer.Option("--both-ways", help="Also remove the reverse links.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove the links of a memory, or between two memories. The memories are not deleted."""
    if not (memory or from_id or to_id):
        raise CommandFailure("nothing selected: give a memory id, --from or --to", Code.USAGE)
    params = _parameters(memory, from_id, to_id, kind) | ({"both_ways": "true"} if both_ways else {})
    done = _call("DELETE", url, params=params)
    if as_json:
        print_json(done)
    else:
        typer.echo(f"{done['removed']} removed")


def _parameters(memory: str | None, from_id: str | None, to_id: str | None, kind: str | None) -> dict[str, Any]:
    given = {"memory": memory, "from": from_id, "to": to_id, "kind": kind}
    return {name: value for name, value in given.items() if value is not None}


def _call(method: str, url: str | None, **given: Any) -> dict[str, Any]:
    from app.cli.core.client import Api

    with Api(find_connection(url)) as api:
        return api.call(method, "/v1/links", **given, safe=True).body
