"""The wheel works without the repository: installed into an empty virtual environment, it runs the whole service."""

from __future__ import annotations

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import venv
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import httpx
import pytest

from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("app", "workers", "migrations")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Modules that a declared dependency always installs, and a module that only type checkers know.
THROUGH = {
    "anyio": "mcp",
    "kombu": "celery",
    "markupsafe": "jinja2",
    "mcp_types": "mcp",
    "pydantic_core": "pydantic",
    "starlette": "fastapi",
    "torch": "sentence-transformers",
}
ONLY_TYPES = {"_typeshed"}
NAME = re.compile(r"[A-Za-z0-9._-]+")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A folder outside the repository that PostgreSQL's user can enter."""
    made = Path(tempfile.mkdtemp(prefix="ebbing-test-wheel-"))
    made.chmod(0o711)
    yield made
    shutil.rmtree(made)


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("EBBING_", "PYTHON"))}


def call(*words: str, folder: Path, code: int = 0, given: str = "") -> str:
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment(),
        input=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == code, done
    return done.stdout


@pytest.fixture(scope="module")
def ebbing(folder: Path) -> Path:
    """The command `ebbing` of the wheel, in a virtual environment that knows nothing of the repository.

    Only the dependencies come from the environment of the tests: a `.pth` file adds their folder, but Python ignores
    the `.pth` files in that folder, one of which leads to the repository.
    """
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    build = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder / "dist")]
    call(*pip, *build, str(ROOT), folder=folder)
    [wheel] = (folder / "dist").glob("*.whl")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    call(*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel), folder=folder)
    [packages] = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    where = "import app, workers, migrations; print(*app.__path__, *workers.__path__, *migrations.__path__, sep='\\n')"
    found = call(str(python), "-c", where, folder=folder).split()
    assert found == [str(packages / name) for name in PACKAGES]
    return folder / "venv" / "bin" / "ebbing"


@pytest.mark.long
def test_the_wheel_runs_the_whole_service(ebbing: Path, folder: Path) -> None:
    log = folder / "run.log"
    with log.open("wb") as output:
        service = subprocess.Popen(
            [ebbing, "run", "--port", "0"], cwd=folder, env=environment(), stdout=output, stderr=output
        )
    try:
        until(lambda: "Ready in" in log.read_text() or service.poll() is not None, log.read_text)
        assert service.poll() is None, log.read_text()
        home = folder / ".ebbing"
        assert str(home) in log.read_text()
        until(lambda: "✗" not in call_doctor(ebbing, folder), "doctor finds nothing")
        call(str(ebbing), "ingest", "--wait", "-", folder=folder, given='{"text": "Orla drinks mint tea"}\n')
        assert "Orla drinks mint tea" in call(str(ebbing), "search", "What tea does Orla drink?", folder=folder)
        assert "Orla drinks mint tea" in call(
            str(ebbing), "recall", "I put the kettle on", "What tea does Orla drink?", folder=folder
        )
        assert "done" in call(str(ebbing), "schedule", "run", "night", "--wait", folder=folder)
        look_at_pages((home / "api-url").read_text().strip(), (home / "api-key").read_text().strip())
    finally:
        service.send_signal(signal.SIGTERM)
        code = service.wait(PATIENCE_SECONDS)
    assert code == 0, log.read_text()


def call_doctor(ebbing: Path, folder: Path) -> str:
    done = subprocess.run(
        [ebbing, "doctor"], cwd=folder, env=environment(), capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else f"✗ {done.stdout}{done.stderr}"


def look_at_pages(url: str, key: str) -> None:
    """Read a page, its style and the API's documentation, whose files the wheel contains."""
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, trust_env=False) as client:
        page = client.get("/ops/log-in")
        assert page.is_success, page.text
        linked = re.findall(r'(?:href|src)="(/[^"#]+\.(?:css|js|svg))', page.text)
        assert linked
        answers = {path: client.get(path).status_code for path in [*linked, "/docs", "/openapi.json", "/ops/runbook"]}
        assert set(answers.values()) == {200}, answers
        assert client.get("/v1/stats", headers={"Authorization": f"Bearer {key}"}).json()["memories"]["active"] == 1


def test_the_wheel_has_every_file_of_its_packages() -> None:
    listed = subprocess.run(
        ["git", "ls-files", *PACKAGES],  # noqa: S607 - git from PATH
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("not a git working copy")
    from hatchling.builders.wheel import WheelBuilder  # noqa: PLC0415  # slow to import

    packed = {included.relative_path for included in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert set(listed.stdout.split()) - packed == set()


@pytest.mark.slow
def test_two_builds_of_one_tree_give_the_same_wheel(folder: Path) -> None:
    """Neither the place of the tree, nor the times and permissions of its files, nor the time of the build matter."""
    wheels = []
    for number, umask, changed_at in ((1, 0o022, 1_700_000_000), (2, 0o077, 1_500_000_001)):
        before = os.umask(umask)
        try:
            tree = folder / f"tree-{number}"
            for name in (*PACKAGES, "ops/runbook.md", "pyproject.toml", "README.md", "LICENSE"):
                source, target = ROOT / name, tree / name
                target.parent.mkdir(parents=True, exist_ok=True)
                if source.is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(source, target, ignore=ignored, copy_function=shutil.copyfile)
                else:
                    shutil.copyfile(source, target)
            for path in tree.rglob("*"):
                os.utime(path, (changed_at, changed_at))
            build = "import sys; from hatchling.build import build_wheel; print(build_wheel(sys.argv[1]))"
            name = call(sys.executable, "-c", build, str(folder / f"dist-{number}"), folder=tree).split()[-1]
        finally:
            os.umask(before)
        wheels.append((name, (folder / f"dist-{number}" / name).read_bytes()))
    assert wheels[0][0] == wheels[1][0]
    assert wheels[0][1] == wheels[1][1], "the contents differ: compare them with `diffoscope`"


def declared() -> set[str]:
    """Return the names of the project's dependencies, extras included, in the form of `normalise`."""
    extras = [line for lines in PROJECT["optional-dependencies"].values() for line in lines]
    return {normalise(match[0]) for line in [*PROJECT["dependencies"], *extras] if (match := NAME.match(line))}


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported() -> dict[str, str]:
    """Return the top-level modules that the wheel's code imports, each with one file that does."""
    found: dict[str, str] = {}
    for path in (path for name in PACKAGES for path in (ROOT / name).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            found |= {name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return found


def test_every_import_of_the_wheel_is_a_declared_dependency() -> None:
    providers, known = packages_distributions(), declared()
    undeclared = {
        module: path
        for module, path in imported().items()
        if module not in {*sys.stdlib_module_names, *PACKAGES, *ONLY_TYPES}
        and not known & {normalise(name) for name in providers.get(module, [module])}
        and THROUGH.get(module) not in known
    }
    assert undeclared == {}
