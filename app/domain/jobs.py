"""Jobs: long-running work for a tenant that is processed in steps, and the input and result of a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from app.domain.evaluation.self_test_rules import KINDS as TESTS

_TIERS: Final = ("active", "archived", "cold", "deleted")
_TESTED: Final = (*(f"{kind}_{outcome}" for kind in TESTS for outcome in ("passed", "failed")), "recall_empty")
_MERGED: Final = ("linked", "waiting", "summaries", "by_model", "merged")
_SEGMENTS: Final = ("dropped", "compacted", "orphans", "lost")

ERASE: Final = "erase"
"""Kind of the job that executes an erasure."""
RIGHTS_KINDS: Final[dict[str, tuple[str, ...]]] = {
    ERASE: (),
    "export": (),
    "hide": (),
    "quarantine": (),
    "restore": ("restored", "failed"),
}
"""Jobs for people's rights requests; the tuple names the counts they report. Their own lane keeps nightly runs from
delaying them."""

KINDS: Final[dict[str, tuple[str, ...]]] = RIGHTS_KINDS | {
    "approve": _MERGED,
    "archive": ("archived", "whole", "reduced", "repaired"),
    "cold": ("cold",),
    "compact": _SEGMENTS,
    "consolidate": (*_MERGED, "looked_at", "clusters", "removed"),
    "delete": ("deleted",),
    "expire": ("deleted", "summaries", "noticed"),
    "graph": (),
    "import": ("stored", "updated", "unchanged", "skipped", "links"),
    "night": (),
    "notes": ("written", "unchanged", "edited", "removed"),
    "promote": ("promoted",),
    "rebase": _TIERS,
    "rederive": ("summaries", "by_model", "removed"),
    "reembed": ("removed_vectors", "set_aside"),
    "release": (),
    "selftest": _TESTED,
    "sweep": _TIERS,
}
"""All kinds of jobs, each with the row counts that it exports as metrics in addition to `done`."""

EXAMINING: Final = ("promote", "sweep", "consolidate")
"""Steps of the night whose own count is that of the memories examined, whether or not they were changed."""
RESULTS: Final = frozenset({"promote.promoted"})
"""Counts of the night that are shown even if they are 0: without them, examined memories look like changed ones."""

STEPS: Final[dict[str, tuple[str, ...]]] = {
    "calibration": (),
    "contradictions": ("proposed", "unanswered"),
    "erasures": ("adopted",),
    "exports": ("expired", "purged", "objects"),
    "figures": (),
    "graphs": (),
    "keep_chances": (),
    "learning": ("applied", "proposed"),
    "retention": (
        "ledger",
        "runs",
        "jobs",
        "letters",
        "history",
        "self_tests",
        "names",
        "searches",
        "deliveries",
        "webhook_secrets",
    ),
    "segments": _SEGMENTS,
    "self_tests": _TESTED,
}
"""Nightly steps without a kind of job of the same name, with the row counts that they report."""


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
    """Result of a step. If the worker dies during a step, the step is repeated from the previous state.

    Attributes:
        done: Items processed in this step, 0 or more.
        state: Position for the next step.
        finished: True after the last step.
        total: Number of items, if known by now; None leaves the previous value.
        counts: Numbers to add to the job's counts, by name.
        notes: Lines for the job's log: fixed phrases and numbers, never content.
        failure: Reason why a finished job counts as failed, a fixed phrase, never content; None if it succeeded.
    """

    done: int
    state: dict[str, Any]
    finished: bool
    total: int | None = None
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    failure: str | None = None
