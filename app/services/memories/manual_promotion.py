"""Promote and demote a memory on request, which the audit log records."""

from __future__ import annotations

from uuid import UUID

from app.domain.rounding import round_for_people
from app.domain.strength.promotion import REASONS, Criterion, list_unmet, promotion_reasons
from app.errors import Conflict, FieldError, require_found
from app.services.storage import lookup
from app.services.storage.memory_write import MemoryWrite, memory_write, queue_notes
from app.services.strength import memory_strength
from app.services.strength.promotion import write_flags
from app.store.core import database
from app.store.memories import history, memories
from app.store.memories.history import EventChange
from app.store.memories.memories import StoredMemory
from app.store.strength import promotion, states
from app.store.strength.promotion import NewFlag
from app.store.tiers import tiers

_NAMES = {"score": "its score", "uses": "its number of uses", "age_days": "its age in days"}


def promote(tenant_id: UUID, memory_id: UUID, actor: str, *, force: bool = False) -> StoredMemory:
    """Promote a memory and return it; a memory that is already promoted remains unchanged.

    A legal hold doesn't prevent a promotion, because a promotion loses no data.

    Args:
        memory_id: The memory's id or an alias of it.
        actor: Id of the requesting key.
        force: Promote it even if it doesn't meet the criteria.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the queue.
        Conflict: The memory doesn't meet the criteria; the errors name them with value and limit.
    """
    with lookup.stored_only(tenant_id, memory_id), memory_write(tenant_id, "state") as write:
        tx = write.tx
        stored_id = lookup.lock(tx, tenant_id, memory_id)
        locked = states.lock(tx, tenant_id, [stored_id])
        now = database.now(tx).timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        era = times.at(now)
        held = memory_strength.advance_to_era(locked, times, now)
        found = require_found(memories.get(tx, tenant_id, stored_id), "memory")
        if found.promoted_at is not None:
            return found
        [reason] = promotion_reasons(era.dynamics, held.state, now).tolist()
        if not reason and not force:
            raise _unmet(list_unmet(era.dynamics, held.state, now))
        strength = float(era.dynamics.strength(held.state, now)[0])
        write_flags(tx, tenant_id, {stored_id: NewFlag(reason or "manual", strength)}, now, by_hand=True)
        tiers.mark_due(tx, tenant_id, [stored_id])
        queue_notes(tx, tenant_id)
        write.audit("memory_promoted", actor, ids=[stored_id], details={"for": reason or "manual"})
        return require_found(memories.get(tx, tenant_id, stored_id), "memory")


def demote(tenant_id: UUID, memory_id: UUID, actor: str) -> StoredMemory:
    """Demote a memory and return it; only `promote` promotes it again. A memory that isn't promoted remains unchanged.

    Args:
        memory_id: The memory's id or an alias of it.
        actor: Id of the requesting key.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the queue.
    """
    with lookup.stored_only(tenant_id, memory_id), memory_write(tenant_id, "state") as write:
        tx = write.tx
        stored_id = lookup.lock(tx, tenant_id, memory_id)
        _clear(write, stored_id, actor)
        return require_found(memories.get(tx, tenant_id, stored_id), "memory")


def _clear(write: MemoryWrite, stored_id: UUID, actor: str) -> None:
    tx, tenant_id = write.tx, write.tenant_id
    locked = states.lock(tx, tenant_id, [stored_id])
    now = database.now(tx).timestamp()
    reason = promotion.clear_flag(tx, tenant_id, stored_id, now)
    if reason is None:
        return
    times = memory_strength.load_timeline(tx, tenant_id)
    held = memory_strength.advance_to_era(locked, times, now)
    code, strength = REASONS.index(reason), times.at(now).dynamics.strength(held.state, now)
    history.add(tx, tenant_id, "demoted", [stored_id], EventChange(now, code, code, strength))
    tiers.mark_due(tx, tenant_id, [stored_id])
    queue_notes(tx, tenant_id)
    write.audit("memory_demoted", actor, ids=[stored_id], details={"for": reason})


def _unmet(criteria: list[Criterion]) -> Conflict:
    """Return the error for a memory that doesn't meet the criteria."""
    described = "; ".join(
        f"{_NAMES[each.name]}, {round_for_people(each.value, 3)}, is {round_for_people(each.gap, 3)} "
        f"{'above' if each.value > each.limit else 'below'} {round_for_people(each.limit, 3)}"
        for each in criteria
    )
    errors = [FieldError(each.name, each.message, round(each.value, 3), each.limit) for each in criteria]
    return Conflict(f"this memory isn't promoted: {described}. `force` promotes it all the same", errors=errors)
