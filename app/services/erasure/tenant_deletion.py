"""Delete a tenant as an erasure of everything that it has: preview, request, cancel, and read the report.

From the request on, the tenant's keys are refused and its queue accepts nothing. Its data stays as it is until the
grace period ends, so that a cancelled deletion changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

import structlog

from app import failpoints, queues
from app.clients.redis import closed_tenants
from app.clients.redis.connection import RedisError
from app.domain.privacy import legal_deadlines
from app.domain.privacy.erasure import EVERYTHING
from app.errors import Conflict, FieldError, Invalid, NotFound, require_found
from app.services.erasure import requests
from app.services.erasure.report import read_report as read_erasure_report
from app.services.erasure.tenant_steps import TENANT_STEPS
from app.store.core import database
from app.store.erasure import requests as erasures
from app.store.erasure.requests import Erasure
from app.store.privacy import holds
from app.store.tenants import tenants
from app.store.tenants.tenants import Tenant

HOLDS_SHOWN: Final = 20
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Deletion:
    """A tenant with its deletion.

    Attributes:
        erasure: None if the tenant isn't being deleted.
    """

    tenant: Tenant
    erasure: Erasure | None


@dataclass(frozen=True, slots=True)
class DeletionPreview:
    """Numbers of the entries that a deletion would erase.

    Attributes:
        stores: Entries found, by step of the deletion.
        tables: Rows by table of memories and data about them.
        holds: Legal holds in force, which block the deletion, with the number of memories that each covers.
        erase_after: End of the grace period, if the deletion were requested now.
    """

    tenant: Tenant
    stores: dict[str, int]
    tables: dict[str, int]
    holds: list[dict[str, Any]]
    erase_after: datetime


def preview(tenant_id: UUID, grace_days: int | None = None) -> DeletionPreview:
    """Return what the deletion of a tenant would erase, without changing anything.

    Raises:
        NotFound: There is no such tenant.
        Invalid: The grace period is out of range.
    """
    with database.tenant(tenant_id) as tx:
        tenant = _get_or_404(tx, tenant_id)
        now = database.now(tx)
        probe = _new(now, uuid4(), grace_days, "nobody")
        blocking = _list_holds(tx, tenant_id)
    found = {name: step.find(tenant_id, probe, ()) for name, step in TENANT_STEPS.items()}
    stores = {name: each.count for name, each in found.items()}
    return DeletionPreview(tenant, stores, found["memories"].more["tables"], blocking, probe.erase_after)


def request(tenant_id: UUID, name: str, requested_by: str, grace_days: int | None = None) -> Deletion:
    """Request the deletion of a tenant: its keys are refused at once, its data is erased after the grace period.

    A repeated request returns the existing deletion.

    Args:
        name: The tenant's name, as a confirmation.
        requested_by: Id of the caller's API key.

    Raises:
        NotFound: There is no such tenant.
        Invalid: The name isn't the tenant's, or the grace period is out of range.
        Conflict: Legal holds are in force.
    """
    with database.tenant(tenant_id) as tx:
        tenant = _get_or_404(tx, tenant_id)
        if tenant.deletion_id is not None:
            return _with_erasure(tx, tenant)
        _check(tx, tenant, name)
    _close_queue(tenant_id)
    try:
        with database.tenant(tenant_id) as tx:
            holds.lock_exclusive(tx, tenant_id)
            erasures.lock_exclusive(tx, tenant_id)
            tenant = require_found(tenants.lock(tx, tenant_id), "tenant")
            if tenant.deletion_id is not None:
                return _with_erasure(tx, tenant)
            _check(tx, tenant, name)
            new = _new(database.now(tx), uuid4(), grace_days, requested_by)
            requests.create(tx, tenant_id, new, None)
            failpoints.trigger("erasure.before_commit")
    except Exception:
        _open_queue(tenant_id)
        raise
    queues.nudge(queues.RIGHTS_TICK)
    log.warning("tenant_deletion_requested", tenant=str(tenant_id), deletion=str(new.erasure_id))
    return get(tenant_id)


def get(tenant_id: UUID) -> Deletion:
    """Return a tenant with its deletion, if there is one.

    Raises:
        NotFound: There is no such tenant.
    """
    with database.tenant(tenant_id) as tx:
        return _with_erasure(tx, _get_or_404(tx, tenant_id))


def cancel(tenant_id: UUID, cancelled_by: str) -> Deletion:
    """Cancel a tenant's deletion in its grace period: its keys are accepted again.

    Raises:
        NotFound: There is no such tenant.
        Conflict: The tenant isn't being deleted, or the grace period is over.
    """
    found = get(tenant_id)
    if found.tenant.deletion_id is None:
        raise Conflict("this tenant isn't being deleted")
    requests.cancel(tenant_id, found.tenant.deletion_id, cancelled_by)
    _open_queue(tenant_id)
    log.warning("tenant_deletion_cancelled", tenant=str(tenant_id), deletion=str(found.tenant.deletion_id))
    return get(tenant_id)


def read_report(tenant_id: UUID) -> dict[str, Any]:
    """Return the report of a tenant's deletion.

    Raises:
        NotFound: There is no such tenant, or it isn't being deleted.
        Conflict: The deletion isn't finished.
    """
    found = get(tenant_id)
    if found.tenant.deletion_id is None:
        raise NotFound("This tenant isn't being deleted")
    return read_erasure_report(tenant_id, found.tenant.deletion_id)


def _new(now: datetime, erasure_id: UUID, grace_days: int | None, requested_by: str) -> Erasure:
    times = legal_deadlines.legal_deadlines("user", now, grace_days)
    fields = (erasure_id, "user", "grace", EVERYTHING, None, now, requested_by, None, times.erase_after)
    return Erasure(*fields, whole_tenant=True)  # type: ignore[arg-type]


def _check(tx: database.Transaction, tenant: Tenant, name: str) -> None:
    """Check the confirmation, and that no legal hold is in force; at most `HOLDS_SHOWN` are listed.

    Raises:
        Invalid: The name isn't the tenant's.
        Conflict: Legal holds are in force.
    """
    if name != tenant.name:
        raise Invalid(errors=[FieldError("name", "isn't the name of this tenant: repeat it to confirm the deletion")])
    if blocking := _list_holds(tx, tenant.tenant_id):
        errors = [FieldError(f"holds[{n}]", "is in force", str(hold["hold_id"])) for n, hold in enumerate(blocking)]
        raise Conflict("legal holds are in force: release them before you delete the tenant", errors=errors)


def _list_holds(tx: database.Transaction, tenant_id: UUID) -> list[dict[str, Any]]:
    return [
        {
            "hold_id": hold.hold_id,
            "placed_at": hold.placed_at,
            "memories": holds.count_covered(tx, tenant_id, hold.meant).memories,
            "ground": hold.ground,
        }
        for hold in holds.list_holds(tx, tenant_id, None, HOLDS_SHOWN, released=False)
    ]


def _get_or_404(tx: database.Transaction, tenant_id: UUID) -> Tenant:
    return require_found(tenants.get(tx, tenant_id), "tenant")


def _with_erasure(tx: database.Transaction, tenant: Tenant) -> Deletion:
    if tenant.deletion_id is None:
        return Deletion(tenant, None)
    return Deletion(tenant, erasures.get(tx, tenant.tenant_id, tenant.deletion_id))


def _close_queue(tenant_id: UUID) -> None:
    try:
        closed_tenants.close(tenant_id)
    except RedisError as error:  # nothing is accepted without Redis; once it is back, the keys are refused
        log.warning("queue_not_closed", tenant=str(tenant_id), error=type(error).__name__)


def _open_queue(tenant_id: UUID) -> None:
    try:
        closed_tenants.reopen(tenant_id)
    except RedisError as error:
        log.warning("queue_not_reopened", tenant=str(tenant_id), error=type(error).__name__)
