"""What the documents tell people to type exists, and generated pages are the ones the code makes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from app.cli import app as cli
from ops.checks import dynamics_page
from ops.checks.settings_page import PAGE, page

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", dynamics_page.PAGE),
    *(ROOT / "ops" / "privacy.md", ROOT / "ops" / "runbook.md"),
]
BLOCK = re.compile(r"^```(bash|console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"^([a-z][a-z-]*):.*## ", re.MULTILINE)


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every `make …` and `ebbing …` of the documents' shell blocks, with its document."""
    for document in DOCUMENTS:
        for language, block in BLOCK.findall(document.read_text()):
            for line in block.replace("\\\n", " ").splitlines():
                if language == "console" and not line.startswith("$ "):
                    continue  # what the command answers
                for words in _commands_of(line.removeprefix("$ ")):
                    yield document.name, words


def _commands_of(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, ";"]:
        if set(word) <= set("|&;()"):
            while words and (re.fullmatch(r"\w+=.*", words[0]) or words[0] == "exec"):
                words.pop(0)  # FOO=bar ebbing …
            if words and Path(words[0]).name in {"make", "ebbing"}:
                yield [Path(words[0]).name, *words[1:]]
            words = []
        else:
            words.append(word)


def _resolve(words: list[str]) -> tuple[list[str], set[str], list[str]]:
    """The names of the command that `ebbing words…` runs, its options, and the words left for it."""
    command = typer.main.get_command(cli)
    known = _options(command)
    names: list[str] = []
    rest = list(words)
    while isinstance(command, TyperGroup):
        place = next((i for i, word in enumerate(rest) if not word.startswith("-")), None)
        if place is None:
            break
        name = rest.pop(place)
        assert name in command.commands, f"there is no `ebbing {' '.join([*names, name])}`"
        command = command.commands[name]
        known |= _options(command)
        names.append(name)
    return names, known, rest


def _options(command: object) -> set[str]:
    assert isinstance(command, TyperCommand | TyperGroup)
    return {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}


def test_the_documents_show_commands() -> None:
    shown = [words[:2] for _, words in commands()]
    assert ["make", "test"] in shown
    assert ["make", "run"] in shown or ["make", "demo"] in shown


@pytest.mark.parametrize(
    ("document", "words"),
    list(commands()),
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_shown_command_exists(document: str, words: list[str]) -> None:
    if words[0] == "make":
        targets = {word for word in words[1:] if "=" not in word and not word.startswith("-")}
        assert targets <= set(TARGET.findall((ROOT / "Makefile").read_text())), document
        return
    names, known, rest = _resolve(words[1:])
    given = {word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)}
    assert given <= known | {"--help"}, f"{document}: ebbing {' '.join(names)}"
    assert CliRunner().invoke(cli, [*names, "--help"]).exit_code == 0


def test_every_target_is_explained_in_help_and_phony() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    assert sorted(phony.split()) == sorted(TARGET.findall(makefile))


def test_the_settings_page_is_the_generated_one() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_the_tables_of_the_dynamics_page_are_the_generated_ones() -> None:
    written = dynamics_page.PAGE.read_text()
    assert all(f"<!-- table: {name} -->" in written for name in dynamics_page.TABLES)
    assert written == dynamics_page.page(written), "run `make docs`"
