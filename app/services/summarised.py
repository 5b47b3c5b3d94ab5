"""Summaries as self-tests see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from app.store import database


@dataclass(frozen=True, slots=True)
class Summary:
    """A memory that was made from others.

    Attributes:
        memory_id: Its own id.
        text: What it says.
        key_points: What it was made to keep.
        sources: What those of its sources say that are there.
    """

    memory_id: UUID
    text: str
    key_points: Sequence[str]
    sources: Sequence[str]


def drawn(tx: database.Transaction, tenant_id: UUID, seed: int, limit: int) -> list[UUID]:  # noqa: ARG001 - see below
    """Summaries, active and with sources that are there, in an order drawn by the seed; none are made so far."""
    return []


def read(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[Summary]:  # noqa: ARG001 - as above
    """Those of them that are still there."""
    return []
