"""The API accepts connections but doesn't answer: the command names the process to end, if it knows it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.core import client
from app.cli.core.client import Api, Unreachable
from app.cli.core.connection import ApiConnection
from app.supervisor import lock_home
from app.system.running_home import ProcessNote, find_process, is_running
from tests.cli.stub import Reply, Request, Stub

SOON = 0.2
"""Seconds without an answer after which these tests give up."""


@pytest.fixture
def silent() -> Iterator[str]:
    """Address at which the kernel accepts connections that nobody answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "HEALTH_TIMEOUT_SECONDS", SOON)


def ask(url: str, home: Path | None) -> Unreachable:
    with Api(ApiConnection(url, "k", home), timeout_seconds=SOON) as api, pytest.raises(Unreachable) as raised:
        api.stats()
    return raised.value


def test_a_hanging_api_of_a_running_home_is_named_with_its_process(silent: str, tmp_path: Path) -> None:
    with lock_home(tmp_path):
        note = ProcessNote(tmp_path)
        note.set("redis", 1)
        note.set("api", os.getpid())
        failure = ask(silent, tmp_path)
        assert str(failure) == (
            f"the API at {silent} hangs: it hasn't answered for 0.2 s: end its process, which is started again at "
            f"once: `kill -KILL {os.getpid()}`"
        )
        assert failure.command == f"kill -KILL {os.getpid()}"
        note.set("api", None)  # between its death and its restart
        assert ask(silent, tmp_path).command == ""
        assert find_process(tmp_path, "redis") == 1, "a process of another user, which no signal reaches, exists"


def test_without_a_home_the_process_is_unknown(silent: str) -> None:
    assert str(ask(silent, None)).endswith("hangs: it hasn't answered for 0.2 s: restart it")


def test_an_api_that_only_takes_too_long_is_not_called_hanging(stub: Stub, tmp_path: Path) -> None:
    with socket.socket() as gate:
        gate.bind(("127.0.0.1", 0))
        gate.listen()

        def slow(_asked: Request) -> Reply:
            with socket.create_connection(gate.getsockname()) as waiting:
                waiting.recv(1)  # until the test has seen the failure
            return Reply(200, {})

        stub.replies["GET /v1/stats"] = slow
        stub.replies["GET /healthz"] = Reply(200, {"status": "ok"})
        with lock_home(tmp_path):
            ProcessNote(tmp_path).set("api", os.getpid())
            failure = ask(stub.url, tmp_path)
    assert "answers, but not to this request within 0.2 s" in str(failure)
    assert failure.command == ""


def test_the_note_of_an_ended_supervisor_names_no_process(tmp_path: Path) -> None:
    with lock_home(tmp_path):
        assert is_running(tmp_path)
        ProcessNote(tmp_path).set("api", os.getpid())
        assert find_process(tmp_path, "api") == os.getpid()
        assert find_process(tmp_path, "beat") is None
    assert not is_running(tmp_path)
    assert find_process(tmp_path, "api") is None, "another program may have this id by now"
