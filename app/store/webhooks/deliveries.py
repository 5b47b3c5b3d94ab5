"""Store deliveries: one row for each change and webhook, with its attempts. Rows hold ids, types and numbers only."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import Connection, text

from app.domain.webhooks.messages import Event
from app.store.core.paging import Latest, Page, Place

DeliveryStatus = Literal["pending", "delivered", "failed"]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery of a change to a webhook.

    Attributes:
        cursor: Position of the change in the feed; 0 for a test.
        changed_id: Id of the memory, erasure or job that changed; for a test, the webhook's.
        next_at: Time of the next attempt; None unless it is pending.
        response: Status of the receiver's last answer; None if it didn't answer.
        outcome: Outcome of the last attempt, one of `clients.webhooks.Outcome`; None before the first.
    """

    delivery_id: UUID
    cursor: int
    type: str
    changed_id: UUID
    changed_at: datetime
    status: DeliveryStatus
    attempts: int
    next_at: datetime | None
    attempted_at: datetime | None
    response: int | None
    outcome: str | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The result of an attempt.

    Attributes:
        delay_seconds: Delay before the next attempt, for a delivery that remains pending; otherwise None.
    """

    delivery_id: UUID
    status: DeliveryStatus
    outcome: str
    response: int | None
    delay_seconds: float | None = None


def insert(tx: Connection, tenant_id: UUID, webhook_id: UUID, events: Sequence[Event]) -> None:
    """Insert pending deliveries; those that exist already remain as they are."""
    if not events:
        return
    values = {
        "tenant": tenant_id,
        "webhook_id": webhook_id,
        "ids": [event.delivery_id for event in events],
        "cursors": [event.cursor for event in events],
        "types": [event.type for event in events],
        "changed": [event.changed_id for event in events],
        "times": [event.at for event in events],
    }
    tx.execute(_INSERT, values)


_INSERT: Final = text("""
INSERT INTO webhook_deliveries (tenant_id, webhook_id, delivery_id, cursor, type, changed_id, changed_at)
SELECT :tenant, :webhook_id, id, cursor, type, changed_id, changed_at
FROM unnest(CAST(:ids AS uuid[]), CAST(:cursors AS bigint[]), CAST(:types AS text[]), CAST(:changed AS uuid[]),
  CAST(:times AS timestamptz[])) AS given (id, cursor, type, changed_id, changed_at)
ON CONFLICT DO NOTHING
""")


def count_pending(tx: Connection, tenant_id: UUID, webhook_id: UUID) -> int:
    """Count a webhook's pending deliveries."""
    return int(tx.execute(_COUNT_PENDING, {"tenant": tenant_id, "webhook_id": webhook_id}).scalar_one())


_PENDING: Final = "tenant_id = :tenant AND webhook_id = :webhook_id AND status = 'pending'"
_COUNT_PENDING: Final = text(f"SELECT count(*) FROM webhook_deliveries WHERE {_PENDING}")  # noqa: S608


def list_due(tx: Connection, tenant_id: UUID, webhook_id: UUID, limit: int) -> list[tuple[Event, int]]:
    """Return the events of due deliveries with the number of their attempts, in the order of the feed.

    A delivery isn't due while an earlier change of the same memory is pending, so that the receiver gets the changes of
    a memory in their order.
    """
    rows = tx.execute(_DUE, {"tenant": tenant_id, "webhook_id": webhook_id, "limit": limit})
    return [
        (Event(row.delivery_id, row.cursor, row.type, row.changed_at, row.changed_id), row.attempts) for row in rows
    ]


_FIRST: Final = """NOT EXISTS (
    SELECT FROM webhook_deliveries AS earlier
    WHERE earlier.tenant_id = delivery.tenant_id AND earlier.webhook_id = delivery.webhook_id
      AND earlier.changed_id = delivery.changed_id AND earlier.cursor < delivery.cursor
      AND earlier.status = 'pending')"""
_DUE: Final = text(f"""
SELECT delivery_id, cursor, type, changed_at, changed_id, attempts FROM webhook_deliveries AS delivery
WHERE {_PENDING} AND next_at <= clock_timestamp() AND {_FIRST}
ORDER BY cursor, delivery_id LIMIT :limit
""")  # noqa: S608 - constants only


