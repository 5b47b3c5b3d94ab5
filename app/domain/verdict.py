"""Whether all is well, in one line: what was found wrong, the worst first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Severity = Literal["trouble", "attention"]

SILENT_SECONDS: Final = 6.0
"""A process is heard of every two seconds, idle or busy; with what a look takes, a dead one is told within ten."""
OLD_SECONDS: Final[Mapping[str, tuple[float, float]]] = {
    "ingest": (60, 300),
    "embed": (300, 3600),
    "score": (300, 3600),
    "rights": (900, 3600),
    "maintain": (3600, 6 * 3600),
}
"""By lane, the age of the oldest that waits from which it wants attention, and from which it is trouble."""
NIGHT_OVERDUE_SECONDS: Final = 3600.0
NIGHT_MISSED_SECONDS: Final = 26 * 3600.0
REDIS_MOST: Final = 0.9
"""Of its memory."""
FREE_LEAST: Final = 0.15
"""Of a disk."""
DAYS_LEFT: Final = 7
"""A request of a person's with fewer days to its limit wants attention."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that isn't well.

    Attributes:
        code: A fixed word, by which it is known.
        what: What is wrong, in a sentence without a stop.
        todo: What to do about it.
        page: Where on the dashboard it is looked into, and what the runbook's heading is: fixed words, may be empty.
    """

    severity: Severity
    code: str
    what: str
    todo: str
    page: str = ""


def ranked(found: Sequence[Finding]) -> list[Finding]:
    """The worst first."""
    return sorted(found, key=lambda one: one.severity != "trouble")


def line(found: Sequence[Finding]) -> str:
    """The verdict."""
    if not found:
        return "All is well"
    trouble = sum(one.severity == "trouble" for one in found)
    if trouble:
        return f"{trouble} {'thing needs' if trouble == 1 else 'things need'} you now"
    return f"{len(found)} {'thing wants' if len(found) == 1 else 'things want'} a look"


def of_lanes(ages: Mapping[str, float]) -> list[Finding]:
    """What the ages of the oldest that wait say, in seconds by lane."""
    found = []
    for lane, seconds in ages.items():
        attention, trouble = OLD_SECONDS[lane]
        if seconds >= attention:
            severity: Severity = "trouble" if seconds >= trouble else "attention"
            what = f"the oldest in the lane {lane} has waited for {round(seconds)} s"
            found.append(Finding(severity, f"old_{lane}", what, "see whether its worker runs and what it logs"))
    return found


def of_silence(silent: Mapping[str, float | None]) -> list[Finding]:
    """What it says that processes weren't heard of, in seconds by lane, or of "beat"; None is never."""
    found = []
    for source, seconds in silent.items():
        if seconds is None or seconds >= SILENT_SECONDS:
            who = "beat wasn't heard of" if source == "beat" else f"no worker of the lane {source} was heard of"
            since = " yet" if seconds is None else f" for {round(seconds)} s"
            lost = ": no night begins" if source == "beat" else ""
            found.append(Finding("trouble", f"silent_{source}", f"{who}{since}{lost}", f"start `{command(source)}`"))
    return found


def command(source: str) -> str:
    """What starts a lane's worker, or "beat"."""
    return "ebbing beat" if source == "beat" else f"ebbing worker --lane {source}"


def of_nights(overdue_seconds: float, failed: Mapping[str, int], cut_short: int) -> list[Finding]:
    """What the last nights say.

    Args:
        overdue_seconds: Since the night was due that is overdue for longest.
        failed: Tenants by the step at which their last night failed.
        cut_short: Tenants whose last night was cut short.
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
    """What it says that people's requests are nearly due.

    Args:
        count: How many; None where only the first is known.
        days_left: Of the first, below 0 where it is late.
    """
    many = "a request about a person's data" if count in {1, None} else f"{count} requests about people's data"
    when = f"due in {days_left:.1f} days" if days_left >= 0 else f"overdue for {-days_left:.1f} days"
    what = f"{many} {'is' if count in {1, None} else 'are, the first of them,'} {when}"
    severity: Severity = "attention" if days_left >= 1 else "trouble"
    return Finding(severity, "privacy_due", what, "finish it, or answer it", "privacy")


def late_rewrites(erasures: int) -> Finding:
    """Segments of cold storage still hold what can't be read any more, after the day that was promised."""
    what = f"segments of {erasures} {'erasure' if erasures == 1 else 'erasures'} should be rewritten by now"
    return Finding("trouble", "rewrites_late", what, "see whether the lane rights moves", "privacy")


def recall_empty(tenants: int | None) -> Finding:
    """Return the finding that recall brings up next to nothing.

    Args:
        tenants: How many tenants; None for the viewer's own.
    """
    where = "" if tenants is None else f" for {tenants} {'tenant' if tenants == 1 else 'tenants'}"
    what = f"recall brought up next to nothing in the last self-tests{where}"
    return Finding("attention", "recall_empty", what, "see the self-tests and the runbook's Recall empty", "tests")


def lost(requests: int) -> Finding:
    """What was accepted is neither stored nor waiting."""
    what = f"{requests} accepted {'request is' if requests == 1 else 'requests are'} neither stored nor waiting"
    return Finding("trouble", "lost", what, "see whether a stream was lost: the runbook says how")


def of_room(redis_used: float, disks_free: Mapping[str, float]) -> list[Finding]:
    """What shares say: of Redis's memory what is used, of each disk what is free, by what it is of."""
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
