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
    """Restore the archived ones among these memories, which counts as a use; others aren't changed.

    Locks all of their states in id order. Call this after anything that locks rows of `memories`, and before anything
    that locks embedding spaces or words. Restored memories are searchable by words at once, and by meaning once they
    are embedded again: nudge `queues.EMBED_MEMORIES` after the commit. See `MemoryWrite.restored` for the arguments.

    Returns:
        The restored memories, in id order.
    """
    locked = states.lock(write.tx, write.tenant_id, memory_ids)
    archived = set(
        archive.filter_archived(write.tx, write.tenant_id, locked.ids)
    )  # after locking, so that they can't be moved
    if not archived:
        return []
    locked = locked.only(np.flatnonzero([memory_id in archived for memory_id in locked.ids]))
    used, era, now = record_use(write.tx, write.tenant_id, locked)
    _restore_rows(write, used, np.arange(len(used)), era, now)
    write.restored(used.ids, "archived", rule, actor)
    return used.ids


def record_use(tx: database.Transaction, tenant_id: UUID, locked: StoredStates) -> tuple[StoredStates, Era, float]:
    """Record a use, now, of locked memories. Return them after the use, with the policy in force and the time."""
    now = database.now(tx).timestamp()
    times = memory_strength.load_timeline(tx, tenant_id)
    era = times.at(now)
    held = memory_strength.advance_to_era(locked, times, now)
    used = replace(held, state=era.dynamics.reinforce(held.state, Event(at=now, now=now)))
    memory_strength.write_uses(tx, tenant_id, used, era, now)
    return used, era, now


def restore_used(
    write: MemoryWrite, used: StoredStates, rows: npt.NDArray[np.intp], era: Era, now: float
) -> StoredStates:
    """Restore the archived ones among memories whose use has been written.

    Args:
        write: A transaction that has locked the rows.
        used: Memories after the use, in this era.
        rows: Indices of the memories that were used; the others aren't changed.
        era: The era at `now`.
        now: Seconds since 1970.

    Returns:
        All of `used`, with the new strength of restored memories.
    """
    after, back = _restore_rows(write, used, rows, era, now)
    write.restored(back, "archived", "use")
    return after


def _restore_rows(
    write: MemoryWrite, used: StoredStates, rows: npt.NDArray[np.intp], era: Era, now: float
) -> tuple[StoredStates, list[UUID]]:
    tx, tenant_id = write.tx, write.tenant_id
    archived = set(archive.filter_archived(tx, tenant_id, [used.ids[row] for row in rows]))
    places = np.array([row for row in rows if used.ids[row] in archived], np.intp)
    if not places.size:
        return used, []
    back = used.only(places)
    there = embedding_spaces.lock_tenant_spaces(tx, tenant_id)
    lacking = archive.restore_rows(tx, tenant_id, there.searched.space_id if there else None, back.ids)
    lifted = record_reactivation(tx, tenant_id, back, "archived", era, now)
    write.queue([work_queue.EMBED], lacking)
    word_index.index_words(tx, tenant_id, back.ids, era.policy.language, era.policy.time_zone)
    failpoints.trigger("restore.before_commit")
    columns = {field.name: getattr(used.state, field.name).copy() for field in fields(used.state)}
    for name, column in columns.items():
        column[places] = getattr(lifted.state, name)
    return replace(used, state=Row(**columns)), back.ids


def record_reactivation(
    tx: database.Transaction, tenant_id: UUID, back: StoredStates, source: str, era: Era, now: float
) -> StoredStates:
    """Record that memories are active again with a strength of at least `STRENGTH`, also in their histories.

    The caller updates the search indexes. In mnemex, a multiplier of 0 leaves no strength.

    Args:
        tx: The tenant's transaction, which has locked the rows.
        back: Memories after a use, in this era.
        source: Their former tier.
        era: The era at `now`.
        now: Seconds since 1970.
    """
    before = era.dynamics.strength(back.state, now)
    raised = era.dynamics.at_strength(back.state, now, np.maximum(before, STRENGTH))
    lifted = replace(back, state=choose(before < STRENGTH, raised, back.state))
    states.write_anchors(tx, tenant_id, lifted, era.version)
    tiers.restore(tx, tenant_id, lifted.ids, now)
    strength = era.dynamics.strength(lifted.state, now)
    history.add(tx, tenant_id, "restored", lifted.ids, EventChange(now, DECAY_TIERS.index(source), 0, strength))
    return lifted
