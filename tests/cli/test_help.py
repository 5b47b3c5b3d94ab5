"""Help is fast and shows examples for each command."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer.main
from typer.core import TyperGroup
from typer.testing import CliRunner

from app.cli import app
from tests.cli.conftest import Cli

HEAVY = {
    *("alembic", "celery", "fastapi", "granian", "httpx2", "numpy", "psycopg", "redis", "sqlalchemy"),
    "wordllama",
}


def commands(group: TyperGroup | None = None, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Return the names of every command."""
    found = group or typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    for name, command in found.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*names, name))
        yield (*names, name)


def test_commands_are_there() -> None:
    expected = {
        "run",
        "demo",
        "api",
        "worker",
        "beat",
        "migrate",
        "ingest",
        "search",
        "stats",
        "usage",
        "forecast",
        "curve",
        "simulate",
        "doctor",
        "tenants",
        "keys",
        "jobs",
        "dead-letters",
        "links",
    }
    assert expected <= {names[0] for names in commands()}


@pytest.mark.parametrize("names", list(commands()), ids=" ".join)
def test_each_help_shows_examples(names: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*names, "--help"])
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    assert f"ebbing {names[0]}" in shown.output


@pytest.mark.slow
def test_help_waits_for_nothing_heavy() -> None:
    program = f"import sys, app.cli; print(*({HEAVY!r} & set(sys.modules)))"
    root = __file__.rpartition("/tests/")[0]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_version_is_said(cli: Cli) -> None:
    done = cli("--version")
    assert done.code == 0
    assert done.out.startswith("ebbing ")


@pytest.mark.parametrize("words", [["serach"], ["search"], ["search", "tea", "--limit", "0"], ["search", "--nope"]])
def test_wrong_usage_ends_with_2(cli: Cli, words: list[str]) -> None:
    assert cli(*words).code == 2
