"""Requests of erasures in their grace, as they are kept beside the keys, where a restore of the data doesn't reach.

A trigger (migration 0024) enters and removes them at the commits of the data's own rows, and counts these.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import msgspec
from sqlalchemy import Connection, text

from app.domain.privacy.requests import Request
from app.store.erasure.erasures import Erasure


@dataclass(frozen=True, slots=True)
class Kept:
    """A request, with its entry in the log of requests where it has one."""

    seq: int
    erasure: Erasure
    logged: Request | None


def tenant_ids(tx: Connection) -> list[UUID]:
    """Every tenant that the data knows."""
    return list(tx.execute(_TENANTS).scalars())


_TENANTS: Final = text("SELECT tenant_id FROM tenants ORDER BY tenant_id")


def unknown(tx: Connection, tenant_id: UUID) -> list[Kept]:
    """A tenant's requests that the data doesn't know, the first first."""
    return [
        Kept(
            row.seq,
            # What has its cut and isn't in the ledger has erased nothing: its grace is over, and it begins anew.
            replace(msgspec.convert(row.asked, Erasure), status="grace", cut=None, started_at=None),
            None if row.logged is None else msgspec.convert(row.logged, Request),
        )
        for row in tx.execute(_UNKNOWN, {"tenant": tenant_id})
    ]


_UNKNOWN: Final = text("""
SELECT seq, asked, logged FROM ebbing_keys.erasure_requests AS kept
WHERE tenant_id = :tenant AND NOT EXISTS (
  SELECT FROM erasures AS known WHERE known.tenant_id = :tenant AND known.erasure_id = kept.erasure_id)
ORDER BY seq
""")


def compare(tx: Connection, tenant_id: UUID) -> list[tuple[UUID, int]]:
    """Let what is kept of a tenant be what is open in the data. Returns what was open there alone, with what it hides.

    An older copy of the data brings back what was cancelled since; an older key store what has begun since.
    """
    tx.execute(_REMOVE, {"tenant": tenant_id})
    found = alone(tx, tenant_id)
    tx.execute(_KEEP, {"tenant": tenant_id, "ids": [erasure_id for erasure_id, _ in found]})
    return found


_REMOVE: Final = text("""
DELETE FROM ebbing_keys.erasure_requests AS kept
WHERE tenant_id = :tenant AND (
  EXISTS (
    SELECT FROM erasures AS known
    WHERE known.tenant_id = :tenant AND known.erasure_id = kept.erasure_id
      AND known.status IN ('held', 'verified', 'cancelled'))
  OR EXISTS (
    SELECT FROM ebbing_keys.erasure_ledger AS begun
    WHERE begun.tenant_id = :tenant AND begun.erasure_id = kept.erasure_id))
""")
# The trigger does it, as if they were asked for now.
_KEEP: Final = text("""
UPDATE erasures SET status = status WHERE tenant_id = :tenant AND erasure_id = ANY (CAST(:ids AS uuid[]))
""")


def alone(tx: Connection, tenant_id: UUID) -> list[tuple[UUID, int]]:
    """What is in its grace in the data, and isn't kept; with how many memories each hides."""
    return [(row.erasure_id, row.hidden) for row in tx.execute(_ALONE, {"tenant": tenant_id})]


_ALONE: Final = text("""
SELECT erasure_id, hidden FROM erasures AS known
WHERE tenant_id = :tenant AND status = 'grace' AND NOT EXISTS (
  SELECT FROM ebbing_keys.erasure_requests AS kept
  WHERE kept.tenant_id = :tenant AND kept.erasure_id = known.erasure_id)
ORDER BY requested_at, erasure_id
""")


def advance(tx: Connection) -> None:
    """Note that the data knows every request; whoever enters one meanwhile is waited for."""
    newest = tx.execute(_NEWEST).scalar_one()
    tx.execute(_ADVANCE, {"newest": newest})


_NEWEST: Final = text("SELECT seq FROM ebbing_keys.request_mark FOR UPDATE")
_ADVANCE: Final = text("UPDATE ledger_mark SET requests = :newest")
