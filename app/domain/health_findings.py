"""Turn measurements of the service into findings: a severity, a state with its cause, and a next step.

Every probe returns findings. Each interface maps the severity to its own words.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from app.domain.durations import HOUR, format_duration
from app.domain.formatting import format_days_left, format_span

Severity = Literal["ok", "attention", "trouble"]

SILENT_SECONDS: Final = 6.0
"""Heartbeat silence after which a process is reported.

Processes send a heartbeat every two seconds; with polling delays, a dead process is reported within ten."""
DEAD_SECONDS: Final = 30.0
"""Heartbeat silence after which a process counts as dead rather than slow."""
OLD_SECONDS: Final[Mapping[str, tuple[float, float]]] = {
    "ingest": (60, 300),
    "embed": (300, 3600),
    "score": (300, 3600),
    "rights": (900, 3600),
    "maintain": (3600, 6 * 3600),
}
"""Age of the oldest pending entry, by lane, above which to report attention and trouble."""
STARTING_SECONDS: Final = 60.0
"""Time after the API's start during which workers and beat may not have sent a heartbeat yet."""
WAIT: Final = "wait a minute, because the service is starting"
"""Next step for a heartbeat that is missing after a start."""
READ_LOG: Final = "read in the log of the worker what is wrong with the answers"
"""Next step whose command shows the end of a worker's log."""
BLOCKED_SECONDS: Final = 60.0
"""Least time without any activity after which a task of a worker counts as blocked."""
NIGHT_OVERDUE_SECONDS: Final = HOUR
NIGHT_MISSED_SECONDS: Final = 26 * HOUR
REDIS_MOST: Final = 0.9
"""Share of Redis memory above which writes are at risk."""
FREE_LEAST: Final = 0.15
"""Minimum free share of a disk."""
RESTARTS_MANY: Final = 3
"""Restarts of a lane's worker, or of beat, within an hour from which to report them."""
DAYS_LEFT: Final = 7
"""Report data-subject requests with fewer days left than this."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a probe.

    Attributes:
        code: Stable identifier.
        what: State and cause, as a sentence without a full stop.
        todo: Next step for the operator; empty if none is needed.
        page: Dashboard page with details, or empty.
        command: Shell command for the next step, in the form that this installation needs; or empty.
        section: Anchor of the section in the runbook, or empty.
        pid: Id of the process to restart; None if the finding concerns a whole worker, or no process.
        setting: Variable of the setting to change, which needs a restart; or empty.
    """

    severity: Severity
    code: str
    what: str
    todo: str = ""
    page: str = ""
    command: str = ""
    section: str = ""
    pid: int | None = None
    setting: str = ""

    @property
    def name(self) -> str:
        """The code as words."""
        return self.code.replace("_", " ")

    @property
    def lines(self) -> list[str]:
        """Lines to print: the state with its cause, then the next step and the command if the finding has them.

        If the probe found no problem, the only line is `what`, unchanged.
        """
        if self.severity == "ok":
            return [self.what]
        todo = self.todo or ("run this command" if self.command else "")
        lines = [_end(_capitalise(self.what), ".")]
        if todo:
            lines.append(_end(_capitalise(todo), ":" if self.command else "."))
        return [*lines, self.command] if self.command else lines

    @property
    def detail(self) -> str:
        """The text of `lines` on one line, with the command between backticks."""
        *said, last = self.lines
        return " ".join([*said, f"`{last}`" if self.command and self.severity != "ok" else last])


@dataclass(frozen=True, slots=True)
class StuckProcess:
    """A process of a worker's pool that makes no progress although the worker sends heartbeats.

    Attributes:
        host: Name of its host or container; empty if it is this one.
        state: `stopped` by a signal or a debugger, or `blocked` in a task.
        seconds: Time since its last progress.
    """

    lane: str
    pid: int
    host: str
    state: Literal["stopped", "blocked"]
    seconds: float


