"""Fixtures: the command line with a stub of the API, an empty folder and no inherited settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from app.cli import app
from app.settings import settings
from tests.cli.stub import Stub

Cli = Callable[..., "Done"]
KEY = "ebb_stub"


class Done:
    """Exit code and output of a command."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    def __repr__(self) -> str:
        return f"exit code {self.code}\n{self.out}\n{self.err}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The empty working directory of commands."""
    for name in os.environ:
        if name.startswith("EBBING_") and not name.startswith("EBBING_TEST_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")  # pytest-xdist sets 80 in its workers
    monkeypatch.chdir(tmp_path)
    settings.cache_clear()
    yield tmp_path
    settings.cache_clear()


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Function that runs `ebbing` with these arguments."""

    def run(*words: str, given: str | bytes | None = None, **environment: str) -> Done:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()
        result = CliRunner().invoke(app, list(words), input=given, prog_name="ebbing")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def stub() -> Iterator[Stub]:
    """Stub of the API."""
    server = Stub()
    yield server
    server.close()


@pytest.fixture
def api(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> Stub:
    """The stub, with its address and a key set in the environment."""
    monkeypatch.setenv("EBBING_API_URL", stub.url)
    monkeypatch.setenv("EBBING_API_KEY", KEY)
    return stub


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that the client waited before retries; the waits are recorded, not performed."""
    noted: list[float] = []
    monkeypatch.setattr("time.sleep", noted.append)
    return noted
