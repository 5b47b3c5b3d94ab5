"""Verify a tenant's audit log for a dashboard page: the last entries, or the whole log in slices of a few seconds."""

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
    """Verify the last `LAST_ENTRIES` entries of a chain."""
    with database.tenant(tenant_id) as tx:
        begin = audit_entries.read_position(tx, tenant_id, back=LAST_ENTRIES)
    return verify_from(tenant_id, begin)


def verify_from(tenant_id: UUID, after: ChainPosition) -> ChainVerification:
    """Verify a chain after a position for about `SECONDS_MAX`; to continue, call this with the returned `place`."""
    deadline = time.monotonic() + SECONDS_MAX
    verification = audit.verify(tenant_id, after)
    while not verification.finished and time.monotonic() < deadline:
        verification = audit.verify(tenant_id, verification.place)
    return verification
