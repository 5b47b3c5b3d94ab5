"""Record which memory supersedes which, as stated by a caller or person, or proposed by a model and then approved.

A name whose memory isn't stored yet waits; it is resolved whenever a supersession is recorded, and every night.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from app.domain.consolidation.supersession import (
    PairOutcome,
    Reason,
    Source,
    Status,
    SupersessionPair,
    explain_outcome,
    judge_pairs,
)
from app.domain.privacy.audit_chain import SYSTEM
from app.errors import Conflict, FieldError, Invalid, require_found
from app.services.security import audit
from app.services.storage import lookup
from app.store.consolidation import supersessions
from app.store.consolidation.supersessions import StoredSupersession, WaitingName
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
    supersessions.lock(tx, tenant_id)
    now = database.now(tx)
    given = [WaitingName(memory_id, name, now) for memory_id, names in wanted.items() for name in names]
    return _resolve_waiting(tx, tenant_id, [*supersessions.claim_waiting(tx, tenant_id, SLICE_ROWS), *given], now)


def audit_superseded(
    tx: database.Transaction, tenant_id: UUID, superseded: Sequence[UUID], source: Source, actor: str = SYSTEM
) -> None:
    """Write the audit entry for memories that are no longer current; last in a transaction, like every audit entry."""
    if superseded:
        audit.append(tx, tenant_id, "memories_superseded", actor, ids=superseded, details={"source": source})


def _resolve_waiting(
    tx: database.Transaction, tenant_id: UUID, waiting: Sequence[WaitingName], now: datetime
) -> list[UUID]:
    """Resolve waiting names into pairs and return the ids superseded by this; unresolved names continue to wait."""
    meant = supersessions.resolve_names(tx, tenant_id, {each.named for each in waiting})
    ends = {end.memory_id: end for end in meant.values()} | supersessions.read_ends(
        tx, tenant_id, {each[0] for each in waiting}
    )
    # A memory stored after the statement was made can't be the one that the caller named.
    known = [
        each
        for each in waiting
        if each.named in meant and (each.made_at == now or meant[each.named].created_at <= each.made_at)
    ]
    pairs = [SupersessionPair(each.memory_id, meant[each.named].memory_id) for each in known if each.memory_id in ends]
    judged = judge_pairs(pairs, ends, supersessions.list_superseding(tx, tenant_id, {pair.memory_id for pair in pairs}))
    supersessions.insert_waiting(
        tx, tenant_id, [each for each in waiting if each not in known and each.memory_id in ends]
    )
    return [pair.superseded_id for pair in supersessions.upsert_pairs(tx, tenant_id, judged, "active", "caller")]


@dataclass(frozen=True, slots=True)
class SupersessionOutcome:
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


def list_outcomes(tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[SupersessionOutcome]:
    """Return the outcome of each `supersedes` of these memories, including refused and waiting ones.

    Args:
        memory_ids: Any ids returned for the memories, aliases included.
    """
    with database.tenant(tenant_id) as tx:
        stored = links.resolve_ids(tx, tenant_id, memory_ids)
        said = supersessions.list_statements(tx, tenant_id, sorted(set(stored.values())))
    return [
        SupersessionOutcome(
            one.memory_id,
            one.superseded_id,
            one.named,
            one.status,
            one.reason,
            explain_outcome(one.status, one.reason, one.made_at),
        )
        for one in said
    ]


def propose_pairs(
    tx: database.Transaction, tenant_id: UUID, pairs: Sequence[SupersessionPair], approved: Sequence[SupersessionPair]
) -> int:
    """Record a model's pairs as proposals, or as active if approved; return how many are new."""
    supersessions.lock(tx, tenant_id)
    ends = supersessions.read_ends(tx, tenant_id, {end for pair in pairs for end in pair})
    there = [pair for pair in pairs if pair.memory_id in ends and pair.superseded_id in ends]
    above = supersessions.list_superseding(tx, tenant_id, {pair.memory_id for pair in there})
    judged = [each for each in judge_pairs(there, ends, above) if each.reason is None]
    at_once = [each for each in judged if each.pair in approved]
    proposed = supersessions.upsert_pairs(
        tx, tenant_id, [each for each in judged if each.pair not in approved], "proposed", "model"
    )
    put = supersessions.upsert_pairs(tx, tenant_id, at_once, "active", "model")
    audit_superseded(tx, tenant_id, [pair.superseded_id for pair in put], "model")
    return len(proposed) + len(put)


