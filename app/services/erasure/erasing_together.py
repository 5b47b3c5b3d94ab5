"""Carry out due deletions of single memories in one batch, each with its own dates, plan and report.

A deletion that touches more than its own rows (a dead letter, an export, a summary or a legal hold) is processed
individually. If a batch is interrupted, each of its deletions continues individually too, since each erasure row
records its own progress.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from app import failpoints, queues
from app.clients.redis import cut as cut_at
from app.domain.ingest.ids import unix_ms_of
from app.domain.privacy.hold import Meant
from app.services.erasure import erasure_reports as reports
from app.services.erasure.erasing_steps import STEP_SECONDS, STEPS, Overtaken, is_waiting
from app.services.security import audit
from app.services.tiers import bases
from app.store.consolidation import hidden_supersessions
from app.store.core import database
from app.store.erasure import erasures, erasures_together, residue
from app.store.erasure.erasures import Erasure
from app.store.erasure.erasures_together import Single
from app.store.memories import tenant_counts
from app.store.privacy import holds, privacy_requests
from app.store.strength import states
from app.store.tiers import removal, tier_moves

MOST: Final = removal.MOST
_LEAST: Final = 2
_APART: Final = ("exports", "letters", "records", "keys")
"""Steps that affect data outside the memory's own rows: a deletion with work in one of them runs individually."""
_BEFORE: Final = tuple(STEPS)[: tuple(STEPS).index("memories")]
_AFTER: Final = tuple(STEPS)[len(_BEFORE) + 1 :]


class Did(NamedTuple):
    """Result of a batch: the number of verified deletions, and the erasures to process individually."""

    verified: int
    apart: list[UUID]


def run_batch(tenant_id: UUID, as_of: datetime, apart: Sequence[UUID]) -> Did:
    """Carry out up to `MOST` deletions of single memories whose grace period has ended by `as_of`.

    Args:
        as_of: Evaluate grace periods as of this time.
        apart: Ids of erasures to skip.
    """
    cut = cut_at.end(tenant_id)  # read before taking the lock, as for individual erasures
    with database.tenant(tenant_id) as tx:
        found = erasures_together.due(tx, tenant_id, as_of, apart, MOST)
        model = erasures.get(tx, tenant_id, found[0].erasure_id) if found else None
    if model is None or len(found) < _LEAST:
        return Did(0, [])
    if is_waiting(tenant_id, cut):
        return Did(0, [each.erasure_id for each in found])
    model = replace(model, cut=cut)
    odd = _odd(tenant_id, model, found)
    fit = [each for each in found if each.memory_id not in odd]
    left = [each.erasure_id for each in found if each.memory_id in odd]
    if len(fit) < _LEAST:
        return Did(0, [*left, *(each.erasure_id for each in fit)])
    try:
        return Did(_carried_out(tenant_id, fit, model), left)
    except Overtaken:
        return Did(0, left)


def _carried_out(tenant_id: UUID, singles: Sequence[Single], model: Erasure) -> int:
    """Run the deletions from start to verification; return how many were verified. The others continue individually."""
    ours = _plan(tenant_id, _start(tenant_id, singles, model.cut or "0-0"), model)
    if not ours:
        return 0
    ours = _remove(tenant_id, ours)
    queues.nudge(queues.EMBED_MEMORIES)
    lead = _renew_bases(tenant_id, ours)
    return _verify(tenant_id, ours, lead)


def _of(model: Erasure, memory_ids: Iterable[UUID]) -> Erasure:
    """Return one erasure that covers all these memories, for step functions that take a single erasure."""
    return replace(model, scope=Meant(memory_ids=list(memory_ids)))


def _odd(tenant_id: UUID, model: Erasure, singles: Sequence[Single]) -> set[UUID]:
    """Return the memories that need individual processing: those held, in summaries, or affected by `_APART` steps."""
    ids = [each.memory_id for each in singles]
    with database.tenant(tenant_id) as tx:
        odd = erasures_together.of_summaries(tx, tenant_id, ids) | holds.on(tx, tenant_id, ids).keys()
    for name in _APART:
        odd |= _with_something(tenant_id, model, name, [each for each in ids if each not in odd])
    return odd


def _with_something(tenant_id: UUID, model: Erasure, step: str, ids: list[UUID]) -> set[UUID]:
    """Return the memories for which a step finds work: one query when there is none, otherwise bisection."""
    if not ids or not STEPS[step].find(tenant_id, _of(model, ids), ids).count:
        return set()
    if len(ids) == 1:
        return set(ids)
    half = len(ids) // 2
    return _with_something(tenant_id, model, step, ids[:half]) | _with_something(tenant_id, model, step, ids[half:])


def _start(tenant_id: UUID, singles: Sequence[Single], cut: str) -> list[Single]:
    """End the grace period and write ledger entries; return the deletions whose rows nobody changed in between."""
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        erasures.lock_exclusive(tx, tenant_id)
        ours = erasures_together.lock(tx, tenant_id, singles, executed=None)
        ids = [each.memory_id for each in ours]
        odd = erasures_together.of_summaries(tx, tenant_id, ids) | holds.on(tx, tenant_id, ids).keys()
        ours = [each for each in ours if each.memory_id not in odd]
        there = erasures.lock_rows(tx, tenant_id, [each.memory_id for each in ours])
        erasures_together.start(tx, tenant_id, ours, there, cut, database.now(tx))
        hidden_supersessions.discard(tx, tenant_id, [each.erasure_id for each in ours])
        failpoints.reach("erasing.entered")
    return ours


