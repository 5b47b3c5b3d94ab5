"""Archive faded memories: remove them from the active indexes, retaining their own words and a reduced vector.

Each slice is one transaction, so a memory is either active or archived even after a crash. The vectors of active turns
whose context includes an archived turn don't change: its text still exists.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import failpoints, metrics
from app.domain.jobs import Job, Step
from app.domain.policy.policy import Policy
from app.domain.tiers import reduction
from app.domain.tiers.lifecycle import Decision, Standing
from app.domain.tiers.tiers import DECAY_TIERS
from app.services.storage.memory_write import memory_write
from app.services.strength import rebase
from app.services.tiers import bases, moves, previews, sweep
from app.services.tiers.bases import Chosen
from app.services.tiers.previews import Preview, Tiers, Work
from app.store.core import database
from app.store.embedding import spaces
from app.store.enrichment import words
from app.store.strength.pages import Wanted
from app.store.strength.states import Held
from app.store.tiers import archive as rows
from app.store.tiers.archive import Vectors

KIND: Final = "archive"
ROWS: Final = 500
STEP_SECONDS: Final = 2.0
_TIER: Final = "archived"


def step(job: Job) -> Step:
    """Run an archiving job for `STEP_SECONDS`."""
    return carry_on(job.tenant_id, rebase.reference_time(job), job.state, time.monotonic() + STEP_SECONDS)


def carry_on(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Continue archiving: sweep, refit the basis if due, move memories, then reduce vectors that were stored whole.

    Args:
        as_of: Reference time; None for the time at which the work began.
        state: State returned by the previous step; empty at first.
        until: Deadline by the monotonic clock; at least one slice is processed.
    """
    phase = state.get("phase", "sweep")
    if phase == "sweep":
        swept = sweep.carry_on(tenant_id, as_of, state.get("sweep", {}), until)
        kept = {"phase": "refit" if swept.finished else "sweep", "as_of": swept.state["as_of"], "sweep": swept.state}
        return Step(0, kept, finished=False)
    left_off = {"as_of": state["as_of"]}
    if phase == "refit":
        return Step(0, {"phase": "move", **left_off}, finished=False, notes=bases.refit(tenant_id))
    if phase == "move":
        return _move(tenant_id, datetime.fromisoformat(state["as_of"]), left_off, until)
    return _reduce(tenant_id, left_off, until)


def _move(tenant_id: UUID, as_of: datetime, left_off: dict[str, Any], until: float) -> Step:
    done, counts = 0, Counter[str]()
    chosen = current_basis(tenant_id)
    while True:
        looked, slice_counts = move(tenant_id, as_of, chosen)
        done += looked
        counts += slice_counts
        if not looked or time.monotonic() >= until:
            phase = "move" if looked else "reduce"
            return Step(done, {"phase": phase, **left_off}, finished=False, counts=dict(counts))


def current_basis(tenant_id: UUID) -> Chosen | None:
    """Return the basis that reduces the tenant's vectors on archiving; None if they are stored whole."""
    with database.tenant(tenant_id) as tx:
        there = spaces.of_tenant(tx, tenant_id)
    return bases.current(tenant_id, there.searched) if there else None


def move(tenant_id: UUID, as_of: datetime | None, chosen: Chosen | None, limit: int = ROWS) -> tuple[int, Counter[str]]:
    """Archive a slice of the active memories that are due for a lower tier. Call again until it examines none.

    Args:
        as_of: Reference time; None for now.
        chosen: The basis that reduces the vectors; vectors of other spaces are stored whole.

    Returns:
        The number of memories examined, and counts of those moved: `archived`, and among them `whole`, whose vectors
            weren't
        reduced but could be later.
    """
    failpoints.reach("archive.before")
    with memory_write(tenant_id, "tier", "archive.before_commit") as write:
        due = moves.claim_due(write, "active", limit, as_of)
        whole = deindex(write.tx, tenant_id, due.held.ids, due.era.policy, chosen) if due.held.ids else 0
        moves.record(write, due, _TIER)
    failpoints.reach("archive.after_commit")
    moved = len(due.held)
    metrics.count("archived_memories", moved)
    return due.looked_at, Counter({_TIER: moved, "whole": whole})


def deindex(
    tx: database.Transaction, tenant_id: UUID, ids: Sequence[UUID], policy: Policy, chosen: Chosen | None
) -> int:
    """Remove memories from the active indexes; the caller records that they are archived.

    Locks embedding spaces, then words.

    Args:
        tx: The tenant's transaction, which has locked the memories and their states.
        ids: Active memories.
        policy: Determines the language and time zone in which missing words are indexed.
        chosen: The basis that reduces the vectors; vectors of other spaces are stored whole.

    Returns:
        The number of vectors stored whole that a basis could reduce.
    """
    there = spaces.lock(tx, tenant_id)
    unindexed = rows.unindexed(tx, tenant_id, ids)
    if unindexed:
        words.index(tx, tenant_id, unindexed, policy.language, policy.time_zone)
    space_id = there.searched.space_id if there else None
    found = rows.take_vectors(tx, tenant_id, space_id, ids)
    fits = chosen is not None and chosen.space_id == space_id
    # A caller's own vector can't be recomputed, so it is stored whole for a later restore.
    short = found.only(np.flatnonzero(~found.by_caller & fits))
    whole = found.only(np.flatnonzero(found.by_caller | (not fits)))
    if chosen is not None and short.ids:
        rows.add(tx, tenant_id, short.ids, space_id, chosen.basis_id, _reduced(short, chosen))
    rest = sorted(set(ids).difference(short.ids))
    if rest:
        rows.add(tx, tenant_id, rest, space_id, None, whole)
    words.take_out(tx, tenant_id, ids)
    is_long = there is not None and there.searched.dimensions > reduction.DIMENSIONS
    return int(np.count_nonzero(~whole.by_caller)) if is_long else 0


def _reduced(found: Vectors, chosen: Chosen) -> Vectors:
    return replace(found, matrix=reduction.reduced(chosen.basis, found.matrix))


def _reduce(tenant_id: UUID, left_off: dict[str, Any], until: float) -> Step:
    """Reduce vectors that were stored whole because there was no basis yet."""
    chosen, done = current_basis(tenant_id), 0
    while chosen is not None:
        with database.tenant(tenant_id) as tx:
            found = rows.lock_whole(tx, tenant_id, chosen.space_id, ROWS)
            if found.ids:
                rows.write_reduced(tx, tenant_id, chosen.basis_id, _reduced(found, chosen))
        done += len(found.ids)
        if len(found.ids) < ROWS:
            break
        if time.monotonic() >= until:
            return Step(0, {"phase": "reduce", **left_off}, finished=False, counts={"reduced": done})
    metrics.count("reduced_vectors", done)
    return Step(0, left_off, finished=True, counts={"reduced": done} if done else {})


def _falling(tx: database.Transaction, tenant_id: UUID, version: int) -> Wanted:
    return "falling or older" if rebase.is_due(tx, tenant_id, version) else "falling"


def _archived(_: Held, standing: Standing, decision: Decision) -> tuple[Tiers, Tiers]:
    """Return the tiers before and after archiving: one tier down at most."""
    lower = np.minimum(decision.tiers, DECAY_TIERS.index(_TIER))
    return standing.tiers, np.maximum(standing.tiers, lower)


WORK: Final = Work((_TIER,), _falling, _archived)


def preview(tenant_id: UUID, as_of: datetime | None, after: UUID | None, limit: int) -> Preview:
    """Return what archiving at a given time would move; see `previews.preview` for the arguments."""
    return previews.preview(WORK, tenant_id, as_of, after, limit)
