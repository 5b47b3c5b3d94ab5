"""Restore supersessions of memories whose erasure was cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from app.domain.consolidation.supersession import Reason, SupersessionPair, judge_pairs
from app.store.consolidation import hidden_supersessions, supersessions
from app.store.core import database


def restore_for_erasure(tx: database.Transaction, tenant_id: UUID, erasure_id: UUID) -> None:
    """Restore the supersessions that an erasure hid, now that it is cancelled.

    Supersessions that would now form a cycle or connect memories of different subjects are rejected.

    Args:
        tx: The tenant's transaction, in which the memories are visible again and the word index's lock is taken.
    """
    _judge(tx, tenant_id, hidden_supersessions.show_again(tx, tenant_id, erasure_id))


def restore_for_memory(tx: database.Transaction, tenant_id: UUID, memory_id: UUID) -> None:
    """Restore the supersessions of a memory that is visible again although the erasure that hid it continues."""
    _judge(tx, tenant_id, hidden_supersessions.show_again_of(tx, tenant_id, memory_id))


def _judge(tx: database.Transaction, tenant_id: UUID, back: Sequence[SupersessionPair]) -> None:
    pairs = sorted(back, reverse=True)  # newest first
    ends = supersessions.read_ends(tx, tenant_id, {end for pair in pairs for end in pair})
    above = supersessions.list_superseding(tx, tenant_id, {pair.memory_id for pair in pairs}).difference(pairs)
    refused: dict[Reason, list[SupersessionPair]] = {}
    for outcome in judge_pairs(pairs, ends, above):
        if outcome.reason is not None and outcome.reason != "source":  # a lower source is no reason to reject it now
            refused.setdefault(outcome.reason, []).append(outcome.pair)
    for reason, refused_pairs in refused.items():
        hidden_supersessions.reject_restored(tx, tenant_id, refused_pairs, reason)