def record_results(tx: Connection, tenant_id: UUID, webhook_id: UUID, results: Collection[DeliveryResult]) -> None:
    """Store the results of attempts."""
    if not results:
        return
    values = {
        "tenant": tenant_id,
        "webhook_id": webhook_id,
        "ids": [result.delivery_id for result in results],
        "statuses": [result.status for result in results],
        "outcomes": [result.outcome for result in results],
        "responses": [result.response for result in results],
        "delays": [result.delay_seconds or 0.0 for result in results],
    }
    tx.execute(_RECORD, values)


_RECORD: Final = text("""
UPDATE webhook_deliveries AS delivery SET
  status = given.status, outcome = given.outcome, response = given.response, attempts = attempts + 1,
  attempted_at = clock_timestamp(), next_at = clock_timestamp() + make_interval(secs => given.delay)
FROM unnest(CAST(:ids AS uuid[]), CAST(:statuses AS text[]), CAST(:outcomes AS text[]),
  CAST(:responses AS smallint[]), CAST(:delays AS float8[])) AS given (id, status, outcome, response, delay)
WHERE delivery.tenant_id = :tenant AND delivery.webhook_id = :webhook_id AND delivery.delivery_id = given.id
""")


def list_deliveries(
    tx: Connection,
    tenant_id: UUID,
    webhook_id: UUID,
    older_than: Place | None,
    limit: int,
    status: DeliveryStatus | None = None,
) -> Page[Delivery]:
    """Return a page of a webhook's deliveries, latest first, optionally of one status."""
    values = {"tenant": tenant_id, "webhook_id": webhook_id, "status": status}
    return _PAGES.read(tx, lambda row: Delivery(**row._asdict()), older_than, limit, **values)


_PAGES: Final = Latest("""
SELECT delivery_id, cursor, type, changed_id, changed_at, status, attempts,
  CASE WHEN status = 'pending' THEN next_at END AS next_at, attempted_at, response, outcome, created_at
FROM webhook_deliveries
WHERE tenant_id = :tenant AND webhook_id = :webhook_id AND (CAST(:status AS text) IS NULL OR status = :status)
ORDER BY created_at DESC, delivery_id""")


def list_missing(tx: Connection, tenant_id: UUID, webhook_id: UUID, ids: Sequence[UUID]) -> list[UUID]:
    """Return those ids that aren't deliveries of this webhook, in their order."""
    values = {"tenant": tenant_id, "webhook_id": webhook_id, "ids": list(ids)}
    known = set(tx.execute(_KNOWN, values).scalars())
    return [each for each in ids if each not in known]


_KNOWN: Final = text("""
SELECT delivery_id FROM webhook_deliveries
WHERE tenant_id = :tenant AND webhook_id = :webhook_id AND delivery_id = ANY (CAST(:ids AS uuid[]))
""")


def replay(
    tx: Connection,
    tenant_id: UUID,
    webhook_id: UUID,
    *,
    ids: Sequence[UUID] | None = None,
    failed_since: datetime | None = None,
    limit: int,
) -> int:
    """Make deliveries pending again and set their attempts to 0; return the number of deliveries.

    Args:
        ids: Ids of deliveries, or None for the failed ones of changes since `failed_since`, the oldest first.
    """
    values: dict[str, Any] = {"tenant": tenant_id, "webhook_id": webhook_id, "limit": limit}
    if ids is not None:
        return tx.execute(_REPLAY_IDS, values | {"ids": list(ids)}).rowcount
    return tx.execute(_REPLAY_FAILED, values | {"since": failed_since}).rowcount


_REPLAY: Final = """
UPDATE webhook_deliveries SET status = 'pending', attempts = 0, next_at = clock_timestamp()
WHERE tenant_id = :tenant AND webhook_id = :webhook_id AND delivery_id IN (
  SELECT delivery_id FROM webhook_deliveries
  WHERE tenant_id = :tenant AND webhook_id = :webhook_id AND {condition}
  ORDER BY cursor, delivery_id LIMIT :limit)
"""
_REPLAY_IDS: Final = text(_REPLAY.format(condition="delivery_id = ANY (CAST(:ids AS uuid[]))"))
_REPLAY_FAILED: Final = text(_REPLAY.format(condition="status = 'failed' AND changed_at >= :since"))
