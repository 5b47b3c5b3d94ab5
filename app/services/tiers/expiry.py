"""Expiry: permanently delete memories whose retention period has ended, from any tier.

Summaries derived from them are hidden and regenerated from the remaining sources, or deleted if none remain. The first
night that finds expired memories only reports their number, so that operators can review a dry run and adjust the
policy; deletion starts the next night. Jobs started manually delete immediately.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import numpy as np

from app import metrics, queues
from app.domain.jobs import Job, Step
from app.domain.privacy.audit_chain import Detail
from app.domain.privacy.parameters import KNOWN
from app.domain.privacy.retention import NO_CATEGORY, OTHER_NAMES
from app.domain.tiers.tier_decision import DELETED, EXPIRY, Decision, TierFacts
from app.services.storage.memory_write import memory_write
from app.services.strength import rebase
from app.services.tiers import dry_run, expiry_preview, quarantine_expiry, sweep, transitions
from app.services.tiers.dry_run import DryRunKind, PreviewPage, Tiers
from app.services.tiers.transitions import DueMemories
from app.store.consolidation import merges
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.strength.states import StoredStates
from app.store.tiers import expiry

KIND: Final = "expire"
ROWS: Final = 500
NOTICE: Final = "{count} memories have expired, and nightly runs will delete them: see a dry run of `expire`"


def expire_slice(
    tenant_id: UUID, as_of: datetime | None = None, after: UUID = NIL, limit: int = ROWS
) -> tuple[Counter[str], UUID | None]:
    """Delete a slice of the expired memories, and hide the summaries to be regenerated.

    Args:
        as_of: Reference time; None for now.
        after: Last id of the previous slice.
        limit: Maximum number of memories to examine.

    Returns:
        Counts and the last id of this slice (None for the last slice). The counts are `deleted` memories, `summaries`
        among them that were deleted with their sources, and hidden summaries to be regenerated (`again`).
    """
    with memory_write(tenant_id, "tier", "expire.before_commit") as write:
        tx = write.tx
        due, following = transitions.lock_expired(write, after, limit, as_of)
        expired_ids = due.held.ids
        if not expired_ids:
            return Counter(), following
        summary_ids = sorted(set(merges.list_summaries(tx, tenant_id, expired_ids)).difference(expired_ids))
        judged = transitions.judge_memories(tx, tenant_id, summary_ids, as_of) if summary_ids else None
        summaries = [] if judged is None else judged.only(np.flatnonzero(~judged.standing.is_held)).held.ids
        again = set(write.set_aside(summaries, expired_ids))
        summaries = [memory_id for memory_id in summaries if memory_id not in again]
        deleted_ids = sorted([*expired_ids, *summaries])
        risky = int(due.standing.expiry.by_risk.sum())
        write.delete(
            deleted_ids,
            {
                ("expired", "category"): len(expired_ids) - risky,
                ("expired", "risk"): risky,
                ("expired", "source_expired"): len(summaries),
                ("hidden", "source_expired"): len(again),
            },
        )
        write.audit("memories_expired", ids=deleted_ids, details=_details(due, len(summaries), len(again)))
    metrics.count("expired_memories", len(deleted_ids))
    counts = Counter({"deleted": len(deleted_ids), "summaries": len(summaries)})
    return counts + Counter(again=len(again)), following


def _details(due: DueMemories, summaries: int, again: int) -> dict[str, Detail]:
    """Return the audit details: the rule and the counts by category.

    Custom categories are counted together, because tenants choose their names freely.
    """
    expiries = due.standing.expiry
    by_label = Counter(_category_label(category) for category in expiries.category.tolist())
    risky = int(expiries.by_risk.sum())
    return {
        "rule": "expiry",
        "by_category": len(due.held) - risky,
        "by_risk": risky,
        "summaries": summaries,
        "made_again": again,
        **{f"of_{name}": count for name, count in sorted(by_label.items())},
    }


def _category_label(category: int) -> str:
    if category in OTHER_NAMES:
        return OTHER_NAMES[category]
    return "none" if category == NO_CATEGORY else KNOWN[category] if category < len(KNOWN) else "others"


def _expired_tiers(_: StoredStates, standing: TierFacts, decision: Decision) -> tuple[Tiers, Tiers]:
    return standing.tiers, np.where(decision.rules == EXPIRY, np.int8(DELETED), standing.tiers)


_WORK: Final = DryRunKind(("deleted",), lambda _tx, _tenant_id, _version: "ending", _expired_tiers)


def preview_expiry(tenant_id: UUID, as_of: datetime | None, after: UUID | None, limit: int) -> PreviewPage:
    """Return what would have expired at a given time and the effect on summaries; see `dry_run.preview_moves`."""
    page = dry_run.preview_moves(_WORK, tenant_id, as_of, after, limit)
    summaries = expiry_preview.preview_summaries(tenant_id, as_of, [move.memory_id for move in page.moves])
    return page._replace(summaries=summaries, counts=page.counts | {"summaries": len(summaries)})


def run_job_slice(job: Job) -> Step:
    """Run a manually started expiry job for `rebase.STEP_SECONDS`."""
    until = time.monotonic() + rebase.STEP_SECONDS
    return _continue_expiry(job.tenant_id, rebase.reference_time(job), job.state, until, by_hand=True)


def run_slice(tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float) -> Step:
    """Continue a night's expiry, after a sweep; see `rebase.run_slice` for the arguments."""
    return _continue_expiry(tenant_id, as_of, state, until, by_hand=False)


