"""`/v1/memories`: list, read, edit, restore and delete memories. Ingest is in a separate module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Response
from pydantic import AwareDatetime

from app.api.http import responses
from app.api.http.auth import Caller, Reader, Writer
from app.api.http.content_filters import read_content_filters
from app.api.http.cursors import HISTORY, ID, PAGE_MAX, SEQ
from app.api.http.path_ids import MemoryId
from app.api.http.request_body import DATED, check_storable, raw_body
from app.domain.ingest.memory import KINDS, NAME_MAX_CHARACTERS, PATCH, Kind, decode_patch
from app.domain.ingest.roles import Role
from app.domain.ingest.sources import Source
from app.domain.salience.llm_scoring import read_scorer_version
from app.domain.search.content_filters import ContentFilters
from app.domain.strength.promotion import REASONS
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.errors import FieldError, Invalid, NotFound
from app.services.memories import explanation, history, live_numbers, manual_restore, memories, threads
from app.services.memories.explanation import TierExplanation
from app.services.privacy import quarantines
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.store.enrichment.rating_comparison import StoredRating
from app.store.memories.history import HistoryEvent
from app.store.memories.memories import Filters, ListOrder, StoredMemory
from app.store.privacy.quarantines import Quarantine

router = APIRouter(prefix="/v1/memories", tags=["memories"])

Name = Annotated[str | None, Query(min_length=1, max_length=NAME_MAX_CHARACTERS)]
Moment = Annotated[AwareDatetime, DATED]
AsOf = Annotated[Moment | None, Query(description="Compute strength and derived values as of this time. Default: now.")]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]
_NAMES: Final[dict[str, Sequence[str]]] = {
    "kind": KINDS,
    "tier": DECAY_TIERS,
    "wanted_tier": DECAY_TIERS,
    "promoted": REASONS,
    "demoted": REASONS,
}
Share = Annotated[float, Query(ge=0, le=1, allow_inf_nan=False)]


@router.get("", summary="List memories, newest first")
def page(
    caller: Reader,
    content: Annotated[ContentFilters, Depends(read_content_filters)],
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
    promoted: bool | None = None,  # noqa: FBT001 - as above
    order: ListOrder = "newest",
    as_of: AsOf = None,
    limit: Limit = 50,
    cursor: str | None = None,
) -> Response:
    """Return a page of stored memories.

    `after` and `before` compare the time of occurrence, or else of acceptance. `strength_above` and `strength_below`
    compare the current strength. `superseded=true` selects only superseded memories, `false` excludes them. `role`
    compares the effective role of the speaker; without it, all roles are listed. `promoted=true` selects only promoted
    memories, `false` excludes them. `categories` selects memories that have one of them, `entities` those that have all
    of them; both may be repeated, as may `ids` and `external_ids`. `metadata` is an object as JSON: its values must be
    equal to the memory's, and a list must be contained in the memory's list.

    `order=thread` needs `thread`: it lists the memories in the order of acceptance, each with its number `turn`, which
    counts from 1 and includes memories that other filters leave out. `order=thread_newest` reverses this order.
    """
    check_storable(subject=subject, thread=thread, tag=tag)
    wanted = Filters(
        *(subject, thread, tag, kind, tier, after, before, strength_above, strength_below, superseded, role, promoted),
        content=content,
    )
    if order != "newest":
        return _list_turns(caller, wanted, order, as_of, limit, cursor)
    found = memories.list_memories(caller.tenant_id, wanted, ID.decode(cursor), limit)
    return responses.memories(found, live_numbers.live_numbers(caller.tenant_id, found, as_of))


def _list_turns(
    caller: Caller, wanted: Filters, order: ListOrder, as_of: datetime | None, limit: int, cursor: str | None
) -> Response:
    if wanted.thread is None:
        raise Invalid(errors=[FieldError("thread", f"is missing: order={order} lists the memories of one thread")])
    found = memories.list_memories(caller.tenant_id, wanted, SEQ.decode(cursor), limit, order)
    turns = threads.number_turns(caller.tenant_id, wanted.thread, [row.memory_id for row in found])
    seen = live_numbers.live_numbers(caller.tenant_id, found, as_of)
    return responses.page(
        "memories", found, lambda row: responses.memory(row, seen) | {"turn": turns.get(row.memory_id)}, SEQ
    )


@router.get("/{memory_id}", summary="Get a memory")
def get(caller: Reader, memory_id: MemoryId, as_of: AsOf = None) -> Response:
    """Return a memory. Until it is stored, `status` is `pending` and its strength is null.

    In cold storage, `summary` is true and `text` contains only the first sentences.

    With `as_of`, the fields `strength`, `score`, `importance`, `decay_tier`, `next_due_at` and the review's `priority`
    are computed for that time; if it is before the last use or change, for the time of that use or change.

    The memory is current from `valid_from` (its acceptance) to `valid_to`. `valid_to` is null while it is current, then
    the acceptance of the first memory in `superseded_by`, or `valid_from` if that is later. `supersedes` lists memories
    that it supersedes.
    Both lists contain only direct relations.

    `links_missing` lists the links submitted with the memory that don't exist, with the reason: `missing` (no memory
    has this id or external id yet), `itself`, or `full` (one of the two memories has 1,000 links).
    """
    return _respond(caller, lookup.get(caller.tenant_id, memory_id), as_of)


@router.get("/{memory_id}/history", summary="Get the history of a memory")
def history_of(caller: Reader, memory_id: MemoryId, limit: Limit = 50, cursor: str | None = None) -> Response:
    """Return a page of events, newest first, back to acceptance or to the limit of the policy's `history_days`.

    Uses, tests and reviews have the strength `before` and `after`; other events have the changed value and the
    resulting `strength`. An event `policy` marks a policy version that took effect.
    """
    found = history.list_history(caller.tenant_id, memory_id, HISTORY.decode(cursor), limit)
    return responses.page("history", found, _happened, HISTORY)


@router.get("/{memory_id}/why", summary="Explain the tier of a memory")
def explain(caller: Reader, memory_id: MemoryId, as_of: AsOf = None) -> Response:
    """Return the current tier (`tier`) and the target tier (`wanted`), with the deciding rule and its numbers.

    `next_change` is the next tier change if the memory isn't used, or null. `source` says who wrote the memory. `holds`
    lists legal holds; their reasons are shown only to keys with the scope `privacy`. `supersedes` lists the superseded
    memories with status (`active`, `proposed`, `rejected`, or `waiting` for the memory) and reason, and `superseded_by`
    the memories that supersede this one. `corrects` and `corrected_by` list the memories on either side of a
    correction. A memory in quarantine has the tier `quarantined`.
    """
    try:
        found = explanation.explain_tier(caller.tenant_id, memory_id, as_of)
    except NotFound:
        quarantine = quarantines.find_hiding(caller.tenant_id, memory_id)
        if quarantine is None:
            raise
        return responses.answer(_explain_quarantine(memory_id, *quarantine))
    return responses.answer(_explained(found, with_reasons="privacy" in caller.scopes))


@router.patch("/{memory_id}", summary="Edit a memory")
def edit(caller: Writer, memory_id: MemoryId, body: Annotated[bytes, Depends(raw_body(PATCH))]) -> Response:
    """Change the given fields; null clears a field. The next search reflects the edit, also as context of neighbours.

    Under a legal hold, only `salience` and `multiplier` may be changed; other changes get a 409.
    """
    return _respond(caller, memories.edit_memory(caller.tenant_id, memory_id, decode_patch(body), caller.writer))


@router.post(
    "/{memory_id}/restore",
    summary="Restore a memory",
    responses={202: {"description": "The memory is in cold storage; a job restores it"}},
)
def restore(caller: Writer, memory_id: MemoryId) -> Response:
    """Restore from the archive at once, from cold storage in a job; counts as a use. No effect on active memories."""
    asked = manual_restore.restore(caller.tenant_id, memory_id, caller.key_id)
    if asked.job_id is not None:
        return responses.answer({"job_id": asked.job_id}, 202)
    return _respond(caller, asked.memory)


@router.delete("/{memory_id}", summary="Delete a memory", status_code=202)
def delete(caller: Writer, memory_id: MemoryId) -> Response:
    """Delete a memory: it disappears from searches, lists and reads at once, and is erased after `erase_after`.

    Until then, `POST /v1/privacy/erasures/{erasure_id}/cancel` restores it. A repeated call has the same response until
    the erasure is finished or cancelled. 409 if the memory is under a legal hold.
    """
    deletion = memories.delete(caller.tenant_id, memory_id, caller.key_id)
    stored_id, *_ = deletion.scope.memory_ids or [memory_id]  # followed by the former texts of a file
    return responses.answer({"id": stored_id, **responses.pick(deletion, "erasure_id", "erase_after", "status")}, 202)


def _respond(caller: Caller, found: StoredMemory | Pending, as_of: datetime | None = None) -> Response:
    seen = {} if isinstance(found, Pending) else live_numbers.live_numbers(caller.tenant_id, [found], as_of)
    return responses.answer(responses.memory(found, seen))


def _happened(entry: HistoryEvent) -> dict[str, Any]:
    shown = entry._asdict()
    del shown["place"]
    if entry.kind in _NAMES:
        shown |= {side: _NAMES[entry.kind][int(shown[side])] for side in ("before", "after")}
    if entry.kind == "promoted":
        shown["before"] = None
    if entry.kind == "demoted":
        shown["after"] = None
    return shown


def _rated(found: StoredRating) -> dict[str, Any]:
    model, prompt_version = read_scorer_version(found.version)
    shown = responses.pick(found, "rated_at", "salience", "rules_salience")
    return {"model": model, "prompt_version": prompt_version, **shown}


def _explain_quarantine(memory_id: UUID, found: Quarantine, source: Source) -> dict[str, Any]:
    name = found.quarantine_id
    why = f"quarantine {name} of {found.placed_at:%Y-%m-%d} hides it; POST /v1/quarantines/{name}/lift shows it again"
    lists: dict[str, list[Any]] = {name: [] for name in ("holds", "supersedes", "superseded_by", "corrects")}
    numbers = dict.fromkeys(("as_of", "keep", "rating", "next_change"))
    shown = {"id": memory_id, "tier": "quarantined", "wanted": "quarantined", "rule": "quarantine", "why": why}
    shown["source"] = source
    return {**shown, **numbers, **lists, "corrected_by": [], "numbers": {}}


def _explained(found: TierExplanation, *, with_reasons: bool) -> dict[str, Any]:
    change = found.change
    holds = [
        {"id": holder.hold_id, "placed_at": holder.placed_at} | ({"reason": holder.reason} if with_reasons else {})
        for holder in found.holders
    ]
    return {
        "id": found.memory_id,
        **responses.pick(found, "as_of", "tier", "source", "superseded_by", "corrects", "corrected_by"),
        "wanted": found.verdict.tier,
        "rule": found.verdict.rule,
        "why": found.verdict.why,
        "numbers": asdict(found.case),
        "keep": found.keep and asdict(found.keep) | {"reasons": [reason._asdict() for reason in found.keep.reasons]},
        "rating": found.rating and _rated(found.rating),
        "next_change": change and {"at": found.change_at, "to": change.tier, "rule": change.rule, "why": change.why},
        "holds": holds,
        "supersedes": [responses.superseding(one) for one in found.supersedes],
    }
