"""Summarise open privacy requests, erasures, exports and holds for operators, and start erasures early."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from app import queues
from app.domain.jobs import ERASE
from app.domain.privacy.requests import KEPT_MONTHS, RequestStatistics
from app.domain.privacy.urgency import Deadline, sort_by_urgency
from app.errors import Conflict
from app.services.erasure.requests import get_or_404
from app.services.security import operator_log
from app.store.core import database
from app.store.erasure import requests
from app.store.erasure.requests import Erasure
from app.store.privacy import exports, holds, request_log, rights_overview
from app.store.privacy.exports import Export
from app.store.privacy.holds import Hold

REQUESTS_MAX: Final = 100
SHOWN: Final = 10
_DAYS_A_MONTH: Final = 30.4375


@dataclass(frozen=True, slots=True)
class RightsOverview:
    """The state of a tenant's privacy rights.

    Attributes:
        requests: Open requests, most urgent first; at most `REQUESTS_MAX`.
        more: Whether there are more open requests.
        erasing: Open requests that will be answered automatically when their erasure finishes.
        exporting: Open requests that have an export.
        erasures: The latest requested erasures, except deletions of single memories.
        exports: The latest exports.
        holds: The latest holds that aren't released.
        tallies: Statistics of the requests of the last `KEPT_MONTHS` months.
    """

    requests: list[Deadline]
    more: bool
    erasing: set[UUID]
    exporting: set[UUID]
    erasures: list[Erasure]
    exports: list[Export]
    holds: list[Hold]
    tallies: list[RequestStatistics]


def read_overview(tenant_id: UUID) -> RightsOverview:
    """Return the state of a tenant's privacy rights without counting memories."""
    with database.tenant(tenant_id) as tx:
        now = database.now(tx)
        open_requests = rights_overview.open_requests(tx, tenant_id, REQUESTS_MAX + 1)
        ids = [request.request_id for request in open_requests]
        since = now - timedelta(days=KEPT_MONTHS * _DAYS_A_MONTH)
        return RightsOverview(
            sort_by_urgency(open_requests[:REQUESTS_MAX], now),
            len(open_requests) > REQUESTS_MAX,
            rights_overview.filter_erasures(tx, tenant_id, ids),
            rights_overview.filter_exports(tx, tenant_id, ids),
            rights_overview.list_requested(tx, tenant_id, None, SHOWN),
            exports.list_exports(tx, tenant_id, None, SHOWN),
            holds.list_holds(tx, tenant_id, None, SHOWN, released=False),
            request_log.count_by_nature(tx, tenant_id, since, now),
        )


list_requested = database.in_tenant(rights_overview.list_requested)
"""Return a page of requested erasures, latest first, after the given request time and id."""


def finish(tenant_id: UUID, erasure_id: UUID, actor: str) -> Erasure:
    """Record that the caller ended an erasure's grace period, then start the erasure like `start_now`.

    Args:
        actor: Id of the caller's key.

    Raises:
        NotFound: This tenant has no such erasure.
        Conflict: The erasure has ended, or waits for the release of legal holds.
    """
    with database.tenant(tenant_id) as tx:
        _check_startable(get_or_404(tx, tenant_id, erasure_id))
    operator_log.record_action(tenant_id, actor, "finish_erasure", str(erasure_id), "called with the API")
    return start_now(tenant_id, erasure_id)


def start_now(tenant_id: UUID, erasure_id: UUID) -> Erasure:
    """Start an erasure now, skipping the rest of its grace period, or resume an incomplete erasure.

    Every law allows a grace period of zero days: the grace period only gives time to cancel.

    Raises:
        NotFound: This tenant has no such erasure.
        Conflict: The erasure has ended, or waits for the release of legal holds.
    """
    with database.tenant(tenant_id) as tx:
        holds.lock_shared(tx, tenant_id)
        requests.lock_exclusive(tx, tenant_id)
        erasure = get_or_404(tx, tenant_id, erasure_id, locked=True)
        _check_startable(erasure)
        now = database.now(tx)
        if erasure.erase_after > now:
            requests.set_fields(tx, tenant_id, erasure_id, erase_after=now)
        if not rights_overview.hasten_jobs(tx, tenant_id, ERASE, erasure_id):
            requests.queue_job(tx, tenant_id, erasure_id)
        erasure = get_or_404(tx, tenant_id, erasure_id)
    queues.nudge(queues.RIGHTS_TICK)
    return erasure


def _check_startable(erasure: Erasure) -> None:
    """Check that an erasure can be started or continued.

    Raises:
        Conflict: The erasure has ended, or waits for the release of legal holds.
    """
    if erasure.status == "held":
        raise Conflict("only data under legal hold remains: release the hold, and the erasure continues automatically")
    if erasure.status not in ("grace", "running"):
        raise Conflict(f"this erasure is already {erasure.status}")
