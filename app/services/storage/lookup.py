"""Find a memory by its id, including one that is still in the ingest queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from app.clients.redis.stream import backlog
from app.domain.ingest.bodies import decode
from app.domain.ingest.envelope import Envelope
from app.domain.ingest.ids import extract_index
from app.domain.ingest.memory import MemoryIn
from app.errors import EbbingError, FieldError, NotFound, Unavailable
from app.store.core import database
from app.store.erasure import requests
from app.store.memories import memories
from app.store.memories.memories import StoredMemory


class Missing(Exception):
    """Raised within `stored_only` when the memory isn't stored."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A memory that was accepted but isn't stored yet."""

    memory_id: UUID
    given: MemoryIn
    accepted_ms: int


def get(tenant_id: UUID, memory_id: UUID) -> StoredMemory | Pending:
    """Return a memory by its id or an alias, including one that is still in the ingest queue.

    Raises:
        NotFound: This tenant has no such memory.
    """
    stored = _stored(tenant_id, memory_id)
    if stored is not None:
        return stored
    pending = _pending(tenant_id, memory_id)
    # It may have been stored between the two queries.
    found = pending or _stored(tenant_id, memory_id)
    if found is None:
        raise NotFound("this tenant has no such memory")
    return found


def explain_missing(tenant_id: UUID, field: str, name: str, purpose: str) -> NotFound | Unavailable:
    """Return the error for a field that names no stored memory; the memory may still be in the ingest queue."""
    try:
        get(tenant_id, UUID(name))
    except (ValueError, NotFound):
        error = FieldError(field, "names no memory of this tenant", name)
        return NotFound("this tenant has no such memory", errors=[error])
    return Unavailable(f"a memory {purpose} is still in the queue", retry_after_seconds=1)


@contextmanager
def stored_only(tenant_id: UUID, memory_id: UUID) -> Iterator[None]:
    """Convert `Missing` into the error for the caller: still in the ingest queue, or unknown.

    Raises:
        NotFound: `Missing` was raised inside, and this tenant has no such memory.
        Unavailable: `Missing` was raised inside, and the memory is still in the ingest queue.
    """
    try:
        yield
    except Missing:
        # The transaction has ended: the queue must not be queried within one.
        if backlog().find(tenant_id, memory_id) is not None:
            raise Unavailable("this memory is still in the queue", retry_after_seconds=1) from None
        raise NotFound("this tenant has no such memory") from None


def lock(tx: database.Transaction, tenant_id: UUID, memory_id: UUID) -> UUID:
    """Lock a memory's row and return its stored id; for use within `stored_only`.

    Raises:
        Missing: The memory isn't stored.
    """
    stored_id = memories.resolve_id(tx, tenant_id, memory_id)
    if not memories.lock(tx, tenant_id, stored_id):
        raise Missing
    return stored_id


def _stored(tenant_id: UUID, memory_id: UUID) -> StoredMemory | None:
    with database.tenant(tenant_id) as tx:
        return memories.get(tx, tenant_id, memories.resolve_id(tx, tenant_id, memory_id))


def _pending(tenant_id: UUID, memory_id: UUID) -> Pending | None:
    envelope = backlog().find(tenant_id, memory_id)
    if envelope is None or extract_index(memory_id) >= envelope.memories:
        return None
    given = _given(envelope)
    if not given:
        return None
    with database.tenant(tenant_id) as tx:
        coming = requests.coming(tx, tenant_id)
    found = given[extract_index(memory_id)]
    return None if coming.may_match([found], envelope.accepted_ms) else Pending(memory_id, found, envelope.accepted_ms)


def _given(envelope: Envelope) -> list[MemoryIn]:
    try:
        return [] if envelope.form == "touches" else decode(envelope.body, envelope.form, dimensions=None)
    except EbbingError:
        return []  # the drain will write a dead letter
