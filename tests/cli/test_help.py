"""Help is fast, lists commands by panels, and shows examples that run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from app import cli as package
from app.cli import app
from app.cli.menu import EVERYDAY, INSPECT, INTENTIONS, MENU, OPERATE, OPTION_INTENTIONS, PEOPLE
from tests.cli.conftest import Cli

HEAVY = {
    *("alembic", "celery", "fastapi", "granian", "httpx2", "msgspec", "numpy", "psycopg", "pydantic", "redis"),
    *("rich", "sqlalchemy", "wordllama"),
}
SERVICES = {"run", "api", "worker", "beat", "mcp"}
"""Commands that run until they are stopped, and print no data."""


def commands(group: TyperGroup | None = None, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Return the names of every command."""
    found = group or typer.main.get_command(app)
    assert isinstance(found, TyperGroup)
    for name, command in found.commands.items():
        if isinstance(command, TyperGroup):
            yield from commands(command, (*names, name))
        yield (*names, name)


def command_at(names: tuple[str, ...]) -> TyperCommand | TyperGroup:
    found: object = typer.main.get_command(app)
    for name in names:
        assert isinstance(found, TyperGroup)
        found = found.commands[name]
    assert isinstance(found, TyperCommand | TyperGroup)
    return found


def examples(names: tuple[str, ...]) -> list[str]:
    """Return the commands of a help's examples, without the pipes that follow them."""
    lines = (command_at(names).epilog or "").splitlines()
    return [line.strip().removeprefix("$ ") for line in lines if line.strip().startswith("$ ")]


def test_the_menu_has_every_command() -> None:
    root = Path(package.__file__).parent
    modules = {".".join(path.relative_to(root).with_suffix("").parts) for path in root.glob("*/*.py")}
    with_routers = {name for name in modules if hasattr(import_module(f"app.cli.{name}"), "router")}
    assert with_routers == {module for entry in MENU.values() for module in entry.modules}
    for name, entry in MENU.items():
        router = import_module(f"app.cli.{entry.modules[0]}").router
        holder = typer.Typer()
        holder.add_typer(router)
        own = set(typer.main.get_group(holder).commands)
        assert name in own
        assert own <= set(MENU), "a command is missing in the menu"


def test_the_menu_is_in_panels_of_one_line_each(cli: Cli) -> None:
    shown = cli("--help", COLUMNS="80", TERMINAL_WIDTH="80").out
    assert [shown.index(f"─ {panel} ─") for panel in (EVERYDAY, INSPECT, PEOPLE, OPERATE)] == sorted(
        shown.index(f"─ {panel} ─") for panel in (EVERYDAY, INSPECT, PEOPLE, OPERATE)
    )
    lines = [" ".join(line.strip("│ ").split()) for line in shown.splitlines()]
    assert [line for line in lines if line.partition(" ")[0] in MENU] == [
        f"{name} {entry.summary}" for name, entry in MENU.items()
    ]


def test_commands_are_where_scripts_expect_them() -> None:
    expected = {
        *("run", "demo", "api", "worker", "beat", "migrate", "ingest", "search", "recall", "stats", "usage"),
        *("forecast", "curve", "simulate", "doctor", "tenants", "keys", "jobs", "dead-letters", "links", "policy"),
        *("touch", "observe", "why", "history", "review", "reviews", "restore", "replay", "maintain", "schedule"),
        *("reembed", "erase", "export", "hold", "privacy", "audit", "queue", "consolidation", "supersede", "mcp"),
    }
    assert expected <= set(MENU)


