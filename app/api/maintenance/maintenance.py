"""`POST /v1/maintenance/…`: start or preview maintenance jobs over all memories of a tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api.http import cursors, responses
from app.api.http.auth import Caller, needs
from app.api.http.request_body import json_body
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
    """Options of a move to the embedding model in the settings.

    Attributes:
        dry_run: Only count the memories.
        every_tenant: Move all tenants in another embedding space, not only the caller's; requires the scope `admin`.
    """

    dry_run: bool = False
    every_tenant: bool = False


class Due(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a maintenance job.

    Attributes:
        dry_run: Only list the changes and their reasons.
        as_of: Evaluate as of this time; default now. Future times require `dry_run`.
        limit: Maximum number of changes in a page of a dry run, 1 to 1,000.
        cursor: `next_cursor` of the previous page of a dry run, with the same `as_of`.
    """

    dry_run: bool = False
    as_of: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=CHANGES_MAX)] = 100
    cursor: str | None = None


class SelfTest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a self-test run.

    Attributes:
        dry_run: Only list the memories that would be tested.
        as_of: Evaluate as of this time; default now. Future times require `dry_run`.
    """

    dry_run: bool = False
    as_of: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


Maintainer = Annotated[Caller, Depends(needs("maintain"))]
DueBody = Annotated[Due, Depends(json_body(Due))]


@router.post(
    "/reembed",
    summary="Move to the embedding model in the settings",
    status_code=202,
    responses={200: {"description": "With `dry_run`: the number of memories to embed"}},
)
def start_reembed(caller: Maintainer, wanted: Annotated[Reembed, Depends(json_body(Reembed))]) -> Response:
    """Start a job that embeds memories with the new model. Searches use the old model until all are embedded."""
    if wanted.every_tenant and "admin" not in caller.scopes:
        raise NotAllowed("every_tenant requires a key with the scope 'admin'")
    moving = spaces.tenants_elsewhere() if wanted.every_tenant else [caller.tenant_id]
    if wanted.dry_run:
        counts = {"memories": sum(map(reembed.lacking, moving)), "tenants": len(moving)}
        return responses.answer({"changes": [], "counts": counts, "next_cursor": None})
    parameters = reembed.parameters()
    actor = caller.key_id
    started = [jobs.create(tenant_id, reembed.KIND, parameters, lone=True, actor=actor) for tenant_id in moving]
    return responses.answer({"job_ids": started} if wanted.every_tenant else {"job_id": started[0]}, 202)


_ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "With `dry_run`: a page of changes, with counts for this page"}
}


@router.post("/sweep", summary="Assign tiers by strength", status_code=202, responses=_ANSWERS)
def start_sweep(caller: Maintainer, wanted: DueBody) -> Response:
    """Start a job that evaluates each due memory and records the tier it should be in, without moving it."""
    return _started(caller, sweep.KIND, wanted)


@router.post("/rebase", summary="Migrate memories to the current policy", status_code=202, responses=_ANSWERS)
def start_rebase(caller: Maintainer, wanted: DueBody) -> Response:
    """Start a job that migrates memories still under an older policy. Their current strength doesn't change."""
    return _started(caller, rebase.KIND, wanted)


@router.post("/archive", summary="Move to the archive", status_code=202, responses=_ANSWERS)
def start_archive(caller: Maintainer, wanted: DueBody) -> Response:
    """Start a job that sweeps and moves faded memories to the archive; a use reactivates them."""
    return _started(caller, archive.KIND, wanted)


@router.post("/cold", summary="Move to cold storage", status_code=202, responses=_ANSWERS)
def start_cold(caller: Maintainer, wanted: DueBody) -> Response:
    """Start a job that sweeps and moves strongly faded memories to cold storage; `restore` reactivates them."""
    return _started(caller, cold.KIND, wanted)


@router.post("/delete", summary="Permanently delete forgotten memories", status_code=202, responses=_ANSWERS)
def start_delete(caller: Maintainer, wanted: DueBody) -> Response:
    """Start a job that deletes memories in cold storage that meet every deletion condition. It can't be undone."""
    return _started(caller, removals.KIND, wanted)


@router.post(
    "/selftest",
    summary="Run self-tests",
    status_code=202,
    responses={200: {"description": "With `dry_run`: the memories that would be tested"}},
)
def start_selftest(caller: Maintainer, wanted: Annotated[SelfTest, Depends(json_body(SelfTest))]) -> Response:
    """Start a job that tests retrieval on a sample of memories, even if no weekly run is due.

    Memories that pass are reinforced, which doesn't count as a use; memories that fail are flagged for review. A dry
    run lists the memories by kind; `from` is the start of a tested link.
    """
    if wanted.as_of is not None:
        check_moment(wanted.as_of, "as_of")
    if not wanted.dry_run:
        parameters = jobs.parameters_at(wanted.as_of)
        return responses.answer(
            {"job_id": jobs.create(caller.tenant_id, self_tests.KIND, parameters, actor=caller.key_id)}, 202
        )
    asked = self_tests.preview(caller.tenant_id, wanted.as_of)
    changes = [{"id": one.memory_id, "kind": one.kind, "from": one.other_id} for one in asked]
    return responses.answer({"changes": changes, "counts": Counter(one.kind for one in asked), "next_cursor": None})


@router.post("/expire", summary="Delete memories past their retention period", status_code=202, responses=_ANSWERS)
def start_expire(caller: Maintainer, wanted: DueBody) -> Response:
    """Start a job that sweeps and deletes memories whose retention period has expired, in any tier. It can't be undone.

    A dry run also lists, as `summaries`, the summaries that would be deleted or regenerated.
    """
    return _started(caller, expiry.KIND, wanted)


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
        return responses.answer({"job_id": job_id}, 202)
    found = _PREVIEWS[kind](caller.tenant_id, wanted.as_of, cursors.ID.decode(wanted.cursor), wanted.limit)
    changes = [responses.change(move) for move in found.moves]
    told = {"changes": changes, "counts": found.counts, "next_cursor": cursors.ID.encode(found.following)}
    if kind == expiry.KIND:
        told["summaries"] = [responses.change(move) for move in found.summaries]
    return responses.answer(told)
