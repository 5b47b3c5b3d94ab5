"""Promote memories that meet the criteria although no use has just happened, such as after a change of the policy.

Uses and reviews promote at once (`app.services.strength.promotion`). Memories that were never used aren't candidates:
a new memory has a high score under every model, and seed 000's worked example A keeps such a memory unpromoted.
"""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.timeline import Era
from app.domain.jobs import Job, Step
from app.domain.strength.promotion import earliest_creation, promotion_reasons
from app.services.strength import memory_strength, rebase
from app.services.strength.promotion import flag_promoted
from app.services.tiers.dry_run import SECONDS, PredictedMove, PreviewPage
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.strength import promotion, states
from app.store.strength.states import StoredStates
from app.store.tiers import tiers

KIND: Final = "promote"
ROWS: Final = 5000


def run_job_slice(job: Job) -> Step:
    """Promote candidates for `rebase.STEP_SECONDS`."""
    until = time.monotonic() + rebase.STEP_SECONDS
    return run_slice(job.tenant_id, rebase.reference_time(job), job.state, until)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Promote the candidates of one page after another; see `rebase.run_slice` for the arguments."""
    after, examined, promoted = UUID(state.get("after", NIL.hex)), 0, 0
    while True:
        with database.tenant(tenant_id) as tx:
            now, era, held, reasons = _read_page(tx, tenant_id, as_of, after)
            chosen = [held.ids[row] for row in np.flatnonzero(reasons != "")]
            promoted += len(_promote(tx, tenant_id, chosen, era, now))
        examined += len(held)
        after = held.ids[-1] if held.ids else after
        finished = len(held) < ROWS
        if finished or time.monotonic() >= until:
            return Step(examined, {"after": after.hex}, finished, counts={"promoted": promoted})


def preview_promotion(tenant_id: UUID, as_of: datetime | None, after: UUID | None, limit: int) -> PreviewPage:
    """Return the memories that a run would promote; see `dry_run.preview_moves` for the arguments.

    Each has its tier as `before`, the reason of its promotion as `rule`, and `promoted` as `after`.
    """
    until, after = time.monotonic() + SECONDS, after or NIL
    moves: list[PredictedMove] = []
    examined = 0
    while True:
        with database.tenant(tenant_id) as tx:
            now, era, held, reasons = _read_page(tx, tenant_id, as_of, after)
            rows = np.flatnonzero(reasons != "")
            is_last = len(held) < ROWS
            read = len(held)
            if len(rows) > limit - len(moves):
                rows, is_last = rows[: limit - len(moves)], False
                read = int(rows[-1]) + 1
            tier_by_id = promotion.list_tiers(tx, tenant_id, [held.ids[row] for row in rows])
        scores = era.dynamics.score(held.state, now)
        for row in rows.tolist():
            words = f"score {scores[row]:.3g}, {int(held.state.access_count[row])} uses"
            tier = tier_by_id.get(held.ids[row], "active")
            moves.append(PredictedMove(held.ids[row], tier, "promoted", str(reasons[row]), words))
        examined += read
        after = held.ids[read - 1] if read else after
        if is_last or len(moves) == limit or time.monotonic() >= until:
            counts = {"looked_at": examined, "promoted": len(moves)}
            return PreviewPage(moves, counts, None if is_last else after)


def _read_page(
    tx: database.Transaction, tenant_id: UUID, as_of: datetime | None, after: UUID
) -> tuple[float, Era, StoredStates, npt.NDArray[np.str_]]:
    """Return the reference time, the era, a page of used memories that aren't promoted, and their reasons."""
    now = (as_of or database.now(tx)).timestamp()
    times = memory_strength.load_timeline(tx, tenant_id)
    era = times.at(now)
    since = earliest_creation(era.dynamics, now)
    stored = promotion.list_candidates(tx, tenant_id, now, era.version, since, after=after, limit=ROWS)
    held = memory_strength.advance_to_era(stored, times, now)
    return now, era, held, promotion_reasons(era.dynamics, held.state, now)


def _promote(tx: database.Transaction, tenant_id: UUID, memory_ids: list[UUID], era: Era, now: float) -> list[UUID]:
    """Lock these memories, decide again, and flag them; the next sweep decides their tiers again."""
    if not memory_ids:
        return []
    times = memory_strength.load_timeline(tx, tenant_id)
    held = memory_strength.advance_to_era(states.lock(tx, tenant_id, memory_ids), times, now)
    flagged = flag_promoted(tx, tenant_id, held, era, now)
    tiers.mark_due(tx, tenant_id, flagged)
    return flagged
