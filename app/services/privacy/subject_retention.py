"""Set, remove and list retention periods of subjects; the memories become due for the next sweep."""

from __future__ import annotations

from uuid import UUID, uuid4

from app.domain.privacy.audit_chain import Action, Detail
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.retention import NewRetention
from app.errors import require_found
from app.services.privacy import legal_holds
from app.services.security import audit
from app.store.core import database
from app.store.enrichment.work_queue import NIL
from app.store.jobs import jobs
from app.store.privacy import holds, subject_retention
from app.store.privacy.subject_retention import SubjectPeriod

list_periods = database.in_tenant(subject_retention.list_periods)
"""Return a subject's retention periods."""


def set_period(tenant_id: UUID, new: NewRetention, actor: str) -> list[SubjectPeriod]:
    """Set or remove a subject's retention period, and make the memories about the subject due for the next sweep.

    If there are many memories, the call makes only the first of them due, and creates a job for the rest.

    Returns:
        The subject's periods afterwards.

    Raises:
        NotFound: The period to be removed doesn't exist.
    """
    with database.tenant(tenant_id) as tx:
        if new.keep_days is None:
            removed = subject_retention.remove_period(tx, tenant_id, new.subject, new.category)
            require_found(removed or None, "retention period")
        else:
            subject_retention.set_period(tx, tenant_id, new.subject, new.category, new.keep_days, actor)
        _, last = holds.make_due(tx, tenant_id, Scope(subject=new.subject), NIL, legal_holds.ROWS)
        if last is not None:
            parameters = {"subject": new.subject, "after": str(last)}
            jobs.add(tx, uuid4(), tenant_id, legal_holds.KIND, parameters, lone=False)
        periods = subject_retention.list_periods(tx, tenant_id, new.subject)
        action: Action = "retention_removed" if new.keep_days is None else "retention_set"
        details: dict[str, Detail] = {"keep_days": str(new.keep_days), "by_category": new.category is not None}
        audit.append(tx, tenant_id, action, actor, subject=new.subject, details=details)
    return periods
