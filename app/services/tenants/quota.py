"""How much of its room a tenant takes up. Nothing is refused for it: who runs the service is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

import structlog

from app import metrics
from app.store.core import database
from app.store.embedding import spaces
from app.store.memories import tenant_counts
from app.store.memories.tenant_counts import Counts
from app.store.tenants import policies

State = Literal["below", "near", "over"]

_HALF_BYTES: Final = 2
_REDUCED_DIMENSIONS: Final = 128
_STATES: Final = {"near": "quota_near", "over": "quota_over"}

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Room:
    """What a tenant's memories take up.

    Attributes:
        text_bytes: Their texts in the database, in UTF-8.
        vector_bytes: About what their vectors do: as if each had the one it is searched by.
        quota_bytes: What they may take up; None for any.
        state: `near` from the policy's `quota_near` on, `over` above all of it.
    """

    text_bytes: int
    vector_bytes: int
    quota_bytes: int | None
    state: State

    @property
    def taken_bytes(self) -> int:
        """All of it."""
        return self.text_bytes + self.vector_bytes


def state(tx: database.Transaction, tenant_id: UUID) -> Room:
    """How a tenant stands."""
    return of(tx, tenant_id, tenant_counts.read(tx, tenant_id))


def of(tx: database.Transaction, tenant_id: UUID, counts: Counts) -> Room:
    """The same, of numbers that are known."""
    policy = policies.current(tx, tenant_id)
    there = spaces.of_tenant(tx, tenant_id)
    return room(counts, there.searched.dimensions if there else 0, policy.quota_bytes, policy.quota_near)


def room(counts: Counts, dimensions: int, quota_bytes: int | None, near: float) -> Room:
    """What so many memories with vectors of so many dimensions take up."""
    vectors = counts.active * dimensions + counts.archived * min(dimensions, _REDUCED_DIMENSIONS)
    taken = counts.text_bytes + vectors * _HALF_BYTES
    how: State = "below"
    if quota_bytes is not None and taken >= quota_bytes * near:
        how = "over" if taken > quota_bytes else "near"
    return Room(counts.text_bytes, vectors * _HALF_BYTES, quota_bytes, how)


def watch(tenant_id: UUID) -> Room:
    """Tell who runs the service when a tenant comes close to its quota, or is over it."""
    with database.tenant(tenant_id) as tx:
        room = state(tx, tenant_id)
    if room.state in _STATES:
        metrics.count(_STATES[room.state])
        log.warning(
            _STATES[room.state], tenant=str(tenant_id), taken_bytes=room.taken_bytes, quota_bytes=room.quota_bytes
        )
    return room
