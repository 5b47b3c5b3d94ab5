"""Give keep chances to memories that an earlier version scored, in slices, before the night's sweep.

After an update that changes the rules' estimates (`CHANCES_VERSION`), all chances from rules are computed again.

Until a memory has its chance, it is judged by its salience. A chance doesn't change any strength: the sweep that
follows only decides the tiers again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np

from app.domain.jobs import Step
from app.domain.policy.policy import Policy
from app.domain.tiers import keep_calibration
from app.domain.tiers.keep_rule import merge_chances
from app.services.enrichment.score_by_rules import write_chances
from app.services.storage.memory_write import memory_write
from app.store.core import database
from app.store.enrichment import keep_chances, scores
from app.store.enrichment.work_queue import NIL
from app.store.strength import states
from app.store.tenants import keep_calibrations
from app.store.tiers import protections

ROWS: Final = 500


def run_slice(tenant_id: UUID, _as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Fill in chances by memory id, from where the previous slice ended.

    Args:
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one slice is processed.
    """
    after, filled = UUID(state.get("after", NIL.hex)), 0
    with database.tenant(tenant_id) as tx:
        is_outdated = keep_calibrations.read(tx, tenant_id).version < keep_calibration.CHANCES_VERSION
    while True:
        with database.tenant(tenant_id) as tx:
            unfilled = keep_chances.list_unfilled(tx, tenant_id, after, ROWS, again=is_outdated)
        filled += _fill_scored(tenant_id, [each.memory_id for each in unfilled if each.source == scores.HEURISTIC])
        filled += _fill_summaries(tenant_id, [each.memory_id for each in unfilled if each.source != scores.HEURISTIC])
        after = unfilled[-1].memory_id if unfilled else after
        finished = len(unfilled) < ROWS
        if finished and is_outdated:
            with database.tenant(tenant_id) as tx:
                keep_calibrations.write_version(tx, tenant_id, keep_calibration.CHANCES_VERSION)
        if finished or time.monotonic() >= until:
            return Step(filled, {"after": after.hex}, finished)


def _fill_scored(tenant_id: UUID, memory_ids: Sequence[UUID]) -> int:
    """Fill in the chances of memories that the rules scored; return the number of chances that changed."""
    if not memory_ids:
        return 0
    with database.tenant(tenant_id) as tx:
        memories = scores.read(tx, tenant_id, memory_ids, closed=False)
        turns = keep_chances.list_turns_before(tx, tenant_id, memory_ids)
    return write_chances(tenant_id, memories, turns)


def _fill_summaries(tenant_id: UUID, summary_ids: Sequence[UUID]) -> int:
    """Give summaries the highest chance of their sources; return the number of chances that changed.

    A summary without sources gets its own chance or, if it has none, the chance that corresponds to its salience.
    """
    if not summary_ids:
        return 0
    rules = Policy().rules  # chances don't depend on the policy
    with memory_write(tenant_id, "state") as write:
        tx = write.tx
        sources = keep_chances.list_sources(tx, tenant_id, summary_ids)
        stored = states.read(tx, tenant_id, sorted({*summary_ids, *(one for ids in sources.values() for one in ids)}))
        keep = protections.read(tx, tenant_id, stored.ids, rules).keep
        places = {memory_id: place for place, memory_id in enumerate(stored.ids)}
        chances = {}
        for summary_id in places.keys() & set(summary_ids):
            rows = np.array(
                [places[one] for one in sources.get(summary_id, ()) if one in places] or [places[summary_id]]
            )
            chances[summary_id] = merge_chances(keep[rows], stored.state.salience[rows])
        return keep_chances.write_summaries(tx, tenant_id, dict(sorted(chances.items())))
