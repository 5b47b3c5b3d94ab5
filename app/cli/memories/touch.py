"""`ebbing touch` and `ebbing observe`: report that memories were used."""

from __future__ import annotations

from typing import Annotated
from uuid import uuid4

import typer

from app.cli.core.calls import call, given, item_path
from app.cli.core.connection import find_connection
from app.cli.core.filters import Session
from app.cli.core.output import AsJson, Url, count_of, examples, print_fields, print_result
from app.cli.core.time_option import time_option
from app.domain.formatting import format_number

PATIENCE_SECONDS = 60.0

router = typer.Typer()

Tags = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        help="Topic in which the memory was used, such as cooking. With the profile mnemex, a use whose tags "
        "hardly overlap with the memory's tags strengthens it more. Repeatable.",
    ),
]
Boost = Annotated[bool, typer.Option("--boost", help="Also raise the memory's strength multiplier (profile mnemex).")]
At = Annotated[str | None, time_option("--at", "Time of the use. Default: now.")]


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
    """Strengthen a memory now, as a use does, and show its strength before and after."""
    body = given(boost=boost or None, context_tags=tag or None, session=session, used_at=at)
    done = call(url, "POST", f"{item_path('/v1/memories', memory_id)}/touch", json=body)
    shown = {name: f"{done[name]['before']:.3f} → {done[name]['after']:.3f}" for name in ("strength", "score")}
    shown |= {"uses": f"{done['access_count']:,}", "multiplier": format_number(done["multiplier"])}
    print_fields(done, shown, width=12, as_json=as_json)
    if not (as_json or done["reinforced"]):
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
    """Mark memories as used, which strengthens them. A worker does it shortly afterwards."""
    from app.cli.core.client import Api

    used = [memory_id if at is None else {"id": memory_id, "used_at": at} for memory_id in memory_ids]
    with Api(find_connection(url), patience_seconds=PATIENCE_SECONDS) as api:
        body = given(memories=used, boost=boost or None, context_tags=tag or None, session=session)
        told = api.call("POST", "/v1/observations", json=body, headers={"Idempotency-Key": uuid4().hex}).body
    print_result(told, f"accepted: {count_of(len(memory_ids), 'use', 'uses')}", as_json=as_json)
