"""`ebbing touch` and `ebbing observe`: report that memories were used."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import uuid4

import typer

from app.cli.core.calls import item_path
from app.cli.core.connection import find_connection
from app.cli.core.output import AsJson, Url, examples, print_json
from app.cli.core.time_option import METAVAR, parse_time

PATIENCE_SECONDS = 60.0

router = typer.Typer()

Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        help="Tag of the context of the use. With the profile mnemex, a use whose tags hardly overlap with the "
        "memory's tags strengthens it more. Repeatable.",
    ),
]
Session = Annotated[
    str | None,
    typer.Option(
        "--session",
        help="Session id. A session reinforces the same memory at most once a minute (policy "
        "`reinforcement.refractory_seconds`).",
    ),
]
Boost = Annotated[bool, typer.Option("--boost", help="Also raise the memory's strength multiplier (profile mnemex).")]
At = Annotated[
    str | None, typer.Option("--at", callback=parse_time, metavar=METAVAR, help="Time of the use. Default: now.")
]


@router.command(epilog=examples("ebbing touch ID", "ebbing touch ID --boost --tag cooking", "ebbing touch ID --json"))
def touch(
    memory_id: Annotated[str, typer.Argument(help="Id of the memory.", metavar="ID")],
    *,
    boost: Boost = False,
    tag: Tags = None,
    session: Session = None,
    at: At = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Reinforce a memory immediately, and show its strength before and after."""
    from app.cli.core.client import Api

    body = _body(boost=boost, tags=tag, session=session) | ({"used_at": at} if at else {})
    with Api(find_connection(url)) as api:
        done = api.call("POST", f"{item_path('/v1/memories', memory_id)}/touch", json=body).body
    if as_json:
        print_json(done)
        return
    for name in ("strength", "score"):
        typer.echo(f"{name:<14}{done[name]['before']:.4f} -> {done[name]['after']:.4f}")
    typer.echo(f"{'access_count':<14}{done['access_count']}")
    typer.echo(f"{'multiplier':<14}{done['multiplier']:.2f}")
    if not done["reinforced"]:
        typer.echo(_WHY.get(done.get("why", ""), "not reinforced"), err=True)


_WHY = {
    "refractory": "not reinforced: this session has just reinforced the memory",
    "late": "counted but not reinforced: a later use is already recorded",
}


@router.command(epilog=examples("ebbing observe ID ID", "ebbing observe ID --session chat-7 --tag travel --json"))
def observe(
    memory_ids: Annotated[list[str], typer.Argument(help="Ids of the memories that were used.", metavar="ID")],
    *,
    boost: Boost = False,
    tag: Tags = None,
    session: Session = None,
    at: At = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Report that memories were used. A worker reinforces them shortly afterwards."""
    from app.cli.core.client import Api

    used = [memory_id if at is None else {"id": memory_id, "used_at": at} for memory_id in memory_ids]
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        body = {"memories": used} | _body(boost=boost, tags=tag, session=session)
        told = api.call("POST", "/v1/observations", json=body, headers={"Idempotency-Key": uuid4().hex}).body
    if as_json:
        print_json(told)
    else:
        typer.echo(f"accepted: {len(memory_ids):,} {'use' if len(memory_ids) == 1 else 'uses'}")


def _body(*, boost: bool, tags: list[str] | None, session: str | None) -> dict[str, Any]:
    given = {"boost": boost or None, "context_tags": tags or None, "session": session}
    return {name: value for name, value in given.items() if value is not None}
