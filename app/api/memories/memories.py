"""`/v1/memories/{id}` and the list; ingest has a module of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AwareDatetime

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import DATED, body_of
from app.domain.ingest.memory import KINDS, NAME_MAX_CHARACTERS, Kind, decode_patch
from app.domain.ingest.roles import Role
from app.domain.strength.promotion import REASONS
from app.domain.tiers.tiers import DECAY_TIERS
from app.errors import FieldError, Invalid
from app.services.memories import history, live, memories, restoring, why
from app.services.memories.memories import Pending
from app.services.memories.why import Explained
from app.store.memories.events import Happened
from app.store.memories.memories import Filters, Stored

router = APIRouter(prefix="/v1/memories", tags=["memories"])

PAGE_MAX = 500
PLACE_MAX: Final = 2**63 - 1
"""Of an entry in a history; a bigint."""

Reader = Annotated[Caller, Depends(needs("read"))]
Writer = Annotated[Caller, Depends(needs("ingest"))]
Name = Annotated[str | None, Query(min_length=1, max_length=NAME_MAX_CHARACTERS)]
Moment = Annotated[AwareDatetime, DATED]
AsOf = Annotated[Moment | None, Query(description="Show strength and what comes of it as of this moment; else now.")]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
_NAMES: Final[dict[str, Sequence[str]]] = {
    "kind": KINDS,
    "tier": DECAY_TIERS,
    "wanted_tier": DECAY_TIERS,
    "promoted": REASONS,
}
Share = Annotated[float, Query(ge=0, le=1, allow_inf_nan=False)]


@router.get("", summary="List memories, newest first")
def page(
    caller: Reader,
    subject: Name = None,
    thread: Name = None,
    tag: Name = None,
    kind: Kind | None = None,
    tier: Literal["active", "archived", "cold"] | None = None,
    after: Moment | None = None,
    before: Moment | None = None,
    strength_above: Share | None = None,
    strength_below: Share | None = None,
    superseded: bool | None = None,  # noqa: FBT001 - FastAPI gives it by its name
    role: Role | None = None,
    as_of: AsOf = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> Response:
    """Stored memories, by cursor. `after` and `before` compare when they happened, else when they were accepted.

    `strength_above` and `strength_below` compare the strength that a memory has now. With `superseded`, those alone
    that others have superseded (true), or none of them (false). `role` compares the speaker's effective role; without
    it, memories of all roles are listed.
    """
    check_storable(subject=subject, thread=thread, tag=tag)
    wanted = Filters(subject, thread, tag, kind, tier, after, before, strength_above, strength_below, superseded, role)
    older_than = None if cursor is None else shapes.id_in_cursor(cursor)
    found = memories.page(caller.tenant_id, wanted, older_than, limit)
    return shapes.answer(shapes.memories(found, live.live_numbers(caller.tenant_id, found, as_of), limit))


@router.get("/{memory_id}", summary="One memory")
def get(caller: Reader, memory_id: str, as_of: AsOf = None) -> Response:
    """A memory; `status` is `pending`, and its strength null, while it waits to be stored.

    Of one in cold storage, `summary` is true: its text is what is kept of it here, the first sentences.

    With `as_of`, `strength`, `score`, `importance`, `decay_tier`, `next_due_at` and the review's `priority` are those
    of another moment. Of one before the last use or change of the memory, they are as they were then.

    It is current from `valid_from`, when it was accepted, to `valid_to`, since when one of `superseded_by` is there;
    null while it is. What it `supersedes` itself is what it has taken the place of. All of these are direct.
    """
    return _shown(caller, memories.get(caller.tenant_id, id_of(memory_id)), as_of)


@router.get("/{memory_id}/history", summary="What happened to a memory")
def history_of(caller: Reader, memory_id: str, limit: Limit = 50, cursor: str | None = None) -> Response:
    """Newest first, by cursor, back to its acceptance, as far as the policy's `history_days` reach.

    Uses, tests and reviews tell strength `before` and `after`; other changes tell what changed, and the `strength`
    that was left by it. `policy` is a version of the tenant's policy that took effect.
    """
    older_than = shapes.place_in_cursor(cursor)
    before = older_than and (older_than[0], min(older_than[1].int, PLACE_MAX))
    found = history.page(caller.tenant_id, id_of(memory_id), before, limit)
    following = shapes.cursor_at(found[-1].at, UUID(int=found[-1].place)) if len(found) == limit else None
    return shapes.answer({"history": [_happened(entry) for entry in found], "next_cursor": following})


@router.get("/{memory_id}/why", summary="Why a memory is kept where it is")
def explain(caller: Reader, memory_id: str, as_of: AsOf = None) -> Response:
    """Where it is (`tier`) and shall be (`wanted`), the rule that decides, in words, with the numbers that were used.

    `next_change` is what comes by itself unless it is used; null where nothing does. `holds` are the legal holds on it;
    their reasons are told to keys of the scope `privacy` alone. `supersedes` lists what the memory supersedes, with
    the status of each: `active`, `waiting` for a memory of that name, or `rejected`, and why. `corrects` and
    `corrected_by` are the memories on both sides of a correction.
    """
    found = why.explain(caller.tenant_id, id_of(memory_id), as_of)
    return shapes.answer(_explained(found, with_reasons="privacy" in caller.scopes))


@router.patch("/{memory_id}", summary="Edit a memory")
def edit(caller: Writer, memory_id: str, body: Annotated[bytes, Depends(body_of)]) -> Response:
    """Change the fields given; null empties one. The next search is right, neighbours' context included.

    Of a memory under a legal hold, `salience` and `multiplier` alone may be changed: else 409.
    """
    return _shown(caller, memories.edit(caller.tenant_id, id_of(memory_id), decode_patch(body)))


@router.post(
    "/{memory_id}/restore",
    summary="Bring a memory back",
    responses={202: {"description": "It is in cold storage: a job fetches it"}},
)
def restore(caller: Writer, memory_id: str) -> Response:
    """Out of the archive at once, out of cold storage by a job; it counts as a use. An active one stays as it is."""
    asked = restoring.restore(caller.tenant_id, id_of(memory_id), caller.key_id)
    if asked.job_id is not None:
        return shapes.answer({"job_id": asked.job_id}, 202)
    return _shown(caller, asked.memory)


@router.delete("/{memory_id}", summary="Delete a memory", status_code=204)
def delete(caller: Writer, memory_id: str) -> Response:
    """Hide it from every search, list and read from now on; 409 for a memory under a legal hold."""
    memories.delete(caller.tenant_id, id_of(memory_id), caller.key_id)
    return Response(status_code=204)


def id_of(text: str) -> UUID:
    """The id of a memory in a path.

    Raises:
        NotFound: It isn't an id, so it names no memory.
    """
    return shapes.id_named(text, "memory")


def _shown(caller: Caller, found: Stored | Pending, as_of: datetime | None = None) -> Response:
    seen = {} if isinstance(found, Pending) else live.live_numbers(caller.tenant_id, [found], as_of)
    return shapes.answer(shapes.memory(found, seen))


def _happened(entry: Happened) -> dict[str, Any]:
    shown = entry._asdict()
    del shown["place"]
    if entry.kind in _NAMES:
        shown |= {side: _NAMES[entry.kind][int(shown[side])] for side in ("before", "after")}
    if entry.kind == "promoted":
        shown["before"] = None
    return shown


def _explained(found: Explained, *, with_reasons: bool) -> dict[str, Any]:
    change = found.change
    holds = [
        {"id": holder.hold_id, "placed_at": holder.placed_at} | ({"reason": holder.reason} if with_reasons else {})
        for holder in found.holders
    ]
    return {
        "id": found.memory_id,
        "as_of": found.as_of,
        "tier": found.tier,
        "wanted": found.verdict.tier,
        "rule": found.verdict.rule,
        "why": found.verdict.why,
        "numbers": asdict(found.case),
        "next_change": change and {"at": found.change_at, "to": change.tier, "rule": change.rule, "why": change.why},
        "holds": holds,
        "supersedes": [shapes.superseding(one) for one in found.supersedes],
        "corrects": found.corrects,
        "corrected_by": found.corrected_by,
    }


def check_storable(**names: str | None) -> None:
    """Refuse names that no memory can have.

    Raises:
        Invalid: One holds a NUL character.
    """
    for field, value in names.items():
        if value is not None and "\0" in value:
            raise Invalid(errors=[FieldError(field, "holds a NUL character, which can't be stored")])