@dataclass(frozen=True, slots=True)
class Restarts:
    """Restarts of a lane's worker, or of beat, after deaths within the last hour.

    Attributes:
        count: Number of restarts.
        last_seconds: Time since the last one.
        last_end: How the process ended before the last one, such as `signal SIGKILL` or `exit code 1`; empty if only
            a supervisor outside the service, such as Docker, knows it.
    """

    count: int
    last_seconds: float
    last_end: str = ""


def ok(code: str, what: str) -> Finding:
    """Return the finding of a probe that found no problem."""
    return Finding("ok", code, what)


def attention(code: str, what: str, todo: str = "", page: str = "") -> Finding:
    """Return a warning."""
    return Finding("attention", code, what, todo, page)


def trouble(code: str, what: str, todo: str = "", page: str = "") -> Finding:
    """Return a problem that needs action now."""
    return Finding("trouble", code, what, todo, page)


def ranked(found: Iterable[Finding]) -> list[Finding]:
    """Return the warnings and problems, problems first."""
    return sorted(
        (finding for finding in found if finding.severity != "ok"), key=lambda finding: finding.severity != "trouble"
    )


def line(found: Iterable[Finding]) -> str:
    """Return the overall status as one line."""
    found = ranked(found)
    urgent = sum(finding.severity == "trouble" for finding in found)
    warnings = f"{_many(len(found) - urgent, 'warning')} to review" if len(found) > urgent else ""
    if not urgent:
        return warnings or "No problems found"
    problems = f"{urgent} {'problem needs' if urgent == 1 else 'problems need'} action now"
    return f"{problems}, {warnings}" if warnings else problems


def lane_findings(ages: Mapping[str, float]) -> list[Finding]:
    """Return findings for old backlogs, given the age of each lane's oldest pending entry in seconds."""
    findings = []
    for lane, (old_seconds, late_seconds) in OLD_SECONDS.items():
        seconds = ages.get(lane, 0.0)
        if seconds >= old_seconds:
            report = trouble if seconds >= late_seconds else attention
            what = f"the oldest entry in the {lane} queue has waited {format_span(seconds)}"
            findings.append(report(f"old_{lane}", what, "check that its worker is running and read its log"))
    return findings


def silence_findings(
    ages: Mapping[str, float | None], stuck: Sequence[StuckProcess] = (), *, is_starting: bool = False
) -> list[Finding]:
    """Return the findings for each lane's worker and for beat.

    Args:
        ages: Seconds since the last heartbeat, by lane or "beat"; None if there was none yet.
        stuck: Pool processes that make no progress; reported if their worker sends heartbeats.
        is_starting: True if the service has just started, so that a missing heartbeat is to be expected.
    """
    findings = []
    for source, seconds in ages.items():
        code = "beat" if source == "beat" else f"lane_{source}"
        if seconds is not None and seconds < SILENT_SECONDS:
            if in_lane := [_stuck_finding(code, process) for process in stuck if process.lane == source]:
                findings += in_lane
                continue
            findings.append(ok(code, f"last heartbeat {_ago(seconds)}"))
            continue
        is_dead = seconds is None or seconds > DEAD_SECONDS
        report = trouble if is_dead and not is_starting else attention
        process = _name_process(source)
        since = "yet" if seconds is None else f"for {format_span(seconds)}"
        effect = ", so no nightly run starts" if source == "beat" else ""
        what = f"{process} hasn't sent a heartbeat {since}{effect}"
        findings.append(report(code, what, WAIT if is_starting else "restart it"))
    return findings


def restart_findings(restarts: Mapping[str, Restarts]) -> list[Finding]:
    """Return warnings for workers and beat that die often, given the restarts by lane or "beat"."""
    return [
        attention(
            f"restarts_{source}",
            f"{_name_process(source)} died and was restarted {one.count} times within an hour, "
            f"the last time {_ago(one.last_seconds)}{f' after {one.last_end}' if one.last_end else ''}",
            "find the cause in its log",
        )
        for source, one in restarts.items()
        if one.count >= RESTARTS_MANY
    ]


