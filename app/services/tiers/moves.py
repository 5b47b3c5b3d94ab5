"""Moves between tiers: which memories are due for one, decided again with their rows locked, and noting it.

A move is one step down. Whoever carries it out does so in the transaction that took the batch, or checks in a later one
that nothing has changed; and notes it last.
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
from app.domain.privacy.audit import SYSTEM, Detail
from app.domain.tiers.lifecycle import EXPIRY, RULES, Decision, Standing
from app.domain.tiers.tiers import DECAY_TIERS, Seen
from app.services.security import audit
from app.services.strength import strengths
from app.store.core import database
from app.store.memories import events, tenant_counts
from app.store.memories.events import Change
from app.store.memories.tenant_counts import Counts
from app.store.privacy import holds
from app.store.strength import states
from app.store.strength.states import Held, Looks
from app.store.tiers import cold, expiring, standings, tier_moves, tiers
from app.store.tiers.tier_moves import Move


@dataclass(frozen=True, slots=True)
class Due:
    """Memories of one tier that shall be in a lower one, locked; every array has shape (n,), in the order of `held`.

    Attributes:
        held: Brought to the era of `now`.
        standing: What speaks for or against them.
        seen: Strength and importance.
        decision: Where they shall be, and the rule.
        era: The policy in force.
        now: The moment it was decided for, in seconds since 1970.
        looked_at: How many were looked at; those that may stay after all were let go.
    """

    held: Held
    standing: Standing
    seen: Seen
    decision: Decision
    era: Era
    now: float
    looked_at: int

    def only(self, places: npt.NDArray[np.intp]) -> Due:
        """Those at these places alone."""
        return Due(
            self.held.only(places),
            self.standing.take(places),
            Seen(*(column[places] for column in self.seen)),
            Decision(*(column[places] for column in self.decision)),
            self.era,
            self.now,
            self.looked_at,
        )


def take(tx: database.Transaction, tenant_id: UUID, source: str, limit: int, as_of: datetime | None = None) -> Due:
    """Lock memories of a tier that were wanted in a lower one, and decide again; those that may stay are let go.

    Those that somebody else has locked are passed over.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        source: The tier that they are in, of `DECAY_TIERS`.
        limit: Most of them.
        as_of: Up to now; None for now.
    """
    holds.share(tx, tenant_id)
    return _decided(tx, tenant_id, states.lock_unmoved(tx, tenant_id, source, limit), as_of)


def take_expired(
    tx: database.Transaction, tenant_id: UUID, after: UUID, limit: int, as_of: datetime | None = None
) -> tuple[Due, UUID | None]:
    """Lock memories that were wanted gone, in any tier, and give those that have expired; the others are left as noted.

    Those that somebody else has locked are passed over.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        after: Where the page before has ended.
        limit: Most that are looked at.
        as_of: Up to now; None for now.

    Returns:
        Those, and where this page has ended; None where it was the last.
    """
    holds.share(tx, tenant_id)
    held = expiring.lock(tx, tenant_id, after, limit)
    due = _judged(tx, tenant_id, held, as_of)
    return due.only(np.flatnonzero(due.decision.rules == EXPIRY)), held.ids[-1] if len(held) == limit else None


def judge(tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], as_of: datetime | None = None) -> Due:
    """The decision about these memories, whatever it is, with their rows locked in the order of locks."""
    there = cold.lock(tx, tenant_id, memory_ids, wait=True)
    return _judged(tx, tenant_id, states.lock(tx, tenant_id, there), as_of)


def retake(
    tx: database.Transaction, tenant_id: UUID, memory_ids: Sequence[UUID], source: str, as_of: datetime | None = None
) -> Due:
    """The same of memories that an earlier transaction has taken, their rows in `memories` locked too.

    Those that are no longer in that tier, or that somebody else has locked, are left out.

    Args:
        tx: The tenant's transaction.
        tenant_id: The tenant.
        memory_ids: What was taken.
        source: The tier that they were in.
        as_of: As it was then.
    """
    holds.share(tx, tenant_id)
    free = cold.lock(tx, tenant_id, memory_ids, wait=False)
    due = _decided(tx, tenant_id, states.lock(tx, tenant_id, free), as_of)
    return due.only(np.flatnonzero(due.standing.tiers == DECAY_TIERS.index(source)))


def _decided(tx: database.Transaction, tenant_id: UUID, held: Held, as_of: datetime | None) -> Due:
    due = _judged(tx, tenant_id, held, as_of)
    goes: npt.NDArray[np.bool_] = (due.decision.tiers > due.standing.tiers) & ~_later(due)
    _let_go(tx, tenant_id, due.only(np.flatnonzero(~goes)))
    return due.only(np.flatnonzero(goes))


def _judged(tx: database.Transaction, tenant_id: UUID, held: Held, as_of: datetime | None) -> Due:
    times = strengths.timeline(tx, tenant_id)  # after the locks: what came meanwhile counts
    now = (as_of or database.now(tx)).timestamp()
    era = times.at(now)
    held = strengths.brought(held, times, now)
    standing = standings.read(tx, tenant_id, held.ids, era.policy.rules)
    seen, decision = strengths.decided(era, held.state, now, standing)
    return Due(held, standing, seen, decision, era, now, len(held))


def _later(due: Due) -> npt.NDArray[np.bool_]:
    """Which aren't moved now: those ahead of that moment, and what has expired, which goes by the step of its own."""
    later: npt.NDArray[np.bool_] = _ahead(due) | (due.decision.rules == EXPIRY)
    return later


