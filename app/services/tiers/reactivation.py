"""Restore archived memories as soon as they are used, with a grace period before they can be archived again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Final
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app import failpoints
from app.domain.dynamics.state import Event, Row, choose
from app.domain.dynamics.timeline import Era
from app.domain.privacy.audit_chain import SYSTEM
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.services.storage.memory_write import MemoryWrite
from app.services.strength import memory_strength
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.enrichment import word_index, work_queue
from app.store.memories import history
from app.store.memories.history import EventChange
from app.store.strength import states
from app.store.strength.states import StoredStates
from app.store.tiers import archive, tiers

STRENGTH: Final = 0.45
"""Minimum strength of a restored memory; a weaker one would be archived again after its grace period."""


def restore(write: MemoryWrite, memory_ids: Sequence[UUID], rule: str, actor: str | None = SYSTEM) -> list[UUID]:
    """Restore the archived memories among these, and record a use of each; the other memories aren't changed.

    Locks the states of all these memories in id order. Lock order: call this after statements that lock rows of
    `memories`, and before statements that lock embedding spaces or the word index. Restored memories are searchable by
    words at once, and by meaning after they have been embedded again: nudge `queues.EMBED_MEMORIES` after the commit.
    See `MemoryWrite.restored` for the arguments.

    Returns:
        The restored memories, in id order.
    """
    locked = states.lock(write.tx, write.tenant_id, memory_ids)
    archived = set(
        archive.filter_archived(write.tx, write.tenant_id, locked.ids)
    )  # after locking, so that no concurrent move can change the tiers
    if not archived:
        return []
    locked = locked.only(np.flatnonzero([memory_id in archived for memory_id in locked.ids]))
    used, era, now = record_use(write.tx, write.tenant_id, locked)
    _restore_rows(write, used, np.arange(len(used)), era, now)
    write.restored(used.ids, "archived", rule, actor)
    return used.ids


def record_use(tx: database.Transaction, tenant_id: UUID, locked: StoredStates) -> tuple[StoredStates, Era, float]:
    """Record a use of locked memories now. Return their new states, the era in force and the time of the use."""
    now = database.now(tx).timestamp()
    times = memory_strength.load_timeline(tx, tenant_id)
    era = times.at(now)
    current = memory_strength.advance_to_era(locked, times, now)
    used = replace(current, state=era.dynamics.reinforce(current.state, Event(at=now, now=now)))
    memory_strength.write_uses(tx, tenant_id, used, era, now)
    return used, era, now


def restore_used(
    write: MemoryWrite, used: StoredStates, rows: npt.NDArray[np.intp], era: Era, now: float
) -> StoredStates:
    """Restore the archived memories among those whose use has just been recorded.

    Args:
        write: A memory write that has locked the rows.
        used: States after the use, in this era.
        rows: Indices of the memories that were used; the other memories aren't changed.
        era: The era at `now`.
        now: Seconds since 1970.

    Returns:
        All of `used`, with the raised strength of the restored memories.
    """
    after, restored_ids = _restore_rows(write, used, rows, era, now)
    write.restored(restored_ids, "archived", "use")
    return after


def _restore_rows(
    write: MemoryWrite, used: StoredStates, rows: npt.NDArray[np.intp], era: Era, now: float
) -> tuple[StoredStates, list[UUID]]:
    tx, tenant_id = write.tx, write.tenant_id
    archived = set(archive.filter_archived(tx, tenant_id, [used.ids[row] for row in rows]))
    restored_rows = np.array([row for row in rows if used.ids[row] in archived], np.intp)
    if not restored_rows.size:
        return used, []
    restored = used.only(restored_rows)
    spaces = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
    missing = archive.restore_rows(tx, tenant_id, spaces.searched.space_id if spaces else None, restored.ids)
    raised = record_reactivation(tx, tenant_id, restored, "archived", era, now)
    write.queue([work_queue.EMBED], missing)
    word_index.index_words(tx, tenant_id, restored.ids, era.policy.language, era.policy.time_zone)
    failpoints.trigger("restore.before_commit")
    columns = {field.name: getattr(used.state, field.name).copy() for field in fields(used.state)}
    for name, column in columns.items():
        column[restored_rows] = getattr(raised.state, name)
    return replace(used, state=Row(**columns)), restored.ids


def record_reactivation(
    tx: database.Transaction, tenant_id: UUID, back: StoredStates, source: str, era: Era, now: float
) -> StoredStates:
    """Record that memories are active again with a strength of at least `STRENGTH`, also in their histories.

    The caller updates the search indexes. In the mnemex model, a memory whose multiplier is 0 has no strength, even
    after this call.

    Args:
        tx: The tenant's transaction, which has locked the rows.
        back: States after the use, in this era.
        source: Their former tier.
        era: The era at `now`.
        now: Seconds since 1970.

    Returns:
        The states with the raised strengths.
    """
    before = era.dynamics.strength(back.state, now)
    raised = era.dynamics.at_strength(back.state, now, np.maximum(before, STRENGTH))
    reactivated = replace(back, state=choose(before < STRENGTH, raised, back.state))
    states.write_anchors(tx, tenant_id, reactivated, era.version)
    tiers.restore(tx, tenant_id, reactivated.ids, now)
    strength = era.dynamics.strength(reactivated.state, now)
    history.add(tx, tenant_id, "restored", reactivated.ids, EventChange(now, DECAY_TIERS.index(source), 0, strength))
    return reactivated
