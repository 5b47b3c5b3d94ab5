"""Find a memory by its id, including one that is still in the ingest queue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from msgspec.structs import replace

from app.clients.redis.stream import backlog
from app.domain.ingest.bodies import decode
from app.domain.ingest.envelope import Envelope
from app.domain.ingest.ids import extract_index
from app.domain.ingest.memory import MemoryIn, with_expiry
from app.domain.ingest.sources import stamp
from app.errors import Conflict, EbbingError, FieldError, NotFound, Unavailable
from app.store.core import database
from app.store.erasure import requests
from app.store.erasure.requests import Erasure
from app.store.memories import aliases, links, memories
from app.store.memories.memories import StoredMemory


class Missing(Exception):
    """The memory isn't stored; raised only within `stored_only`."""


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
    # The memory may have been stored between the two queries.
    found = pending or _stored(tenant_id, memory_id)
    if found is None:
        raise NotFound("Memory not found")
    return found


def explain_missing(tenant_id: UUID, field: str, name: str, purpose: str) -> NotFound | Unavailable:
    """Return the error for a request field whose id matches no stored memory.

    Args:
        field: Name of the request field.
        name: The field's value, which should be an id.
        purpose: Completes the message "a memory … is still in the queue", such as "to be linked".
    """
    try:
        get(tenant_id, UUID(name))
    except (ValueError, NotFound):
        error = FieldError(field, "doesn't match any memory of this tenant", name)
        return NotFound("Memory not found", errors=[error])
    return Unavailable(f"a memory {purpose} is still in the queue", retry_after_seconds=1)


def find_hiding(tx: database.Transaction, tenant_id: UUID, memory_id: UUID) -> tuple[Erasure, bool] | None:
    """Return the open erasure that hides a memory, and whether it is the deletion of this memory alone.

    Returns None if no open erasure hides the memory.

    Args:
        memory_id: The memory's id or an alias of it.
    """
    stored_id = links.resolve_ids(tx, tenant_id, [memory_id]).get(memory_id)
    erasure = None if stored_id is None else requests.find_hiding(tx, tenant_id, stored_id)
    return None if erasure is None else (erasure, erasure.scope.conditions() == {"memory_ids": [stored_id]})


def find_deletion(tenant_id: UUID, memory_id: UUID) -> Erasure | None:
    """Return the open erasure of this memory alone, or None; erasures of more data aren't revealed."""
    with database.tenant(tenant_id) as tx:
        hiding = find_hiding(tx, tenant_id, memory_id)
    return hiding[0] if hiding is not None and hiding[1] else None


def resolve_erasure(tx: database.Transaction, tenant_id: UUID, given_id: UUID) -> UUID:
    """Return the id of the open erasure that deletes the memory with this id alone; other ids are returned unchanged.

    Raises:
        Conflict: An erasure hides the memory together with others.
    """
    hiding = None if requests.get(tx, tenant_id, given_id) is not None else find_hiding(tx, tenant_id, given_id)
    if hiding is None:
        return given_id
    erasure, is_alone = hiding
    if not is_alone:
        raise Conflict(
            f"this is the id of a memory, which erasure {erasure.erasure_id} hides together with other memories: give "
            "the request ID of the erasure"
        )
    return erasure.erasure_id


@contextmanager
def stored_only(tenant_id: UUID, memory_id: UUID) -> Iterator[None]:
    """Convert `Missing`, raised inside, into an error for the caller of the API.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the ingest queue.
    """
    try:
        yield
    except Missing:
        # Query the queue only now that the transaction has ended.
        if backlog().find(tenant_id, memory_id) is not None:
            raise Unavailable("this memory is still in the queue", retry_after_seconds=1) from None
        raise NotFound("Memory not found") from None


def lock(tx: database.Transaction, tenant_id: UUID, memory_id: UUID) -> UUID:
    """Lock a memory's row and return the id under which it is stored; call this within `stored_only`.

    Raises:
        Missing: The memory isn't stored.
    """
    stored_id = aliases.resolve_id(tx, tenant_id, memory_id)
    if not memories.lock(tx, tenant_id, stored_id):
        raise Missing
    return stored_id


def _stored(tenant_id: UUID, memory_id: UUID) -> StoredMemory | None:
    with database.tenant(tenant_id) as tx:
        return memories.get(tx, tenant_id, aliases.resolve_id(tx, tenant_id, memory_id))


def _pending(tenant_id: UUID, memory_id: UUID) -> Pending | None:
    envelope = backlog().find(tenant_id, memory_id)
    if envelope is None or extract_index(memory_id) >= envelope.memories:
        return None
    memories_sent = _given(envelope)
    if not memories_sent:
        return None
    with database.tenant(tenant_id) as tx:
        open_erasures = requests.coming(tx, tenant_id)
    memory = memories_sent[extract_index(memory_id)]
    memory = replace(memory, source=stamp(memory.source, envelope.writer))
    return (
        None
        if open_erasures.may_match([memory], envelope.accepted_ms, envelope.writer)
        else Pending(memory_id, with_expiry(memory, envelope.accepted_ms / 1000), envelope.accepted_ms)
    )


def _given(envelope: Envelope) -> list[MemoryIn]:
    try:
        return [] if envelope.form == "touches" else decode(envelope.body, envelope.form, dimensions=None)
    except EbbingError:
        return []  # the drain will write a dead letter
