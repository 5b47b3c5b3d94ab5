"""Operator findings: turn measurements into problems and warnings, each with state, cause and next step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["trouble", "attention"]

SILENT_SECONDS: Final = 6.0
"""Processes send a heartbeat every two seconds; with polling delays, a dead process is reported within ten."""
OLD_SECONDS: Final[Mapping[str, tuple[float, float]]] = {
    "ingest": (60, 300),
    "embed": (300, 3600),
    "score": (300, 3600),
    "rights": (900, 3600),
    "maintain": (3600, 6 * 3600),
}
"""Age of the oldest pending entry, by lane, above which to report attention and trouble."""
NIGHT_OVERDUE_SECONDS: Final = 3600.0
NIGHT_MISSED_SECONDS: Final = 26 * 3600.0
REDIS_MOST: Final = 0.9
"""Share of Redis memory above which writes are at risk."""
FREE_LEAST: Final = 0.15
"""Minimum free share of a disk."""
DAYS_LEFT: Final = 7
"""Report data-subject requests with fewer days left than this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem or warning for operators.

    Attributes:
        code: Stable identifier.
        what: State and cause, as a sentence without a full stop.
        todo: Next step for the operator.
        page: Dashboard page with details, or empty.
    """

    severity: Severity
    code: str
    what: str
    todo: str
    page: str = ""


def ranked(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings with trouble first."""
    return sorted(found, key=lambda one: one.severity != "trouble")


def line(found: Sequence[Finding]) -> str:
    """Return the overall status as one line."""
    if not found:
        return "No problems found"
    trouble = sum(one.severity == "trouble" for one in found)
    if trouble:
        return f"{trouble} {'problem needs' if trouble == 1 else 'problems need'} action now"
    return f"{len(found)} {'warning' if len(found) == 1 else 'warnings'} to review"


def lane_findings(ages: Mapping[str, float]) -> list[Finding]:
    """Return findings for old backlogs, given the age of each lane's oldest pending entry in seconds."""
    found = []
    for lane, seconds in ages.items():
        attention, trouble = OLD_SECONDS[lane]
        if seconds >= attention:
            severity: Severity = "trouble" if seconds >= trouble else "attention"
            what = f"the oldest entry in the {lane} queue has waited {round(seconds)} s"
            found.append(Finding(severity, f"old_{lane}", what, "check that its worker is running and read its log"))
    return found


def of_silence(silent: Mapping[str, float | None]) -> list[Finding]:
    """Return findings for missing heartbeats: seconds since the last one by lane or "beat", None if never seen."""
    found = []
    for source, seconds in silent.items():
        if seconds is None or seconds >= SILENT_SECONDS:
            who = "no heartbeat from beat" if source == "beat" else f"no heartbeat from the {source} worker"
            since = " yet" if seconds is None else f" for {round(seconds)} s"
            lost = ": no nightly run starts" if source == "beat" else ""
            found.append(Finding("trouble", f"silent_{source}", f"{who}{since}{lost}", f"start `{command(source)}`"))
    return found


def command(source: str) -> str:
    """Return the command that starts a lane's worker, or "beat"."""
    return "ebbing beat" if source == "beat" else f"ebbing worker --lane {source}"


def of_nights(overdue_seconds: float, failed: Mapping[str, int], cut_short: int) -> list[Finding]:
    """Return findings for failed, overdue and cut-short nightly runs.

    Args:
        overdue_seconds: Age of the longest overdue nightly run.
        failed: Number of tenants by the step at which their last nightly run failed.
        cut_short: Number of tenants whose last nightly run reached its time limit.
    """
    found = []
    for step, tenants in failed.items():
        what = f"the last nightly run failed at the step {step}" + (f" for {tenants} tenants" if tenants > 1 else "")
        found.append(
            Finding("trouble", "night_failed", what, "read the job's log, fix the cause and run it again", "night")
        )
    if overdue_seconds >= NIGHT_OVERDUE_SECONDS:
        severity: Severity = "trouble" if overdue_seconds >= NIGHT_MISSED_SECONDS else "attention"
        what = f"a nightly run is overdue by {round(overdue_seconds / 3600, 1)} h"
        found.append(Finding(severity, "night_overdue", what, "check that the maintain queue makes progress", "night"))
    if cut_short:
        what = "the last nightly run reached its time limit" + (f" for {cut_short} tenants" if cut_short > 1 else "")
        found.append(
            Finding("attention", "night_cut_short", what, "increase EBBING_NIGHT_HOURS, or run it now", "night")
        )
    return found


def of_requests(count: int | None, days_left: float) -> Finding:
    """Return the finding for data-subject requests close to their deadline.

    Args:
        count: Number of requests; None if only the first is known.
        days_left: Days until the first deadline; negative if overdue.
    """
    many = "a data-subject request" if count in {1, None} else f"{count} data-subject requests"
    when = f"due in {days_left:.1f} days" if days_left >= 0 else f"overdue by {-days_left:.1f} days"
    what = f"{many} {'is' if count in {1, None} else 'need an answer, the first is'} {when}"
    severity: Severity = "attention" if days_left >= 1 else "trouble"
    return Finding(severity, "privacy_due", what, "complete or answer it", "privacy")


def late_rewrites(erasures: int) -> Finding:
    """Return the finding for cold-storage segments with erased memories past their rewrite deadline."""
    what = f"cold segments of {erasures} {'erasure' if erasures == 1 else 'erasures'} are past their rewrite deadline"
    return Finding("trouble", "rewrites_late", what, "check that the rights queue makes progress", "privacy")


def recall_empty(tenants: int | None) -> Finding:
    """Return the finding for recalls that return almost nothing.

    Args:
        tenants: Number of affected tenants; None for the viewer's own tenant.
    """
    where = "" if tenants is None else f" for {tenants} {'tenant' if tenants == 1 else 'tenants'}"
    what = f"recall returned almost nothing in the last self-tests{where}"
    return Finding(
        "attention", "recall_empty", what, "see the self-tests and the runbook section Recall empty", "tests"
    )


def lost(requests: int) -> Finding:
    """Return the finding for accepted requests that are neither stored nor queued."""
    what = f"{requests} accepted {'request is' if requests == 1 else 'requests are'} neither stored nor queued"
    return Finding("trouble", "lost", what, "check for a lost stream as described in the runbook")


def storage_findings(redis_used: float, disks_free: Mapping[str, float]) -> list[Finding]:
    """Return findings for Redis memory use and free disk space, given the used share and the free share by disk."""
    found = []
    if redis_used >= REDIS_MOST:
        what = f"Redis uses {redis_used:.0%} of its memory and rejects writes at the limit"
        found.append(
            Finding("trouble", "redis_full", what, "raise its memory limit, or find out why the queues aren't drained")
        )
    found += [
        Finding("trouble", "disk_full", f"the disk of {place} has {share:.0%} free space", "free up space")
        for place, share in disks_free.items()
        if share < FREE_LEAST
    ]
    return found
