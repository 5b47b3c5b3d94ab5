"""Erase due deletions of single memories as one erasure, a batch; each deletion has its own ledger entry and report."""

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
_OUTSIDE: Final = ("exports", "letters", "records")
"""Steps that change data outside the memories' own rows, of which there is rarely any."""


def fold(tenant_id: UUID, as_of: datetime) -> UUID | None:
    """Fold up to `IDS_MAX` deletions whose grace period has ended into a running erasure, and return its id.

    Returns None if there are fewer than two. From now on, the deletions can't be cancelled.
    """
    cut = stream_position.stream_end(tenant_id)  # read before taking the lock, as for each erasure
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        due = rows.lock_due(tx, tenant_id, as_of, IDS_MAX)
        if len(due) < _LEAST:
            return None
        batch_id, now, singles = uuid4(), database.now(tx), [each.erasure_id for each in due]
        scope = Scope(memory_ids=sorted({each.memory_id for each in due}))
        new = Erasure(batch_id, "user", "running", scope, None, now, SYSTEM, None, due[0].erase_after)
        new = replace(new, cut=cut, started_at=now, batch_id=batch_id)
        requests.add(tx, tenant_id, new)
        rows.assign(tx, tenant_id, new, singles)
        hidden_supersessions.discard_hidden(tx, tenant_id, singles)
        failpoints.trigger("erasing.cut")
    queues.nudge(queues.DRAIN)
    return batch_id


def ledger_entries(
    tx: database.Transaction, tenant_id: UUID, erasure: Erasure, ids: Sequence[UUID]
) -> dict[UUID, list[UUID]]:
    """Return the memories to enter in the ledger by erasure: of a batch, each deletion's own."""
    left = set(ids)
    entries = {
        each.erasure_id: [own for own in each.scope.memory_ids or () if own in left]
        for each in rows.deletions(tx, tenant_id, erasure.erasure_id)
    }
    left.difference_update(*entries.values())
    return entries | ({erasure.erasure_id: sorted(left)} if left or not entries else {})


def plan_each(tenant_id: UUID, batch: Erasure, found: Mapping[str, StepCount]) -> list[Erasure]:
    """Return a batch's deletions with their own plans; `found` is the work found for the whole batch."""
    with database.tenant(tenant_id) as tx:
        singles = rows.deletions(tx, tenant_id, batch.erasure_id)
        ids = [_memory_of(each) for each in singles]
        tables = residue.by_memory(tx, tenant_id, ids)
        segments = references.segments_by_memory(tx, tenant_id, ids)
    outside = {name: _count_each(tenant_id, batch, name, ids) if found[name].count else {} for name in _OUTSIDE}
    planned = []
    for each, own in zip(singles, ids, strict=True):
        counts = {name: StepCount(outside[name].get(own, 0)) if name in outside else found[name] for name in STEPS}
        counts["memories"] = StepCount(tables[own]["memories"], {"tables": tables[own]})
        counts["segments"] = StepCount(1, {"segments": [str(segments[own])]}) if own in segments else StepCount(0)
        planned.append(replace(each, plan=write_plan(counts, each), executed=[]))
    return planned


def _count_each(tenant_id: UUID, batch: Erasure, step: str, ids: list[UUID]) -> dict[UUID, int]:
    """Count a step's work for each memory by bisection: one query if there is none."""
    count = STEPS[step].find(tenant_id, replace(batch, scope=Scope(memory_ids=ids)), ids).count
    if not count or len(ids) == 1:
        return dict.fromkeys(ids, count)
    half = len(ids) // 2
    return _count_each(tenant_id, batch, step, ids[:half]) | _count_each(tenant_id, batch, step, ids[half:])


def settle(tx: database.Transaction, tenant_id: UUID, batch: Erasure, held: Collection[UUID]) -> list[Erasure]:
    """Store the executed steps of a batch's deletions, except those under a legal hold, and return these deletions."""
    singles = rows.deletions(tx, tenant_id, batch.erasure_id)
    waiting = {each.erasure_id for each in singles if _memory_of(each) in held}
    if held and not waiting:  # a held summary: the first deletion waits for its release
        waiting = {each.erasure_id for each in singles[:1]}
    done = [replace(each, executed=_executed(each, batch)) for each in singles if each.erasure_id not in waiting]
    rows.set_progress(tx, tenant_id, done)
    return done


def _executed(single: Erasure, batch: Erasure) -> list[dict[str, object]]:
    """Return the batch's steps with the rows removed for one deletion; bases are fitted once for all."""
    own = {each["step"]: each for each in single.plan or ()}
    executed = []
    for each in batch.executed:
        planned = own[each["step"]]
        removed = each["removed"] if each["step"] == "bases" else planned["found"]
        tables = {"tables": planned["tables"]} if "tables" in planned else {}
        executed.append({**each, "removed": removed} | tables)
    return executed


def _memory_of(single: Erasure) -> UUID:
    return (single.scope.memory_ids or [])[0]
