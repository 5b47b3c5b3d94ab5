"""The JSON that goes out: shapes that others rely on. Fields may be added, never taken away."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
from fastapi import Response

from app.errors import FieldError, Invalid
from app.services.memories import Pending
from app.store.memories import Stored

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def answer(value: object, status: int = 200) -> Response:
    """A JSON response."""
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def cursor_after(memory_id: UUID) -> str:
    """Where the next page begins. Opaque to callers."""
    return base64.urlsafe_b64encode(memory_id.bytes).decode().rstrip("=")


def id_in_cursor(cursor: str) -> UUID:
    """The id in a cursor.

    Raises:
        Invalid: It isn't one of ours.
    """
    try:
        return UUID(bytes=base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
    except (ValueError, binascii.Error):
        raise Invalid(errors=[FieldError("cursor", "isn't one that a list has given")]) from None


def cursor_at(moment: datetime, row_id: UUID) -> str:
    """The same in lists by time: where the row of this moment and id stands."""
    microseconds = (moment - _EPOCH) // timedelta(microseconds=1)
    return base64.urlsafe_b64encode(microseconds.to_bytes(8, "big") + row_id.bytes).decode()


def place_in_cursor(cursor: str | None) -> tuple[datetime, UUID] | None:
    """The moment and id in a cursor of a list by time; None where there is none.

    Raises:
        Invalid: It isn't one of ours.
    """
    if cursor is None:
        return None
    try:
        held = base64.urlsafe_b64decode(cursor)
        return _EPOCH + timedelta(microseconds=int.from_bytes(held[:8], "big")), UUID(bytes=held[8:])
    except (ValueError, OverflowError, binascii.Error):
        raise Invalid(errors=[FieldError("cursor", "isn't one that a list has given")]) from None


def memory(found: Stored | Pending) -> dict[str, Any]:
    """A memory as the API shows it.

    `strength`, `importance`, `next_due_at` and `next_review_at` are null until forgetting is computed.
    """
    return _pending(found) if isinstance(found, Pending) else _stored(found)


def memories(found: Sequence[Stored], limit: int) -> dict[str, Any]:
    """A page of memories, and the cursor of the next where there may be more."""
    full = len(found) == limit
    return {
        "memories": [_stored(row) for row in found],
        "next_cursor": cursor_after(found[-1].memory_id) if full and found else None,
    }


def _stored(row: Stored) -> dict[str, Any]:
    return {
        "id": row.memory_id,
        "text": row.text,
        "subject": row.subject,
        "thread": row.thread,
        "speaker": row.speaker,
        "external_id": row.external_id,
        "kind": row.kind,
        "tags": row.tags,
        "categories": row.categories,
        "entities": row.entities,
        "metadata": row.metadata or {},
        "occurred_at": row.occurred_at,
        "created_at": row.created_at,
        "updated_at": row.updated_at,
        "accessed_at": row.accessed_at if row.access_count else None,
        "access_count": row.access_count,
        "tier": row.tier,
        "strength": None,
        "importance": None,
        "multiplier": row.multiplier,
        "salience": {"value": row.salience, "source": row.salience_source, "criteria": row.criteria},
        "inferred": row.inferred,
        "next_due_at": None,
        "next_review_at": None,
        "status": _status(indexed=row.indexed, embedded=row.embedded),
    }


def _pending(waiting: Pending) -> dict[str, Any]:
    given = waiting.given
    accepted_at = datetime.fromtimestamp(waiting.accepted_ms / 1000, UTC)
    source = None if given.salience is None else "caller"
    return {
        "id": waiting.memory_id,
        "text": given.text,
        "subject": given.subject,
        "thread": given.thread,
        "speaker": given.speaker,
        "external_id": given.external_id,
        "kind": given.kind,
        "tags": given.tags,
        "categories": given.categories,
        "entities": given.entities,
        "metadata": given.metadata or {},
        "occurred_at": given.occurred_at,
        "created_at": accepted_at,
        "updated_at": None,
        "accessed_at": None,
        "access_count": 0,
        "tier": "active",
        "strength": None,
        "importance": None,
        "multiplier": 1.0 if given.multiplier is None else given.multiplier,
        "salience": {"value": given.salience, "source": source, "criteria": None},
        "inferred": None,
        "next_due_at": None,
        "next_review_at": None,
        "status": "pending",
    }


def _status(*, indexed: bool, embedded: bool) -> str:
    if not indexed:
        return "stored"
    return "embedded" if embedded else "indexed"
