"""A child that the service can do without: the others neither wait for it nor end with it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from app.embedded import ProgramSpec
from app.supervisor import Child, ChildEvent, EventKind, RestartPolicy, Supervisor

pytestmark = [pytest.mark.kills, pytest.mark.slow]
WAIT = "import signal; signal.pause()"


def child(folder: Path, name: str, script: str) -> Child:
    program = ProgramSpec([sys.executable, "-IS", "-c", script], os.environ, folder=folder)
    return Child(name, program, folder / "logs" / f"{name}.log")


def run(children: list[Child], until: EventKind) -> tuple[int, list[tuple[str, str]]]:
    """Run the children until this event, and return the code and all events."""
    events: list[ChildEvent] = []

    def record_event(event: ChildEvent) -> None:
        events.append(event)
        if event.what == until:
            supervisor.request_stop()

    supervisor = Supervisor(children, record_event, RestartPolicy(first_seconds=0.01, window_seconds=3600))
    code = supervisor.run()
    return code, [(event.child, event.what.value) for event in events]


def test_the_others_start_while_it_is_not_ready_and_it_is_finished_last(tmp_path: Path) -> None:
    finished: list[str] = []
    slow = child(tmp_path, "slow", WAIT)
    optional = Child(
        slow.name, slow.program, slow.log, ready=lambda _: False, optional=True, finish=lambda: finished.append("slow")
    )
    code, events = run([optional, child(tmp_path, "other", WAIT)], EventKind.UP)
    assert code == 0
    assert ("other", "ready") in events
    assert ("slow", "ready") not in events
    assert events[-2:] == [("slow", "stopped"), ("", "down")]
    assert finished == ["slow"]


def test_it_is_given_up_after_too_many_deaths_and_the_others_stay(tmp_path: Path) -> None:
    weak = child(tmp_path, "weak", "raise SystemExit(1)")
    optional = Child(weak.name, weak.program, weak.log, optional=True)
    code, events = run([optional, child(tmp_path, "other", WAIT)], EventKind.GIVEN_UP)
    assert code == 0
    assert events.count(("weak", "died")) == 5
    assert ("other", "died") not in events
    assert ("", "failed") not in events


def test_it_is_killed_if_it_is_not_ready_in_time(tmp_path: Path) -> None:
    slow = child(tmp_path, "slow", WAIT)
    optional = Child(
        slow.name, slow.program, slow.log, ready=lambda _: False, ready_timeout_seconds=0.01, optional=True
    )
    code, events = run([optional, child(tmp_path, "other", WAIT)], EventKind.GIVEN_UP)
    assert code == 0
    assert events.count(("slow", "overdue")) == events.count(("slow", "died")) == 5


def test_a_child_that_cannot_start_yet_is_named_while_the_others_run(tmp_path: Path) -> None:
    waiting: list[float] = []
    other = child(tmp_path, "other", WAIT)
    late = Child(other.name, other.program, other.log, can_start=lambda: bool(waiting), step="Starting the other")
    events: list[ChildEvent] = []

    def record_event(event: ChildEvent) -> None:
        events.append(event)
        if event.what == EventKind.WAITING:
            waiting.append(event.seconds or 0)
        if event.what == EventKind.UP:
            supervisor.request_stop()

    supervisor = Supervisor([late], record_event)
    assert supervisor.run() == 0
    kinds = [event.what for event in events]
    assert kinds[:3] == [EventKind.STARTING, EventKind.WAITING, EventKind.STARTED]
    assert {event.message for event in events[:2]} == {"Starting the other"}


def test_a_child_that_is_not_ready_gives_its_reason_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.supervisor.supervisor.WAITING_SECONDS", 0.01)
    other = child(tmp_path, "other", WAIT)
    reasons = ["", "Redis is refused.", "Redis is refused.", "PostgreSQL is away."]
    given: list[str] = []

    def explain() -> str:
        given.append(reasons[min(len(given), len(reasons) - 1)])
        return given[-1]

    late = Child(
        other.name,
        other.program,
        other.log,
        ready=lambda _: len(given) >= len(reasons),
        explain=explain,
        step="Starting",
    )
    found: list[str] = []

    def record_event(event: ChildEvent) -> None:
        if event.what == EventKind.WAITING:
            found.append(event.reason)
        if event.what == EventKind.UP:
            supervisor.request_stop()

    supervisor = Supervisor([late], record_event)
    assert supervisor.run() == 0
    assert found[:4] == ["", "Redis is refused.", "", "PostgreSQL is away."]
