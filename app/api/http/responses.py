"""JSON shapes of responses. Clients rely on them: fields are added, and removed only after a deprecation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from uuid import UUID

import msgspec
from fastapi import Response

from app.api.http.cursors import ID, TIMED, Cursor
from app.domain.dynamics.state import FAR_SECONDS
from app.domain.ingest.memory import COLUMNS, MemoryIn
from app.domain.ingest.roles import infer_role
from app.domain.strength.links import MissingLink
from app.domain.tiers.keep_calibration import FoundThreshold
from app.services.consolidation.supersession import SupersessionOutcome
from app.services.memories.live_numbers import LiveMemory
from app.services.storage.lookup import Pending
from app.services.tiers.dry_run import PredictedMove
from app.store.core.paging import Page
from app.store.memories.memories import StoredMemory
from app.store.strength.reviews import ReviewSchedule

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def answer(value: object, status: int = 200) -> Response:
    """Return a JSON response."""
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def page(name: str, found: Page[T], shape: Callable[[T], object], cursor: Cursor[Any] = TIMED, **more: Any) -> Response:
    """Return a page of rows as a JSON response, with the cursor of the next page if there may be one."""
    return answer({**more, name: [shape(row) for row in found], "next_cursor": cursor.encode(found.following)})


def render(row: DataclassInstance, **renamed: str) -> dict[str, Any]:
    """Return the fields of a dataclass as JSON, some under another name: `letter_id="id"`."""
    return {renamed.get(field.name, field.name): getattr(row, field.name) for field in fields(row)}


def pick(row: object, *names: str) -> dict[str, Any]:
    """Return some attributes of an object as JSON."""
    return {name: getattr(row, name) for name in names}


def memory(found: StoredMemory | Pending, live: Mapping[UUID, LiveMemory]) -> dict[str, Any]:
    """Return a memory as JSON.

    Time-dependent fields such as `strength`, `importance` and `next_due_at` are null while it is pending.
    """
    return _pending(found) if isinstance(found, Pending) else _stored(found, live.get(found.memory_id))


def change(move: PredictedMove) -> dict[str, Any]:
    """Return a change listed by a dry run."""
    return {"id": move.memory_id, "from": move.before, "to": move.after, "rule": move.rule, "why": move.why}


def memories(found: Page[StoredMemory], live: Mapping[UUID, LiveMemory]) -> Response:
    """Return a page of memories as a JSON response."""
    return page("memories", found, lambda row: _stored(row, live.get(row.memory_id)), ID)


_FIRST: Final = ("text", "subject", "thread", "speaker", "role", "external_id")
"""The first fields of a memory; all others but `occurred_at` follow in the order of their declaration."""
_FIELDS: Final = (
    *dict.fromkeys((*_FIRST, *(field.name for field in COLUMNS if field.name != "occurred_at"))),
    "occurred_at",
)


def _given(memory_id: UUID, given: MemoryIn, created_at: datetime) -> dict[str, Any]:
    return (
        {"id": memory_id}
        | {name: getattr(given, name) for name in _FIELDS}
        | {"role": infer_role(given.role, given.speaker), "metadata": given.metadata or {}}
        | {"source": given.source or "unknown", "created_at": created_at, "valid_from": created_at}
    )


def _stored(row: StoredMemory, live: LiveMemory | None) -> dict[str, Any]:
    return {
        **_given(row.memory_id, row, row.created_at),
        "updated_at": row.updated_at,
        "accessed_at": row.accessed_at if row.access_count else None,
        "access_count": row.access_count,
        "cross_domain_count": row.cross_domain_count,
        "tier": row.tier,
        "summary": row.tier == "cold",
        "multiplier": row.multiplier,
        "salience": {"value": row.salience, "source": row.salience_source, "criteria": row.criteria},
        "inferred": row.inferred,
        "promoted": row.promoted_at
        and {
            "at": row.promoted_at,
            "for": row.promoted_for,
            "strength": row.promoted_strength,
            "note": row.note,
        },
        "made_by": row.made_by,
        **_live(live),
        "status": _status(indexed=row.indexed, embedded=row.embedded),
    }


def _pending(waiting: Pending) -> dict[str, Any]:
    given = waiting.given
    source = None if given.salience is None else "caller"
    return {
        **_given(waiting.memory_id, given, datetime.fromtimestamp(waiting.accepted_ms / 1000, UTC)),
        "updated_at": None,
        "accessed_at": None,
        "access_count": 0,
        "cross_domain_count": 0,
        "tier": "active",
        "summary": False,
        "multiplier": 1.0 if given.multiplier is None else given.multiplier,
        "salience": {"value": given.salience, "source": source, "criteria": None},
        "inferred": None,
        "promoted": None,
        "made_by": "caller",
        **_live(None),
        "status": "pending",
    }


def _live(live: LiveMemory | None) -> dict[str, Any]:
    if live is None:
        return dict.fromkeys(
            (
                *("strength", "score", "importance", "decay_tier", "next_due_at", "next_review_at", "review"),
                *("valid_to", "supersedes", "superseded_by", "links_missing"),
            )
        )
    numbers, reviewed = live.numbers, live.reviewed
    return {
        **pick(numbers, "strength", "score", "importance", "decay_tier"),
        "next_due_at": _moment(numbers.next_due_at),
        "next_review_at": live.next_review_at,
        "review": {
            "priority": numbers.review_priority,
            "interval_days": live.interval_days,
            **past_reviews(reviewed),
        },
        **pick(live.around, "valid_to", "supersedes", "superseded_by"),
        "links_missing": [missing_link(link) for link in live.links_missing],
    }


def missing_link(link: MissingLink) -> dict[str, Any]:
    """Return, as JSON, a link of a submitted memory that couldn't be added."""
    return pick(link, "to", "kind", "weight", "reason")


def superseding(outcome: SupersessionOutcome) -> dict[str, Any]:
    """Return the outcome of one `supersedes` as JSON."""
    return pick(outcome, "superseded_id", "named", "status", "reason", "why")


def past_reviews(reviewed: ReviewSchedule | None) -> dict[str, Any]:
    """Return the review fields of a memory, with defaults if it has never been reviewed."""
    return {
        "reviewed_at": reviewed.reviewed_at if reviewed and reviewed.review_count else None,
        "review_count": reviewed.review_count if reviewed else 0,
        "flagged": reviewed is not None and reviewed.flagged,
    }


def found_threshold(found: FoundThreshold) -> dict[str, Any]:
    """Return, as JSON, the threshold of the keep chance that follows from `tiers.target_active_share`."""
    return pick(found, "threshold", "share", "memories") | {"limited": found.is_limited}


def _moment(seconds: float) -> datetime | None:
    """Convert Unix seconds to a datetime; None beyond the calendar."""
    return datetime.fromtimestamp(seconds, UTC) if seconds < FAR_SECONDS else None


def _status(*, indexed: bool, embedded: bool) -> str:
    if not indexed:
        return "stored"
    return "embedded" if embedded else "indexed"
