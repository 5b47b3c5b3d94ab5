"""Another program has the address of a stopped service: it gets no key, and its answers end in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.cli.core.connection import ApiConnection, find_connection
from app.supervisor import lock_home
from tests.cli.conftest import KEY, Cli
from tests.cli.stub import Reply, Stub, problem

READ = (["stats"], ["search", "tea"], ["audit"], ["jobs"], ["dump", "dump.zip"], ["tenants", "list"])
"""Commands that read, among them those that stream a response and that read a list."""


@pytest.fixture
def home(folder: Path) -> Path:
    """A home of `ebbing run`, with the key that its service accepts."""
    home = folder / ".ebbing"
    home.mkdir(mode=0o700)
    (home / "api-key").write_text("ebb_home\n")
    return home


@pytest.fixture
def at_default(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """A program at the usual address of an API."""
    monkeypatch.setattr("app.cli.core.connection.DEFAULT_URL", stub.url)
    return stub


@pytest.fixture
def runs(home: Path) -> Iterator[Callable[[], None]]:
    """Function that lets a service run in the home until the test ends."""
    locks = []

    def lock() -> None:
        locks.append(lock_home(home))
        locks[-1].__enter__()

    yield lock
    for lock_ in locks:
        lock_.__exit__(None, None, None)


@pytest.mark.parametrize("command", READ, ids=" ".join)
def test_the_key_of_a_home_without_a_running_service_is_sent_to_nobody(
    cli: Cli, home: Path, at_default: Stub, command: list[str]
) -> None:
    done = cli(*command)
    assert done.code == 3
    assert done.err == (
        "ebbing: no service runs in .ebbing: start it with `ebbing run`, or give another address with --url or "
        "EBBING_API_URL\n"
    )
    assert at_default.asked == []


def test_an_address_that_an_ended_service_left_gets_no_key(cli: Cli, home: Path, stub: Stub) -> None:
    (home / "api-url").write_text(f"{stub.url}\n")  # the supervisor was killed, so it couldn't delete the note
    (home / "lock").write_text("4711\n")
    assert cli("stats").code == 3
    assert cli("stats", EBBING_API_KEY=KEY).code == 3, "nor does it get a key of the environment"
    assert stub.asked == []


def test_a_port_of_the_environment_gets_the_key_only_from_a_running_service(
    cli: Cli, home: Path, stub: Stub, runs: Callable[[], None]
) -> None:
    stub.replies["GET /v1/jobs"] = Reply(200, {"jobs": []})
    port = stub.url.rpartition(":")[2]
    assert cli("jobs", EBBING_PORT=port).code == 3
    assert stub.asked == []
    runs()
    assert cli("jobs").code == 0
    assert [one.headers["authorization"] for one in stub.asked] == ["Bearer ebb_home"]


def test_a_given_address_is_asked_whatever_runs_in_the_home(cli: Cli, home: Path, stub: Stub) -> None:
    stub.replies["GET /v1/jobs"] = Reply(200, {"jobs": []})
    assert find_connection(stub.url) == ApiConnection(stub.url, "ebb_home")
    assert cli("jobs", "--url", stub.url).code == 0
    assert cli("jobs", EBBING_API_URL=stub.url).code == 0
    assert len(stub.asked) == 2


def test_doctor_asks_nobody_for_a_service_that_does_not_run(cli: Cli, home: Path, at_default: Stub) -> None:
    done = cli("doctor")
    assert done.code == 1
    assert (
        "✗ api                 No service runs in .ebbing.\n                      Start it with `ebbing run`"
        in done.out
    )
    assert "is running here" not in done.out
    assert at_default.asked == []


@pytest.mark.parametrize("command", ["stats", "search tea", "jobs", "tenants list", "usage"])
def test_an_answer_of_another_program_is_one_line(cli: Cli, api: Stub, command: str) -> None:
    for path in ("GET /v1/stats", "POST /v1/search", "GET /v1/jobs", "GET /v1/admin/tenants", "GET /v1/usage"):
        api.replies[path] = Reply(200, {})
    done = cli(*command.split())
    assert (done.code, done.err.count("\n")) == (1, 1), done
    assert f"{api.url} doesn't answer like Ebbing (no field `" in done.err


@pytest.mark.parametrize("status", [200, 503])
def test_doctor_does_not_call_another_program_ready(cli: Cli, api: Stub, status: int) -> None:
    api.replies["GET /readyz"] = Reply(status, {})
    api.replies["GET /v1/status"] = Reply(200, {"findings": [{"severity": "fine"}]})
    done = cli("doctor", COLUMNS="300")
    assert done.code == 1
    assert "✓ api" not in done.out
    assert "✗ api" in done.out
    api.replies["GET /readyz"] = Reply(200, {"dependencies": [{"name": "redis", "well": True, "detail": "answers"}]})
    done = cli("doctor", COLUMNS="300")
    assert done.code == 1
    assert "doesn't answer like Ebbing (other findings)" in done.out


def test_a_problem_of_another_program_is_one_line(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/stats"] = Reply(400, [problem(400, "x")])
    done = cli("stats")
    assert (done.code, done.err) == (1, "ebbing: 400 Bad Request\n")
