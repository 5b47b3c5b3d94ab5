"""Calibrate keep chances every night: find the threshold for a tenant's target share, and learn each role's shift.

A new calibration is stored together with the former one. Memories that the two may judge differently are then marked
due for the sweep in slices; the last slice drops the former calibration. So an interrupted run can be continued.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
import structlog

from app.domain.jobs import Step
from app.domain.tiers import keep_calibration, keep_rule
from app.domain.tiers.keep_calibration import KeepCalibration
from app.domain.tiers.keep_rule import SPEAKERS
from app.domain.tiers.protection import FORMER_SALIENCE, KEEP_ABOVE
from app.services.strength import keep_threshold, memory_strength
from app.store.core import database
from app.store.tenants import keep_calibrations
from app.store.tenants.keep_calibrations import ChanceRange

MARKED_ROWS: Final = 5_000
COUNTED_FROM: Final = timedelta(days=7)
COUNTED_TO: Final = timedelta(days=37)
"""Ages between which uses of memories are counted: they have had time to be used, and hardly any is archived yet."""

log = structlog.get_logger(__name__)


def run_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Calibrate once a night, then mark the affected memories in slices.

    Args:
        as_of: The night's time.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one slice is processed.
    """
    if not state:
        _calibrate(tenant_id, as_of)
    marked = 0
    while True:
        rows = _mark_slice(tenant_id)
        marked += rows
        if rows < MARKED_ROWS or time.monotonic() >= until:
            return Step(marked, {"calibrated": True}, finished=rows < MARKED_ROWS)


def _calibrate(tenant_id: UUID, as_of: datetime) -> None:
    """Compute the calibration, and write it if it differs enough from the stored one."""
    with database.tenant(tenant_id) as tx:
        policy = memory_strength.load_timeline(tx, tenant_id).at(as_of.timestamp()).policy
        stored = keep_calibrations.read(tx, tenant_id)
        period = as_of - COUNTED_TO, as_of - COUNTED_FROM
        counts = keep_calibrations.count_uses(tx, tenant_id, *period, stored.read_threshold(policy.rules))
    shifts = keep_calibration.learn_shifts(counts) if policy.protection.salience_above is None else {}
    found = keep_threshold.find_threshold(tenant_id, policy, as_of)
    fresh = KeepCalibration(shifts=shifts, deleted=stored.deleted, version=stored.version)
    if found is not None:
        fresh = msgspec.structs.replace(
            fresh, target=policy.tiers.target_active_share, threshold=found.threshold, share=found.share
        )
    if not stored.differs(fresh):
        return
    with database.tenant(tenant_id) as tx:
        keep_calibrations.write(
            tx, tenant_id, msgspec.structs.replace(fresh, former=stored if stored.former is None else stored.former)
        )
    log.info("keep_chances_calibrated", tenant=str(tenant_id), threshold=fresh.threshold, shifts=shifts)


def _mark_slice(tenant_id: UUID) -> int:
    """Mark memories due whose verdict may have changed since the former calibration; return their number."""
    with database.tenant(tenant_id) as tx:
        calibration = keep_calibrations.read(tx, tenant_id)
        if calibration.former is None:
            return 0
        rules = memory_strength.load_timeline(tx, tenant_id).at(database.now(tx).timestamp()).policy.rules
        ranges = []
        for speaker in SPEAKERS:
            ends = sorted(
                float(keep_rule.log_odds(each.read_threshold(rules))) - each.shifts.get(speaker, 0.0)
                for each in (calibration.former, calibration)
            )
            low, high = (float(keep_rule.chances_of_odds(end)) for end in ends)
            low_salience, high_salience = (
                FORMER_SALIENCE + (end - float(keep_rule.log_odds(KEEP_ABOVE))) / keep_rule.SALIENCE_SLOPE
                for end in ends
            )
            if low < high:
                ranges.append(ChanceRange(speaker, low, high, low_salience, high_salience))
        marked = keep_calibrations.mark_due(tx, tenant_id, ranges, MARKED_ROWS)
        if marked < MARKED_ROWS:
            keep_calibrations.write(tx, tenant_id, msgspec.structs.replace(calibration, former=None))
        return marked
