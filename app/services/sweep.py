"""The sweep: memories whose next moment has come are looked at, and those alone.

Strength is a function of time, so it doesn't matter how often or how late this runs: a sweep notes what decay asks
for at a moment, and when to look again.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np

from app.domain import why
from app.domain.dynamics.state import take
from app.domain.jobs import Job, Step
from app.domain.lifecycle import RULES, Decision
from app.domain.tiers import DECAY_TIERS, Seen
from app.errors import FieldError, Invalid
from app.services import rebase, strengths
from app.store import database, standings, states
from app.store.states import Wanted
from app.store.work import NIL

KIND: Final = "sweep"
ROWS: Final = 5000
PREVIEW_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Move:
    """A memory that is wanted in another tier.

    Attributes:
        before: The tier that it was wanted in when it was last looked at, of `DECAY_TIERS`.
        after: The one that it is wanted in.
        rule: What decided, of `RULES`.
        why: In words and numbers.
    """

    memory_id: UUID
    before: str
    after: str
    rule: str
    why: str


class Preview(NamedTuple):
    """A page of what a sweep or a rebase would change.

    Attributes:
        moves: In id order.
        counts: Of this page: memories `looked_at`, and by tier those that it would be asked for anew.
        following: Where the next page begins; None for the last.
    """

    moves: list[Move]
    counts: dict[str, int]
    following: UUID | None


def parameters(as_of: datetime | None) -> dict[str, Any]:
    """What a job of maintenance is told.

    Raises:
        Invalid: The moment is yet to come, and what hasn't happened can't be written.
    """
    if as_of is None:
        return {}
    with database.shared() as tx:
        if as_of > database.now(tx):
            raise Invalid(errors=[FieldError("as_of", "is yet to come: only a dry_run can look ahead")])
    return {"as_of": as_of.isoformat()}


def sweep(tenant_id: UUID, as_of: datetime | None = None, limit: int = ROWS) -> tuple[int, Counter[str]]:
    """Note where memories shall be kept at a moment, for a slice of the memories that are due. Call again until 0.

    Args:
        tenant_id: The tenant.
        as_of: Up to now; None for now, which each call then takes anew.
        limit: Most memories.

    Returns:
        How many were looked at, and the tiers that are wanted anew, each with its count.
    """
    with database.tenant(tenant_id) as tx:
        now = (as_of or database.now(tx)).timestamp()
        times = strengths.timeline(tx, tenant_id)
        held = states.lock_due(tx, tenant_id, now, times.at(now).version, limit)
        return len(held), strengths.settle(tx, tenant_id, held, times, now)


def preview(
    tenant_id: UUID, as_of: datetime | None, after: UUID | None, limit: int, *, only_rebase: bool = False
) -> Preview:
    """What a sweep at a moment would change, without changing it; nothing is locked.

    Args:
        tenant_id: The tenant.
        as_of: Any moment; one that is yet to come, as if nothing happened until then. None for now.
        after: The last id of the page before.
        limit: Most changes in a page; a page that would take longer than `PREVIEW_SECONDS` has fewer.
        only_rebase: What a rebase would change instead.
    """
    until = time.monotonic() + PREVIEW_SECONDS
    moves: list[Move] = []
    counts: Counter[str] = Counter(dict.fromkeys(("looked_at", *DECAY_TIERS), 0))
    after = after or NIL
    while True:
        looked, found, after, ended = _previewed(tenant_id, as_of, after, limit - len(moves), only_rebase=only_rebase)
        moves += found
        counts["looked_at"] += looked
        counts.update(move.after for move in found)
        if ended or len(moves) == limit or time.monotonic() >= until:
            return Preview(moves, dict(counts), None if ended else after)


def _previewed(
    tenant_id: UUID, as_of: datetime | None, after: UUID, limit: int, *, only_rebase: bool
) -> tuple[int, list[Move], UUID, bool]:
    """A slice of a preview: how many were looked at, the moves, the last of them, and whether there are no more."""
    with database.tenant(tenant_id) as tx:
        now = (as_of or database.now(tx)).timestamp()
        times = strengths.timeline(tx, tenant_id)
        era = times.at(now)
        wanted: Wanted = "due or older" if rebase.is_due(tx, tenant_id, era.version) else "due"
        wanted = "older" if only_rebase else wanted
        held = states.page_of(tx, tenant_id, wanted, now, era.version, after=after, limit=ROWS)
        standing = standings.read(tx, tenant_id, held.ids, era.policy.protection)
    state = strengths.brought(held, times, now).state
    seen, decision = strengths.decided(era, state, now, standing)
    moved = np.flatnonzero(decision.tiers != held.wanted_tiers)
    ended, looked = len(held) < ROWS, len(held)
    if len(moved) > limit:
        moved = moved[:limit]
        ended, looked = False, int(moved[-1]) + 1
    decided = Decision(decision.tiers[moved], decision.rules[moved])
    part = Seen(seen.strength[moved], seen.importance[moved])
    told = why.reasons(era.policy.rules, standing.take(moved), take(state, moved), now, part, decided)
    moves = [
        Move(held.ids[row], DECAY_TIERS[held.wanted_tiers[row]], DECAY_TIERS[tier], RULES[rule], reason)
        for row, tier, rule, reason in zip(moved, *decided, told, strict=True)
    ]
    return looked, moves, held.ids[looked - 1] if looked else after, ended


def step(job: Job) -> Step:
    """A few seconds of a sweep."""
    return carry_on(job.tenant_id, rebase.moment_of(job), job.state, time.monotonic() + rebase.STEP_SECONDS)


def carry_on(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Go on with a sweep from where it was left: a rebase first, where one is due; arguments as `rebase.carry_on`'s.

    All of its slices are of one moment, so that it comes to an end whatever happens meanwhile.
    """
    if not state:
        return _begun(tenant_id, as_of)
    as_of = datetime.fromisoformat(state["as_of"])
    if "rebase" in state:
        rebased = rebase.carry_on(tenant_id, as_of, state["rebase"], until)
        kept = {"as_of": state["as_of"]} | ({} if rebased.finished else {"rebase": rebased.state})
        return Step(rebased.done, kept, finished=False, counts=rebased.counts)
    done, counts = 0, Counter[str]()
    while True:
        looked, moved = sweep(tenant_id, as_of)
        done += looked
        counts += moved
        if not looked or time.monotonic() >= until:
            return Step(done, state, finished=not looked, counts=dict(counts))


def _begun(tenant_id: UUID, as_of: datetime | None) -> Step:
    with database.tenant(tenant_id) as tx:
        as_of = as_of or database.now(tx)
        now = as_of.timestamp()
        version = strengths.timeline(tx, tenant_id).at(now).version
        is_due = rebase.is_due(tx, tenant_id, version)
        total = states.count_of(tx, tenant_id, "due or older" if is_due else "due", now, version)
    return Step(0, {"as_of": as_of.isoformat()} | ({"rebase": {}} if is_due else {}), finished=False, total=total)
