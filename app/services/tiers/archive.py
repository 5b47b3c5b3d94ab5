"""Archive weak memories: remove them from the active indexes, retaining their own words and a reduced vector.

Each slice is one transaction, so a memory is either active or archived even after a crash. If an archived turn is part
of the context in which active turns were embedded, their vectors remain valid, because its text still exists.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import failpoints, metrics
from app.domain.jobs import Job, Step
from app.domain.policy.policy import Policy
from app.domain.tiers import pca
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.domain.tiers.tier_decision import Decision, TierFacts
from app.services.storage.memory_write import memory_write
from app.services.strength import rebase
from app.services.tiers import dry_run, pca_fitting, sweep, transitions, vector_repair
from app.services.tiers.dry_run import DryRunKind, Tiers
from app.services.tiers.pca_fitting import ChosenBasis
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.enrichment import word_index
from app.store.strength.due_pages import Wanted
from app.store.strength.states import StoredStates
from app.store.tiers import archive, pca_bases
from app.store.tiers.archive import ArchivedVectors
from app.store.tiers.pca_bases import SHARED

KIND: Final = "archive"
ROWS: Final = 500
STEP_SECONDS: Final = 2.0
_TIER: Final = "archived"


def run_job_slice(job: Job) -> Step:
    """Run an archiving job for `STEP_SECONDS`."""
    return run_slice(job.tenant_id, rebase.reference_time(job), job.state, time.monotonic() + STEP_SECONDS)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Continue archiving: sweep, refit the basis if due, repair vectors, move memories, then reduce full vectors.

    Args:
        as_of: Reference time; None for the start of the work.
        state: State returned by the previous step; empty at first.
        until: Deadline by the monotonic clock; at least one slice is processed.
    """
    phase = state.get("phase", "sweep")
    if phase == "sweep":
        swept = sweep.run_slice(tenant_id, as_of, state.get("sweep", {}), until)
        next_state = {
            "phase": "refit" if swept.finished else "sweep",
            "as_of": swept.state["as_of"],
            "sweep": swept.state,
        }
        return Step(0, next_state, finished=False)
    base_state = {"as_of": state["as_of"]}
    if phase == "refit":
        return _refit_and_repair(tenant_id, state, base_state, until)
    if phase == "move":
        return _move_until(tenant_id, datetime.fromisoformat(state["as_of"]), base_state, until)
    return _reduce_whole(tenant_id, base_state, until)


def _refit_and_repair(tenant_id: UUID, state: dict[str, Any], left_off: dict[str, Any], until: float) -> Step:
    """Refit the basis in the first slice, and repair vectors in every slice; workers of earlier versions only refit."""
    notes = () if "repair" in state else pca_fitting.refit_basis(tenant_id)
    repaired = vector_repair.run_slice(tenant_id, state.get("repair", {}), until)
    counts = {"repaired": repaired.vectors} if repaired.vectors else {}
    next_state = {"phase": "move"} if repaired.state is None else {"phase": "refit", "repair": repaired.state}
    return Step(0, next_state | left_off, finished=False, counts=counts, notes=(*notes, *repaired.notes))


def _move_until(tenant_id: UUID, as_of: datetime, left_off: dict[str, Any], until: float) -> Step:
    examined, counts = 0, Counter[str]()
    chosen = current_basis(tenant_id)
    while True:
        slice_size, slice_counts = move_slice(tenant_id, as_of, chosen)
        examined += slice_size
        counts += slice_counts
        if not slice_size or time.monotonic() >= until:
            phase = "move" if slice_size else "reduce"
            return Step(examined, {"phase": phase, **left_off}, finished=False, counts=dict(counts))


def current_basis(tenant_id: UUID) -> ChosenBasis | None:
    """Return the basis that reduces the tenant's vectors on archiving; None if they are stored whole."""
    with database.tenant(tenant_id) as tx:
        spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
    return pca_fitting.current_basis(tenant_id, spaces.searched) if spaces else None


def move_slice(
    tenant_id: UUID, as_of: datetime | None, chosen: ChosenBasis | None, limit: int = ROWS
) -> tuple[int, Counter[str]]:
    """Archive a slice of the active memories that are due for a lower tier. Call again until it examines none.

    Args:
        as_of: Reference time; None for now.
        chosen: The basis that reduces the vectors; vectors of other spaces are stored whole.

    Returns:
        The number of memories examined, and the counts of `archived` memories and of archived memories whose vectors
        were stored whole and can be reduced later (`whole`).
    """
    failpoints.trigger("archive.before")
    with memory_write(tenant_id, "tier", "archive.before_commit") as write:
        due = transitions.claim_due(write, "active", limit, as_of)
        whole = deindex(write.tx, tenant_id, due.held.ids, due.era.policy, chosen) if due.held.ids else 0
        transitions.record_moves(write, due, _TIER)
    failpoints.trigger("archive.after_commit")
    moved = len(due.held)
    metrics.count("archived_memories", moved)
    return due.looked_at, Counter({_TIER: moved, "whole": whole})


