"""`ebbing search`: search memories and print the results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from app.cli.core.connection import find_connection
from app.cli.core.filters import (
    After,
    Before,
    Categories,
    Entities,
    ExcludeThread,
    ExternalId,
    Ids,
    Kinds,
    Metadata,
    Roles,
    Session,
    Sources,
    Speaker,
    Subject,
    Tags,
    Thread,
)
from app.cli.core.output import AsJson, Url, console, examples, plain, print_json
from app.cli.core.set_option import parse_assignments
from app.cli.core.time_option import time_option
from app.domain.formatting import format_number
from app.domain.ingest.sources import describe_source

router = typer.Typer()

COUNTED = "counted as a use, unless the policy's reinforcement.by_search is false (--no-reinforce: not counted)"
_HEAD = f"{'id':<36}  {'score':>6}  {'strength':>8}  {'tier':<8}  when"
_INDENT = 2


@router.command(
    epilog=examples(
        "ebbing search 'where do we meet?'",
        "ebbing search 'tea' --subject orla --limit 3 --explain",
        "ebbing search 'release' --after 2026-01-01 --before 2026-02-01 --json",
        "ebbing search 'tea' --mode lexical --weight strength=0.2",
        "ebbing search 'release' --category work --metadata origin=crm",
        "ebbing search 'bank account' --source user --source document",
    )
)
def search(
    query: Annotated[str, typer.Argument(help="Query in plain words.", metavar="QUERY")] = "",
    *,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100, help="Maximum number of results.")] = 10,
    subject: Subject = None,
    thread: Thread = None,
    exclude_thread: ExcludeThread = None,
    tag: Tags = None,
    category: Categories = None,
    entity: Entities = None,
    speaker: Speaker = None,
    metadata: Metadata = None,
    external_id: ExternalId = None,
    memory: Ids = None,
    kind: Kinds = None,
    role: Roles = None,
    source: Sources = None,
    tier: Annotated[
        list[str] | None,
        typer.Option(
            "--tier",
            help="Search this tier: active or archived. Repeatable; memories of any of the given tiers match. "
            "Default: active. Cold memories can't be searched.",
        ),
    ] = None,
    after: After = None,
    before: Before = None,
    as_of: Annotated[
        str | None,
        time_option(
            "--as-of",
            "Search as of this time: use the strengths of that time, exclude memories accepted later, "
            "and reinforce nothing.",
        ),
    ] = None,
    superseded: Annotated[
        bool, typer.Option("--superseded", help="Include memories that were superseded by newer ones.")
    ] = False,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode", help="Ranking mode: hybrid, lexical, dense, cmm or memory_decay. Default: set by the policy."
        ),
    ] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            "--weight",
            metavar="NAME=VALUE",
            help="Ranking weight that overrides the policy, such as words=2. Repeatable.",
        ),
    ] = None,
    rerank: Annotated[
        int | None,
        typer.Option(
            "--rerank",
            min=0,
            max=50,
            help="Number of top results to rerank, if a reranker is configured. Default: set by the policy.",
        ),
    ] = None,
    review_blend: Annotated[
        float | None,
        typer.Option(
            "--review-blend",
            min=0,
            max=1,
            help="Share of results reserved for memories due for review. Default: 0 (policy profile mnemex: 0.3).",
        ),
    ] = None,
    vector: Annotated[
        typer.FileText | None,
        typer.Option("--vector", help="JSON file with the query vector as an array; `-` reads standard input."),
    ] = None,
    session: Session = None,
    turn: Annotated[
        int | None,
        typer.Option("--turn", min=0, help="Turn number within the session; only the policy profile cmm uses it."),
    ] = None,
    reinforce: Annotated[
        bool | None,
        typer.Option(
            "--reinforce/--no-reinforce", help="Count the best results as used, or not. Default: set by the policy."
        ),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Show how each score was computed.")] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Find memories by words and by meaning, best first.

    Results with a score close to the best one count as used and are reinforced, unless the tenant's policy or
    --no-reinforce disables reinforcement.
    """
    from app.cli.core.client import Api

    numbers = None if vector is None else _numbers(vector.read())
    if not query and numbers is None:
        raise typer.BadParameter("no query: give words or --vector FILE")
    with Api(find_connection(url)) as api:
        found = api.search(
            query,
            limit=limit,
            subject=subject,
            thread=thread,
            exclude_thread=exclude_thread,
            tags=tag,
            categories=category,
            entities=entity,
            speaker=speaker,
            metadata=parse_assignments(metadata) if metadata else None,
            external_id=external_id,
            ids=memory,
            kinds=kind,
            roles=role,
            sources=source,
            tiers=tier,
            after=after,
            before=before,
            as_of=as_of,
            superseded=superseded or None,
            mode=mode,
            weights=parse_assignments(weight) if weight else None,
            rerank=rerank,
            review_blend=review_blend,
            vector=numbers,
            session=session,
            turn=turn,
            reinforce=reinforce,
            explain=explain or None,
        )
    if as_json:
        print_json(found)
        return
    if not found["results"]:
        typer.echo("no results", err=True)
        return
    _print(found["results"])
    if reinforce is None and as_of is None:
        typer.echo(COUNTED, err=True)