def make_supersession(tenant_id: UUID, memory: str, supersedes: str, actor: str) -> StoredSupersession:
    """Let a memory supersede another on a person's request; an existing supersession remains unchanged.

    Raises:
        Invalid: Both names refer to the same memory.
        NotFound: This tenant has no such memory.
        Unavailable: One of the memories is still in the ingest queue.
        Conflict: Their subjects differ, or the older one already supersedes the newer one.
    """
    with database.tenant(tenant_id) as tx:
        supersessions.lock(tx, tenant_id)
        meant = supersessions.resolve_names(tx, tenant_id, (memory, supersedes))
        missing = next((name for name in (memory, supersedes) if name not in meant), None)
        if missing is None:
            pair = SupersessionPair(meant[memory].memory_id, meant[supersedes].memory_id)
            if pair.memory_id == pair.superseded_id:
                raise Invalid(errors=[FieldError("supersedes", "is the memory itself")])
            put = supersessions.upsert_pairs(tx, tenant_id, [_checked(tx, tenant_id, pair)], "active", "person")
            audit_superseded(tx, tenant_id, [each.superseded_id for each in put], "person", actor)
            return supersessions.get_relation(tx, tenant_id, pair)
    # The transaction has ended: the queue must not be queried within one.
    field = "memory" if missing == memory else "supersedes"
    raise lookup.explain_missing(tenant_id, field, missing, "that is named")


def _checked(tx: database.Transaction, tenant_id: UUID, pair: SupersessionPair) -> PairOutcome:
    """Check that a pair's newer memory may supersede the older one.

    Raises:
        Conflict: It may not.
    """
    [judged] = judge_pairs(
        [pair],
        supersessions.read_ends(tx, tenant_id, pair),
        supersessions.list_superseding(tx, tenant_id, [pair.memory_id]),
    )
    if judged.reason is not None:
        raise Conflict(_AGAINST[judged.reason])
    return judged


def list_supersessions(
    tenant_id: UUID,
    status: Status | None,
    memory_id: UUID | None,
    before: Place | None,
    limit: int,
) -> Page[StoredSupersession]:
    """List supersessions, newest first; see `store.supersessions.list_supersessions`.

    Raises:
        NotFound: This tenant has no such memory.
    """
    kept = None if memory_id is None else lookup.get(tenant_id, memory_id).memory_id
    with database.tenant(tenant_id) as tx:
        return supersessions.list_supersessions(tx, tenant_id, status, kept, before, limit)


def approve_supersession(tenant_id: UUID, supersession_id: UUID, actor: str) -> StoredSupersession:
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
            _checked(tx, tenant_id, SupersessionPair(found.memory_id, found.superseded_id))
            supersessions.set_status(tx, tenant_id, supersession_id, "active", None, actor)
            audit_superseded(tx, tenant_id, [found.superseded_id], found.source, actor)
        return _get_or_404(tx, tenant_id, supersession_id)


def reject_supersession(tenant_id: UUID, supersession_id: UUID, actor: str) -> StoredSupersession:
    """Reject a proposed supersession so that it isn't proposed again; a rejected one remains unchanged.

    Raises:
        NotFound: This tenant has no such supersession.
        Conflict: It is active or waiting; use `undo_supersession` to revoke it.
    """
    with database.tenant(tenant_id) as tx:
        found = _locked(tx, tenant_id, supersession_id)
        if found.status in ("active", "waiting"):
            raise Conflict("this supersession isn't a proposal: take it back, by DELETE /v1/supersessions/{id}")
        if found.status == "proposed":
            _reject(tx, tenant_id, found, "declined", actor)
        return _get_or_404(tx, tenant_id, supersession_id)


def undo_supersession(tenant_id: UUID, supersession_id: UUID, actor: str) -> None:
    """Revoke a supersession: the older memory is current again unless another memory supersedes it.

    A model doesn't propose the pair again, but a caller or person can state it again. A waiting name is deleted.

    Raises:
        NotFound: This tenant has no such supersession.
    """
    with database.tenant(tenant_id) as tx:
        found = _locked(tx, tenant_id, supersession_id)
        if found.status == "waiting":
            supersessions.drop_name(tx, tenant_id, supersession_id)
        elif found.status != "rejected":
            _reject(tx, tenant_id, found, "undone", actor)


def _reject(tx: database.Transaction, tenant_id: UUID, found: StoredSupersession, reason: str, actor: str) -> None:
    supersessions.set_status(tx, tenant_id, found.supersession_id, "rejected", reason, actor)
    ids = [found.superseded_id] if found.superseded_id else []
    details = {"source": found.source, "reason": reason}
    audit.append(tx, tenant_id, "supersession_rejected", actor, ids=ids, details=details)


def _locked(tx: database.Transaction, tenant_id: UUID, supersession_id: UUID) -> StoredSupersession:
    supersessions.lock(tx, tenant_id)
    return _get_or_404(tx, tenant_id, supersession_id)


def _get_or_404(tx: database.Transaction, tenant_id: UUID, supersession_id: UUID) -> StoredSupersession:
    return require_found(supersessions.get(tx, tenant_id, supersession_id), "supersession")


def resolve_statements(tenant_id: UUID) -> int:
    """Try to resolve the names that have waited longest; return the number of memories superseded by this."""
    with database.tenant(tenant_id) as tx:
        supersessions.lock(tx, tenant_id)
        waiting = supersessions.claim_waiting(tx, tenant_id, SLICE_ROWS)
        superseded = _resolve_waiting(tx, tenant_id, waiting, database.now(tx)) if waiting else []
        audit_superseded(tx, tenant_id, superseded, "caller")
        return len(superseded)