def _name_process(source: str) -> str:
    return "the scheduler (beat)" if source == "beat" else f"the {source} worker"


def _stuck_finding(code: str, process: StuckProcess) -> Finding:
    severity: Severity = "trouble" if process.seconds > DEAD_SECONDS else "attention"
    where = f" on {process.host}" if process.host else ""
    since = format_span(process.seconds)
    state = f"has been stopped for {since}" if process.state == "stopped" else f"has hung in a task for {since}"
    cause = " by a signal or a debugger" if process.state == "stopped" else ""
    what = f"process {process.pid} of the {process.lane} worker{where} {state}{cause}"
    return Finding(severity, code, what, "restart it", pid=process.pid)


def night_findings(overdue_seconds: float, failed: Mapping[str, int], cut_short: int) -> list[Finding]:
    """Return findings for failed, overdue and cut-short nightly runs.

    Args:
        overdue_seconds: Delay of the most overdue nightly run; 0 if none is overdue.
        failed: Number of tenants by the step at which their last nightly run failed.
        cut_short: Number of tenants whose last nightly run reached its time limit.
    """
    findings = []
    for step, tenants in failed.items():
        what = f"the last nightly run failed at the step {step}" + (f" for {tenants} tenants" if tenants > 1 else "")
        findings.append(
            trouble("night_failed", what, "find the error, fix its cause, and start the nightly run again", "night")
        )
    if overdue_seconds >= NIGHT_OVERDUE_SECONDS:
        report = trouble if overdue_seconds >= NIGHT_MISSED_SECONDS else attention
        what = f"a nightly run is overdue by {format_duration(overdue_seconds)}"
        findings.append(report("night_overdue", what, "check that the maintain queue makes progress", "night"))
    if cut_short:
        what = "the last nightly run reached its time limit" + (f" for {cut_short} tenants" if cut_short > 1 else "")
        todo = "increase EBBING_NIGHT_HOURS, or start the nightly run again"
        findings.append(attention("night_cut_short", what, todo, "night"))
    return findings


def request_finding(count: int | None, days_left: float) -> Finding:
    """Return the finding for data-subject requests close to their deadline.

    Args:
        count: Number of requests; None if only the first is known.
        days_left: Days until the first deadline; negative if overdue.
    """
    is_one = count in {1, None}
    many = "a data-subject request needs an answer" if is_one else f"{count} data-subject requests need an answer"
    when = f": {format_days_left(days_left)}" if is_one else f", the first: {format_days_left(days_left)}"
    report = attention if days_left >= 1 else trouble
    return report("privacy_due", f"{many}{when}", "complete or answer it", "privacy")


def rewrite_finding(erasures: int) -> Finding:
    """Return the finding for cold-storage segments with erased memories past their rewrite deadline."""
    what = (
        f"cold storage files still contain memories of {_many(erasures, 'erasure')}, although they should have been "
        "rewritten by now"
    )
    return trouble("rewrites_late", what, "check that the rights queue makes progress", "privacy")


def recall_finding(tenants: int | None) -> Finding:
    """Return the finding for recalls that return almost nothing.

    Args:
        tenants: Number of affected tenants; None for the viewer's own tenant.
    """
    what = "recall returned almost nothing in the last self-tests"
    what += "" if tenants is None else f" for {_many(tenants, 'tenant')}"
    todo = "find the cause on the page Self-tests, fix it, and run the tests again"
    return attention("recall_empty", what, todo, "tests")


