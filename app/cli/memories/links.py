"""`ebbing links`: add, list and remove links between memories."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.core.calls import call, fetch_list, given
from app.cli.core.errors import Code, CommandFailure, Commands
from app.cli.core.output import AsJson, Url, examples, print_result, print_rows
from app.cli.core.renamed_options import with_renamed_options
from app.domain.formatting import format_minute, format_number

router = typer.Typer(
    name="links",
    cls=Commands,
    help="Add, list and remove links between memories.",
    no_args_is_help=True,
    epilog=examples("ebbing links add FROM TO", "ebbing links list ID", "ebbing links remove ID"),
)

PATH = "/v1/links"
RENAMED = with_renamed_options({"--kind": "--relation"})

Memory = Annotated[str | None, typer.Argument(help="Id of a memory at either end of the link.", metavar="[ID]")]
From = Annotated[str | None, typer.Option("--from", help="Only links from this memory.")]
To = Annotated[str | None, typer.Option("--to", help="Only links to this memory.")]
Relation = Annotated[str | None, typer.Option("--relation", help="Only links of this kind.")]


@router.command(
    epilog=examples("ebbing links add FROM TO", "ebbing links add FROM TO --relation caused --weight 0.5"), cls=RENAMED
)
def add(
    from_id: Annotated[str, typer.Argument(help="Id of the memory at the start of the link.", metavar="FROM")],
    to_id: Annotated[str, typer.Argument(help="Id of the memory at the end of the link.", metavar="TO")],
    *,
    relation: Annotated[str | None, typer.Option("--relation", help="Kind of the link. Default: `related`.")] = None,
    weight: Annotated[
        float | None, typer.Option("--weight", min=0, max=1, help="Weight of the link, 0 to 1. Default: 1.")
    ] = None,
    both_ways: Annotated[bool, typer.Option("--both-ways", help="Also add the reverse link.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Link a memory to another. If the link exists, update its weight."""
    body = {"from": from_id, "to": to_id, **given(kind=relation, weight=weight, both_ways=both_ways or None)}
    done = call(url, "POST", PATH, json=body)
    print_result(done, f"{done['added']:,} added, {done['updated']:,} updated", as_json=as_json)


@router.command(
    "list", epilog=examples("ebbing links list ID", "ebbing links list --from ID --relation caused --json"), cls=RENAMED
)
def list_links(
    memory: Memory = None,
    *,
    from_id: From = None,
    to_id: To = None,
    relation: Relation = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Maximum number of links.")] = 100,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """List the links of one memory, or all links."""
    ends = {"from": from_id, "to": to_id}
    found = fetch_list(url, PATH, "links", limit, memory=memory, **ends, kind=relation)
    heads = ["from", "to", "kind", "weight", "source", "created"]
    rows = (
        (
            *(link.get(name) for name in ("from", "to", "kind")),
            format_number(link["weight"]),
            link.get("source"),
            format_minute(link["created_at"]) if link.get("created_at") else "",
        )
        for link in found
    )
    print_rows({"links": found}, heads, rows, right=["weight"], as_json=as_json)


@router.command(
    epilog=examples("ebbing links remove ID", "ebbing links remove --from ID --to ID --both-ways --relation caused"),
    cls=RENAMED,
)
def remove(
    memory: Memory = None,
    *,
    from_id: From = None,
    to_id: To = None,
    relation: Relation = None,
    both_ways: Annotated[bool, typer.Option("--both-ways", help="Also remove the reverse links.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Remove the links of a memory, or between two memories. The memories are not deleted."""
    if not (memory or from_id or to_id):
        raise CommandFailure("nothing selected: give a memory id, --from or --to", Code.USAGE)
    ends = {"from": from_id, "to": to_id}
    params = given(memory=memory, **ends, kind=relation, both_ways="true" if both_ways else None)
    done = call(url, "DELETE", PATH, params=params)
    print_result(done, f"{done['removed']:,} removed", as_json=as_json)
