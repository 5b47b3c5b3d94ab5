"""`POST /v1/maintenance/…`: start or preview maintenance jobs over all memories of a tenant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, Final, TypeAlias, TypeVar
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api.http import cursors, responses
from app.api.http.auth import Maintainer
from app.api.http.request_body import json_body
from app.domain.ingest.memory import check_moment
from app.domain.maintenance import KINDS
from app.errors import NotAllowed
from app.services.embedding import reembed, spaces
from app.services.evaluation import self_tests
from app.services.jobs import queue
from app.services.notes import note_preview, note_run
from app.services.strength import rebase
from app.services.tiers import archive, cold_storage, decay_deletion, expiry, promotion_run, sweep
from app.services.tiers.dry_run import PreviewPage

router = APIRouter(prefix="/v1/maintenance", tags=["maintenance"])

CHANGES_MAX = 1000

Foresee: TypeAlias = Callable[[UUID, datetime | None, UUID | None, int], PreviewPage]


class Reembed(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a move to the embedding model in the settings.

    Attributes:
        dry_run: Only count the memories.
        every_tenant: Move all tenants in another embedding space, not only the caller's; requires the scope `admin`.
    """

    dry_run: bool = False
    every_tenant: bool = False


class SelfTest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a self-test run.

    Attributes:
        dry_run: Only list the memories that would be tested.
        as_of: Evaluate as of this time; default now. Future times require `dry_run`.
    """

    dry_run: bool = False
    as_of: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class Due(SelfTest, forbid_unknown_fields=True, frozen=True):
    """Options of a maintenance job.

    Attributes:
        dry_run: Only list the changes and their reasons.
        as_of: Evaluate as of this time; default now. Future times require `dry_run`.
        limit: Maximum number of changes in a page of a dry run, 1 to 1,000.
        cursor: `next_cursor` of the previous page of a dry run, with the same `as_of`.
    """

    limit: Annotated[int, msgspec.Meta(ge=1, le=CHANGES_MAX)] = 100
    cursor: str | None = None


Options = TypeVar("Options", bound=SelfTest)


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
    moving = spaces.list_tenants_elsewhere() if wanted.every_tenant else [caller.tenant_id]
    if wanted.dry_run:
        counts = {"memories": sum(map(reembed.count_lacking, moving)), "tenants": len(moving)}
        return responses.answer({"changes": [], "counts": counts, "next_cursor": None})
    parameters = reembed.job_parameters()
    actor = caller.key_id
    started = [queue.create(tenant_id, reembed.KIND, parameters, lone=True, actor=actor) for tenant_id in moving]
    return responses.answer({"job_ids": started} if wanted.every_tenant else {"job_id": started[0]}, 202)


def add_start(
    to: APIRouter,
    path: str,
    kind: str,
    body_type: type[Options],
    preview: Callable[[UUID, Options], dict[str, Any]],
    name: str,
) -> None:
    """Add the route that starts a kind of maintenance, or previews it.

    Args:
        body_type: Options that the request may have, with all parameters of the kind.
        preview: Returns the content of the response to a dry run, by tenant and options.
        name: Name of the route, part of its id in the OpenAPI description.
    """
    about = KINDS[kind]

    def start(caller: Maintainer, wanted: Options = Depends(json_body(body_type))) -> Response:  # noqa: B008 - FastAPI's
        if wanted.as_of is not None and not isinstance(wanted, Due):
            check_moment(wanted.as_of, "as_of")
        if wanted.dry_run:
            return responses.answer(preview(caller.tenant_id, wanted))
        given = {field: getattr(wanted, field) for field in about.parameters if field not in {"limit", "cursor"}}
        parameters = {field: value for field, value in given.items() if value is not None}
        parameters |= queue.evaluation_parameters(wanted.as_of)
        return responses.answer({"job_id": queue.create(caller.tenant_id, kind, parameters, actor=caller.key_id)}, 202)

    to.add_api_route(
        path,
        start,
        methods=["POST"],
        name=name,
        summary=about.summary,
        description=about.description,
        status_code=202,
        responses={200: {"description": f"With `dry_run`: {about.answer}"}},
    )


def _tests(tenant_id: UUID, wanted: SelfTest) -> dict[str, Any]:
    found = self_tests.preview_run(tenant_id, wanted.as_of)
    changes = [{"id": one.memory_id, "kind": one.kind, "from": one.other_id} for one in found]
    return {"changes": changes, "counts": Counter(one.kind for one in found), "next_cursor": None}


def _moves(preview: Foresee, tenant_id: UUID, wanted: Due) -> dict[str, Any]:
    found = preview(tenant_id, wanted.as_of, cursors.ID.decode(wanted.cursor), wanted.limit)
    following = cursors.ID.encode(found.following)
    shown = {"changes": [*map(responses.change, found.moves)], "counts": found.counts, "next_cursor": following}
    if preview is expiry.preview_expiry:
        shown["summaries"] = [*map(responses.change, found.summaries)]
    return shown


_PREVIEWS: Final[dict[str, Foresee]] = {
    sweep.KIND: sweep.preview_sweep,
    rebase.KIND: partial(sweep.preview_sweep, only_rebase=True),
    promotion_run.KIND: promotion_run.preview_promotion,
    archive.KIND: archive.preview_archive,
    cold_storage.KIND: cold_storage.preview_cold,
    decay_deletion.KIND: decay_deletion.preview_deletion,
    expiry.KIND: expiry.preview_expiry,
    note_run.KIND: note_preview.preview_notes,
}

for _kind, _preview in _PREVIEWS.items():
    add_start(router, f"/{_kind}", _kind, Due, partial(_moves, _preview), f"start_{_kind}")
add_start(router, f"/{self_tests.KIND}", self_tests.KIND, SelfTest, _tests, "start_selftest")
