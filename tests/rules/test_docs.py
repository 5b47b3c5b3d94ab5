"""Commands in the documentation exist, and generated pages match the code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
import typer.main
import yaml
from typer.core import TyperCommand, TyperGroup
from typer.testing import CliRunner

from app.cli import app
from app.queues import LANES
from ops.checks import architecture_picture, dynamics_page, metrics_page
from ops.checks.docker_lint import COMPOSE
from ops.checks.kubernetes import manifests
from ops.checks.settings_page import PAGE, page
from tests import documents

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", dynamics_page.PAGE),
    ROOT / "examples" / "README.md",
    *(
        ROOT / "ops" / f"{name}.md"
        for name in ("deployment", "forgetting", "mcp", "models", "privacy", "provenance", "runbook", "search")
    ),
]
TARGET = re.compile(r"^([a-z][a-z-]*):.*## ", re.MULTILINE)
# Compose commands that target a service. An option's value can precede the service's name.
TO_A_SERVICE = {"exec", "logs", "restart", "stop"}


def inline(program: str) -> Iterator[tuple[str, list[str]]]:
    """Yield commands from inline code, such as `ebbing doctor` here, with their document."""
    for document in DOCUMENTS:
        text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
        for line in re.findall(rf"`({program} [^`]+)`", text):
            yield document.name, shlex.split(line)


def commands(*programs: str) -> Iterator[tuple[str, list[str]]]:
    """Yield every command of the documents' shell blocks that runs one of these programs, with its document."""
    for document in DOCUMENTS:
        for words in documents.commands(document.read_text()):
            if words[0] in programs:
                yield document.name, words


@cache
def _command() -> object:
    return typer.main.get_command(app)


def _resolve(words: list[str]) -> tuple[list[str], set[str], list[str]]:
    """Return the command names that `ebbing words…` runs, its options, and the remaining words."""
    command = _command()
    known = _options(command)
    names: list[str] = []
    rest = list(words)
    while isinstance(command, TyperGroup):
        place = _first_word(command, rest)
        if place is None:
            break
        name = rest.pop(place)
        assert name in command.commands, f"there is no `ebbing {' '.join([*names, name])}`"
        command = command.commands[name]
        known |= _options(command)
        names.append(name)
    return names, known, rest


def _first_word(command: TyperGroup, words: list[str]) -> int | None:
    """Return the index of the first word that is neither an option nor an option's value."""
    taking = {
        name for parameter in command.params if not getattr(parameter, "is_flag", True) for name in parameter.opts
    }
    after_option = [False, *(word in taking for word in words)]
    return next((i for i, word in enumerate(words) if not word.startswith("-") and not after_option[i]), None)


@cache
def _has_help(*names: str) -> bool:
    return CliRunner().invoke(app, [*names, "--help"]).exit_code == 0


def _options(command: object) -> set[str]:
    assert isinstance(command, TyperCommand | TyperGroup)
    return {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}


def test_the_documents_show_commands() -> None:
    shown = [words[:2] for _, words in commands("make", "ebbing")]
    assert ["make", "test"] in shown
    assert ["make", "run"] in shown or ["make", "demo"] in shown


