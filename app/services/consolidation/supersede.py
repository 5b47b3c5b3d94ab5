"""Supersession: a memory takes the place of another, by its caller's word, a person's, or a model's that is approved.

What is named and isn't stored yet waits for its memory, and is looked for again whenever something is superseded, and
at night.
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
from app.services.memories import memories
from app.services.security import audit
from app.store.consolidation import supersessions as rows
from app.store.consolidation.supersessions import Relation, Waiting
from app.store.core import database
from app.store.memories import links

SLICE_ROWS: Final = 500

_AGAINST: Final = {
    "cycle": "that memory supersedes this one already, itself or through others",
    "subject": "the two memories are about different subjects",
}


def note(tx: database.Transaction, tenant_id: UUID, wanted: Mapping[UUID, Sequence[str]]) -> list[UUID]:
    """Enter what callers have said of stored memories: which others they supersede.

    A name that isn't known yet waits; a pair that can't be is entered as rejected. Nothing is refused here: the
    memories were accepted long ago.

    Args:
        tx: The tenant's transaction, which has taken the words' lock if it does.
        tenant_id: The tenant.
        wanted: Names by the newer memory's id.

    Returns:
        What isn't current any more, for `enter`.
    """
    if not any(wanted.values()):
        return []
    rows.lock(tx, tenant_id)
    now = database.now(tx)
    given = [Waiting(memory_id, name, now) for memory_id, names in wanted.items() for name in names]
    return _settle(tx, tenant_id, [*rows.take_waiting(tx, tenant_id, SLICE_ROWS), *given], now)


def enter(
    tx: database.Transaction, tenant_id: UUID, superseded: Sequence[UUID], source: Source, actor: str = SYSTEM
) -> None:
    """Audit that memories aren't current any more; last in a transaction, as every entry."""
    if superseded:
        audit.enter(tx, tenant_id, "memories_superseded", actor, ids=superseded, details={"source": source})


def _settle(tx: database.Transaction, tenant_id: UUID, waiting: Sequence[Waiting], now: datetime) -> list[UUID]:
    """Turn names into pairs as far as their memories are there; the others wait on. Returns what is superseded now."""
    meant = rows.meant(tx, tenant_id, {each.named for each in waiting})
    ends = {end.memory_id: end for end in meant.values()} | rows.ends(tx, tenant_id, {each[0] for each in waiting})
    # What came after it was named isn't what was meant.
    known = [
        each
        for each in waiting
        if each.named in meant and (each.made_at == now or meant[each.named].created_at <= each.made_at)
    ]
    pairs = [Pair(each.memory_id, meant[each.named].memory_id) for each in known if each.memory_id in ends]
    judged = judge(pairs, ends, rows.above(tx, tenant_id, {pair.memory_id for pair in pairs}))
    rows.wait(tx, tenant_id, [each for each in waiting if each not in known and each.memory_id in ends])
    return [pair.superseded_id for pair in rows.put(tx, tenant_id, judged, "active", "caller")]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one `supersedes`.

    Attributes:
        memory_id: The newer memory.
        superseded_id: The older one; None while its name waits.
        named: The name, while it waits.
        why: In words.
    """

    memory_id: UUID
    superseded_id: UUID | None
    named: str | None
    status: Status
    reason: Reason | None
    why: str


def outcomes(tenant_id: UUID, memory_ids: Sequence[UUID]) -> list[Outcome]:
    """Return the outcome of each `supersedes` of these memories, refused and waiting ones included.

    Args:
        tenant_id: The tenant.
        memory_ids: Any ids that were answered for them.
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
    """Enter what a model has found, as proposals, or at once where that is approved. Returns how many are new."""
    rows.lock(tx, tenant_id)
    ends = rows.ends(tx, tenant_id, {end for pair in pairs for end in pair})
    there = [pair for pair in pairs if pair.memory_id in ends and pair.superseded_id in ends]
    above = rows.above(tx, tenant_id, {pair.memory_id for pair in there})
    judged = [each for each in judge(there, ends, above) if each.reason is None]
    at_once = [each for each in judged if each.pair in approved]
    proposed = rows.put(tx, tenant_id, [each for each in judged if each.pair not in approved], "proposed", "model")
    put = rows.put(tx, tenant_id, at_once, "active", "model")
    enter(tx, tenant_id, [pair.superseded_id for pair in put], "model")
    return len(proposed) + len(put)


