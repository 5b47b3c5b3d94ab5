"""What a night does for a tenant. What takes longer than a slice is handed to a job, which lets others have turns."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

from app.services import growth, jobs
from app.services import sweep as sweeps
from app.settings import settings


def sweep(tenant_id: UUID) -> int:
    """Look at the memories that are due, and at the indexes. Returns how many memories; a job's aren't among them."""
    growth.see_to(tenant_id)
    until = time.monotonic() + settings().slice_seconds
    state: dict[str, Any] = {}
    done = 0
    while True:
        step = sweeps.carry_on(tenant_id, None, state, until)
        state, done = step.state, done + step.done
        if step.finished:
            return done
        if time.monotonic() >= until:
            jobs.create(tenant_id, sweeps.KIND, {"as_of": state["as_of"]})
            return done
