"""`ebbing search`."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.moments import METAVAR, moment
from app.cli.output import AsJson, Url, examples, print_json, print_table
from app.cli.place import find

router = typer.Typer()


@router.command(
    epilog=examples(
        "ebbing search 'where do we meet?'",
        "ebbing search 'tea' --subject orla --limit 3 --explain",
        "ebbing search 'release' --after 2026-01-01 --before 2026-02-01 --json",
    )
)
def search(
    query: Annotated[str, typer.Argument(help="What is looked for, in plain words.")],
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Most results.")] = 10,
    subject: Annotated[str | None, typer.Option("--subject", help="Only about this subject.")] = None,
    thread: Annotated[str | None, typer.Option("--thread", help="Only of this thread.")] = None,
    tag: Annotated[list[str] | None, typer.Option("--tag", help="Only with this tag; several mean all.")] = None,
    kind: Annotated[list[str] | None, typer.Option("--kind", help="Only of this kind; several mean any.")] = None,
    after: Annotated[
        str | None, typer.Option("--after", callback=moment, metavar=METAVAR, help="Only from this time on.")
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", callback=moment, metavar=METAVAR, help="Only before this time.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", help="The conversation: one reinforces a memory once in a while.")
    ] = None,
    no_reinforce: Annotated[bool, typer.Option("--no-reinforce", help="What is found doesn't count as used.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show the parts of each score.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Find memories by words and by meaning, best first.

    What is found becomes stronger, unless the tenant's policy or --no-reinforce says otherwise.
    """
    from app.cli.client import Api

    with Api(find(url)) as api:
        found = api.search(
            query,
            limit=limit,
            subject=subject,
            thread=thread,
            tags=tag,
            kinds=kind,
            after=after,
            before=before,
            explain=explain or None,
            session=session,
            reinforce=False if no_reinforce else None,
        )
    if as_json:
        print_json(found)
        return
    results = found["results"]
    if not results:
        typer.echo("nothing found", err=True)
        return
    parts = sorted({name for result in results for name in result.get("explain") or {}} - {"factors"})
    rows = [
        (
            f"{result['score']:.3f}",
            *(f"{(result.get('explain') or {}).get(name, 0):.3f}" for name in parts),
            str(result.get("occurred_at") or "")[:10],
            result.get("subject") or result.get("speaker"),
            result["text"],
        )
        for result in results
    ]
    print_table(["score", *parts, "when", "who", "text"], rows, right=["score", *parts])
