"""Track the legal deadlines of privacy requests and warn when one is near or missed."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

import structlog

from app.domain.privacy.legal_deadlines import LAWS, Law, LegalDeadlines, legal_deadlines
from app.domain.privacy.requests import PrivacyRequest
from app.services.strength import memory_strength
from app.store.core import database
from app.store.privacy import deadlines
from app.store.privacy.deadlines import DeadlineTotals, DueRequests

NEAR_DAYS: Final = 7
"""Open requests that are due within this number of days, or overdue, are reported each night."""

log = structlog.get_logger(__name__)


def read_zone(tx: database.Transaction, tenant_id: UUID) -> ZoneInfo:
    """Return the time zone of the tenant's policy, in which the days of legal deadlines are counted."""
    now = database.now(tx).timestamp()
    return ZoneInfo(memory_strength.load_timeline(tx, tenant_id).at(now).policy.time_zone)


def preview_deadlines(tenant_id: UUID, received_at: datetime) -> dict[Law, LegalDeadlines]:
    """Return the deadlines that a request would have under each law."""
    with database.tenant(tenant_id) as tx:
        zone = read_zone(tx, tenant_id)
    return {law: legal_deadlines(law, received_at, zone=zone) for law in LAWS}


def next_deadlines(tenant_id: UUID) -> DueRequests:
    """Return the tenant's open requests that are due within `NEAR_DAYS` or overdue."""
    with database.tenant(tenant_id) as tx:
        return deadlines.read_due(tx, tenant_id, database.now(tx), NEAR_DAYS)


def warn_due_requests(tenant_id: UUID) -> None:
    """Log a warning if open requests are due within `NEAR_DAYS` or overdue."""
    due = next_deadlines(tenant_id)
    if due.days_left is not None:
        log.warning("requests_due", tenant=str(tenant_id), requests=due.requests, days_left=round(due.days_left, 1))


def days_left(request: PrivacyRequest, now: datetime) -> float | None:
    """Return the days until an open request is due, rounded down to 0.1, negative if overdue.

    Returns:
        None if the request is answered, also in part, or has no deadline.
    """
    if request.answer is not None or request.partial_sent_at is not None or request.due_at is None:
        return None
    return math.floor((request.due_at - now) / timedelta(days=0.1)) / 10


def deadline_figures() -> DeadlineTotals:
    """Return the deadline figures over all tenants, for the metrics."""
    with database.drain() as tx:
        return deadlines.read_totals(tx)
