"""A child that keeps dying once the service is up: the others continue, unless nothing works without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.supervisor import ChildEvent, EventKind, RestartPolicy, Supervisor
from tests.supervisor.test_optional_child import WAIT, child
from tests.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.kills, pytest.mark.slow]


def test_a_failing_child_is_started_again_after_up_to_a_minute() -> None:
    policy = RestartPolicy()
    assert [policy.failing_delay_seconds(deaths) for deaths in (1, 2, 3, 4, 5, 10_000)] == [10, 20, 40, 60, 60, 60]


DIES_ONCE_ALL_ARE_UP = """
import os, pathlib, signal, sys
while not pathlib.Path("up").exists():
    signal.sigtimedwait([signal.SIGUSR1], 0.01)
sys.exit("no such lane: weeding")
"""


@pytest.mark.parametrize("essential", [False, True])
def test_a_child_that_keeps_dying_later_stops_all_only_if_it_is_essential(tmp_path: Path, essential: bool) -> None:
    children = [
        replace(child(tmp_path, "weak", DIES_ONCE_ALL_ARE_UP), essential=essential),
        child(tmp_path, "fine", WAIT),
    ]
    events: list[ChildEvent] = []

    def record_event(event: ChildEvent) -> None:
        events.append(event)
        if event.what == EventKind.UP:
            (tmp_path / "up").touch()
        if len([event for event in events if event.what == EventKind.FAILING]) == 3:
            supervisor.request_stop()

    hasty = RestartPolicy(
        first_seconds=0.01, longest_seconds=0.02, failing_longest_seconds=0.04, window_seconds=PATIENCE_SECONDS
    )
    supervisor = Supervisor(children, record_event, hasty)
    code = supervisor.run()
    messages = [event.message for event in events if event.what in {EventKind.FAILING, EventKind.FAILED}]
    assert f"weak died 5 times in {PATIENCE_SECONDS:g} s, last with exit code 1" in messages[0]
    assert "no such lane: weeding" in messages[0]
    assert [event.child for event in events if event.what == EventKind.DIED] == ["weak"] * (5 if essential else 7)
    assert [event.child for event in events if event.what == EventKind.STOPPED] == ["fine"]
    if essential:
        assert (code, len(messages)) == (1, 1)
        return
    assert code == 0
    assert messages[0].endswith("\nweak is started again in 0.04 s; the other processes continue.")
    assert messages[1:] == ["weak is started again in 0.04 s; the other processes continue."] * 2
