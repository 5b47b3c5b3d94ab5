"""`/v1/reviews`: list memories to review and record the results."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Response

from app.api.http import responses
from app.api.http.auth import Reader, Writer
from app.api.http.path_ids import MemoryId
from app.api.http.request_body import check_storable, json_body
from app.api.memories.memories import Name
from app.domain.ingest.memory import check_moment
from app.services.uses import reviews
from app.services.uses.reviews import ReviewEntry, ReviewOutcome

router = APIRouter(prefix="/v1/reviews", tags=["reviews"])

SESSION_MAX = 1_000


class Review(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Result of a review.

    Attributes:
        result: `passed` counts as a use and advances to the next interval; `failed` resets to the first interval and
            flags the memory.
        at: Time of the review; default now.
    """

    result: Literal["passed", "failed"]
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


@router.get("", summary="List memories to review")
def session(
    caller: Reader,
    by: Literal["due", "danger", "flagged"] = "due",
    subject: Name = None,
    thread: Name = None,
    limit: Annotated[int | None, Query(ge=1, le=SESSION_MAX)] = None,
) -> Response:
    """Return the most urgent memories, at most `limit` and the policy's `review.session_limit`.

    `total` counts all that match.

    `by=due`: due memories by `urgency`, by default 0.6 · importance + 0.4 · days overdue. `by=danger`: memories about
    to be forgotten, due or not: those with a strength between the policy's `review.danger_from` and `review.danger_to`.
    They are ordered by `priority`, which is 1 in the middle of this range and 0 at its ends.
    `by=flagged`: memories, due or not, whose last review failed, or a self-test since then; ordered by `urgency`.
    """
    check_storable(subject=subject, thread=thread)
    found = reviews.build_session(caller.tenant_id, by=by, subject=subject, thread=thread, limit=limit)
    return responses.answer({"reviews": [_entry(entry) for entry in found.entries], "total": found.total})


@router.post("/{memory_id}", summary="Record the result of a review")
def record(caller: Writer, memory_id: MemoryId, review: Annotated[Review, Depends(json_body(Review))]) -> Response:
    """Record a result. Repeating the same result within the policy's refractory time has no effect."""
    if review.at is not None:
        check_moment(review.at, "at")
    return responses.answer(_outcome(reviews.record_review(caller.tenant_id, memory_id, review.result, review.at)))


def _entry(entry: ReviewEntry) -> dict[str, Any]:
    return {
        "id": entry.memory_id,
        **responses.pick(entry.described, "text", "subject", "thread", "kind"),
        **responses.pick(entry, "strength", "importance", "urgency", "priority", "overdue_days", "interval_days"),
        "next_review_at": entry.due_at,
        **responses.past_reviews(entry.reviewed),
    }


def _outcome(outcome: ReviewOutcome) -> dict[str, Any]:
    return {
        "id": outcome.memory_id,
        "changed": outcome.changed,
        "strength": {"before": outcome.before, "after": outcome.after},
        "importance": outcome.importance,
        "next_review_at": outcome.reviewed.due_at,
        "interval_days": outcome.reviewed.interval_days,
        **responses.past_reviews(outcome.reviewed),
    }
