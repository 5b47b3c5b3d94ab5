"""Jobs: long work of a tenant, done in steps. What a step is told, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Job:
    """A job as its next step sees it.

    Attributes:
        kind: Which work it is, such as `reembed`.
        parameters: What was asked for; never changes.
        state: Where the last step left off, as JSON; empty at first.
        total: Items there are, as far as known.
        done: Items dealt with so far.
    """

    job_id: UUID
    tenant_id: UUID
    kind: str
    parameters: dict[str, Any]
    state: dict[str, Any]
    total: int | None
    done: int


@dataclass(frozen=True)
class Step:
    """What a step has done. A step whose worker dies is done again from the state before it.

    Attributes:
        done: Items dealt with in this step, 0 or more.
        state: Where the next step goes on.
        finished: Whether there is no next step.
        total: Items there are, where that is known now; None leaves what was known.
        counts: Added to the job's counts by name.
        notes: Lines for the job's log: fixed phrases and numbers, never content.
        failure: Of one that is finished, why the job counts as failed all the same: a fixed phrase, never content.
    """

    done: int
    state: dict[str, Any]
    finished: bool
    total: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failure: str | None = None
