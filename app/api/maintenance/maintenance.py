"""`POST /v1/maintenance/…`: work on all of a tenant's memories, done by jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.domain.ingest.memory import check_moment
from app.errors import NotAllowed
from app.services.embedding import reembed, spaces
from app.services.evaluation import self_tests
from app.services.jobs import jobs
from app.services.strength import rebase
from app.services.tiers import archive, cold, expiry, removals, sweep
from app.services.tiers.previews import Preview

router = APIRouter(prefix="/v1/maintenance", tags=["maintenance"])

CHANGES_MAX = 1000


class Reembed(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What to move to the settings' embedding space.

    Attributes:
        dry_run: Only count the memories.
        every_tenant: All tenants that are in another space, instead of the caller's own; needs the scope `admin`.
    """

    dry_run: bool = False
    every_tenant: bool = False


class Due(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """As of when memories are looked at, and whether anything is written.

    Attributes:
        dry_run: Only list what would change, and why.
        as_of: Now, where it is left out. One that is yet to come is for a dry run alone.
        limit: Most changes in a page of a dry run, 1 to 1,000.
        cursor: Where the page of a dry run begins: the `next_cursor` of the one before, with the same `as_of`.
    """

    dry_run: bool = False
    as_of: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=CHANGES_MAX)] = 100
    cursor: str | None = None


class SelfTest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Of which moment a run of self-tests is, and whether it is one.

    Attributes:
        dry_run: Only name the memories that would be asked about.
        as_of: Now, where it is left out. One that is yet to come is for a dry run alone.
    """

    dry_run: bool = False
    as_of: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


@router.post(
    "/reembed",
    summary="Move to the settings' embedding model",
    status_code=202,
    responses={200: {"description": "With `dry_run`: how many memories would be embedded"}},
)
def start_reembed(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that embeds what lacks a vector of that model, and then searches by it; found meanwhile as before."""
    wanted = decode(body, Reembed)
    if wanted.every_tenant and "admin" not in caller.scopes:
        raise NotAllowed("every_tenant needs a key of the scope 'admin'")
    moving = spaces.tenants_elsewhere() if wanted.every_tenant else [caller.tenant_id]
    if wanted.dry_run:
        counts = {"memories": sum(map(reembed.lacking, moving)), "tenants": len(moving)}
        return shapes.answer({"changes": [], "counts": counts, "next_cursor": None})
    parameters = reembed.parameters()
    actor = caller.key_id
    started = [jobs.create(tenant_id, reembed.KIND, parameters, lone=True, actor=actor) for tenant_id in moving]
    return shapes.answer({"job_ids": started} if wanted.every_tenant else {"job_id": started[0]}, 202)


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "With `dry_run`: a page of what would change, and counts of the memories of this page"}
}


@router.post("/sweep", summary="Find what has faded", status_code=202, responses=_ANSWERS)
def start_sweep(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that looks at each memory whose next moment has come, and notes the tier that it shall be in."""
    return _started(caller, sweep.KIND, decode(body, Due))


@router.post("/rebase", summary="Bring memories to the policy in force", status_code=202, responses=_ANSWERS)
def start_rebase(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that anchors what is left under an older policy anew: strength now is the same before and after."""
    return _started(caller, rebase.KIND, decode(body, Due))


@router.post("/archive", summary="Move to the archive", status_code=202, responses=_ANSWERS)
def start_archive(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that sweeps, and moves what has faded out of the active memories; a use brings it back."""
    return _started(caller, archive.KIND, decode(body, Due))


@router.post("/cold", summary="Move to cold storage", status_code=202, responses=_ANSWERS)
def start_cold(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that sweeps, and moves what has faded further out of the archive; `restore` brings it back."""
    return _started(caller, cold.KIND, decode(body, Due))


@router.post("/delete", summary="Delete for good", status_code=202, responses=_ANSWERS)
def start_delete(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that removes what is in cold storage and fulfils every condition of deletion; it can't be undone."""
    return _started(caller, removals.KIND, decode(body, Due))


@router.post(
    "/selftest",
    summary="Let the memory test itself",
    status_code=202,
    responses={200: {"description": "With `dry_run`: what the next run would ask about"}},
)
def start_selftest(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that asks about a sample of the memories, as a night does once a week, whether it is due or not.

    What passes becomes stronger without that being a use; what fails is flagged for review. A dry run names the
    memories by kind; `from` is the one that a connection leads from.
    """
    wanted = decode(body, SelfTest)
    if wanted.as_of is not None:
        check_moment(wanted.as_of, "as_of")
    if not wanted.dry_run:
        parameters = jobs.parameters_at(wanted.as_of)
        return shapes.answer(
            {"job_id": jobs.create(caller.tenant_id, self_tests.KIND, parameters, actor=caller.key_id)}, 202
        )
    asked = self_tests.preview(caller.tenant_id, wanted.as_of)
    changes = [{"id": one.memory_id, "kind": one.kind, "from": one.other_id} for one in asked]
    return shapes.answer({"changes": changes, "counts": Counter(one.kind for one in asked), "next_cursor": None})


@router.post("/expire", summary="Remove what has expired", status_code=202, responses=_ANSWERS)
def start_expire(
    caller: Annotated[Caller, Depends(needs("maintain"))], body: Annotated[bytes, Depends(body_of)]
) -> Response:
    """A job that sweeps, and removes what privacy allows no longer, from any tier; it can't be undone.

    A dry run lists beside it, as `summaries`, which summaries of it would go too, or be made again.
    """
    return _started(caller, expiry.KIND, decode(body, Due))


_PREVIEWS: Final[dict[str, Callable[[UUID, datetime | None, UUID | None, int], Preview]]] = {
    sweep.KIND: sweep.preview,
    rebase.KIND: partial(sweep.preview, only_rebase=True),
    archive.KIND: archive.preview,
    cold.KIND: cold.preview,
    removals.KIND: removals.preview,
    expiry.KIND: expiry.preview,
}


def _started(caller: Caller, kind: str, wanted: Due) -> Response:
    if not wanted.dry_run:
        parameters = jobs.parameters_at(wanted.as_of)
        job_id = jobs.create(caller.tenant_id, kind, parameters, actor=caller.key_id)
        return shapes.answer({"job_id": job_id}, 202)
    after = None if wanted.cursor is None else shapes.id_in_cursor(wanted.cursor)
    found = _PREVIEWS[kind](caller.tenant_id, wanted.as_of, after, wanted.limit)
    changes = [shapes.change(move) for move in found.moves]
    following = None if found.following is None else shapes.cursor_after(found.following)
    told = {"changes": changes, "counts": found.counts, "next_cursor": following}
    if kind == expiry.KIND:
        told["summaries"] = [shapes.change(move) for move in found.summaries]
    return shapes.answer(told)
