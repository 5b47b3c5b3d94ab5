"""Dry runs of tier changes: list page by page what would change at a given time, and why. Read-only."""

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
    """The kind of work that a dry run simulates.

    Attributes:
        tiers: Tiers that it moves memories to.
        among: Returns the memories that it examines, by policy version.
        ends: Returns each memory's tier before and after; equal tiers mean no change.
    """

    tiers: Sequence[str]
    among: Callable[[database.Transaction, UUID, int], Wanted]
    ends: Callable[[StoredStates, TierFacts, Decision], tuple[Tiers, Tiers]]


@dataclass(frozen=True, slots=True)
class PredictedMove:
    """A memory whose tier, or due tier, would change.

    Attributes:
        before: One of `DECAY_TIERS`.
        after: One of `DECAY_TIERS`.
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
        moves: In id order.
        counts: Number of memories `looked_at` on this page, and of moves by target tier.
        following: Cursor of the next page; None for the last.
        summaries: Summaries of deleted memories: deleted as well, or regenerated in their current tier.
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
    """Return what a piece of work would change at a given time, without changing or locking anything.

    Args:
        work: The work to simulate.
        as_of: Any time; future times assume that nothing happens until then. None for now.
        after: Last id of the previous page.
        limit: Maximum number of changes on a page; a page that takes longer than `SECONDS` has fewer.
        behind: Work done earlier in the same night, in order; the memories that it moves are in their new tiers.
    """
    until = time.monotonic() + SECONDS
    moves: list[PredictedMove] = []
    counts: Counter[str] = Counter(dict.fromkeys(("looked_at", *work.tiers), 0))
    after = after or NIL
    while True:
        looked, found, after, ended = _preview_slice(work, behind, tenant_id, as_of, after, limit - len(moves))
        moves += found
        counts["looked_at"] += looked
        counts.update(move.after for move in found)
        if ended or len(moves) == limit or time.monotonic() >= until:
            return PreviewPage(moves, dict(counts), None if ended else after)


def _preview_slice(
    work: DryRunKind, behind: Sequence[DryRunKind], tenant_id: UUID, as_of: datetime | None, after: UUID, limit: int
) -> tuple[int, list[PredictedMove], UUID, bool]:
    """Return the number of memories examined, the moves, the last id examined, and whether this was the last slice."""
    with database.tenant(tenant_id) as tx:
        now = (as_of or database.now(tx)).timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        era = times.at(now)
        among: Wanted = "unsettled" if behind else work.among(tx, tenant_id, era.version)
        held = due_pages.list_page(tx, tenant_id, among, now, era.version, after=after, limit=ROWS)
        standing = protections.read(tx, tenant_id, held.ids, era.policy.rules)
    state = memory_strength.advance_to_era(held, times, now).state
    seen, decision = memory_strength.decide_tiers(era, state, now, standing)
    for each in behind:
        standing = replace(standing, tiers=each.ends(held, standing, decision)[1])
    sources, targets = work.ends(held, standing, decision)
    moved = np.flatnonzero(sources != targets)
    ended, looked = len(held) < ROWS, len(held)
    if len(moved) > limit:
        moved = moved[:limit]
        ended, looked = False, int(moved[-1]) + 1
    decided = Decision(decision.tiers[moved], decision.rules[moved])
    part = CurrentStrength(seen.strength[moved], seen.importance[moved])
    told = explanation.explain_decisions(
        era.policy.rules, standing.select(moved), take(state, moved), now, part, decided
    )
    moves = [
        PredictedMove(
            held.ids[row], DECAY_TIERS[sources[row]], DECAY_TIERS[targets[row]], RULES[decision.rules[row]], reason
        )
        for row, reason in zip(moved, told, strict=True)
    ]
    return looked, moves, held.ids[looked - 1] if looked else after, ended
