"""Record that a memory supersedes another one, as a caller or a person stated, or as a model proposed.

A statement may name a memory that isn't stored yet: the name then waits. Waiting names are resolved whenever a
supersession is recorded, and nightly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from app.domain.changes.types import RESTORED, SUPERSEDED
from app.domain.consolidation.supersession import (
    PairOutcome,
    Reason,
    Source,
    Status,
    SupersessionPair,
    explain_outcome,
    judge_pairs,
)
from app.domain.ingest.sources import Writer, is_lower
from app.domain.privacy.audit_chain import SYSTEM
from app.errors import Conflict, FieldError, Invalid, require_found
from app.services.security import audit
from app.services.storage import lookup
from app.store.changes import feed
from app.store.consolidation import supersessions
from app.store.consolidation.supersessions import StoredSupersession, WaitingName
from app.store.core import database
from app.store.core.paging import Page, Place
from app.store.memories import links

SLICE_ROWS: Final = 500

_AGAINST: Final[dict[Reason | None, str]] = {
    "cycle": "the older memory already supersedes the newer one, directly or through other memories",
    "subject": "the two memories are about different subjects",
}
_LOWER: Final = (
    "the source of this API key ({}) is lower than that of the {} memory ({}): {} the supersession in the dashboard, "
    "or with a key of the source {}"
)


def record_statements(tx: database.Transaction, tenant_id: UUID, wanted: Mapping[UUID, Sequence[str]]) -> list[UUID]:
    """Record callers' statements that stored memories supersede other memories.

    Unknown names wait; impossible pairs are recorded as rejected. No error is raised, since the memories were already
    accepted.

    Args:
        tx: The tenant's transaction. Lock order: take the word index's lock, if needed, before calling this.
        wanted: Names of the superseded memories, by id of the memory that supersedes them.

    Returns:
        Ids of the memories that are no longer current; the caller writes their audit entry (`audit_superseded`).
    """
    if not any(wanted.values()):
        return []
    supersessions.lock(tx, tenant_id)
    now = database.now(tx)
    stated = [WaitingName(memory_id, name, now) for memory_id, names in wanted.items() for name in names]
    return _resolve_waiting(tx, tenant_id, [*supersessions.claim_waiting(tx, tenant_id, SLICE_ROWS), *stated], now)


def audit_superseded(
    tx: database.Transaction, tenant_id: UUID, superseded: Sequence[UUID], source: Source, actor: str = SYSTEM
) -> None:
    """Record in the change feed and the audit log that memories are superseded; call this last in a transaction."""
    if superseded:
        feed.record(tx, tenant_id, SUPERSEDED, superseded)
        audit.append(tx, tenant_id, "memories_superseded", actor, ids=superseded, details={"source": source})


def _resolve_waiting(
    tx: database.Transaction, tenant_id: UUID, waiting: Sequence[WaitingName], now: datetime
) -> list[UUID]:
    """Resolve waiting names into pairs and return the ids of the superseded memories; other names continue to wait."""
    resolved = supersessions.resolve_names(tx, tenant_id, {entry.named for entry in waiting})
    ends = {end.memory_id: end for end in resolved.values()} | supersessions.read_ends(
        tx, tenant_id, {entry[0] for entry in waiting}
    )
    # A statement can't name a memory that was accepted after it. A memory accepted before it may be stored only now.
    resolvable = [
        entry
        for entry in waiting
        if entry.named in resolved and (entry.made_at == now or resolved[entry.named].created_at <= entry.made_at)
    ]
    pairs = [
        SupersessionPair(entry.memory_id, resolved[entry.named].memory_id)
        for entry in resolvable
        if entry.memory_id in ends
    ]
    outcomes = judge_pairs(
        pairs, ends, supersessions.list_superseding(tx, tenant_id, {pair.memory_id for pair in pairs})
    )
    supersessions.insert_waiting(
        tx,
        tenant_id,
        [entry for entry in waiting if entry not in resolvable and entry.memory_id in ends],
    )
    return [pair.superseded_id for pair in supersessions.upsert_pairs(tx, tenant_id, outcomes, "active", "caller")]


@dataclass(frozen=True, slots=True)
class SupersessionOutcome:
    """The outcome of one `supersedes` statement.

    Attributes:
        memory_id: The newer memory.
        superseded_id: The older memory; None while its name waits.
        named: The older memory's name while it waits; None afterwards.
        why: Explanation for people.
    """

    memory_id: UUID
    superseded_id: UUID | None
    named: str | None
    status: Status
    reason: Reason | None
    why: str


def list_outcomes(tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[SupersessionOutcome]:
    """Return the outcome of each `supersedes` statement of these memories, including refused and waiting ones.

    Args:
        memory_ids: Any ids returned for the memories, aliases included.
    """
    with database.tenant(tenant_id) as tx:
        stored = links.resolve_ids(tx, tenant_id, memory_ids)
        statements = supersessions.list_statements(tx, tenant_id, sorted(set(stored.values())))
    return [
        SupersessionOutcome(
            statement.memory_id,
            statement.superseded_id,
            statement.named,
            statement.status,
            statement.reason,
            explain_outcome(statement.status, statement.reason, statement.made_at),
        )
        for statement in statements
    ]


def propose_pairs(
    tx: database.Transaction, tenant_id: UUID, pairs: Sequence[SupersessionPair], approved: Sequence[SupersessionPair]
) -> int:
    """Record a model's pairs as proposals, or as active if approved; return the number of new pairs.

    Approval doesn't include pairs whose newer memory has a lower source than the older one.
    """
    supersessions.lock(tx, tenant_id)
    ends = supersessions.read_ends(tx, tenant_id, {end for pair in pairs for end in pair})
    stored_pairs = [pair for pair in pairs if pair.memory_id in ends and pair.superseded_id in ends]
    above = supersessions.list_superseding(tx, tenant_id, {pair.memory_id for pair in stored_pairs})
    outcomes = [outcome for outcome in judge_pairs(stored_pairs, ends, above) if outcome.reason in (None, "source")]
    approved_outcomes = [outcome for outcome in outcomes if outcome.pair in approved and outcome.reason is None]
    proposed = supersessions.upsert_pairs(
        tx, tenant_id, [outcome for outcome in outcomes if outcome not in approved_outcomes], "proposed", "model"
    )
    activated = supersessions.upsert_pairs(tx, tenant_id, approved_outcomes, "active", "model")
    audit_superseded(tx, tenant_id, [pair.superseded_id for pair in activated], "model")
    return len(proposed) + len(activated)


def make_supersession(tenant_id: UUID, memory: str, supersedes: str, writer: Writer) -> StoredSupersession:
    """Record that one memory supersedes another, as a caller requests; an active supersession remains unchanged.

    If the caller's source is lower than that of the older memory, the supersession is only proposed.

    Raises:
        Invalid: Both names refer to the same memory.
        NotFound: This tenant has no such memory.
        Unavailable: One of the memories is still in the ingest queue.
        Conflict: Their subjects differ, or the older memory already supersedes the newer one.
    """
    with database.tenant(tenant_id) as tx:
        supersessions.lock(tx, tenant_id)
        resolved = supersessions.resolve_names(tx, tenant_id, (memory, supersedes))
        missing = next((name for name in (memory, supersedes) if name not in resolved), None)
        if missing is None:
            pair = SupersessionPair(resolved[memory].memory_id, resolved[supersedes].memory_id)
            if pair.memory_id == pair.superseded_id:
                raise Invalid(errors=[FieldError("supersedes", "is the memory itself")])
            activated = supersessions.upsert_pairs(
                tx, tenant_id, [_checked(tx, tenant_id, pair, writer.source)], "active", "person"
            )
            audit_superseded(
                tx,
                tenant_id,
                [activated_pair.superseded_id for activated_pair in activated],
                "person",
                writer.key_id or SYSTEM,
            )
            return supersessions.get_relation(tx, tenant_id, pair)
    # The transaction has ended: no transaction may be open while the queue is queried.
    field = "memory" if missing == memory else "supersedes"
    raise lookup.explain_missing(tenant_id, field, missing, "that is named")


def _checked(tx: database.Transaction, tenant_id: UUID, pair: SupersessionPair, source: str) -> PairOutcome:
    """Return the outcome for a pair whose newer memory may supersede the older one.

    Args:
        source: The deciding caller's source; if it is lower than the older memory's, the pair is only proposed. A
            caller with a high source may decide in favour of a memory with a low one.

    Raises:
        Conflict: Their subjects differ, or the older memory already supersedes the newer one.
    """
    ends = supersessions.read_ends(tx, tenant_id, pair)
    [outcome] = judge_pairs(
        [pair],
        ends,
        supersessions.list_superseding(tx, tenant_id, [pair.memory_id]),
    )
    if outcome.reason in _AGAINST:
        raise Conflict(_AGAINST[outcome.reason])
    return replace(outcome, reason="source" if is_lower(source, ends[pair.superseded_id].source) else None)


def list_supersessions(
    tenant_id: UUID,
    status: Status | None,
    memory_id: UUID | None,
    before: Place | None,
    limit: int,
) -> Page[StoredSupersession]:
    """List supersessions, newest first; see `store.consolidation.supersessions.list_supersessions`.

    Raises:
        NotFound: This tenant has no such memory.
    """
    stored_id = None if memory_id is None else lookup.get(tenant_id, memory_id).memory_id
    with database.tenant(tenant_id) as tx:
        return supersessions.list_supersessions(tx, tenant_id, status, stored_id, before, limit)


def get(tenant_id: UUID, supersession_id: UUID) -> StoredSupersession:
    """Return a supersession.

    Raises:
        NotFound: This tenant has no such supersession.
    """
    with database.tenant(tenant_id) as tx:
        return _get_or_404(tx, tenant_id, supersession_id)


def approve_supersession(tenant_id: UUID, supersession_id: UUID, writer: Writer) -> StoredSupersession:
    """Activate a proposed or rejected supersession; an active one remains unchanged.

    Raises:
        NotFound: This tenant has no such supersession.
        Conflict: Its older memory isn't stored yet or already supersedes the newer one, their subjects differ, or
            the caller's source is lower than the older memory's.
    """
    with database.tenant(tenant_id) as tx:
        stored = _locked(tx, tenant_id, supersession_id)
        if stored.superseded_id is None:
            raise Conflict(
                "this supersession names a memory that isn't stored yet: it becomes active once the memory is stored"
            )
        if stored.status != "active":
            pair = SupersessionPair(stored.memory_id, stored.superseded_id)
            _checked(tx, tenant_id, pair, writer.source)
            _check_source(tx, tenant_id, stored.superseded_id, writer, "approve", "older")
            actor = writer.key_id or SYSTEM
            supersessions.set_status(tx, tenant_id, supersession_id, "active", None, actor)
            audit_superseded(tx, tenant_id, [stored.superseded_id], stored.source, actor)
        return _get_or_404(tx, tenant_id, supersession_id)


def reject_supersession(tenant_id: UUID, supersession_id: UUID, writer: Writer) -> StoredSupersession:
    """Reject a proposed supersession so that it isn't proposed again; a rejected one remains unchanged.

    Raises:
        NotFound: This tenant has no such supersession.
        Conflict: It is active or waiting; use `undo_supersession` to revoke it. Or the caller's source is lower than
            the newer memory's.
    """
    with database.tenant(tenant_id) as tx:
        stored = _locked(tx, tenant_id, supersession_id)
        if stored.status in ("active", "waiting"):
            raise Conflict(
                f"only a proposal can be rejected, but this supersession is {stored.status}: "
                "undo it with DELETE /v1/supersessions/{id}"
            )
        if stored.status == "proposed":
            _check_source(tx, tenant_id, stored.memory_id, writer, "reject", "newer")
            _reject(tx, tenant_id, stored, "declined", writer.key_id or SYSTEM)
        return _get_or_404(tx, tenant_id, supersession_id)


def undo_supersession(tenant_id: UUID, supersession_id: UUID, writer: Writer) -> None:
    """Revoke a supersession: the older memory is current again unless another memory supersedes it.

    A model doesn't propose the pair again, but a caller or person can state it again. A waiting name is deleted.

    Raises:
        NotFound: This tenant has no such supersession.
        Conflict: The caller's source is lower than the newer memory's.
    """
    with database.tenant(tenant_id) as tx:
        stored = _locked(tx, tenant_id, supersession_id)
        if stored.status == "rejected":
            return
        _check_source(tx, tenant_id, stored.memory_id, writer, "undo", "newer")
        if stored.status == "waiting":
            supersessions.drop_name(tx, tenant_id, supersession_id)
        else:
            _reject(tx, tenant_id, stored, "undone", writer.key_id or SYSTEM)


def _check_source(
    tx: database.Transaction, tenant_id: UUID, memory_id: UUID, writer: Writer, action: str, end: str
) -> None:
    """Check that a caller's source isn't lower than that of the memory against which the caller decides.

    Raises:
        Conflict: It is lower.
    """
    source = supersessions.read_ends(tx, tenant_id, [memory_id])[memory_id].source
    if is_lower(writer.source, source):
        raise Conflict(_LOWER.format(writer.source, end, source, action, source))


def _reject(tx: database.Transaction, tenant_id: UUID, found: StoredSupersession, reason: str, actor: str) -> None:
    supersessions.set_status(tx, tenant_id, found.supersession_id, "rejected", reason, actor)
    ids = [found.superseded_id] if found.superseded_id else []
    if found.status == "active":
        feed.record(tx, tenant_id, RESTORED, ids)
    details = {"source": found.source, "reason": reason}
    audit.append(tx, tenant_id, "supersession_rejected", actor, ids=ids, details=details)


def _locked(tx: database.Transaction, tenant_id: UUID, supersession_id: UUID) -> StoredSupersession:
    supersessions.lock(tx, tenant_id)
    return _get_or_404(tx, tenant_id, supersession_id)


def _get_or_404(tx: database.Transaction, tenant_id: UUID, supersession_id: UUID) -> StoredSupersession:
    return require_found(supersessions.get(tx, tenant_id, supersession_id), "supersession")


def resolve_statements(tenant_id: UUID) -> int:
    """Resolve the names that have waited longest, if possible; return the number of memories that became superseded."""
    with database.tenant(tenant_id) as tx:
        supersessions.lock(tx, tenant_id)
        waiting = supersessions.claim_waiting(tx, tenant_id, SLICE_ROWS)
        superseded = _resolve_waiting(tx, tenant_id, waiting, database.now(tx)) if waiting else []
        audit_superseded(tx, tenant_id, superseded, "caller")
        return len(superseded)