def _numbers(written: str) -> list[float]:
    try:
        found = json.loads(written)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(number, int | float) for number in found):
        raise typer.BadParameter("expected a JSON array of numbers", param_hint="--vector")
    return found


def _print(results: list[dict[str, Any]]) -> None:
    """Print a line of numbers per result, followed by its text and explanation, wrapped to the terminal."""
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    from app.domain.text.words import format_line

    out = console()
    out.print(_HEAD)
    for result in results:
        said = format_line(result["text"], result.get("speaker") or result.get("role") or result.get("subject"))
        below = Table.grid(padding=(0, 2, 0, 0))
        for name, told in _why(result):
            below.add_row(name, Text(told))
        out.print(_line(result))
        out.print(Padding(Text(plain(said)), (0, 0, 0, _INDENT), expand=False))
        out.print(Padding(below, (0, 0, 0, 2 * _INDENT), expand=False), end="")


def _line(result: Mapping[str, Any]) -> str:
    when = str(result.get("occurred_at") or result.get("created_at") or "")[:10]
    numbers = f"{result['score']:>6.3f}  {result['strength']:>8.2f}"
    return f"{result['id']:<36}  {numbers}  {result['tier']:<8}  {when}"


def _why(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the rows that explain a result, as label and text."""
    if result.get("for_review"):
        yield "review", "included because a review is due"
    for name, place in (("older", "supersedes"), ("newer", "superseded_by")):
        if result.get(place):
            yield name, f"{place.replace('_', ' ')} {', '.join(result[place])}"
    if origin := describe_source(result.get("source")):
        yield "source", origin
    explain = result.get("explain") or {}
    ranks = explain.get("ranks", {})
    parts = [
        f"{name} {part:.3f}" + (f" (no. {ranks[name]})" if ranks.get(name) else "")
        for name, part in explain.items()
        if isinstance(part, float | int) and part
    ]
    reranker = explain.get("reranker", {})
    rows = {
        "score": " + ".join(parts),
        "times": ", ".join(f"{name} {factor:.3f}" for name, factor in explain.get("factors", {}).items()),
        "spread": f"from {explain['spread_from']} by {explain['spread_by']}" if "spread_from" in explain else "",
        "rerank": f"{plain(reranker['model'])} gave {format_number(reranker['score'])}" if reranker else "",
        "corrects": ", ".join(explain.get("corrects", [])),
        "corrected": f"by {', '.join(explain['corrected_by'])}" if "corrected_by" in explain else "",
        "placed": f"by a correction; score before {explain['placed']['own_score']:.3f}" if "placed" in explain else "",
        "matched": _rarities(explain.get("matched", {})),
        "near": _rarities(explain.get("near", {})),
        "vitals": ", ".join(f"{name} {value:.2f}" for name, value in explain.get("vitals", {}).items()),
        "important": ", ".join(f"{name} {value:.2f}" for name, value in (explain.get("importance") or {}).items()),
    }
    yield from ((name, told) for name, told in rows.items() if told)


def _rarities(words: Mapping[str, float]) -> str:
    return ", ".join(f"{plain(word)} {idf:.2f}" for word, idf in words.items())