def make(tenant_id: UUID, memory: str, supersedes: str, actor: str) -> Relation:
    """Let a memory supersede another because a person says so; what is so already stays.

    Raises:
        Invalid: They are the same.
        NotFound: This tenant has no such memory.
        Unavailable: One of them is still in the queue.
        Conflict: They are about different subjects, or the older one supersedes the newer.
    """
    with database.tenant(tenant_id) as tx:
        rows.lock(tx, tenant_id)
        meant = rows.meant(tx, tenant_id, (memory, supersedes))
        missing = next((name for name in (memory, supersedes) if name not in meant), None)
        if missing is None:
            pair = Pair(meant[memory].memory_id, meant[supersedes].memory_id)
            if pair.memory_id == pair.superseded_id:
                raise Invalid(errors=[FieldError("supersedes", "is the memory itself")])
            put = rows.put(tx, tenant_id, [_checked(tx, tenant_id, pair)], "active", "person")
            enter(tx, tenant_id, [each.superseded_id for each in put], "person", actor)
            return rows.of(tx, tenant_id, pair)
    # The transaction is over: the queue is asked outside of it.
    raise _missing(tenant_id, "memory" if missing == memory else "supersedes", missing)


def _missing(tenant_id: UUID, field: str, name: str) -> NotFound | Unavailable:
    try:
        memories.get(tenant_id, UUID(name))
    except (ValueError, NotFound):
        error = FieldError(field, "names no memory of this tenant", name)
        return NotFound("this tenant has no such memory", errors=[error])
    return Unavailable("a memory that is named is still in the queue", retry_after_seconds=1)


def _checked(tx: database.Transaction, tenant_id: UUID, pair: Pair) -> Judged:
    """A pair of which the newer one may supersede the other; else a `Conflict`."""
    [judged] = judge([pair], rows.ends(tx, tenant_id, pair), rows.above(tx, tenant_id, [pair.memory_id]))
    if judged.reason is not None:
        raise Conflict(_AGAINST[judged.reason])
    return judged


def page(
    tenant_id: UUID,
    status: Status | None,
    memory_id: UUID | None,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Relation]:
    """Supersessions, those made last first; arguments as `store.supersessions.page`'s.

    Raises:
        NotFound: This tenant has no such memory.
    """
    kept = None if memory_id is None else memories.get(tenant_id, memory_id).memory_id
    with database.tenant(tenant_id) as tx:
        return rows.page(tx, tenant_id, status, kept, before, limit)


def approve(tenant_id: UUID, supersession_id: UUID, actor: str) -> Relation:
    """Let a supersession hold that was proposed, or rejected; one that holds stays as it is.

    Raises:
        NotFound: This tenant has none of this id.
        Conflict: It waits for its memory, or can't hold: because of others, or of the memories' subjects.
    """
    with database.tenant(tenant_id) as tx:
        found = _locked(tx, tenant_id, supersession_id)
        if found.superseded_id is None:
            raise Conflict("this supersession waits for a memory that isn't stored yet: it holds as soon as it is")
        if found.status != "active":
            _checked(tx, tenant_id, Pair(found.memory_id, found.superseded_id))
            rows.decide(tx, tenant_id, supersession_id, "active", None, actor)
            enter(tx, tenant_id, [found.superseded_id], found.source, actor)
        return _found(tx, tenant_id, supersession_id)


def reject(tenant_id: UUID, supersession_id: UUID, actor: str) -> Relation:
    """Refuse what was proposed; it isn't proposed again. What was rejected stays as it is.

    Raises:
        NotFound: This tenant has none of this id.
        Conflict: It holds, or waits: `undo` is what takes that back.
    """
    with database.tenant(tenant_id) as tx:
        found = _locked(tx, tenant_id, supersession_id)
        if found.status in ("active", "waiting"):
            raise Conflict("this supersession isn't a proposal: take it back, by DELETE /v1/supersessions/{id}")
        if found.status == "proposed":
            _reject(tx, tenant_id, found, "declined", actor)
        return _found(tx, tenant_id, supersession_id)


def undo(tenant_id: UUID, supersession_id: UUID, actor: str) -> None:
    """Take a supersession back: the older memory is current again, unless something else supersedes it.

    A model doesn't propose it again; its caller or a person may say it again. A name that waits is forgotten.

    Raises:
        NotFound: This tenant has none of this id.
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
    audit.enter(tx, tenant_id, "supersession_rejected", actor, ids=ids, details=details)


def _locked(tx: database.Transaction, tenant_id: UUID, supersession_id: UUID) -> Relation:
    rows.lock(tx, tenant_id)
    return _found(tx, tenant_id, supersession_id)


def _found(tx: database.Transaction, tenant_id: UUID, supersession_id: UUID) -> Relation:
    found = rows.get(tx, tenant_id, supersession_id)
    if found is None:
        raise NotFound("this tenant has no such supersession")
    return found


def settle(tenant_id: UUID) -> int:
    """Look again for the memories of the names that wait longest. Returns for how many they were found."""
    with database.tenant(tenant_id) as tx:
        rows.lock(tx, tenant_id)
        waiting = rows.take_waiting(tx, tenant_id, SLICE_ROWS)
        superseded = _settle(tx, tenant_id, waiting, database.now(tx)) if waiting else []
        enter(tx, tenant_id, superseded, "caller")
        return len(superseded)
