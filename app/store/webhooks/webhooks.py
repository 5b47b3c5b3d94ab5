"""Store webhooks: their settings, the ids of their secrets, and their position in the change feed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Connection, Row, text

from app.domain.webhooks.endpoint import Format, Reason, Status
from app.store.core.paging import Latest, Page, Place


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook.

    Attributes:
        types: Types of changes to send; None for all.
        reason: Reason of the status `disabled`; None with another status.
        created_by: Id of the caller's API key.
        old_secret_until: Time until which messages are signed with the old secret, too; None without an old one.
        cursor: Cursor of the last change that has a delivery or was passed over.
        missed: Number of changes that the feed deleted before they had a delivery.
        failures: Number of failed turns in a row.
        failing_since: Time of the first failure since the last success; None if the last attempt succeeded.
        pending: Number of deliveries that haven't succeeded and have attempts left.
        failed: Number of stored deliveries that have no attempt left.
    """

    webhook_id: UUID
    url: str
    description: str
    types: list[str] | None
    format: Format
    status: Status
    reason: Reason | None
    created_at: datetime
    created_by: str
    updated_at: datetime
    secret_id: UUID
    old_secret_id: UUID | None
    old_secret_until: datetime | None
    cursor: int
    missed: int
    failures: int
    failing_since: datetime | None
    succeeded_at: datetime | None
    pending: int = 0
    failed: int = 0

    @property
    def state(self) -> str:
        """The status, or `failing` if the webhook is enabled and its receiver failed last."""
        return "failing" if self.status == "enabled" and self.failing_since is not None else self.status


COLUMNS: Final = """webhook_id, url, description, types, format, status, reason, created_at, created_by, updated_at,
  secret_id, old_secret_id, old_secret_until, cursor, missed, failures, failing_since, succeeded_at"""
_COUNT_OF: Final = """(SELECT count(*) FROM webhook_deliveries AS delivery
  WHERE delivery.tenant_id = webhooks.tenant_id AND delivery.webhook_id = webhooks.webhook_id
    AND delivery.status = '{0}') AS {0}"""
_COUNTED: Final = f"{COLUMNS}, {_COUNT_OF.format('pending')}, {_COUNT_OF.format('failed')}"


def insert(  # noqa: PLR0917 - ids and fields
    tx: Connection,
    tenant_id: UUID,
    webhook_id: UUID,
    secret_id: UUID,
    cursor: int,
    created_by: str,
    fields: dict[str, Any],
) -> Webhook:
    """Insert a webhook.

    Args:
        fields: URL, description, types and format, by the name of their column.
    """
    row = {"tenant": tenant_id, "webhook_id": webhook_id, "secret_id": secret_id, "cursor": cursor} | fields
    return build(tx.execute(_INSERT, row | {"created_by": created_by}).one())


_INSERT: Final = text(f"""
INSERT INTO webhooks (tenant_id, webhook_id, url, description, types, format, created_by, secret_id, cursor)
VALUES (:tenant, :webhook_id, :url, :description, CAST(:types AS text[]), :format, :created_by, :secret_id, :cursor)
RETURNING {COLUMNS}
""")  # noqa: S608 - constants only


def count(tx: Connection, tenant_id: UUID) -> int:
    """Count a tenant's webhooks, and prevent others from being inserted until the transaction ends."""
    tx.execute(_LOCK_ALL, {"name": f"ebbing webhooks {tenant_id}"})
    return int(tx.execute(_COUNT, {"tenant": tenant_id}).scalar_one())


_LOCK_ALL: Final = text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))")
_COUNT: Final = text("SELECT count(*) FROM webhooks WHERE tenant_id = :tenant")


def get(tx: Connection, tenant_id: UUID, webhook_id: UUID) -> Webhook | None:
    """Return a webhook with its counts, or None if it doesn't exist."""
    row = tx.execute(_GET, {"tenant": tenant_id, "webhook_id": webhook_id}).one_or_none()
    return None if row is None else build(row)


_GET: Final = text(f"SELECT {_COUNTED} FROM webhooks WHERE tenant_id = :tenant AND webhook_id = :webhook_id")  # noqa: S608


def lock(tx: Connection, tenant_id: UUID, webhook_id: UUID) -> Webhook | None:
    """Return a webhook, locked until the transaction ends, or None if it doesn't exist."""
    row = tx.execute(_LOCK, {"tenant": tenant_id, "webhook_id": webhook_id}).one_or_none()
    return None if row is None else build(row)


