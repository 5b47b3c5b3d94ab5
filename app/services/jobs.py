"""Jobs: long work of a tenant in resumable steps, with progress, a log, and a way to cancel it."""

from __future__ import annotations

from uuid import UUID


def carry_on(job_id: UUID) -> None:
    """Go on with a job for a slice, unless it is done or somebody else has it."""
