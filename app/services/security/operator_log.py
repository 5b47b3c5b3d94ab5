"""Record manual actions: a row with the reason, and an audit entry without the reason.

These are the actions on the dashboard, and calls of the API that end an erasure's grace period early.

The reason is free text, so it is retained for a limited time and never enters the audit chain.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID, uuid4

from app.services.security import audit
from app.store.core import database
from app.store.core.paging import Page, Place
from app.store.tenants import operator_log
from app.store.tenants.operator_log import OperatorAction

REASON_MAX: Final = 500
"""Maximum length of a reason in characters."""


def record_action(tenant_id: UUID, actor: str, act: str, target: str, reason: str) -> None:
    """Record an action before it is performed.

    Args:
        actor: Id of the operator's key.
        act: The action, a fixed word such as `run_night`.
        target: The target's id or a fixed word; may be empty.
        reason: The operator's reason, at most `REASON_MAX` characters.
    """
    act_id = uuid4()
    with database.tenant(tenant_id) as tx:
        operator_log.add(tx, tenant_id, OperatorAction(act_id, database.now(tx), actor, act, target, reason))
        details = {"act": act, "id": str(act_id)} | ({"target": target} if target else {})
        audit.append(tx, tenant_id, "operator_acted", actor, details=details)


def list_actions(tenant_id: UUID, older_than: Place | None = None, limit: int = 50) -> Page[OperatorAction]:
    """Return a page of actions, newest first; only actions older than `older_than`, a time and id, if it is given."""
    with database.tenant(tenant_id) as tx:
        return operator_log.list_actions(tx, tenant_id, older_than, limit)