def _continue_expiry(
    tenant_id: UUID, as_of: datetime | None, state: dict[str, Any], until: float, *, by_hand: bool
) -> Step:
    phase = state.get("phase", "sweep")
    if phase == "sweep":
        swept = sweep.run_slice(tenant_id, as_of, state.get("sweep", {}), until)
        next_state = {"phase": "sweep", "as_of": swept.state["as_of"], "sweep": swept.state}
        if swept.finished:
            next_state = {
                "phase": _after_sweep(tenant_id, by_hand=by_hand),
                "as_of": swept.state["as_of"],
                "after": str(NIL),
            }
        return Step(0, next_state, finished=False)
    return _count_expired(tenant_id, state, until) if phase == "look" else _expired(tenant_id, state, until)


def _after_sweep(tenant_id: UUID, *, by_hand: bool) -> str:
    with database.tenant(tenant_id) as tx:
        if by_hand:
            expiry.record_notice(tx, tenant_id, 0)
        return "expire" if by_hand or expiry.is_noticed(tx, tenant_id) else "look"


def _count_expired(tenant_id: UUID, state: dict[str, Any], until: float) -> Step:
    """Count the expired memories without deleting them, so that operators are notified first."""
    reference_time, after, count = datetime.fromisoformat(state["as_of"]), UUID(state["after"]), state.get("count", 0)
    while True:
        with memory_write(tenant_id, "tier") as write:
            due, following = transitions.lock_expired(write, after, ROWS, reference_time)
            count += len(due.held)
            if following is None and count:
                expiry.record_notice(write.tx, tenant_id, count)
                write.audit("expiry_noticed", details={"memories": count})
        if following is None:
            notes = (NOTICE.format(count=count),) if count else ()
            return Step(0, state, finished=True, counts={"noticed": count} if count else {}, notes=notes)
        after = following
        if time.monotonic() >= until:
            return Step(0, state | {"after": str(after), "count": count}, finished=False)


def _expired(tenant_id: UUID, state: dict[str, Any], until: float) -> Step:
    reference_time, after, counts = datetime.fromisoformat(state["as_of"]), UUID(state["after"]), Counter[str]()
    if after == NIL:
        counts += Counter(deleted=quarantine_expiry.expire_quarantined(tenant_id, reference_time))
    while True:
        slice_counts, following = expire_slice(tenant_id, reference_time, after)
        counts += slice_counts
        if following is None or time.monotonic() >= until:
            if counts:
                queues.nudge(queues.EMBED_MEMORIES)
            after = following or after
            return Step(
                counts["deleted"], state | {"after": str(after)}, finished=following is None, counts=dict(counts)
            )
        after = following
