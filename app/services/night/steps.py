"""Define the nightly steps in execution order, each with its dry run.

Each call resumes its step, runs for a few seconds and returns its progress like a job's step. A step acts as of the
time of the nightly run, and can be repeated after a crash or in the next night.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import UUID

from app.domain.jobs import Step
from app.services.consolidation import consolidate, contradictions
from app.services.embedding import graphs
from app.services.erasure import execution
from app.services.evaluation import self_tests
from app.services.jobs import retention
from app.services.memories import counts
from app.services.privacy import deadlines, exports
from app.services.security import audit
from app.services.tenants import quota
from app.services.tiers import archive, cold, compaction, expiry, previews, removals, sweep
from app.services.tiers.previews import Preview
from app.settings import settings

CarryOn = Callable[[UUID, datetime, dict[str, Any], float], Step]
"""A nightly step: takes the tenant, the run's time, the previous state (empty at first) and a monotonic deadline.

At least one slice (at most 500 rows or a few seconds) is always done.
"""

Foresee: TypeAlias = Callable[[UUID, datetime | None, UUID | None, int], Preview]
"""A step's dry run, assuming that the steps before it have run; takes the arguments of `previews.preview`."""

NO_MASTER_KEY: Final = "no master key is set: nothing goes to cold storage"


def _cold(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    if settings().master_key is None:
        return Step(0, state, finished=True, notes=(NO_MASTER_KEY,))
    return cold.carry_on(tenant_id, as_of, state, until)


def _segments(tenant_id: UUID, _as_of: datetime, state: dict[str, Any], until: float) -> Step:
    if settings().master_key is None:
        return Step(0, state, finished=True)
    return compaction.carry_on(tenant_id, state, until)


def _figures(tenant_id: UUID, _as_of: datetime, state: dict[str, Any], _until: float) -> Step:
    """Recount the memories, and check the quota, the audit chain, and privacy requests that are due."""
    counts.recount(tenant_id)
    quota.watch(tenant_id)
    audit.watch(tenant_id)
    deadlines.warn_due_requests(tenant_id)
    return Step(1, state, finished=True)


STEPS: Final[dict[str, CarryOn]] = {
    "sweep": sweep.carry_on,
    "erasures": execution.run_night_slice,
    "expire": expiry.carry_on,
    "consolidate": consolidate.carry_on,
    "contradictions": contradictions.carry_on,
    "archive": archive.carry_on,
    "cold": _cold,
    "delete": removals.carry_on,
    "self_tests": self_tests.carry_on_when_due,
    "segments": _segments,
    "retention": retention.carry_on,
    "exports": exports.carry_on,
    "figures": _figures,
    "graphs": graphs.carry_on,
}

_ELSEWHERE: Final = "moves no memory to another tier"


def foreseen() -> Mapping[str, Foresee | str]:
    """Return each step's dry run, or the reason why it lists no changes."""
    key = settings().master_key is not None
    lower = (archive.WORK, cold.WORK) if key else (archive.WORK,)
    return {
        "sweep": sweep.preview,
        "erasures": "erases what was asked for: `POST /v1/privacy/erasures` has a dry run of its own",
        "expire": expiry.preview,
        "consolidate": "moves sources of summaries: `POST /v1/maintenance/consolidate` has a dry run of its own",
        "contradictions": "asks a model, and moves no memory to another tier",
        "archive": archive.preview,
        "cold": partial(previews.preview, cold.WORK, behind=(archive.WORK,)) if key else NO_MASTER_KEY,
        "delete": partial(previews.preview, removals.WORK, behind=lower),
        "self_tests": "asks memories about themselves: `POST /v1/maintenance/selftest` has a dry run of its own",
        "segments": _ELSEWHERE,
        "retention": _ELSEWHERE,
        "exports": _ELSEWHERE,
        "figures": _ELSEWHERE,
        "graphs": _ELSEWHERE,
    }
