"""Circumstances of tenants as earlier searches of this process have read them.

They hold no memory and no key. A search compares their mark with the mark of the rows that it reads.
"""

from __future__ import annotations

from time import monotonic
from typing import Final
from uuid import UUID

from app.store.core import database
from app.store.search import circumstances
from app.store.search.circumstances import Circumstances

TENANTS_MAX: Final = 4_096

_known: dict[UUID, tuple[float, Circumstances]] = {}


def read(tx: database.Transaction, tenant_id: UUID) -> Circumstances:
    """Return the circumstances of a tenant, maybe as an earlier search has read them, with the moment of now."""
    if database.simulated_now(tx) is not None:
        return circumstances.read(tx, tenant_id)
    known = _known.get(tenant_id)
    if known is not None:
        read_at, found = known
        return found._replace(now=found.now + monotonic() - read_at)
    found = circumstances.read(tx, tenant_id)
    if len(_known) >= TENANTS_MAX:
        _known.clear()
    _known[tenant_id] = monotonic(), found
    return found


def forget(tenant_id: UUID) -> None:
    """Drop the circumstances of a tenant, so that the next search reads them from the database."""
    _known.pop(tenant_id, None)
