"""`POST /v1/memories/{memory_id}/promote` and `…/demote`: promote and demote a memory by hand."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Caller, Writer
from app.api.http.path_ids import MemoryId
from app.api.http.request_body import json_body
from app.services.memories import live_numbers, manual_promotion
from app.store.memories.memories import StoredMemory

router = APIRouter(prefix="/v1/memories", tags=["memories"])


class PromotionOptions(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a promotion.

    Attributes:
        force: Promote the memory even if it doesn't meet the criteria.
    """

    force: bool = False


@router.post("/{memory_id}/promote", summary="Promote a memory")
def promote(
    caller: Writer,
    memory_id: MemoryId,
    wanted: Annotated[PromotionOptions, Depends(json_body(PromotionOptions, is_optional=True))],
) -> Response:
    """Promote a memory. With the policy field `promotion.keeps`, decay neither moves nor deletes promoted memories.

    409 if it doesn't meet the criteria: `errors` has each criterion with the memory's value and the limit. `force`
    promotes it in spite of them. No effect on promoted memories.
    """
    return _respond(caller, manual_promotion.promote(caller.tenant_id, memory_id, caller.key_id, force=wanted.force))


@router.post("/{memory_id}/demote", summary="Demote a memory")
def demote(caller: Writer, memory_id: MemoryId) -> Response:
    """Demote a promoted memory. From then on, neither uses nor nights promote it. No effect on other memories."""
    return _respond(caller, manual_promotion.demote(caller.tenant_id, memory_id, caller.key_id))


def _respond(caller: Caller, found: StoredMemory) -> Response:
    return responses.answer(responses.memory(found, live_numbers.live_numbers(caller.tenant_id, [found], None)))
