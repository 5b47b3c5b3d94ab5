"""A service that ends with the program that started it: the end of a pipe stops all children."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest

from app.embedded import ProgramSpec
from app.supervisor import Child, ChildEvent, EventKind, Supervisor

pytestmark = [pytest.mark.kills, pytest.mark.slow]


def test_the_end_of_the_lifeline_stops_all_children_but_input_does_not(tmp_path: Path) -> None:
    program = ProgramSpec([sys.executable, "-IS", "-c", "import signal; signal.pause()"], os.environ, folder=tmp_path)
    held, end = os.pipe()
    events: list[str] = []
    is_up = threading.Event()

    def record_event(event: ChildEvent) -> None:
        events.append(event.what.value)
        if event.what == EventKind.UP:
            os.write(end, b"a line of input\n")
            is_up.set()

    def hang_up() -> None:
        is_up.wait()
        os.close(end)

    owner = threading.Thread(target=hang_up)
    owner.start()
    code = Supervisor([Child("one", program, tmp_path / "one.log")], record_event, lifeline=held).run()
    owner.join()
    os.close(held)
    assert (code, events) == (0, ["starting", "started", "ready", "up", "stopping", "stopped", "down"])
