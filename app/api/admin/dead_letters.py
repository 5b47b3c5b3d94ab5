"""`/v1/admin/dead-letters`: list, replay and discard dead letters. Their content is never returned."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.http.cursors import PAGE_MAX, TIMED
from app.api.http.path_ids import LetterId
from app.api.http.request_body import check_storable, json_body
from app.domain.ingest.memory import Moment
from app.domain.runbook import reason_path
from app.errors import NotAllowed
from app.services.ingest import dead_letter_replay
from app.store.ingest.dead_letters import DeadLetter, LetterFilter, ReasonCount

router = APIRouter(prefix="/v1/admin/dead-letters", tags=["dead letters"])

NAME_MAX_CHARACTERS = 200

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]


class ReplayMany(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Dead letters to replay: all that have the reason `reason`, optionally only those of one stage.

    `before` is the value from the previous response; it excludes work that failed again since the first call.
    """

    reason: Name
    stage: Name | None = None
    before: Moment | None = None


class DiscardMany(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Dead letters to discard, selected as in `ReplayMany`; `because` is stored with them."""

    reason: Name
    because: Name
    stage: Name | None = None
    before: Moment | None = None


class Discard(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Reason for discarding a dead letter; it is stored."""

    reason: Name


def select_tenant(caller: Maintainer, tenant_id: UUID | None = None) -> UUID:
    """Return the selected tenant, by default the caller's own; other tenants require the scope `admin`."""
    if tenant_id is None or tenant_id == caller.tenant_id:
        return caller.tenant_id
    if "admin" not in caller.scopes:
        raise NotAllowed("dead letters of another tenant require a key with the scope 'admin'")
    return tenant_id


Tenant = Annotated[UUID, Depends(select_tenant)]


@router.get("", summary="List dead letters, newest first")
def page(
    tenant_id: Tenant,
    stage: str | None = None,
    reason: str | None = None,
    *,
    discarded: bool = False,
    limit: Annotated[int, Query(ge=1, le=PAGE_MAX)] = 50,
    cursor: str | None = None,
) -> Response:
    """Return pending or discarded dead letters, with counts by reason."""
    check_storable(stage=stage, reason=reason)
    found, reasons = dead_letter_replay.list_letters(
        tenant_id,
        LetterFilter(stage, reason),
        discarded=discarded,
        older_than=TIMED.decode(cursor),
        limit=limit,
    )
    shown = {
        "dead_letters": [_render(letter) for letter in found],
        "next_cursor": TIMED.encode(found.following),
        "reasons": [_render_reason(row) for row in reasons],
    }
    return responses.answer(shown)


@router.post("/replay", summary="Replay all dead letters with a reason")
def replay_many(
    caller: Maintainer, tenant_id: Tenant, wanted: Annotated[ReplayMany, Depends(json_body(ReplayMany))]
) -> Response:
    """Process one batch. Repeat the call with `before` from the response until `left` is 0.

    `came_back` counts the letters whose work had been replayed before and failed again.
    """
    done = dead_letter_replay.replay_many(tenant_id, wanted.stage, wanted.reason, wanted.before, caller.key_id)
    shown = {"replayed": done.letters, "left": done.left, "before": done.before, "came_back": done.came_back}
    return responses.answer(shown)


@router.post("/discard", summary="Discard all dead letters with a reason")
def discard_many(
    caller: Maintainer, tenant_id: Tenant, wanted: Annotated[DiscardMany, Depends(json_body(DiscardMany))]
) -> Response:
    """Process one batch. Repeat the call with `before` from the response until `left` is 0."""
    done = dead_letter_replay.discard_many(
        tenant_id, wanted.stage, wanted.reason, wanted.because, wanted.before, caller.key_id
    )
    return responses.answer({"discarded": done.letters, "left": done.left, "before": done.before})


@router.get("/{letter_id}", summary="Get a dead letter")
def get(tenant_id: Tenant, letter_id: LetterId) -> Response:
    """Return the metadata of a dead letter, without its content."""
    return responses.answer(_render(dead_letter_replay.get(tenant_id, letter_id)))


@router.post("/{letter_id}/replay", summary="Replay a dead letter", status_code=202)
def replay(caller: Maintainer, tenant_id: Tenant, letter_id: LetterId) -> Response:
    """Retry the work and remove the dead letter; work that fails again becomes a new one."""
    return responses.answer(_render(dead_letter_replay.replay_letter(tenant_id, letter_id, caller.key_id)), 202)


@router.post("/{letter_id}/discard", summary="Discard a dead letter")
def discard(
    caller: Maintainer, tenant_id: Tenant, letter_id: LetterId, wanted: Annotated[Discard, Depends(json_body(Discard))]
) -> Response:
    """Delete the content immediately. The metadata and the given reason are retained for 90 days."""
    return responses.answer(
        _render(dead_letter_replay.discard_letter(tenant_id, letter_id, wanted.reason, caller.key_id))
    )


def _render(letter: DeadLetter) -> dict[str, Any]:
    return responses.render(letter, letter_id="id", payload_bytes="bytes") | {"runbook": reason_path(letter.reason)}


def _render_reason(row: ReasonCount) -> dict[str, Any]:
    return {
        "stage": row.stage,
        "reason": row.reason,
        "count": row.letters,
        "came_back": row.came_back,
        "replays": row.replays,
        "runbook": reason_path(row.reason),
    }
