"""The line that names the cause of a command's wait."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from app.cli.core.output import progress
from app.cli.core.waiting import each_waiting_for, waiting_for
from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

PATIENCE_SECONDS = 30


class Terminal(io.StringIO):
    """A terminal that reports its first line."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        count = super().write(text)
        self.written.set()
        return count


@contextmanager
def terminal() -> Iterator[Terminal]:
    """Make standard error a terminal; in the test itself, since pytest replaces it after the fixtures."""
    with pytest.MonkeyPatch.context() as patch:
        made = Terminal()
        patch.setattr(sys, "stderr", made)
        yield made


def test_it_is_shown_with_the_time_and_removed() -> None:
    with terminal() as shown:
        with waiting_for("waiting for a reply", after_seconds=0):
            assert shown.written.wait(PATIENCE_SECONDS)
            assert shown.getvalue().endswith("waiting for a reply … 0 s")
        assert shown.getvalue().endswith("\r\x1b[K")


def test_what_is_fast_shows_nothing() -> None:
    with terminal() as shown:
        with waiting_for("waiting for a reply", after_seconds=PATIENCE_SECONDS):
            pass
        assert list(each_waiting_for([1, 2], "checking")) == [1, 2]
    assert shown.getvalue() == ""


def test_a_progress_bar_has_the_terminal_for_itself() -> None:
    with terminal() as shown, progress("sending", None), waiting_for("waiting for a reply", after_seconds=0):
        pass
    assert "sending" in shown.getvalue()
    assert "waiting" not in shown.getvalue()


def test_a_pipe_shows_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting_for("waiting for a reply", after_seconds=0):
        pass
    assert capsys.readouterr().err == ""


def test_a_repeated_call_says_why(cli: Cli, api: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr("app.cli.core.waiting.WaitingLine.retitle", lambda _, text: seen.append(text))
    api.replies["GET /v1/jobs/j1"] = [
        Reply(503, {"title": "busy"}, {"Retry-After": "0"}),
        Reply(200, {"id": "j1", "kind": "erase", "status": "done", "done": 1, "total": 1}),
    ]
    assert cli("jobs", "watch", "j1").code == 0
    assert seen == ["503 busy; trying again"]
