"""Record which memory supersedes which, as stated by a caller or person, or proposed by a model and then approved.

A name whose memory isn't stored yet waits; it is resolved whenever a supersession is recorded, and every night.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from app.domain.consolidation.supersession import Judged, Pair, Reason, Source, Status, explain, judge
from app.domain.privacy.audit import SYSTEM
from app.errors import Conflict, FieldError, Invalid, NotFound, Unavailable
from app.services.security import audit
from app.services.storage import lookup
from app.store.consolidation import supersessions as rows
from app.store.consolidation.supersessions import Relation, Waiting
from app.store.core import database
from app.store.core.paging import Page, Place
from app.store.memories import links

SLICE_ROWS: Final = 500

_AGAINST: Final = {
    "cycle": "that memory supersedes this one already, itself or through others",
    "subject": "the two memories are about different subjects",
}


def record_statements(tx: database.Transaction, tenant_id: UUID, wanted: Mapping[UUID, Sequence[str]]) -> list[UUID]:
    """Record which memories stored memories supersede, as stated by their callers.

    Unknown names wait; impossible pairs are recorded as rejected. No error is raised, since the memories were already
    accepted.

    Args:
        tx: The tenant's transaction; if it takes the word index's lock, it must have done so already.
        wanted: Superseded names by the newer memory's id.

    Returns:
        Ids of the memories that are no longer current, for `enter`.
    """
    if not any(wanted.values()):
        return []
    rows.lock(tx, tenant_id)
    now = database.now(tx)
    given = [Waiting(memory_id, name, now) for memory_id, names in wanted.items() for name in names]
    return _settle(tx, tenant_id, [*rows.take_waiting(tx, tenant_id, SLICE_ROWS), *given], now)


def audit_superseded(
    tx: database.Transaction, tenant_id: UUID, superseded: Sequence[UUID], source: Source, actor: str = SYSTEM
) -> None:
    """Write the audit entry for memories that are no longer current; last in a transaction, like every audit entry."""
    if superseded:
        audit.append(tx, tenant_id, "memories_superseded", actor, ids=superseded, details={"source": source})


def _settle(tx: database.Transaction, tenant_id: UUID, waiting: Sequence[Waiting], now: datetime) -> list[UUID]:
    """Resolve waiting names into pairs and return the ids superseded by this; unresolved names continue to wait."""
    meant = rows.resolve_names(tx, tenant_id, {each.named for each in waiting})
    ends = {end.memory_id: end for end in meant.values()} | rows.ends(tx, tenant_id, {each[0] for each in waiting})
    # A memory stored after the statement was made can't be the one that the caller named.
    known = [
        each
        for each in waiting
        if each.named in meant and (each.made_at == now or meant[each.named].created_at <= each.made_at)
    ]
    pairs = [Pair(each.memory_id, meant[each.named].memory_id) for each in known if each.memory_id in ends]
    judged = judge(pairs, ends, rows.above(tx, tenant_id, {pair.memory_id for pair in pairs}))
    rows.wait(tx, tenant_id, [each for each in waiting if each not in known and each.memory_id in ends])
    return [pair.superseded_id for pair in rows.upsert_pairs(tx, tenant_id, judged, "active", "caller")]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one `supersedes` statement.

    Attributes:
        memory_id: The newer memory.
        superseded_id: The older memory; None while its name waits.
        named: The name, while it waits.
        why: Explanation in words.
    """

    memory_id: UUID
    superseded_id: UUID | None
    named: str | None
    status: Status
    reason: Reason | None
    why: str


