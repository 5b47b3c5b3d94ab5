"""Claim webhooks for a turn of sending, across tenants: a webhook is served by one worker at a time.

A lease expires if its worker dies. After a turn, a webhook rests: it isn't claimed before `rest_until`. Leases and
rests that end more than `LONGEST_SECONDS` from now date from before a step back of the database's clock, and count as
ended.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, text

from app.store.webhooks.webhooks import COLUMNS, Webhook, build

LEASE_SECONDS: Final = 60
LONGEST_SECONDS: Final = 900
"""Longer than any lease and any rest."""


class DueWebhook(NamedTuple):
    """A webhook that may have something to send."""

    tenant_id: UUID
    webhook_id: UUID


_FREE: Final = """status = 'enabled'
  AND (claimed_until <= now() OR claimed_until > now() + make_interval(secs => :longest))
  AND (rest_until <= now() OR rest_until > now() + make_interval(secs => :longest))"""


def list_due(tx: Connection, limit: int) -> list[DueWebhook]:
    """Return webhooks with new changes or due deliveries: one of each tenant first, those served longest ago first.

    Args:
        tx: A transaction from `database.drain()`.
    """
    rows = tx.execute(_DUE, {"limit": limit, "longest": LONGEST_SECONDS})
    return [DueWebhook(row.tenant_id, row.webhook_id) for row in rows]


_DUE: Final = text(f"""
SELECT tenant_id, webhook_id
FROM (
  SELECT tenant_id, webhook_id, turned_at,
    row_number() OVER (PARTITION BY tenant_id ORDER BY turned_at, webhook_id) AS place
  FROM webhooks AS hook JOIN tenants USING (tenant_id)
  WHERE {_FREE} AND tenants.deletion_id IS NULL AND (
    hook.next_at <= now()
    OR EXISTS (SELECT FROM changes WHERE changes.tenant_id = hook.tenant_id AND last IS NULL)
    OR EXISTS (SELECT FROM changes WHERE changes.tenant_id = hook.tenant_id AND last > hook.cursor))
) AS due
ORDER BY place, turned_at, webhook_id LIMIT :limit
""")  # noqa: S608 - constants only


def claim(tx: Connection, tenant_id: UUID, webhook_id: UUID, claim_id: UUID) -> Webhook | None:
    """Claim a webhook for `LEASE_SECONDS`; None if another worker has it, or it isn't enabled any more.

    Args:
        claim_id: A new id that proves the claim.
    """
    values = {"claim": claim_id, "lease": LEASE_SECONDS, "longest": LONGEST_SECONDS}
    row = tx.execute(_CLAIM, values | {"tenant": tenant_id, "webhook_id": webhook_id}).one_or_none()
    return None if row is None else build(row)


_CLAIM: Final = text(f"""
UPDATE webhooks SET claim = :claim, claimed_until = now() + make_interval(secs => :lease), turned_at = now()
WHERE tenant_id = :tenant AND webhook_id = :webhook_id AND {_FREE}
RETURNING {COLUMNS}
""")  # noqa: S608 - constants only


def move(tx: Connection, tenant_id: UUID, webhook_id: UUID, cursor: int, missed: int) -> None:
    """Advance a webhook's cursor, and count `missed` further changes that the feed deleted before their delivery."""
    values = {"tenant": tenant_id, "webhook_id": webhook_id, "cursor": cursor, "missed": missed}
    tx.execute(_MOVE, values)


_MOVE: Final = text("""
UPDATE webhooks SET cursor = greatest(cursor, :cursor), missed = missed + :missed
WHERE tenant_id = :tenant AND webhook_id = :webhook_id
""")


def lock_claimed(tx: Connection, tenant_id: UUID, webhook_id: UUID, claim_id: UUID) -> Webhook | None:
    """Return a webhook, locked, if the claim is still valid; otherwise None."""
    values = {"tenant": tenant_id, "webhook_id": webhook_id, "claim": claim_id}
    row = tx.execute(_LOCK, values).one_or_none()
    return None if row is None else build(row)


_LOCK: Final = text(f"""
SELECT {COLUMNS} FROM webhooks
WHERE tenant_id = :tenant AND webhook_id = :webhook_id AND claim = :claim FOR UPDATE
""")  # noqa: S608 - constants only


def release(
    tx: Connection, tenant_id: UUID, webhook_id: UUID, *, rest_seconds: float, succeeded: bool, failed: bool
) -> None:
    """Release a webhook, and record whether its receiver accepted or failed the turn's messages.

    Args:
        rest_seconds: Time for which the webhook isn't claimed.
        succeeded: A message was accepted: the receiver isn't failing.
        failed: Messages were sent, and none was accepted.
    """
    values: dict[str, Any] = {"rest": rest_seconds, "succeeded": succeeded, "failed": failed}
    tx.execute(_RELEASE, {"tenant": tenant_id, "webhook_id": webhook_id} | values)


_RELEASE: Final = text("""
UPDATE webhooks SET
  claim = NULL, claimed_until = 'epoch', rest_until = clock_timestamp() + make_interval(secs => :rest),
  failures = CASE WHEN :succeeded THEN 0 WHEN :failed THEN failures + 1 ELSE failures END,
  failing_since = CASE WHEN :succeeded THEN NULL WHEN :failed THEN coalesce(failing_since, clock_timestamp())
    ELSE failing_since END,
  succeeded_at = CASE WHEN :succeeded THEN clock_timestamp() ELSE succeeded_at END,
  next_at = (
    SELECT min(delivery.next_at) FROM webhook_deliveries AS delivery
    WHERE delivery.tenant_id = :tenant AND delivery.webhook_id = :webhook_id AND delivery.status = 'pending'
      AND NOT EXISTS (
        SELECT FROM webhook_deliveries AS earlier
        WHERE earlier.tenant_id = :tenant AND earlier.webhook_id = :webhook_id
          AND earlier.changed_id = delivery.changed_id AND earlier.cursor < delivery.cursor
          AND earlier.status = 'pending'))
WHERE tenant_id = :tenant AND webhook_id = :webhook_id
""")


def wake(tx: Connection, tenant_id: UUID, webhook_id: UUID) -> None:
    """Make a webhook due now, after deliveries were added or replayed: they don't wait for the end of its rest."""
    tx.execute(_WAKE, {"tenant": tenant_id, "webhook_id": webhook_id})


_WAKE: Final = text("""
UPDATE webhooks SET next_at = now(), rest_until = 'epoch' WHERE tenant_id = :tenant AND webhook_id = :webhook_id
""")


def count_states(tx: Connection, tenant_id: UUID | None = None) -> dict[str, int]:
    """Count the webhooks of a tenant by state: `enabled`, `failing`, `paused` and `disabled`.

    Args:
        tenant_id: The tenant; None for all tenants, in a transaction from `database.drain()`.
    """
    return {row.state: row.number for row in tx.execute(_STATES, {"tenant": tenant_id})}


_STATES: Final = text("""
SELECT CASE WHEN status = 'enabled' AND failing_since IS NOT NULL THEN 'failing' ELSE status END AS state,
  count(*) AS number
FROM webhooks WHERE CAST(:tenant AS uuid) IS NULL OR tenant_id = :tenant GROUP BY 1
""")
