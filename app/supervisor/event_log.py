"""Write the supervisor's events into the logs of its children, as JSON lines of the same shape as theirs.

A process that a signal kills can't log its end, so its supervisor does.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from app.embedded.process import log_tail
from app.supervisor.child import EventKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from app.supervisor.child import Child, ChildEvent

PROCESS: Final = "supervisor"
LOGGED: Final[Mapping[EventKind, tuple[str, str]]] = {
    EventKind.STARTED: ("info", "process_started"),
    EventKind.COMPLETED: ("info", "process_completed"),
    EventKind.DIED: ("error", "process_died"),
    EventKind.RESTARTED: ("warning", "process_restarted"),
    EventKind.FAILING: ("error", "process_failing"),
    EventKind.GIVEN_UP: ("error", "process_given_up"),
    EventKind.OVERDUE: ("warning", "process_not_ready"),
    EventKind.STOPPING: ("info", "process_stopping"),
    EventKind.KILLED: ("warning", "process_killed"),
    EventKind.STOPPED: ("info", "process_stopped"),
}
"""Level and name of the events that are logged."""
SHOWN_LINES: Final = 8
_MARK: Final = f'"process": "{PROCESS}"'


def record_event(child: Child, event: ChildEvent) -> None:
    """Append an event to the child's log; a log that can't be written must not end the supervisor."""
    if event.what not in LOGGED:
        return
    level, name = LOGGED[event.what]
    line = {
        "child": child.name,
        "pid": event.pid,
        **(describe_end(event.exit_code) if event.exit_code is not None else {}),
        **({} if event.seconds is None else {"seconds": round(event.seconds, 3)}),
        "event": name,
        "level": level,
        "timestamp": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        "process": PROCESS,
    }
    with suppress(OSError):
        child.log.parent.mkdir(mode=0o700, exist_ok=True)
        log = os.open(child.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(log, f"{json.dumps(line)}\n".encode())
        finally:
            os.close(log)


def describe_end(code: int) -> dict[str, str | int]:
    """Return the signal that ended a process, or else its exit code, as fields of a log line."""
    if code < 0:
        with suppress(ValueError):
            return {"signal": signal.Signals(-code).name}
    return {"exit_code": code}


def format_end(code: int) -> str:
    """Return the signal that ended a process, or else its exit code, as words: `signal SIGKILL`, `exit code 1`."""
    [(name, value)] = describe_end(code).items()
    return f"{name.replace('_', ' ')} {value}"


def last_lines(log: Path) -> str:
    """Return the last lines that a child itself has logged; empty if there are none."""
    lines = log_tail(log, 4 * SHOWN_LINES).splitlines()
    return "\n".join([line for line in lines if _MARK not in line][-SHOWN_LINES:])