_LOCK: Final = text(
    f"SELECT {COLUMNS} FROM webhooks WHERE tenant_id = :tenant AND webhook_id = :webhook_id FOR UPDATE"  # noqa: S608
)


def list_webhooks(tx: Connection, tenant_id: UUID, older_than: Place | None, limit: int) -> Page[Webhook]:
    """Return a page of webhooks with their counts, latest first."""
    return _PAGES.read(tx, build, older_than, limit, tenant=tenant_id)


_PAGES: Final = Latest(
    f"SELECT {_COUNTED} FROM webhooks WHERE tenant_id = :tenant ORDER BY created_at DESC, webhook_id DESC"  # noqa: S608
)


def update(tx: Connection, tenant_id: UUID, webhook_id: UUID, fields: dict[str, Any]) -> None:
    """Change columns of a webhook: any of URL, description, types, format, status and reason.

    Setting the status `enabled` or the URL resets the failures, and the receiver is called without further delay.
    """
    names = [name for name in _CHANGEABLE if name in fields]
    assignments = [f"{name} = {_CHANGEABLE[name]}" for name in names]
    if fields.get("status") == "enabled" or "url" in fields:
        assignments.append("failures = 0, failing_since = NULL, rest_until = 'epoch'")
    statement = f"""UPDATE webhooks SET {", ".join(assignments)}, updated_at = clock_timestamp()
WHERE tenant_id = :tenant AND webhook_id = :webhook_id"""  # noqa: S608 - names from code
    values = {name: fields[name] for name in names}
    tx.execute(text(statement), {"tenant": tenant_id, "webhook_id": webhook_id} | values)


_CHANGEABLE: Final = {
    "url": ":url",
    "description": ":description",
    "types": "CAST(:types AS text[])",
    "format": ":format",
    "status": ":status",
    "reason": ":reason",
}


def rotate_secret(tx: Connection, tenant_id: UUID, webhook_id: UUID, secret_id: UUID, overlap_hours: int) -> None:
    """Store a new secret's id; the current one becomes the old one for `overlap_hours`, or is removed if 0."""
    values = {"tenant": tenant_id, "webhook_id": webhook_id, "secret_id": secret_id, "hours": overlap_hours}
    tx.execute(_ROTATE, values)


_ROTATE: Final = text("""
UPDATE webhooks SET
  old_secret_id = CASE WHEN :hours > 0 THEN secret_id END,
  old_secret_until = CASE WHEN :hours > 0 THEN clock_timestamp() + make_interval(hours => :hours) END,
  secret_id = :secret_id, updated_at = clock_timestamp()
WHERE tenant_id = :tenant AND webhook_id = :webhook_id
""")


def remove_old_secrets(tx: Connection, tenant_id: UUID, before: datetime) -> list[UUID]:
    """Remove the ids of old secrets whose overlap ended before this time, and return these ids."""
    return list(tx.execute(_REMOVE_OLD, {"tenant": tenant_id, "before": before}).scalars())


_REMOVE_OLD: Final = text("""
WITH ended AS MATERIALIZED (
  SELECT webhook_id, old_secret_id FROM webhooks
  WHERE tenant_id = :tenant AND old_secret_until < :before ORDER BY webhook_id FOR UPDATE)
UPDATE webhooks SET old_secret_id = NULL, old_secret_until = NULL
FROM ended WHERE webhooks.tenant_id = :tenant AND webhooks.webhook_id = ended.webhook_id
RETURNING ended.old_secret_id
""")


def delete(tx: Connection, tenant_id: UUID, webhook_id: UUID) -> bool:
    """Delete a webhook and its pending deliveries; the others remain until their retention ends."""
    values = {"tenant": tenant_id, "webhook_id": webhook_id}
    tx.execute(_DELETE_PENDING, values)
    return tx.execute(_DELETE, values).rowcount == 1


_DELETE_PENDING: Final = text("""
DELETE FROM webhook_deliveries WHERE tenant_id = :tenant AND webhook_id = :webhook_id AND status = 'pending'
""")
_DELETE: Final = text("DELETE FROM webhooks WHERE tenant_id = :tenant AND webhook_id = :webhook_id")


def build(row: Row[Any]) -> Webhook:
    """Return the webhook of a row of `COLUMNS`, optionally with counts."""
    return Webhook(**{name: value for name, value in row._asdict().items() if name in Webhook.__slots__})
