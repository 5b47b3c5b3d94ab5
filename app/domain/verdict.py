"""Turn health measurements into findings, the most severe first, and a one-line verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["trouble", "attention"]

SILENT_SECONDS: Final = 6.0
"""Age of a heartbeat from which a process counts as dead. Processes send one every two seconds, so a dead process is
reported within ten seconds, including the time for the check."""
OLD_SECONDS: Final[Mapping[str, tuple[float, float]]] = {
    "ingest": (60, 300),
    "embed": (300, 3600),
    "score": (300, 3600),
    "rights": (900, 3600),
    "maintain": (3600, 6 * 3600),
}
"""Age of a lane's oldest pending entry, from which there is an `attention` and a `trouble` finding."""
NIGHT_OVERDUE_SECONDS: Final = 3600.0
NIGHT_MISSED_SECONDS: Final = 26 * 3600.0
REDIS_MOST: Final = 0.9
"""Share of Redis's memory in use from which there is a finding."""
FREE_LEAST: Final = 0.15
"""Share of free disk space below which there is a finding."""
DAYS_LEFT: Final = 7
"""A privacy request with fewer days to its deadline needs attention."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A detected problem.

    Attributes:
        code: Fixed identifier of the problem.
        what: The problem, in a sentence without a full stop.
        todo: What to do about it.
        page: Dashboard page and runbook heading about it: fixed words, may be empty.
    """

    severity: Severity
    code: str
    what: str
    todo: str
    page: str = ""


def ranked(found: Sequence[Finding]) -> list[Finding]:
    """Return the findings, the most severe first."""
    return sorted(found, key=lambda one: one.severity != "trouble")


def line(found: Sequence[Finding]) -> str:
    """Return the one-line verdict."""
    if not found:
        return "All is well"
    trouble = sum(one.severity == "trouble" for one in found)
    if trouble:
        return f"{trouble} {'thing needs' if trouble == 1 else 'things need'} you now"
    return f"{len(found)} {'thing wants' if len(found) == 1 else 'things want'} a look"


def lane_findings(ages: Mapping[str, float]) -> list[Finding]:
    """Return findings about the age of each lane's oldest pending entry, in seconds."""
    found = []
    for lane, seconds in ages.items():
        attention, trouble = OLD_SECONDS[lane]
        if seconds >= attention:
            severity: Severity = "trouble" if seconds >= trouble else "attention"
            what = f"the oldest in the lane {lane} has waited for {round(seconds)} s"
            found.append(Finding(severity, f"old_{lane}", what, "see whether its worker runs and what it logs"))
    return found


def of_silence(silent: Mapping[str, float | None]) -> list[Finding]:
    """Return findings about missing heartbeats, in seconds by lane (or "beat"); None means never."""
    found = []
    for source, seconds in silent.items():
        if seconds is None or seconds >= SILENT_SECONDS:
            who = "beat wasn't heard of" if source == "beat" else f"no worker of the lane {source} was heard of"
            since = " yet" if seconds is None else f" for {round(seconds)} s"
            lost = ": no night begins" if source == "beat" else ""
            found.append(Finding("trouble", f"silent_{source}", f"{who}{since}{lost}", f"start `{command(source)}`"))
    return found


def command(source: str) -> str:
    """Return the command that starts a lane's worker, or "beat"."""
    return "ebbing beat" if source == "beat" else f"ebbing worker --lane {source}"


def of_nights(overdue_seconds: float, failed: Mapping[str, int], cut_short: int) -> list[Finding]:
    """Return findings about the last nights.

    Args:
        overdue_seconds: Time since the most overdue night was due.
        failed: Number of tenants by the step at which their last night failed.
        cut_short: Number of tenants whose last night was cut short.
    """
    found = []
    for step, tenants in failed.items():
        what = f"the last night failed at the step {step}" + (f" for {tenants} tenants" if tenants > 1 else "")
        found.append(Finding("trouble", "night_failed", what, "see its job's log, mend it, and run it again", "night"))
    if overdue_seconds >= NIGHT_OVERDUE_SECONDS:
        severity: Severity = "trouble" if overdue_seconds >= NIGHT_MISSED_SECONDS else "attention"
        what = f"a night has been due for {round(overdue_seconds / 3600, 1)} h"
        found.append(Finding(severity, "night_overdue", what, "see whether the lane maintain moves", "night"))
    if cut_short:
        what = "the last night was cut short" + (f" for {cut_short} tenants" if cut_short > 1 else "")
        found.append(Finding("attention", "night_cut_short", what, "give it more time, or run it now", "night"))
    return found


def of_requests(count: int | None, days_left: float) -> Finding:
    """Return the finding about privacy requests near or past their deadline.

    Args:
        count: Number of requests; None if only the first one is known.
        days_left: Days until the first deadline, negative if it has passed.
    """
    many = "a request about a person's data" if count in {1, None} else f"{count} requests about people's data"
    when = f"due in {days_left:.1f} days" if days_left >= 0 else f"overdue for {-days_left:.1f} days"
    what = f"{many} {'is' if count in {1, None} else 'are, the first of them,'} {when}"
    severity: Severity = "attention" if days_left >= 1 else "trouble"
    return Finding(severity, "privacy_due", what, "finish it, or answer it", "privacy")


def late_rewrites(erasures: int) -> Finding:
    """Return the finding about cold-storage segments that still contain erased data after the promised day."""
    what = f"segments of {erasures} {'erasure' if erasures == 1 else 'erasures'} should be rewritten by now"
    return Finding("trouble", "rewrites_late", what, "see whether the lane rights moves", "privacy")


def recall_empty(tenants: int | None) -> Finding:
    """Return the finding about recalls that return next to nothing.

    Args:
        tenants: Number of tenants; None for the viewer's own.
    """
    where = "" if tenants is None else f" for {tenants} {'tenant' if tenants == 1 else 'tenants'}"
    what = f"recall brought up next to nothing in the last self-tests{where}"
    return Finding("attention", "recall_empty", what, "see the self-tests and the runbook's Recall empty", "tests")


def lost(requests: int) -> Finding:
    """Return the finding about accepted requests that are neither stored nor pending."""
    what = f"{requests} accepted {'request is' if requests == 1 else 'requests are'} neither stored nor waiting"
    return Finding("trouble", "lost", what, "see whether a stream was lost: the runbook says how")


def storage_findings(redis_used: float, disks_free: Mapping[str, float]) -> list[Finding]:
    """Return findings about the used share of Redis's memory, and the free share of each disk by its purpose."""
    found = []
    if redis_used >= REDIS_MOST:
        what = f"Redis uses {redis_used:.0%} of its memory, and refuses what comes when that is full"
        found.append(Finding("trouble", "redis_full", what, "give it more, or see why the lanes don't empty it"))
    found += [
        Finding("trouble", "disk_full", f"{share:.0%} of the disk of {place} is left", "make room on it")
        for place, share in disks_free.items()
        if share < FREE_LEAST
    ]
    return found
