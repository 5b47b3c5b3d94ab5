"""Why a memory is kept where it is, and when that can next be another place by itself."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import numpy as np

from app.domain import why
from app.domain.dynamics.state import FAR_SECONDS, State
from app.domain.dynamics.timeline import Era
from app.domain.lifecycle import RULES, Standing
from app.domain.tiers import DECAY_TIERS
from app.domain.why import Case
from app.errors import Unavailable
from app.services import memories, strengths
from app.services.memories import Missing, Pending
from app.store import database, standings, states

LOOKS_MOST: Final = 1_000
"""How often the future is looked into: a model in ticks has one a few ticks."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about a memory.

    Attributes:
        tier: Where it shall be kept, of `DECAY_TIERS`.
        rule: What decided, of `lifecycle.RULES`.
        why: In words and numbers.
    """

    tier: str
    rule: str
    why: str


@dataclass(frozen=True, slots=True)
class Explained:
    """Why a memory is kept where it is.

    Attributes:
        tier: Where it is.
        verdict: Where it shall be; the night moves it.
        case: The numbers that were used.
        change_at: When another place comes by itself, unless it is used; None for never, or not within sight.
        change: What comes then.
    """

    memory_id: UUID
    as_of: datetime
    tier: str
    verdict: Verdict
    case: Case
    change_at: datetime | None
    change: Verdict | None


def of(tenant_id: UUID, memory_id: UUID, as_of: datetime | None = None) -> Explained:
    """The decision about a memory at a moment.

    Args:
        tenant_id: The tenant.
        memory_id: The memory, by its own id or one that stands for it.
        as_of: Any moment; None for now. Before the last change of the memory, it is as it was then.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: It is still in the queue.
    """
    found = memories.get(tenant_id, memory_id)
    if isinstance(found, Pending):
        raise Unavailable("this memory is still in the queue", retry_after_seconds=1)
    with memories.stored_only(tenant_id, memory_id), database.tenant(tenant_id) as tx:
        held = states.read(tx, tenant_id, [found.memory_id])
        if not held.ids:
            raise Missing
        times = strengths.timeline(tx, tenant_id)
        asked = (as_of or database.now(tx)).timestamp()
        now = max(asked, float(held.state.anchored_at[0]), float(times.since(held.versions)[0]))
        era = times.at(now)
        standing = standings.read(tx, tenant_id, held.ids, era.policy.protection)
    state = strengths.brought(held, times, now).state
    verdict, case = _judged(era, state, standing, now)
    change_at, change = _next(era, state, standing, now, verdict.tier)
    moment = datetime.fromtimestamp(now, UTC)
    tier = DECAY_TIERS[standing.tiers[0]]
    return Explained(found.memory_id, moment, tier, verdict, case, change_at, change)


def _judged(era: Era, state: State, standing: Standing, now: float) -> tuple[Verdict, Case]:
    seen, decision = strengths.decided(era, state, now, standing)
    [words] = why.reasons(era.policy.rules, standing, state, now, seen, decision)
    [case] = why.cases(standing, state, now, seen)
    return Verdict(DECAY_TIERS[decision.tiers[0]], RULES[decision.rules[0]], words), case


def _next(era: Era, state: State, standing: Standing, now: float, tier: str) -> tuple[datetime | None, Verdict | None]:
    """The first other place that comes by itself, looked for where anything can happen."""
    for _ in range(LOOKS_MOST):
        seen = strengths.look(era, state, now)
        now = float(strengths.due_at(era, state, now, seen, standing)[0])
        if not np.isfinite(now) or now > FAR_SECONDS:
            break
        if np.isfinite(era.dynamics.refresh_seconds):
            state = era.dynamics.advance(state, now)
        verdict, _ = _judged(era, state, standing, now)
        if verdict.tier != tier:
            return datetime.fromtimestamp(now, UTC), verdict
    return None, None
