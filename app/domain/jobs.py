"""Jobs: long-running work for a tenant, done in steps; the input and result of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class Job:
    """A job as passed to its next step.

    Attributes:
        kind: Kind of work, such as `reembed`.
        parameters: Parameters of the request; they never change.
        state: Position after the last step, as JSON; empty at first.
        total: Number of items, if known.
        done: Items processed so far.
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
    """Result of a step. If the worker dies during a step, the step is repeated from the state before it.

    Attributes:
        done: Items processed in this step, 0 or more.
        state: Position for the next step.
        finished: Whether this was the last step.
        total: Number of items, if known by now; None leaves the previous value.
        counts: Added to the job's counts by name.
        notes: Lines for the job's log: fixed phrases and numbers, never content.
        failure: Why a finished job counts as failed: a fixed phrase, never content.
    """

    done: int
    state: dict[str, Any]
    finished: bool
    total: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failure: str | None = None
