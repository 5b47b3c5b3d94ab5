"""Verify a tenant's audit log for a dashboard page: its last entries, or all of it a few seconds at a time."""

from __future__ import annotations

import time
from typing import Final
from uuid import UUID

from app.domain.privacy.audit_chain import ChainPosition
from app.services.security import audit
from app.services.security.audit import ChainVerification
from app.store.core import database
from app.store.privacy import audit_entries

LAST_ENTRIES: Final = 500
SECONDS_MAX: Final = 3.0


def verify_last(tenant_id: UUID) -> ChainVerification:
    """Verify the last entries of a chain."""
    with database.tenant(tenant_id) as tx:
        begin = audit_entries.read_position(tx, tenant_id, back=LAST_ENTRIES)
    return verify_from(tenant_id, begin)


def verify_from(tenant_id: UUID, after: ChainPosition) -> ChainVerification:
    """Verify a chain after a place for up to `SECONDS_MAX`; repeat from the returned place until finished."""
    until = time.monotonic() + SECONDS_MAX
    found = audit.verify(tenant_id, after)
    while not found.finished and time.monotonic() < until:
        found = audit.verify(tenant_id, found.place)
    return found