def _ahead(due: Due) -> npt.NDArray[np.bool_]:
    """Which were used or brought to a later policy after that moment: what happened stays happened."""
    ahead: npt.NDArray[np.bool_] = (due.held.versions > due.era.version) | (due.held.state.anchored_at > due.now)
    return ahead


def _let_go(tx: database.Transaction, tenant_id: UUID, staying: Due) -> None:
    if staying.held.ids:
        when = strengths.due_at(staying.era, staying.held.state, staying.now, staying.seen, staying.standing)
        when[_later(staying)] = -np.inf  # the next sweep looks at it again
        states.write_looks(tx, tenant_id, staying.held.ids, Looks(staying.standing.tiers, when))


def note(
    tx: database.Transaction, tenant_id: UUID, moved: Due, target: Literal["archived", "cold"], text_bytes: int = 0
) -> None:
    """Enter that memories are in another tier now, into their histories, the tenant's numbers and its audit.

    Args:
        tx: The tenant's transaction; it locks nothing after this.
        tenant_id: The tenant.
        moved: From one tier, or several.
        target: The tier that they are in now.
        text_bytes: By how much the database holds more text of them now; less than 0 where it was taken away.
    """
    if not moved.held.ids:
        return
    place = DECAY_TIERS.index(target)
    tiers.write(tx, tenant_id, moved.held.ids, target)
    change = Change(moved.now, moved.standing.tiers, np.full(len(moved.held), place), moved.seen.strength)
    events.add(tx, tenant_id, "tier", moved.held.ids, change)
    sources = {tier: int(np.sum(moved.standing.tiers == DECAY_TIERS.index(tier))) for tier in DECAY_TIERS}
    fewer = Counts(sources["active"], sources["archived"], sources["cold"])
    more = Counts(**{target: len(moved.held)}) if target in Counts._fields else Counts()
    tenant_counts.add(tx, tenant_id, more.less(fewer)._replace(text_bytes=text_bytes))
    tier_moves.add(tx, tenant_id, by_rule(target, moved.decision))
    details: dict[str, Detail] = {"to": target, **{f"from_{tier}": count for tier, count in sources.items() if count}}
    audit.enter(tx, tenant_id, "tier_moved", ids=moved.held.ids, details=details)


def by_rule(move: Move, decision: Decision) -> Counter[tuple[Move, str]]:
    """How many memories a move is of, by the rule that has decided."""
    return Counter((move, RULES[rule]) for rule in decision.rules.tolist())


def note_restored(
    tx: database.Transaction,
    tenant_id: UUID,
    memory_ids: Sequence[UUID],
    source: str,
    *,
    text_bytes: int = 0,
    rule: str = "use",
    actor: str = SYSTEM,
) -> None:
    """Enter that memories of a tier are active again into the tenant's numbers and its audit.

    Args:
        tx: The tenant's transaction; it locks nothing after this.
        tenant_id: The tenant.
        memory_ids: None of them was active.
        source: The tier that they come from, `archived` or `cold`.
        text_bytes: By how much the database holds more text of them now.
        rule: Why, a fixed word: `use`, `edit` or `hand`.
        actor: Id of the key that asked for it; `SYSTEM` where they were used.
    """
    if memory_ids:
        count = len(memory_ids)
        change = Counts(**{source: -count})._replace(active=count, text_bytes=text_bytes)
        tenant_counts.add(tx, tenant_id, change)
        tier_moves.add(tx, tenant_id, {("restored", rule): count})
        audit.enter(tx, tenant_id, "memories_restored", actor, ids=memory_ids, details={"from": source})