@pytest.mark.parametrize("names", list(commands()), ids=" ".join)
def test_each_help_shows_examples(names: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(app, [*names, "--help"])
    assert shown.exit_code == 0
    assert "Examples:" in shown.output
    assert f"ebbing {names[0]}" in shown.output


@pytest.mark.parametrize("names", list(commands()), ids=" ".join)
def test_each_command_with_data_has_json(names: tuple[str, ...]) -> None:
    found = command_at(names)
    if (names[0] in SERVICES and len(names) == 1) or (
        isinstance(found, TyperGroup) and not found.invoke_without_command
    ):
        return
    assert "--json" in {name for parameter in found.params for name in parameter.opts}


@pytest.mark.parametrize(
    ("names", "example"),
    [(names, example) for names in [(), *commands()] for example in examples(names)],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_example_is_accepted_as_written(names: tuple[str, ...], example: str, folder: Path) -> None:
    """Parse it as the command does: names, options, values, ranges and files."""
    lexer = shlex.shlex(example, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    parts = re.split(r"\s(?:\||&&)\s", " ".join(map(shlex.quote, lexer)).replace("'|'", "|").replace("'&&'", "&&"))
    words = next(shlex.split(part) for part in parts if "ebbing" in part)
    words = words[words.index("ebbing") + 1 :]
    for word in words:
        if re.fullmatch(r"[\w-]+\.(json|jsonl|txt)", word):
            (folder / word).write_text("{}")
    context = None
    command = command_at(())
    while isinstance(command, TyperGroup):
        context = command.make_context("ebbing", words, parent=context)
        words = [*context._protected_args, *context.args]
        if not words:
            return
        _, found, words = command.resolve_command(context, words)
        assert isinstance(found, TyperCommand | TyperGroup)
        command = found
    command.make_context("ebbing", words, parent=context)


@pytest.mark.slow
@pytest.mark.parametrize("words", [[], ["--help"]])
def test_the_menu_waits_for_nothing_heavy(words: list[str]) -> None:
    program = (
        f"import sys, app.cli; heavy = {HEAVY!r} - ({{'rich'}} if sys.argv[1:] else set())\n"
        "try:\n    sys.argv[1:] and app.cli.main()\n"
        "except SystemExit:\n    pass\n"
        "print('heavy:', *(heavy & set(sys.modules)))"
    )
    root = __file__.rpartition("/tests/")[0]
    done = subprocess.run([sys.executable, "-c", program, *words], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["heavy:"]


@pytest.mark.slow
def test_a_command_of_the_api_loads_no_settings_and_no_servers() -> None:
    program = (
        "import sys, app.cli; sys.argv[1:] = ['stats', '--url', 'http://127.0.0.1:1']\n"
        "try:\n    app.cli.main()\n"
        "except SystemExit:\n    pass\n"
        f"print('heavy:', *(({HEAVY!r} | {{'app.settings', 'pydantic_settings'}}) & set(sys.modules)))"
    )
    root = __file__.rpartition("/tests/")[0]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert set(done.stdout.splitlines()[-1].split()) <= {"heavy:", "httpx2", "pydantic"}  # Typer itself has pydantic


def test_the_version_is_said(cli: Cli) -> None:
    done = cli("--version")
    assert done.code == 0
    assert done.out.startswith("ebbing ")


@pytest.mark.parametrize("words", [["serach"], ["search"], ["search", "tea", "--limit", "0"], ["search", "--nope"]])
def test_wrong_usage_ends_with_2(cli: Cli, words: list[str]) -> None:
    assert cli(*words).code == 2


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["serach", "tea"], "'search'"),
        (["policy", "sett"], "'set'"),
        (["add", "tea"], "'ingest'"),
        (["forget", "ann"], "'erase'"),
        (["status"], "'doctor'"),
        (["search", "tea", "--limt", "3"], "--limit"),
        (["search", "tea", "--user", "ann"], "--subject"),
        (["search", "tea", "--top-k", "3"], "--limit"),
        (["stats", "--format", "json"], "--json"),
        (["hold", "place", "--user", "ann"], "--subject"),
    ],
)
def test_an_error_proposes_the_near_name(cli: Cli, words: list[str], meant: str) -> None:
    done = cli(*words)
    assert done.code == 2
    assert f"Did you mean {meant}?" in " ".join(done.err.replace("│", " ").split())


def test_an_option_without_a_near_name_is_refused_alone(cli: Cli) -> None:
    done = cli("stats", "--top-k", "3")
    assert done.code == 2
    assert "Did you mean" not in done.err


def test_words_that_people_try_are_no_commands() -> None:
    tried = [word for words in INTENTIONS.values() for word in words]
    assert len(tried) == len(set(tried))
    assert not set(tried) & set(MENU)
    assert set(INTENTIONS) <= set(MENU)
    options = [word for words in OPTION_INTENTIONS.values() for word in words]
    assert len(options) == len(set(options))
