"""Deadlines of what people have asked for: kept in time, and told of when they are near or past."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import structlog

from app.domain.privacy.requests import Request
from app.store.core import database
from app.store.privacy import deadlines
from app.store.privacy.deadlines import Due, Figures

NEAR_DAYS: Final = 7
"""A request that has fewer left is told of each night."""

log = structlog.get_logger(__name__)


def look_at_segments(tenant_id: UUID) -> tuple[str, ...]:
    """Note which erasures' segments are rewritten by now. Returns a line for the job's log where some are late."""
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        deadlines.note_rewritten(tx, tenant_id, now)
        late = deadlines.late(tx, tenant_id, now)
    if late.since is None:
        return ()
    log.error("segments_late", tenant=str(tenant_id), erasures=late.erasures, since=late.since.isoformat())
    return (f"segments of {late.erasures} erasures should be rewritten by now, the first since {late.since:%Y-%m-%d}",)


def of_tenant(tenant_id: UUID) -> Due:
    """A tenant's open requests that are due within `NEAR_DAYS`, or should be answered by now."""
    with database.tenant(tenant_id) as tx:
        return deadlines.due(tx, tenant_id, database.now(tx), NEAR_DAYS)


def look_at_requests(tenant_id: UUID) -> None:
    """Warn of those."""
    due = of_tenant(tenant_id)
    if due.days_left is not None:
        log.warning("requests_due", tenant=str(tenant_id), requests=due.requests, days_left=round(due.days_left, 1))


def days_left(request: Request, now: datetime) -> float | None:
    """Days until an open request must be answered, below 0 when it is late; None where it is answered, or never due."""
    if request.answer is not None or request.due_at is None:
        return None
    return round((request.due_at - now) / timedelta(days=1), 1)


def figures() -> Figures:
    """Numbers of all tenants, for the metrics."""
    with database.drain() as tx:
        return deadlines.figures(tx)
