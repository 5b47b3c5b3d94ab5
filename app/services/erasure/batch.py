"""Carry out several due single-memory deletions as one erasure; each has its own ledger entry and report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final
from uuid import UUID, uuid4

from app import failpoints, queues
from app.clients.redis import stream_position
from app.domain.privacy.audit_chain import SYSTEM
from app.domain.privacy.legal_hold import IDS_MAX, Scope
from app.services.erasure.plan import write_plan
from app.services.erasure.steps import STEPS, StepCount
from app.store.consolidation import hidden_supersessions
from app.store.core import database
from app.store.erasure import batch as rows
from app.store.erasure import references, requests, residue
from app.store.erasure.requests import Erasure
from app.store.privacy import holds

_LEAST: Final = 2
_OUTSIDE: Final = ("exports", "imports", "letters", "note_files", "records")
"""Steps that change data outside the memories' own rows; they rarely find any."""


def fold(tenant_id: UUID, as_of: datetime) -> UUID | None:
    """Combine up to `IDS_MAX` deletions whose grace period has ended into one running erasure, and return its id.

    Returns None if there are fewer than two such deletions. Combined deletions can't be cancelled.
    """
    cut = stream_position.stream_end(tenant_id)  # read before taking the lock, as for each erasure
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        due = rows.lock_due(tx, tenant_id, as_of, IDS_MAX)
        if len(due) < _LEAST:
            return None
        batch_id, now, deletion_ids = uuid4(), database.now(tx), [deletion.erasure_id for deletion in due]
        scope = Scope(memory_ids=sorted({deletion.memory_id for deletion in due}))
        erasure = Erasure(batch_id, "user", "running", scope, None, now, SYSTEM, None, due[0].erase_after)
        erasure = replace(erasure, cut=cut, started_at=now, batch_id=batch_id)
        requests.add(tx, tenant_id, erasure)
        rows.assign(tx, tenant_id, erasure, deletion_ids)
        hidden_supersessions.discard_hidden(tx, tenant_id, deletion_ids)
        failpoints.trigger("erasing.cut")
    queues.nudge(queues.DRAIN)
    return batch_id


def ledger_entries(
    tx: database.Transaction, tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID]
) -> dict[UUID, list[UUID]]:
    """Return the memories to list in the ledger, by erasure id.

    Each deletion of a batch lists its own memory; the batch lists the remaining ones, such as summaries.
    """
    remaining = set(ids)
    entries = {
        deletion.erasure_id: [memory_id for memory_id in deletion.scope.memory_ids or () if memory_id in remaining]
        for deletion in rows.deletions(tx, tenant_id, erasure.erasure_id)
    }
    remaining.difference_update(*entries.values())
    return entries | ({erasure.erasure_id: sorted(remaining)} if remaining or not entries else {})


def plan_each(tenant_id: UUID, batch: Erasure, found: Mapping[str, StepCount]) -> list[Erasure]:
    """Return a batch's deletions, each with its own plan; `found` is the work found for the whole batch, by step."""
    with database.tenant(tenant_id) as tx:
        singles = rows.deletions(tx, tenant_id, batch.erasure_id)
        ids = [_memory_of(single) for single in singles]
        tables = residue.by_memory(tx, tenant_id, ids)
        segments = references.segments_by_memory(tx, tenant_id, ids)
    outside = {name: _count_each(tenant_id, batch, name, ids) if found[name].count else {} for name in _OUTSIDE}
    planned = []
    for single, memory_id in zip(singles, ids, strict=True):
        counts = {
            name: StepCount(outside[name].get(memory_id, 0)) if name in outside else found[name] for name in STEPS
        }
        counts["memories"] = StepCount(tables[memory_id]["memories"], {"tables": tables[memory_id]})
        counts["segments"] = (
            StepCount(1, {"segments": [str(segments[memory_id])]}) if memory_id in segments else StepCount(0)
        )
        planned.append(replace(single, plan=write_plan(counts, single), executed=[]))
    return planned


def _count_each(tenant_id: UUID, batch: Erasure, step: str, ids: list[UUID]) -> dict[UUID, int]:
    """Count a step's work for each memory by bisection, which takes one query if no memory has any."""
    count = STEPS[step].find(tenant_id, replace(batch, scope=Scope(memory_ids=ids)), ids).count
    if not count or len(ids) == 1:
        return dict.fromkeys(ids, count)
    half = len(ids) // 2
    return _count_each(tenant_id, batch, step, ids[:half]) | _count_each(tenant_id, batch, step, ids[half:])


def settle(tx: database.Transaction, tenant_id: UUID, batch: Erasure, held: Collection[UUID]) -> list[Erasure]:
    """Store the executed steps of a batch's deletions, except those under a legal hold; return the stored deletions."""
    singles = rows.deletions(tx, tenant_id, batch.erasure_id)
    waiting_ids = {single.erasure_id for single in singles if _memory_of(single) in held}
    if held and not waiting_ids:  # only a summary is under hold: the first deletion waits for the release
        waiting_ids = {single.erasure_id for single in singles[:1]}
    settled = [
        replace(single, executed=_executed(single, batch)) for single in singles if single.erasure_id not in waiting_ids
    ]
    rows.set_progress(tx, tenant_id, settled)
    return settled


def _executed(single: Erasure, batch: Erasure) -> list[dict[str, object]]:
    """Return the batch's steps with the rows removed for one deletion; PCA bases count for the whole batch."""
    planned_steps = {step["step"]: step for step in single.plan or ()}
    executed = []
    for step in batch.executed:
        planned = planned_steps[step["step"]]
        removed = step["removed"] if step["step"] == "bases" else planned["found"]
        tables = {"tables": planned["tables"]} if "tables" in planned else {}
        executed.append({**step, "removed": removed} | tables)
    return executed


def _memory_of(single: Erasure) -> UUID:
    return (single.scope.memory_ids or [])[0]