def deindex(
    tx: database.Transaction, tenant_id: UUID, ids: Sequence[UUID], policy: Policy, chosen: ChosenBasis | None
) -> int:
    """Remove memories from the active indexes; the caller records that they are archived.

    Locks embedding spaces, then the word index.

    Args:
        tx: The tenant's transaction, which has locked the memories and their states.
        ids: Active memories.
        policy: Determines the language and time zone for indexing the words of memories that aren't indexed yet.
        chosen: The basis that reduces the vectors; vectors of other spaces are stored whole.

    Returns:
        The number of vectors stored whole that a basis could reduce.
    """
    spaces = embedding_spaces.lock(tx, tenant_id)
    unindexed = archive.filter_unindexed(tx, tenant_id, ids)
    if unindexed:
        word_index.index_words(tx, tenant_id, unindexed, policy.language, policy.time_zone)
    space_id = spaces.searched.space_id if spaces else None
    vectors = archive.remove_vectors(tx, tenant_id, space_id, ids)
    is_basis_valid = chosen is not None and chosen.space_id == space_id and _retain(tx, tenant_id, chosen)
    # A vector sent by the caller can't be recomputed, so it is stored whole for a later restore.
    reducible = vectors.only(np.flatnonzero(~vectors.by_caller & is_basis_valid))
    whole = vectors.only(np.flatnonzero(vectors.by_caller | (not is_basis_valid)))
    if chosen is not None and reducible.ids:
        archive.add(tx, tenant_id, reducible.ids, space_id, chosen.basis_id, _reduced(reducible, chosen))
    unreduced_ids = sorted(set(ids).difference(reducible.ids))
    if unreduced_ids:
        archive.add(tx, tenant_id, unreduced_ids, space_id, None, whole)
    word_index.delete_words(tx, tenant_id, ids)
    is_long = spaces is not None and spaces.searched.dimensions > pca.DIMENSIONS
    return int(np.count_nonzero(~whole.by_caller)) if is_long else 0


def _retain(tx: database.Transaction, tenant_id: UUID, chosen: ChosenBasis) -> bool:
    """Keep a basis until the transaction ends; return False if an erasure or a fit has deleted it since it was read."""
    if chosen.is_own:
        return pca_bases.retain(tx, tenant_id, chosen.basis_id)
    pca_bases.share_shared_basis(tx, chosen.basis_id)
    with database.tenant(SHARED) as shared:
        return bool(pca_bases.list_known(shared, SHARED, [chosen.basis_id]))


def _reduced(found: ArchivedVectors, chosen: ChosenBasis) -> ArchivedVectors:
    return replace(found, matrix=pca.reduce_vectors(chosen.basis, found.matrix))


def _reduce_whole(tenant_id: UUID, left_off: dict[str, Any], until: float) -> Step:
    """Reduce vectors that were stored whole because no basis existed yet."""
    chosen, reduced = current_basis(tenant_id), 0
    while chosen is not None:
        with database.tenant(tenant_id) as tx:
            if not _retain(tx, tenant_id, chosen):
                return Step(0, {"phase": "reduce", **left_off}, finished=False, counts={"reduced": reduced})
            vectors = archive.lock_whole(tx, tenant_id, chosen.space_id, ROWS)
            if vectors.ids:
                archive.write_reduced(tx, tenant_id, chosen.basis_id, _reduced(vectors, chosen))
        reduced += len(vectors.ids)
        if len(vectors.ids) < ROWS:
            break
        if time.monotonic() >= until:
            return Step(0, {"phase": "reduce", **left_off}, finished=False, counts={"reduced": reduced})
    metrics.count("reduced_vectors", reduced)
    return Step(0, left_off, finished=True, counts={"reduced": reduced} if reduced else {})


def _due_tiers(tx: database.Transaction, tenant_id: UUID, version: int) -> Wanted:
    return "falling or older" if rebase.is_due(tx, tenant_id, version) else "falling"


def _archived_tiers(_: StoredStates, standing: TierFacts, decision: Decision) -> tuple[Tiers, Tiers]:
    """Return the tiers before and after archiving, which moves memories one tier down at most."""
    lower = np.minimum(decision.tiers, DECAY_TIERS.index(_TIER))
    return standing.tiers, np.maximum(standing.tiers, lower)


WORK: Final = DryRunKind((_TIER,), _due_tiers, _archived_tiers)


preview_archive = partial(dry_run.preview_moves, WORK)
"""Return the moves of archiving at a given time; see `dry_run.preview_moves` for the arguments."""
