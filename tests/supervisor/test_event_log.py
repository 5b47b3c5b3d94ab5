"""The log of a child lists its events as JSON lines, and its replacement knows how it ended."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.supervisor import Child, ChildEvent, EventKind, RestartPolicy, Supervisor
from app.supervisor.event_log import record_event
from app.system.running_home import PREVIOUS_END
from tests.supervisor.test_optional_child import WAIT, child

pytestmark = [pytest.mark.kills, pytest.mark.slow]

SAYS = f"import os, sys; print('after', os.environ.get('{PREVIOUS_END}'), flush=True)\n" + WAIT
FAILS = "import sys; sys.exit('no such lane: weeding')"
HASTY = RestartPolicy(first_seconds=0.01)


def read(log: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the supervisor's lines of a log, and the others."""
    lines = log.read_text().splitlines()
    said = [json.loads(line) for line in lines if line.startswith("{")]
    return said, [line for line in lines if not line.startswith("{")]


def test_the_log_of_a_killed_child_has_its_signal_and_its_restart(tmp_path: Path) -> None:
    def on_event(event: ChildEvent) -> None:
        if event.what in {EventKind.STARTED, EventKind.RESTARTED}:
            pids.append(event.pid or 0)
        if event.what == EventKind.UP:
            os.kill(pids[0], signal.SIGKILL)
        if event.what == EventKind.RESTARTED:
            supervisor.request_stop()

    pids: list[int] = []
    one = child(tmp_path, "worker-rights", SAYS)
    supervisor = Supervisor([one], on_event, HASTY)
    assert supervisor.run() == 0
    events, _ = read(one.log)
    assert [event["event"] for event in events] == [
        "process_started",
        "process_died",
        "process_restarted",
        "process_stopping",
        "process_stopped",
    ]
    first, second = pids
    assert [event["pid"] for event in events] == [first, first, second, second, second]
    assert [event["level"] for event in events] == ["info", "error", "warning", "info", "info"]
    assert [event.get("signal") for event in events][1] == "SIGKILL"
    assert {event["process"] for event in events} == {"supervisor"}
    assert {event["child"] for event in events} == {"worker-rights"}
    assert all(event["timestamp"].endswith("Z") for event in events)
    assert one.log.stat().st_mode & 0o777 == 0o600


def test_the_replacement_knows_how_the_one_before_ended(tmp_path: Path) -> None:
    script = f"""
import os, pathlib, signal, sys
end = os.environ.get("{PREVIOUS_END}", "")
with open("ends", "a") as file:
    file.write(end + ";")
while not pathlib.Path("up").exists():
    signal.sigtimedwait([signal.SIGUSR1], 0.01)
if not end:
    sys.exit(3)
if end == "exit code 3":
    os.kill(os.getpid(), signal.SIGKILL)
if end == "signal SIGKILL":
    pathlib.Path("done").touch()
{WAIT}
"""

    def on_event(event: ChildEvent) -> None:
        if event.what == EventKind.UP:
            (tmp_path / "up").touch()

    class Ends(Supervisor):
        def _watch(self) -> None:
            while not (tmp_path / "done").exists():
                self._check_children()
                self._pause(0.01)

    assert Ends([child(tmp_path, "weak", script)], on_event, HASTY).run() == 0
    assert (tmp_path / "ends").read_text() == ";exit code 3;signal SIGKILL;"


def test_a_failed_step_of_the_start_is_in_its_log_and_the_message_quotes_only_its_own_lines(tmp_path: Path) -> None:
    events: list[ChildEvent] = []
    one = replace(child(tmp_path, "migrate", FAILS), one_shot=True)
    assert Supervisor([one], events.append, HASTY).run() == 1
    [message] = [event.message for event in events if event.what == EventKind.FAILED]
    assert message == f"migrate failed with exit code 1; the end of {one.log}:\nno such lane: weeding"
    logged, _ = read(one.log)
    assert [(event["event"], event.get("exit_code")) for event in logged] == [
        ("process_started", None),
        ("process_died", 1),
    ]


def test_a_log_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    one: Child = replace(child(tmp_path, "weak", WAIT), log=tmp_path / "file" / "weak.log")
    record_event(one, ChildEvent(EventKind.DIED, "weak", 1, -9, 0.5))
