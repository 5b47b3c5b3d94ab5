"""Back up erasure requests in their grace period in the key store's schema, which restores of the data don't overwrite.

When a transaction that adds, cancels or verifies a request commits, a trigger (migration 0024) inserts or deletes the
copy and counts the change. The ledger lists only what an erasure has deleted, so a held erasure of ids or by filters is
backed up too: a replay has to hide the memories that wait for the release of a legal hold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.privacy.requests import PrivacyRequest
from app.store.erasure.requests import Erasure


@dataclass(frozen=True, slots=True)
class BackedUpRequest:
    """A backed-up request, with its number among the changes and its entry in the request log, if it has one."""

    seq: int
    erasure: Erasure
    logged: PrivacyRequest | None


def tenant_ids(tx: Connection) -> list[UUID]:
    """Return the ids of all tenants in the data."""
    return list(tx.execute(_TENANTS).scalars())


_TENANTS: Final = text("SELECT tenant_id FROM tenants ORDER BY tenant_id")


def unknown(tx: Connection, tenant_id: UUID) -> list[BackedUpRequest]:
    """Return a tenant's backed-up requests that are missing from the data, in order of their sequence numbers."""
    return [
        BackedUpRequest(
            row.seq,
            # A request with a watermark but without a ledger entry has erased nothing, so it restarts in its grace
            # period.
            replace(msgspec.convert(row.asked, Erasure), status="grace", cut=None, started_at=None),
            None if row.logged is None else msgspec.convert(row.logged, PrivacyRequest),
        )
        for row in tx.execute(_UNKNOWN, {"tenant": tenant_id})
    ]


_UNKNOWN: Final = text("""
SELECT seq, asked, logged FROM ebbing_keys.erasure_requests AS kept
WHERE tenant_id = :tenant AND NOT EXISTS (
  SELECT FROM erasures AS known WHERE known.tenant_id = :tenant AND known.erasure_id = kept.erasure_id)
  AND NOT EXISTS (
    SELECT FROM ebbing_keys.erasure_ledger AS begun
    WHERE begun.tenant_id = :tenant AND begun.erasure_id = kept.erasure_id)
ORDER BY seq
""")


def add_held(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> None:
    """Back up an erasure whose memories under a legal hold remain."""
    tx.execute(_ADD_HELD, {"tenant": tenant_id, "erasure_id": erasure_id})


# The change isn't counted: an older copy of the data needs a replay in any case, because of the erasure's ledger entry.
_ADD_HELD: Final = text("""
INSERT INTO ebbing_keys.erasure_requests (tenant_id, erasure_id, seq, asked)
SELECT tenant_id, erasure_id, (SELECT seq FROM ebbing_keys.request_mark),
  to_jsonb(erasures) || '{"plan": null, "executed": [], "report": null, "aliases": null}'
FROM erasures WHERE tenant_id = :tenant AND erasure_id = :erasure_id
ON CONFLICT (tenant_id, erasure_id) DO UPDATE SET asked = excluded.asked
""")


def remove(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> None:
    """Delete the backup of an erasure, if there is one."""
    tx.execute(_REMOVE_ONE, {"tenant": tenant_id, "erasure_id": erasure_id})


_REMOVE_ONE: Final = text("""
DELETE FROM ebbing_keys.erasure_requests WHERE tenant_id = :tenant AND erasure_id = :erasure_id
""")


def get(tx: Connection, tenant_id: UUID, erasure_id: UUID) -> Erasure | None:
    """Return a backed-up erasure, or None if it has no backup."""
    asked = tx.execute(_GET, {"tenant": tenant_id, "erasure_id": erasure_id}).scalar()
    return None if asked is None else msgspec.convert(asked, Erasure)


_GET: Final = text("""
SELECT asked FROM ebbing_keys.erasure_requests WHERE tenant_id = :tenant AND erasure_id = :erasure_id
""")


def compare(tx: Connection, tenant_id: UUID) -> list[tuple[UUID, int]]:
    """Synchronise a tenant's backed-up requests with the data. Return the requests that existed only in the data.

    If the data is the older copy, it may contain requests that were cancelled since. If the key store is the older
    copy, it may contain requests that have started or ended since.

    Returns:
        Pairs of an erasure's id and the number of memories that it hides.
    """
    tx.execute(_REMOVE, {"tenant": tenant_id})
    only_in_data = alone(tx, tenant_id)
    tx.execute(_KEEP, {"tenant": tenant_id, "ids": [erasure_id for erasure_id, _ in only_in_data]})
    return only_in_data


_REMOVE: Final = text("""
DELETE FROM ebbing_keys.erasure_requests AS kept
WHERE tenant_id = :tenant AND (
  EXISTS (
    SELECT FROM erasures AS known
    WHERE known.tenant_id = :tenant AND known.erasure_id = kept.erasure_id
      AND known.status IN ('verified', 'cancelled'))
  OR EXISTS (
    SELECT FROM ebbing_keys.erasure_ledger AS begun
    WHERE begun.tenant_id = :tenant AND begun.erasure_id = kept.erasure_id) AND NOT EXISTS (
    SELECT FROM erasures AS held
    WHERE held.tenant_id = :tenant AND held.erasure_id = kept.erasure_id AND held.status = 'held'))
""")
# A no-op update fires the trigger as if the requests were made now.
_KEEP: Final = text("""
UPDATE erasures SET status = status WHERE tenant_id = :tenant AND erasure_id = ANY (CAST(:ids AS uuid[]))
""")


def alone(tx: Connection, tenant_id: UUID) -> list[tuple[UUID, int]]:
    """Return requests in their grace period that have no backup, with the number of memories that each hides."""
    return [(row.erasure_id, row.hidden) for row in tx.execute(_ALONE, {"tenant": tenant_id})]


_ALONE: Final = text("""
SELECT erasure_id, hidden FROM erasures AS known
WHERE tenant_id = :tenant AND status = 'grace' AND NOT EXISTS (
  SELECT FROM ebbing_keys.erasure_requests AS kept
  WHERE kept.tenant_id = :tenant AND kept.erasure_id = known.erasure_id)
ORDER BY requested_at, erasure_id
""")


def advance(tx: Connection) -> None:
    """Record that the data has every change to requests and holds; waits for transactions that are about to add one."""
    newest = tx.execute(_NEWEST).scalar_one()
    tx.execute(_ADVANCE, {"newest": newest})


_NEWEST: Final = text("SELECT seq FROM ebbing_keys.request_mark FOR UPDATE")
_ADVANCE: Final = text("UPDATE ledger_mark SET requests = :newest")