@pytest.mark.parametrize(
    ("document", "words"),
    [*commands("make", "ebbing"), *inline("ebbing"), *inline("make")],
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
    assert _has_help(*names)


@pytest.mark.parametrize(
    "words", [words for _, words in (*commands("docker"), *inline("docker compose"))], ids=" ".join
)
def test_a_shown_command_of_compose_is_about_what_is_there(words: list[str]) -> None:
    services = yaml.safe_load(COMPOSE.read_text())["services"]
    files = [after for word, after in pairwise(words) if word == "--file"]
    assert [file for file in files if not (ROOT / file).exists()] == []
    if words[1] == "buildx":
        return
    assert words[1] == "compose"
    profiles = {after for word, after in pairwise(words) if word == "--profile"}
    assert profiles <= {profile for service in services.values() for profile in service.get("profiles", [])}
    if TO_A_SERVICE & set(words):
        assert any(word in services for word in words), f"there is no such service: {words}"


def test_an_upgrade_with_compose_forgets_no_worker() -> None:
    [upgrade] = [words for _, words in commands("docker") if "worker-ingest" in words and "up" in words]
    assert {word for word in upgrade if word.startswith("worker-")} == {f"worker-{lane}" for lane in LANES}
    assert "beat" in upgrade


@pytest.mark.parametrize("words", [words for _, words in (*commands("kubectl"), *inline("kubectl"))], ids=" ".join)
def test_a_shown_command_of_kubernetes_is_about_what_is_there(words: list[str]) -> None:
    there = {
        f"{each['kind'].lower()}/{each['metadata']['name']}"
        for found in manifests().values()
        for each in found
        if "metadata" in each
    }
    named = {re.sub(r"^deploy/", "deployment/", word) for word in words if re.match(r"(deploy(ment)?|job)/", word)}
    assert named <= there
    ours = [after for word, after in pairwise(words) if word in {"-k", "-f"} and "/" in after]
    assert [path for path in ours if not (ROOT / path).exists()] == []


def test_every_target_is_explained_in_help_and_phony() -> None:
    makefile = (ROOT / "Makefile").read_text()
    (phony,) = re.findall(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)
    assert sorted(phony.split()) == sorted(TARGET.findall(makefile))


def test_the_settings_page_is_the_generated_one() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_the_metrics_page_is_the_generated_one() -> None:
    assert metrics_page.PAGE.read_text() == metrics_page.page(), "run `make docs`"


def test_the_tables_of_the_dynamics_page_are_the_generated_ones() -> None:
    written = dynamics_page.PAGE.read_text()
    assert all(f"<!-- table: {name} -->" in written for name in dynamics_page.TABLES)
    assert written == dynamics_page.page(written), "run `make docs`"


def test_the_picture_is_the_generated_one_and_tells_what_each_lane_does() -> None:
    assert architecture_picture.PICTURE.read_text() == architecture_picture.picture(), "run `make docs`"
    assert set(LANES) <= set(architecture_picture.DOES)


def test_the_security_page_names_tests_that_exist() -> None:
    named = re.findall(r"`((?:tests|ops)/[\w/]+\.py)`", (ROOT / "SECURITY.md").read_text())
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_each_statement_about_others_has_its_source() -> None:
    statements, _, sources = (ROOT / "ops" / "compared.md").read_text().partition("## Sources")
    listed = re.findall(r"^\| (\d+) \|", sources, flags=re.MULTILINE)
    assert listed == [str(number) for number in range(1, len(listed) + 1)]
    assert set(re.findall(r"\[(\d+)\]", statements)) == set(listed)


def test_the_readme_links_every_page() -> None:
    pages = [*(ROOT / name for name in ("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "examples/README.md"))]
    pages += (ROOT / "ops").glob("*.md")
    links = re.findall(r"\]\(([^)#]+)\)", (ROOT / "README.md").read_text())
    assert [str(page.relative_to(ROOT)) for page in pages if str(page.relative_to(ROOT)) not in links] == []


def test_every_path_that_a_document_names_exists() -> None:
    folders = [ROOT, ROOT / "examples", ROOT / "ops", ROOT / "ops" / "decisions"]
    pages = [page for folder in folders for page in folder.glob("*.md")]
    named = re.compile(r"`((?:app|workers|tests|ops|migrations|examples)/[\w./-]+?)`")
    missing = {
        (page.name, path)
        for page in pages
        if page.name != "CHANGELOG.md"
        for path in named.findall(page.read_text())
        if not (ROOT / path).exists()
    }
    assert missing == set()


def test_every_file_of_the_contributors_table_exists() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|") and "`app/" in line]
    assert len(rows) >= 20, "the table covers too few questions"
    for row in rows:
        folder = ROOT
        for path in re.findall(r"`([\w./-]+\.py)`", row):
            place = ROOT / path if "/" in path else folder / path
            assert place.exists(), row
            folder = place.parent
