"""Log manual operator actions with the reasons given."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.core.paging import Latest, Page, Place


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """An operator's action.

    Attributes:
        actor: Id of the API key.
        act: A fixed word.
        target: The object of the action: an id, a fixed word, or empty.
        reason: The operator's own words.
    """

    act_id: UUID
    at: datetime
    actor: str
    act: str
    target: str
    reason: str


def add(tx: Connection, tenant_id: UUID, act: OperatorAction) -> None:
    """Insert an action."""
    tx.execute(_ADD, {"tenant_id": tenant_id, **asdict(act)})


_ADD = text("""
INSERT INTO operator_acts (tenant_id, act_id, at, actor, act, target, reason)
VALUES (:tenant_id, :act_id, :at, :actor, :act, :target, :reason)
""")


def list_actions(tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int) -> Page[OperatorAction]:
    """Return a page of actions, newest first."""
    return _PAGES.read(tx, lambda row: OperatorAction(*row), older_than, limit, tenant_id=tenant_id)


_PAGES = Latest("""
SELECT act_id, at, actor, act, target, reason FROM operator_acts WHERE tenant_id = :tenant_id
ORDER BY at DESC, act_id DESC""")
