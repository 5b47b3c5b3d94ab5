"""Define the nightly steps in execution order, and their dry runs.

Each call resumes a step, runs for a few seconds and returns the progress as a job's step does. A step acts as of the
time of the nightly run, and can be repeated after a crash or in the next nightly run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import UUID

from app.domain.jobs import Step
from app.services.consolidation import consolidation_run, contradictions
from app.services.embedding import tenant_indexes
from app.services.enrichment import keep_chance_fill
from app.services.erasure import night_slice
from app.services.evaluation import self_tests
from app.services.jobs import housekeeping
from app.services.memories import recount
from app.services.notes import note_preview, note_run
from app.services.privacy import deadlines, export_requests, import_files
from app.services.security import audit
from app.services.tenants import learned_rates, quota
from app.services.tiers import (
    archive,
    cold_storage,
    decay_deletion,
    dry_run,
    expiry,
    keep_calibration,
    promotion_run,
    segment_compaction,
    sweep,
)
from app.services.tiers.dry_run import PreviewPage
from app.settings import settings

CarryOn = Callable[[UUID, datetime, dict[str, Any], float], Step]
"""A nightly step: takes the tenant, the run's time, the previous state (empty at first) and a monotonic deadline.

Each call processes at least one slice, which is limited to a number of rows or a few seconds.
"""

Foresee: TypeAlias = Callable[[UUID, datetime | None, UUID | None, int], PreviewPage]
"""A step's dry run, assuming that the steps before it have run; takes the arguments of `dry_run.preview_moves`."""

NO_MASTER_KEY: Final = "no master key is set, so no memory is moved to cold storage: set EBBING_MASTER_KEY"


def _run_cold_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    if settings().master_key is None:
        return Step(0, state, finished=True, notes=(NO_MASTER_KEY,))
    return cold_storage.run_slice(tenant_id, as_of, state, until)


def _run_segments_slice(tenant_id: UUID, _as_of: datetime, state: dict[str, Any], until: float) -> Step:
    if settings().master_key is None:
        return Step(0, state, finished=True)
    return segment_compaction.run_slice(tenant_id, state, until)


def _run_exports_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Clean up exports, and in the last slice the files of imports."""
    step = export_requests.run_slice(tenant_id, as_of, state, until)
    if not step.finished:
        return step
    objects = step.counts.get("objects", 0) + import_files.sweep(tenant_id, as_of)
    return replace(step, counts=step.counts | {"objects": objects})


def _run_figures_slice(tenant_id: UUID, _as_of: datetime, state: dict[str, Any], _until: float) -> Step:
    """Recount the memories, and check the quota, the audit chain and the deadlines of privacy requests."""
    recount.recount_tenant(tenant_id)
    quota.warn_near_quota(tenant_id)
    audit.verify_recent(tenant_id)
    deadlines.warn_due_requests(tenant_id)
    return Step(1, state, finished=True)


STEPS: Final[dict[str, CarryOn]] = {
    "keep_chances": keep_chance_fill.run_slice,
    "calibration": keep_calibration.run_slice,
    "promote": promotion_run.run_slice,
    "sweep": sweep.run_slice,
    "erasures": night_slice.run_night_slice,
    "expire": expiry.run_slice,
    "consolidate": consolidation_run.run_slice,
    "contradictions": contradictions.run_slice,
    "archive": archive.run_slice,
    "cold": _run_cold_slice,
    "delete": decay_deletion.run_slice,
    "notes": note_run.run_slice,
    "self_tests": self_tests.run_slice_when_due,
    "segments": _run_segments_slice,
    "retention": housekeeping.run_slice,
    "exports": _run_exports_slice,
    "figures": _run_figures_slice,
    "graphs": tenant_indexes.run_slice,
    "learning": learned_rates.run_slice,
}

NO_MODEL: Final = "no model provider is set, so no contradictions are detected"


def dry_runs() -> Mapping[str, Foresee | str]:
    """Return each step's dry run, or the reason why it lists no changes."""
    has_master_key = settings().master_key is not None
    earlier_moves = (archive.WORK, cold_storage.WORK) if has_master_key else (archive.WORK,)
    return {
        "keep_chances": "computes missing keep chances; the sweep uses them, so it may move more memories than "
        "listed here",
        "calibration": "recalibrates the keep threshold; `ebbing forecast` (`POST /v1/forecast`) shows the result",
        "promote": promotion_run.preview_promotion,
        "sweep": sweep.preview_sweep,
        "erasures": "carries out requested erasures; preview one with `ebbing erase --dry-run` "
        "(`POST /v1/privacy/erasures`)",
        "expire": expiry.preview_expiry,
        "consolidate": "summarises related memories and moves their sources to another tier; preview it with "
        "`ebbing maintain consolidate --dry-run` (`POST /v1/maintenance/consolidate`)",
        "contradictions": "asks a model whether new memories contradict earlier ones"
        if settings().has_provider
        else NO_MODEL,
        "archive": archive.preview_archive,
        "cold": partial(dry_run.preview_moves, cold_storage.WORK, behind=(archive.WORK,))
        if has_master_key
        else NO_MASTER_KEY,
        "delete": partial(dry_run.preview_moves, decay_deletion.WORK, behind=earlier_moves),
        "notes": note_preview.preview_notes if settings().notes_dir else note_run.NO_FOLDER,
        "self_tests": "queries memories to test retrieval; preview it with `ebbing maintain selftest --dry-run` "
        "(`POST /v1/maintenance/selftest`)",
        "segments": "merges small or mostly empty segments of cold storage and deletes unreferenced objects"
        if has_master_key
        else NO_MASTER_KEY,
        "retention": "deletes records past their retention period: the ledger of requests, runs, jobs, dead letters, "
        "history, tier moves, self-test results, link targets that never arrived, and recorded searches; deletes no "
        "memories",
        "exports": "closes expired data exports, deletes their files, and deletes old entries",
        "figures": "recounts the memories and checks the quota, the audit log and the deadlines of privacy requests",
        "graphs": "creates, fills or drops the dedicated indexes if the tenant has crossed the size threshold",
        "learning": "learns parameters from recorded uses; `GET /v1/policy/learned` shows the values it would set and "
        "their effect",
    }
