"""List the tier changes that a job would make at a given time, page by page and with reasons, without writing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.state import take
from app.domain.tiers import explanation
from app.domain.tiers.decay_tier import DECAY_TIERS, CurrentStrength
from app.domain.tiers.tier_decision import RULES, Decision, TierFacts
from app.services.strength import memory_strength
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.strength import due_pages
from app.store.strength.due_pages import Wanted
from app.store.strength.states import StoredStates
from app.store.tiers import protections

ROWS: Final = 5000
SECONDS: Final = 2.0

Tiers: TypeAlias = npt.NDArray[np.int8]
"""Indices into `DECAY_TIERS`, shape (n,)."""


@dataclass(frozen=True, slots=True)
class DryRunKind:
    """The kind of work that a dry run simulates, such as archiving.

    Attributes:
        tiers: Tiers to which the work moves memories.
        among: Returns the selection of memories that the work examines, for a policy version.
        ends: Returns the memories' tiers before and after the work; equal tiers mean no change.
    """

    tiers: Sequence[str]
    among: Callable[[database.Transaction, UUID, int], Wanted]
    ends: Callable[[StoredStates, TierFacts, Decision], tuple[Tiers, Tiers]]


@dataclass(frozen=True, slots=True)
class PredictedMove:
    """A memory whose tier, or due tier, would change.

    Attributes:
        before: The current tier, or due tier, one of `DECAY_TIERS`.
        after: The tier after the work, one of `DECAY_TIERS`.
        rule: The deciding rule, one of `RULES`.
        why: The reason in words and numbers.
    """

    memory_id: UUID
    before: str
    after: str
    rule: str
    why: str


class PreviewPage(NamedTuple):
    """A page of changes.

    Attributes:
        moves: The predicted moves, in id order.
        counts: Number of memories examined for this page (`looked_at`), and number of moves by target tier.
        following: Cursor of the next page; None for the last.
        summaries: Summaries of deleted memories, which are deleted as well or regenerated in their current tier.
    """

    moves: list[PredictedMove]
    counts: dict[str, int]
    following: UUID | None
    summaries: Sequence[PredictedMove] = ()


def preview_moves(
    work: DryRunKind,
    tenant_id: UUID,
    as_of: datetime | None,
    after: UUID | None,
    limit: int,
    *,
    behind: Sequence[DryRunKind] = (),
) -> PreviewPage:
    """Return the changes that this work would make at a given time, without changing or locking anything.

    Args:
        work: The work to simulate.
        as_of: Any time; for a future time, memories are assumed not to be used or changed until then. None for now.
        after: Last id of the previous page.
        limit: Maximum number of changes on a page; a page whose search takes longer than `SECONDS` has fewer.
        behind: Work that runs earlier in the same night, in order; its moves are assumed to have been made.
    """
    until = time.monotonic() + SECONDS
    moves: list[PredictedMove] = []
    counts: Counter[str] = Counter(dict.fromkeys(("looked_at", *work.tiers), 0))
    after = after or NIL
    while True:
        examined, slice_moves, after, is_last = _preview_slice(
            work, behind, tenant_id, as_of, after, limit - len(moves)
        )
        moves += slice_moves
        counts["looked_at"] += examined
        counts.update(move.after for move in slice_moves)
        if is_last or len(moves) == limit or time.monotonic() >= until:
            return PreviewPage(moves, dict(counts), None if is_last else after)


def _preview_slice(
    work: DryRunKind, behind: Sequence[DryRunKind], tenant_id: UUID, as_of: datetime | None, after: UUID, limit: int
) -> tuple[int, list[PredictedMove], UUID, bool]:
    """Return the number of memories examined, the moves, the last id examined, and whether this was the last slice."""
    with database.tenant(tenant_id) as tx:
        now = (as_of or database.now(tx)).timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        era = times.at(now)
        among: Wanted = "unsettled" if behind else work.among(tx, tenant_id, era.version)
        stored = due_pages.list_page(tx, tenant_id, among, now, era.version, after=after, limit=ROWS)
        facts = protections.read(tx, tenant_id, stored.ids, era.policy.rules)
    state = memory_strength.advance_to_era(stored, times, now).state
    strengths, decision = memory_strength.decide_tiers(era, state, now, facts)
    for earlier in behind:
        facts = replace(facts, tiers=earlier.ends(stored, facts, decision)[1])
    sources, targets = work.ends(stored, facts, decision)
    moved = np.flatnonzero(sources != targets)
    is_last, examined = len(stored) < ROWS, len(stored)
    if len(moved) > limit:
        moved = moved[:limit]
        is_last, examined = False, int(moved[-1]) + 1
    moved_decision = Decision(decision.tiers[moved], decision.rules[moved])
    moved_strengths = CurrentStrength(strengths.strength[moved], strengths.importance[moved])
    reasons = explanation.explain_decisions(
        era.policy.rules, facts.select(moved), take(state, moved), now, moved_strengths, moved_decision
    )
    moves = [
        PredictedMove(
            stored.ids[row], DECAY_TIERS[sources[row]], DECAY_TIERS[targets[row]], RULES[decision.rules[row]], reason
        )
        for row, reason in zip(moved, reasons, strict=True)
    ]
    return examined, moves, stored.ids[examined - 1] if examined else after, is_last