def outcomes(tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[Outcome]:
    """Return the outcome of each `supersedes` of these memories, including refused and waiting ones.

    Args:
        memory_ids: Any ids returned for the memories, aliases included.
    """
    with database.tenant(tenant_id) as tx:
        stored = links.kept_as(tx, tenant_id, memory_ids)
        said = rows.said_of(tx, tenant_id, sorted(set(stored.values())))
    return [
        Outcome(
            one.memory_id,
            one.superseded_id,
            one.named,
            one.status,
            one.reason,
            explain(one.status, one.reason, one.made_at),
        )
        for one in said
    ]


def propose(tx: database.Transaction, tenant_id: UUID, pairs: Sequence[Pair], approved: Sequence[Pair]) -> int:
    """Record a model's pairs as proposals, or as active if approved; return how many are new."""
    rows.lock(tx, tenant_id)
    ends = rows.ends(tx, tenant_id, {end for pair in pairs for end in pair})
    there = [pair for pair in pairs if pair.memory_id in ends and pair.superseded_id in ends]
    above = rows.above(tx, tenant_id, {pair.memory_id for pair in there})
    judged = [each for each in judge(there, ends, above) if each.reason is None]
    at_once = [each for each in judged if each.pair in approved]
    proposed = rows.upsert_pairs(
        tx, tenant_id, [each for each in judged if each.pair not in approved], "proposed", "model"
    )
    put = rows.upsert_pairs(tx, tenant_id, at_once, "active", "model")
    audit_superseded(tx, tenant_id, [pair.superseded_id for pair in put], "model")
    return len(proposed) + len(put)


def make(tenant_id: UUID, memory: str, supersedes: str, actor: str) -> Relation:
    """Let a memory supersede another on a person's request; an existing supersession remains unchanged.

    Raises:
        Invalid: Both names refer to the same memory.
        NotFound: This tenant has no such memory.
        Unavailable: One of the memories is still in the ingest queue.
        Conflict: Their subjects differ, or the older one already supersedes the newer one.
    """
    with database.tenant(tenant_id) as tx:
        rows.lock(tx, tenant_id)
        meant = rows.resolve_names(tx, tenant_id, (memory, supersedes))
        missing = next((name for name in (memory, supersedes) if name not in meant), None)
        if missing is None:
            pair = Pair(meant[memory].memory_id, meant[supersedes].memory_id)
            if pair.memory_id == pair.superseded_id:
                raise Invalid(errors=[FieldError("supersedes", "is the memory itself")])
            put = rows.upsert_pairs(tx, tenant_id, [_checked(tx, tenant_id, pair)], "active", "person")
            audit_superseded(tx, tenant_id, [each.superseded_id for each in put], "person", actor)
            return rows.get_relation(tx, tenant_id, pair)
    # The transaction has ended: the queue must not be queried within one.
    raise _missing(tenant_id, "memory" if missing == memory else "supersedes", missing)


def _missing(tenant_id: UUID, field: str, name: str) -> NotFound | Unavailable:
    try:
        lookup.get(tenant_id, UUID(name))
    except (ValueError, NotFound):
        error = FieldError(field, "names no memory of this tenant", name)
        return NotFound("this tenant has no such memory", errors=[error])
    return Unavailable("a memory that is named is still in the queue", retry_after_seconds=1)


def _checked(tx: database.Transaction, tenant_id: UUID, pair: Pair) -> Judged:
    """Check that a pair's newer memory may supersede the older one.

    Raises:
        Conflict: It may not.
    """
    [judged] = judge([pair], rows.ends(tx, tenant_id, pair), rows.above(tx, tenant_id, [pair.memory_id]))
    if judged.reason is not None:
        raise Conflict(_AGAINST[judged.reason])
    return judged


def page(
    tenant_id: UUID,
    status: Status | None,
    memory_id: UUID | None,
    before: Place | None,
    limit: int,
) -> Page[Relation]:
    """List supersessions, newest first; see `store.supersessions.page`.

    Raises:
        NotFound: This tenant has no such memory.
    """
    kept = None if memory_id is None else lookup.get(tenant_id, memory_id).memory_id
    with database.tenant(tenant_id) as tx:
        return rows.page(tx, tenant_id, status, kept, before, limit)


def approve(tenant_id: UUID, supersession_id: UUID, actor: str) -> Relation:
    """Activate a proposed or rejected supersession; an active one remains unchanged.

    Raises:
        NotFound: This tenant has no such supersession.
        Conflict: Its older memory isn't stored yet, or it contradicts other supersessions or the memories' subjects.
    """
    with database.tenant(tenant_id) as tx:
        found = _locked(tx, tenant_id, supersession_id)
        if found.superseded_id is None:
            raise Conflict("this supersession waits for a memory that isn't stored yet: it holds as soon as it is")
        if found.status != "active":
            _checked(tx, tenant_id, Pair(found.memory_id, found.superseded_id))
            rows.decide(tx, tenant_id, supersession_id, "active", None, actor)
            audit_superseded(tx, tenant_id, [found.superseded_id], found.source, actor)
        return _found(tx, tenant_id, supersession_id)


def reject(tenant_id: UUID, supersession_id: UUID, actor: str) -> Relation:
    """Reject a proposed supersession so that it isn't proposed again; a rejected one remains unchanged.

    Raises:
        NotFound: This tenant has no such supersession.
        Conflict: It is active or waiting; use `undo` to revoke it.
    """
    with database.tenant(tenant_id) as tx:
        found = _locked(tx, tenant_id, supersession_id)
        if found.status in ("active", "waiting"):
            raise Conflict("this supersession isn't a proposal: take it back, by DELETE /v1/supersessions/{id}")
        if found.status == "proposed":
            _reject(tx, tenant_id, found, "declined", actor)
        return _found(tx, tenant_id, supersession_id)


def undo(tenant_id: UUID, supersession_id: UUID, actor: str) -> None:
    """Revoke a supersession: the older memory is current again unless another memory supersedes it.

    A model doesn't propose the pair again, but a caller or person can state it again. A waiting name is deleted.

    Raises:
        NotFound: This tenant has no such supersession.
    """
    with database.tenant(tenant_id) as tx:
        found = _locked(tx, tenant_id, supersession_id)
        if found.status == "waiting":
            rows.drop(tx, tenant_id, supersession_id)
        elif found.status != "rejected":
            _reject(tx, tenant_id, found, "undone", actor)


def _reject(tx: database.Transaction, tenant_id: UUID, found: Relation, reason: str, actor: str) -> None:
    rows.decide(tx, tenant_id, found.supersession_id, "rejected", reason, actor)
    ids = [found.superseded_id] if found.superseded_id else []
    details = {"source": found.source, "reason": reason}
    audit.append(tx, tenant_id, "supersession_rejected", actor, ids=ids, details=details)


def _locked(tx: database.Transaction, tenant_id: UUID, supersession_id: UUID) -> Relation:
    rows.lock(tx, tenant_id)
    return _found(tx, tenant_id, supersession_id)


def _found(tx: database.Transaction, tenant_id: UUID, supersession_id: UUID) -> Relation:
    found = rows.get(tx, tenant_id, supersession_id)
    if found is None:
        raise NotFound("this tenant has no such supersession")
    return found


def settle_statements(tenant_id: UUID) -> int:
    """Try to resolve the names that have waited longest; return the number of memories superseded by this."""
    with database.tenant(tenant_id) as tx:
        rows.lock(tx, tenant_id)
        waiting = rows.take_waiting(tx, tenant_id, SLICE_ROWS)
        superseded = _settle(tx, tenant_id, waiting, database.now(tx)) if waiting else []
        audit_superseded(tx, tenant_id, superseded, "caller")
        return len(superseded)
