"""Select memories due for another tier, repeat the decision with their rows locked, and record the move.

A move takes a memory one tier down. It is made in the transaction that selected the memories, or in a later transaction
that first verifies that nothing has changed. `record_moves` is called last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.timeline import Era
from app.domain.privacy.audit_chain import Detail
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength
from app.domain.tiers.tier_decision import EXPIRY, RULES, Decision, TierFacts
from app.services.storage.memory_write import MemoryWrite
from app.services.strength import memory_strength
from app.store.core import database
from app.store.memories import history
from app.store.memories.history import EventChange
from app.store.memories.tenant_counts import TierCounts
from app.store.strength import states
from app.store.strength.states import EvaluationResults, StoredStates
from app.store.tiers import cold_segments, expiry, protections
from app.store.tiers.tier_moves import Move


@dataclass(frozen=True, slots=True)
class DueMemories:
    """Locked memories of one tier that are due for a lower one; every array has shape (n,), in the order of `held`.

    Attributes:
        held: Their states, advanced to the era of `now`.
        standing: Facts other than strength that decide their tier.
        seen: Their strength and importance at `now`.
        decision: Target tiers and the deciding rules.
        era: The policy in force.
        now: Reference time of the decision, in seconds since 1970.
        looked_at: Number of memories examined, including memories that remain in their tier.
    """

    held: StoredStates
    standing: TierFacts
    seen: CurrentStrength
    decision: Decision
    era: Era
    now: float
    looked_at: int

    def only(self, places: npt.NDArray[np.intp]) -> DueMemories:
        """Return the entries at these indices."""
        return DueMemories(
            self.held.only(places),
            self.standing.select(places),
            CurrentStrength(*(column[places] for column in self.seen)),
            Decision(*(column[places] for column in self.decision)),
            self.era,
            self.now,
            self.looked_at,
        )


def claim_due(write: MemoryWrite, source: str, limit: int, as_of: datetime | None = None) -> DueMemories:
    """Lock memories marked for a lower tier, repeat the decision, and unmark the memories that remain in their tier.

    Memories locked by other transactions are skipped.

    Args:
        write: A memory write of level `tier`.
        source: Their current tier, one of `DECAY_TIERS`.
        as_of: Reference time; None for now.
    """
    tx, tenant_id = write.tx, write.tenant_id
    return _decide_due(tx, tenant_id, states.lock_unmoved(tx, tenant_id, source, limit), as_of)


def lock_expired(
    write: MemoryWrite, after: UUID, limit: int, as_of: datetime | None = None
) -> tuple[DueMemories, UUID | None]:
    """Lock memories marked for deletion in any tier, and return the expired ones; the other memories remain marked.

    Memories locked by other transactions are skipped.

    Args:
        write: A memory write of level `tier`.
        after: Last id of the previous page.
        limit: Maximum number of memories to examine.
        as_of: Reference time; None for now.

    Returns:
        The expired memories, and the last id of this page; None for the last page.
    """
    stored = expiry.lock(write.tx, write.tenant_id, after, limit)
    due = _judge_locked(write.tx, write.tenant_id, stored, as_of)
    return due.only(np.flatnonzero(due.decision.rules == EXPIRY)), stored.ids[-1] if len(stored) == limit else None


def judge_memories(
    tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], as_of: datetime | None = None
) -> DueMemories:
    """Lock the rows of these memories in the lock order, and return the decisions on all of them."""
    locked_ids = cold_segments.lock(tx, tenant_id, memory_ids, wait=True)
    return _judge_locked(tx, tenant_id, states.lock(tx, tenant_id, locked_ids), as_of)


def judge_again(
    write: MemoryWrite, memory_ids: Sequence[UUID], source: str, as_of: datetime | None = None
) -> DueMemories:
    """Repeat the decision on memories selected by an earlier transaction, and also lock their rows in `memories`.

    Memories that have left the tier or are locked by other transactions are omitted.

    Args:
        write: A memory write of level `tier`.
        memory_ids: The selected memories.
        source: The tier that they were in, one of `DECAY_TIERS`.
        as_of: Reference time of the earlier decision.
    """
    tx, tenant_id = write.tx, write.tenant_id
    locked_ids = cold_segments.lock(tx, tenant_id, memory_ids, wait=False)
    due = _decide_due(tx, tenant_id, states.lock(tx, tenant_id, locked_ids), as_of)
    return due.only(np.flatnonzero(due.standing.tiers == DECAY_TIERS.index(source)))


def _decide_due(tx: database.Transaction, tenant_id: UUID, held: StoredStates, as_of: datetime | None) -> DueMemories:
    due = _judge_locked(tx, tenant_id, held, as_of)
    is_moving: npt.NDArray[np.bool_] = (due.decision.tiers > due.standing.tiers) & ~_is_deferred(due)
    _reset_due_tier(tx, tenant_id, due.only(np.flatnonzero(~is_moving)))
    return due.only(np.flatnonzero(is_moving))


def _judge_locked(tx: database.Transaction, tenant_id: UUID, held: StoredStates, as_of: datetime | None) -> DueMemories:
    times = memory_strength.load_timeline(tx, tenant_id)  # after locking, to include newly added policies
    now = (as_of or database.now(tx)).timestamp()
    era = times.at(now)
    held = memory_strength.advance_to_era(held, times, now)
    facts = protections.read(tx, tenant_id, held.ids, era.policy.rules)
    strengths, decision = memory_strength.decide_tiers(era, held.state, now, facts)
    return DueMemories(held, facts, strengths, decision, era, now, len(held))


def _is_deferred(due: DueMemories) -> npt.NDArray[np.bool_]:
    """Return a mask of the memories that aren't moved now: used or rebased after the reference time, or expired.

    Later changes are never reverted. The expiry job deletes expired memories.
    """
    ahead = (due.held.versions > due.era.version) | (due.held.state.anchored_at > due.now)
    return np.asarray(ahead | (due.decision.rules == EXPIRY))


def _reset_due_tier(tx: database.Transaction, tenant_id: UUID, staying: DueMemories) -> None:
    if staying.held.ids:
        when = memory_strength.due_at(staying.era, staying.held.state, staying.now, staying.seen, staying.standing)
        when[_is_deferred(staying)] = -np.inf  # the next sweep re-evaluates them
        states.write_looks(tx, tenant_id, staying.held.ids, EvaluationResults(staying.standing.tiers, when))


def record_moves(
    write: MemoryWrite, moved: DueMemories, target: Literal["archived", "cold"], text_bytes: int = 0
) -> None:
    """Record that memories have moved to another tier, also in their histories and in the audit log.

    Args:
        write: A memory write that has locked the rows.
        moved: The moved memories, which may come from several tiers.
        target: Their new tier.
        text_bytes: Change in the size of their texts in the database, in bytes; negative if text was removed.
    """
    if not moved.held.ids:
        return
    target_index = DECAY_TIERS.index(target)
    event = EventChange(moved.now, moved.standing.tiers, np.full(len(moved.held), target_index), moved.seen.strength)
    history.add(write.tx, write.tenant_id, "tier", moved.held.ids, event)
    sources = {tier: int(np.sum(moved.standing.tiers == DECAY_TIERS.index(tier))) for tier in DECAY_TIERS}
    removed = TierCounts(sources["active"], sources["archived"], sources["cold"])
    added = TierCounts(**{target: len(moved.held)}, text_bytes=text_bytes)
    write.move(moved.held.ids, target, added.less(removed), count_by_rule(target, moved.decision))
    details: dict[str, Detail] = {"to": target, **{f"from_{tier}": count for tier, count in sources.items() if count}}
    write.audit("tier_moved", ids=moved.held.ids, details=details)


def count_by_rule(move: Move, decision: Decision) -> Counter[tuple[Move, str]]:
    """Return the number of moved memories by deciding rule."""
    return Counter((move, RULES[rule]) for rule in decision.rules.tolist())