def _plan(tenant_id: UUID, singles: Sequence[Single], model: Erasure) -> list[Single]:
    """Write each deletion's plan; return those planned here, or none if a step in `_APART` has found work by now."""
    ids = [each.memory_id for each in singles]
    found = {name: work.find(tenant_id, _of(model, ids), ids).count for name, work in STEPS.items()}
    if not ids or any(found[name] for name in _APART):
        return []
    with database.tenant(tenant_id) as tx:
        rows = erasures_together.rows_of(tx, tenant_id, ids)
        segments = erasures_together.segments(tx, tenant_id, ids)
        plans = {
            each.erasure_id: _steps(found["bases"], rows[each.memory_id], segments.get(each.memory_id))
            for each in singles
        }
        planned = set(erasures_together.plan(tx, tenant_id, plans))
        failpoints.reach("erasing.planned")
    return [each for each in singles if each.erasure_id in planned]


def _steps(spoilt: int, tables: Mapping[str, int], segment: UUID | None) -> list[dict[str, Any]]:
    found = {"memories": tables["memories"], "bases": spoilt, "segments": int(segment is not None)}
    more: dict[str, dict[str, Any]] = {
        "memories": {"tables": tables},
        "segments": {} if segment is None else {"segments": [str(segment)]},
    }
    return [
        {"step": name, "store": work.store, "method": work.method, "found": found.get(name, 0)} | more.get(name, {})
        for name, work in STEPS.items()
    ]


def _remove(tenant_id: UUID, singles: Sequence[Single]) -> list[Single]:
    """Execute the steps up to and including the memories; return the deletions whose memory isn't under legal hold."""
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        ours = erasures_together.lock(tx, tenant_id, singles, executed=())
        there = erasures.lock_rows(tx, tenant_id, [each.memory_id for each in ours])
        held = holds.on(tx, tenant_id, there)
        gone = [memory_id for memory_id in there if memory_id not in held]
        ours = [each for each in ours if each.memory_id not in held]
        segments = erasures_together.segments(tx, tenant_id, gone)
        states.lock(tx, tenant_id, gone)
        if gone:
            with tenant_counts.changing(tx, tenant_id, gone):
                removal.remove(tx, tenant_id, gone)
        removed = {"segments": segments.keys(), "memories": set(gone)}
        done = {
            each.erasure_id: [(name, int(each.memory_id in removed.get(name, ()))) for name in (*_BEFORE, "memories")]
            for each in ours
        }
        _note(tx, tenant_id, done)
        if gone:
            tier_moves.add(tx, tenant_id, {("deleted", "erasure"): len(gone)})
            audit.append(tx, tenant_id, "memories_erased", ids=gone, details={"erasures": len(ours)})
        failpoints.reach("erasing.before_commit")
    return ours


def _renew_bases(tenant_id: UUID, singles: Sequence[Single]) -> Erasure:
    """Refit the PCA bases once without any of the deleted vectors, and record the remaining steps.

    Returns:
        The erasure with the oldest memory; any basis fitted on one of the memories is at least as new as that memory.
    """
    first = min(singles, key=lambda each: unix_ms_of(each.memory_id))
    with database.tenant(tenant_id) as tx:
        [lead] = erasures_together.several(tx, tenant_id, [first.erasure_id])
    at: str | None = ""
    renewed = 0
    while at is not None:
        at, more = STEPS["bases"].erase(tenant_id, lead, at, time.monotonic() + STEP_SECONDS)
        renewed += more
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        ours = erasures_together.lock(tx, tenant_id, singles, executed=(*_BEFORE, "memories"))
        done = [(name, renewed if name == "bases" else 0) for name in _AFTER]
        _note(tx, tenant_id, {each.erasure_id: done for each in ours})
    return lead


def _note(tx: database.Transaction, tenant_id: UUID, done: Mapping[UUID, list[tuple[str, int]]]) -> None:
    at = database.now(tx).isoformat()
    notes = {
        erasure_id: [{"step": name, "removed": removed, "at": at} for name, removed in steps]
        for erasure_id, steps in done.items()
    }
    erasures_together.note(tx, tenant_id, notes)


def _verify(tenant_id: UUID, singles: Sequence[Single], lead: Erasure) -> int:
    """Scan every store for residue and return how many deletions are verified.

    If residue is found none is verified, so that each erasure finds and reports it individually.
    """
    if is_waiting(tenant_id, lead.cut or "0-0"):
        return 0
    ids = [each.memory_id for each in singles]
    whole = _of(lead, ids)
    again = sum(work.find(tenant_id, whole, ids).count for work in STEPS.values())
    shared = bases.shared_ids()
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        ours = erasures_together.lock(tx, tenant_id, singles, executed=tuple(STEPS))
        left = residue.counts(tx, tenant_id, ids, whole, shared)
        if again or sum(left.values()):
            return 0
        rows = erasures_together.several(tx, tenant_id, [each.erasure_id for each in ours])
        planned = list(STEPS)
        rows = [each for each in rows if [step["step"] for step in each.plan or ()] == planned]
        left |= dict.fromkeys(STEPS, 0)
        told = reports.of_singles(tx, tenant_id, rows, left)
        of = {each.erasure_id: each.memory_id for each in ours}
        now = database.now(tx)
        rewrite_by = reports.schedule_rewrites(tx, tenant_id, rows, now)
        privacy_requests.answer(tx, tenant_id, list(told), "done")
        for erasure_id, report in told.items():
            details = {"erasure": str(erasure_id), "law": "user"}
            place = audit.append(tx, tenant_id, "erasure_verified", ids=[of[erasure_id]], details=details)
            report["audit"] = {"entry": place.seq, "hash": place.hash.hex()}
        erasures_together.finish(tx, tenant_id, told, now, rewrite_by)
    return len(told)
