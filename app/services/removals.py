"""Permanent delete: memories in cold storage that fulfil every condition go for good, and nothing of them stays.

What its caller has deleted (`DELETE /v1/memories/{id}`) isn't among them: it is hidden, and its row stays.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import failpoints, queues
from app.domain import why
from app.domain.dynamics.state import take
from app.domain.jobs import Job, Step
from app.domain.lifecycle import DELETED, RULES, Decision
from app.domain.tiers import DECAY_TIERS, Seen
from app.services import audit, moves, strengths
from app.services.rebase import STEP_SECONDS, moment_of
from app.services.sweep import Move, Preview
from app.store import database, removal, standings, states, tenant_counts
from app.store.work import NIL

KIND: Final = "delete"
SOURCE: Final = "cold"
PAGE_ROWS: Final = 5000
PREVIEW_SECONDS: Final = 2.0


def delete(tenant_id: UUID, as_of: datetime | None = None, limit: int = removal.MOST) -> tuple[int, Counter[str]]:
    """Remove a slice of the cold memories that shall be deleted at a moment. Call again until it looks at none.

    Args:
        tenant_id: The tenant.
        as_of: Up to now; None for now, which each call then takes anew.
        limit: Most memories, up to `removal.MOST`.

    Returns:
        How many were looked at, and how many are `deleted`.
    """
    with database.tenant(tenant_id) as tx:
        due = moves.take(tx, tenant_id, SOURCE, limit, as_of)
        gone = due.only(np.flatnonzero(due.decision.tiers == DELETED))
        if gone.held.ids:
            with tenant_counts.changing(tx, tenant_id, gone.held.ids):
                removal.remove(tx, tenant_id, gone.held.ids)
            audit.enter(tx, tenant_id, "memories_deleted", ids=gone.held.ids, details={"rule": "decay"})
        failpoints.reach("delete.before_commit")
    return due.looked_at, Counter(deleted=len(gone.held)) if gone.held.ids else Counter()


def preview(tenant_id: UUID, as_of: datetime | None, after: UUID | None, limit: int) -> Preview:
    """What would be deleted at a moment, and why, without deleting it; nothing is locked.

    Args:
        tenant_id: The tenant.
        as_of: Any moment; one that is yet to come, as if nothing happened until then. None for now.
        after: The last id of the page before.
        limit: Most memories in a page; a page that would take longer than `PREVIEW_SECONDS` has fewer.
    """
    until = time.monotonic() + PREVIEW_SECONDS
    found: list[Move] = []
    counts = Counter({"looked_at": 0, "deleted": 0})
    after = after or NIL
    while True:
        looked_at, going, after, ended = _previewed(tenant_id, as_of, after, limit - len(found))
        found += going
        counts.update(looked_at=looked_at, deleted=len(going))
        if ended or len(found) == limit or time.monotonic() >= until:
            return Preview(found, dict(counts), None if ended else after)


def _previewed(tenant_id: UUID, as_of: datetime | None, after: UUID, limit: int) -> tuple[int, list[Move], UUID, bool]:
    """A slice of a preview: how many were looked at, those that go, the last id, and whether there are no more."""
    with database.tenant(tenant_id) as tx:
        now = (as_of or database.now(tx)).timestamp()
        times = strengths.timeline(tx, tenant_id)
        era = times.at(now)
        held = states.page_of(tx, tenant_id, SOURCE, now, era.version, after=after, limit=PAGE_ROWS)
        standing = standings.read(tx, tenant_id, held.ids, era.policy.protection)
    state = strengths.brought(held, times, now).state
    seen, decision = strengths.decided(era, state, now, standing)
    gone = np.flatnonzero(decision.tiers == DELETED)
    ended, looked_at = len(held) < PAGE_ROWS, len(held)
    if len(gone) > limit:
        gone = gone[:limit]
        ended, looked_at = False, int(gone[-1]) + 1
    decided = Decision(decision.tiers[gone], decision.rules[gone])
    part = Seen(seen.strength[gone], seen.importance[gone])
    told = why.reasons(era.policy.rules, standing.take(gone), take(state, gone), now, part, decided)
    moved = [
        Move(held.ids[row], SOURCE, DECAY_TIERS[tier], RULES[rule], reason)
        for row, tier, rule, reason in zip(gone, *decided, told, strict=True)
    ]
    return looked_at, moved, held.ids[looked_at - 1] if looked_at else after, ended


def step(job: Job) -> Step:
    """A few seconds of deleting."""
    return carry_on(job.tenant_id, moment_of(job), job.state, time.monotonic() + STEP_SECONDS)


def carry_on(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Go on deleting from where it was left; arguments as `rebase.carry_on`'s. All of its slices are of one moment."""
    if not state:
        with database.tenant(tenant_id) as tx:
            state = {"as_of": (as_of or database.now(tx)).isoformat()}
    moment = datetime.fromisoformat(state["as_of"])
    done, counts = 0, Counter[str]()
    while True:
        looked_at, deleted = delete(tenant_id, moment)
        done += looked_at
        counts += deleted
        if not looked_at or time.monotonic() >= until:
            if counts:
                queues.nudge(queues.EMBED_MEMORIES)
            return Step(done, state, finished=not looked_at, counts=dict(counts))