def webhook_findings(states: Mapping[str, int]) -> list[Finding]:
    """Return the findings about webhooks, from their number by state: `enabled`, `failing`, `paused` and `disabled`."""
    findings = []
    if disabled := states.get("disabled", 0):
        was, whose = ("was", "its receiver") if disabled == 1 else ("were", "their receivers")
        what = f"{_many(disabled, 'webhook')} {was} disabled, because {whose} failed for days or answered with 410"
        todo = "correct the receiver, then enable the webhook: it continues where it stopped"
        findings.append(attention("webhooks_disabled", what, todo, "webhooks"))
    if failing := states.get("failing", 0):
        what = f"{_many(failing, 'webhook')} can't deliver, because the receiver fails; messages are retried"
        todo = "find the last results in the list of deliveries"
        findings.append(attention("webhooks_failing", what, todo, "webhooks"))
    return findings


def loss_finding(requests: int) -> Finding:
    """Return the finding for accepted requests that are neither stored nor queued."""
    what = f"{requests} accepted {'request is' if requests == 1 else 'requests are'} neither stored nor queued"
    return trouble("lost", what, "list the lost requests, and have the applications send them again")


def dead_letter_finding(letters: int) -> Finding:
    """Return the finding for dead letters of the viewer's tenant that need a decision."""
    if letters == 1:
        return attention("dead_letters", "1 dead letter needs a decision", "replay or discard it", "letters")
    what = f"{letters:,} dead letters need a decision"
    return attention("dead_letters", what, "list them, then replay or discard them", "letters")


def other_dead_letters_finding(letters: Mapping[str, int], tenants: int, total: int) -> Finding:
    """Return the finding for dead letters of tenants other than the viewer's.

    Args:
        letters: Number of dead letters by the name of the tenant, for those tenants that have the most.
        tenants: Number of tenants with dead letters, those in `letters` included.
        total: Number of their dead letters.
    """
    named = [f"{name} {count:,}" for name, count in sorted(letters.items(), key=lambda one: (-one[1], one[0]))]
    if tenants > len(letters):
        named.append(f"{tenants - len(letters):,} more {'tenant' if tenants - len(letters) == 1 else 'tenants'}")
    whose = "another tenant" if tenants == 1 else f"{tenants:,} other tenants"
    verb = "needs" if total == 1 else "need"
    what = f"{_many(total, 'dead letter')} of {whose} {verb} a decision ({', '.join(named)})"
    todo = (
        "use the page Tenants to switch to each tenant that has dead letters, then replay or discard them on the page "
        "Dead letters"
    )
    return attention("other_dead_letters", what, todo, "tenants")


def exposed_secret_finding(variable: str, path: str) -> Finding:
    """Return the finding for a file of a secret that every user of the machine may read."""
    what = f"all users of this machine can read the secret in {path} ({variable})"
    todo, command = "let only the service's user read the file", f"chmod 400 {shlex.quote(path)}"
    return Finding("attention", "secret_files", what, todo, command=command)


def storage_findings(redis_used: float, disks_free: Mapping[str, float]) -> list[Finding]:
    """Return findings for Redis memory use and free disk space, given the used share and the free share by disk."""
    findings = []
    if redis_used >= REDIS_MOST:
        what = f"Redis uses {redis_used:.0%} of its memory and rejects writes at the limit"
        findings.append(
            trouble("redis_full", what, "raise its memory limit, or find out why the queues aren't drained")
        )
    full = {place: share for place, share in disks_free.items() if share < FREE_LEAST}
    findings += [
        trouble("disk_full", f"the disk of {place} has {share:.0%} free space", "free up space")
        for place, share in full.items()
    ]
    return findings


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count:,} {noun}s"


def _ago(seconds: float) -> str:
    return f"{format_duration(seconds)} ago" if round(seconds) else "just now"


def _capitalise(sentence: str) -> str:
    """Return the sentence with a capital at its start, unless it starts with a URL."""
    return sentence if "://" in sentence.partition(" ")[0] else sentence[:1].upper() + sentence[1:]


def _end(sentence: str, mark: str) -> str:
    """Return the sentence with a mark at its end instead of a full stop that it may have already."""
    return sentence.removesuffix(".") + mark
