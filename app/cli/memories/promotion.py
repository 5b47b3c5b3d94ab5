"""`ebbing promote` and `ebbing demote`: promote and demote a memory."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.core.calls import call, item_path
from app.cli.core.output import AsJson, Url, examples, plain, print_result

router = typer.Typer()

MemoryArgument = Annotated[str, typer.Argument(help="Id of the memory.", metavar="ID")]


@router.command(epilog=examples("ebbing promote ID", "ebbing promote ID --force --json"))
def promote(
    memory_id: MemoryArgument,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Promote the memory even if it doesn't meet the criteria.")
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Promote a memory. With the policy field promotion.keeps, decay neither moves nor deletes promoted memories."""
    path = f"{item_path('/v1/memories', memory_id)}/promote"
    found = call(url, "POST", path, json={"force": force}, safe=True)
    print_result(found, f"{plain(found['id'])} is promoted ({plain(found['promoted']['for'])})", as_json=as_json)


@router.command(epilog=examples("ebbing demote ID", "ebbing demote ID --json"))
def demote(memory_id: MemoryArgument, *, url: Url = None, as_json: AsJson = False) -> None:
    """Demote a promoted memory. From then on, neither uses nor nights promote it; `ebbing promote` does."""
    found = call(url, "POST", f"{item_path('/v1/memories', memory_id)}/demote", safe=True)
    print_result(found, f"{plain(found['id'])} isn't promoted", as_json=as_json)
