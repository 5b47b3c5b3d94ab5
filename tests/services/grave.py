"""Deletions carried out, as a night after their grace does."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from app.services import erasing


def erased(tenant_id: UUID) -> None:
    """Let the grace of all that was deleted be over, and erase it."""
    state: dict[str, Any] = {}
    later = datetime.now(UTC) + timedelta(days=31)
    for _ in range(1000):
        did = erasing.carry_on(tenant_id, later, state, time.monotonic())
        if did.finished:
            return
        state = did.state
    raise AssertionError("no end of it")
