"""Dry runs of what notes or moves tiers: what would change at a moment, page by page, and why. Nothing is written."""

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
from app.domain.tiers import why
from app.domain.tiers.lifecycle import RULES, Decision, Standing
from app.domain.tiers.tiers import DECAY_TIERS, Seen
from app.services.strength import strengths
from app.store.core import database
from app.store.enrichment.work import NIL
from app.store.strength import pages
from app.store.strength.pages import Wanted
from app.store.strength.states import Held
from app.store.tiers import standings

ROWS: Final = 5000
SECONDS: Final = 2.0

Tiers: TypeAlias = npt.NDArray[np.int8]
"""Places in `DECAY_TIERS`, shape (n,)."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a dry run is of.

    Attributes:
        tiers: Those that it moves memories to.
        among: The memories that it looks at, by the version of the policy.
        ends: The tiers of each before it and after it; what has the same in both is left as it is.
    """

    tiers: Sequence[str]
    among: Callable[[database.Transaction, UUID, int], Wanted]
    ends: Callable[[Held, Standing, Decision], tuple[Tiers, Tiers]]


@dataclass(frozen=True, slots=True)
class Move:
    """A memory that changes its tier, or the one that it is wanted in.

    Attributes:
        before: Of `DECAY_TIERS`.
        after: Of `DECAY_TIERS`.
        rule: What decided, of `RULES`.
        why: In words and numbers.
    """

    memory_id: UUID
    before: str
    after: str
    rule: str
    why: str


class Preview(NamedTuple):
    """A page of what would change.

    Attributes:
        moves: In id order.
        counts: Of this page: memories `looked_at`, and by tier those that would come to it.
        following: Where the next page begins; None for the last.
        summaries: What becomes of summaries of what goes: gone too, or made again in the tier where they are.
    """

    moves: list[Move]
    counts: dict[str, int]
    following: UUID | None
    summaries: Sequence[Move] = ()


def preview(
    work: Work,
    tenant_id: UUID,
    as_of: datetime | None,
    after: UUID | None,
    limit: int,
    *,
    behind: Sequence[Work] = (),
) -> Preview:
    """What a piece of work at a moment would change, without changing it; nothing is locked.

    Args:
        work: What it is of.
        tenant_id: The tenant.
        as_of: Any moment; one that is yet to come, as if nothing happened until then. None for now.
        after: The last id of the page before.
        limit: Most changes in a page; a page that would take longer than `SECONDS` has fewer.
        behind: Work of the same night that is done before it, in order: what that moves is where it comes to.
    """
    until = time.monotonic() + SECONDS
    moves: list[Move] = []
    counts: Counter[str] = Counter(dict.fromkeys(("looked_at", *work.tiers), 0))
    after = after or NIL
    while True:
        looked, found, after, ended = _slice(work, behind, tenant_id, as_of, after, limit - len(moves))
        moves += found
        counts["looked_at"] += looked
        counts.update(move.after for move in found)
        if ended or len(moves) == limit or time.monotonic() >= until:
            return Preview(moves, dict(counts), None if ended else after)


def _slice(
    work: Work, behind: Sequence[Work], tenant_id: UUID, as_of: datetime | None, after: UUID, limit: int
) -> tuple[int, list[Move], UUID, bool]:
    """How many were looked at, the moves, the last of them, and whether there are no more."""
    with database.tenant(tenant_id) as tx:
        now = (as_of or database.now(tx)).timestamp()
        times = strengths.timeline(tx, tenant_id)
        era = times.at(now)
        among: Wanted = "unsettled" if behind else work.among(tx, tenant_id, era.version)
        held = pages.page_of(tx, tenant_id, among, now, era.version, after=after, limit=ROWS)
        standing = standings.read(tx, tenant_id, held.ids, era.policy.rules)
    state = strengths.brought(held, times, now).state
    seen, decision = strengths.decided(era, state, now, standing)
    for each in behind:
        standing = replace(standing, tiers=each.ends(held, standing, decision)[1])
    sources, targets = work.ends(held, standing, decision)
    moved = np.flatnonzero(sources != targets)
    ended, looked = len(held) < ROWS, len(held)
    if len(moved) > limit:
        moved = moved[:limit]
        ended, looked = False, int(moved[-1]) + 1
    decided = Decision(decision.tiers[moved], decision.rules[moved])
    part = Seen(seen.strength[moved], seen.importance[moved])
    told = why.reasons(era.policy.rules, standing.take(moved), take(state, moved), now, part, decided)
    moves = [
        Move(held.ids[row], DECAY_TIERS[sources[row]], DECAY_TIERS[targets[row]], RULES[decision.rules[row]], reason)
        for row, reason in zip(moved, told, strict=True)
    ]
    return looked, moves, held.ids[looked - 1] if looked else after, ended
