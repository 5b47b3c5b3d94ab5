"""Content that must never enter the tree."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "ops" / "locks").glob("*.txt"))

# split, so that this file doesn't match itself
UNFINISHED = re.compile("TO" + "DO|FIX" + "ME|NotImplemented" + "Error")
INDEX = re.compile("index" + "-url|trusted" + "-host|files[.]python" + "hosted|pypi[.]org/" + "simple")
SQL = re.compile(
    r"""^\s*(?:from|import)\ (?:sqlalchemy|psycopg)  # whoever builds a statement imports one of these
    |   "\s*(?:select\ .+\ from|insert\ into|update\ \w+\ set|delete\ from)\ """,
    re.MULTILINE | re.VERBOSE | re.IGNORECASE,
)


def lines(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield every line of the Python files in the folders, with its location."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                yield f"{path.relative_to(ROOT)}:{number}", line


def tracked() -> list[Path]:
    """Return the files that git tracks or would track, if there is a repository."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],  # noqa: S607 - git from PATH
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("not a git working copy")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_nothing_unfinished_is_left_in_the_service() -> None:
    assert [place for place, line in lines("app", "workers") if UNFINISHED.search(line)] == []


def test_sql_is_spoken_only_in_the_store() -> None:
    store = ROOT / "app" / "store"
    code = [path for folder in ("app", "workers") for path in sorted((ROOT / folder).rglob("*.py"))]
    foreign = ROOT / "app" / "domain" / "imports"  # databases of other products, opened in memory
    strays = [
        str(path.relative_to(ROOT))
        for path in code
        if not {store, foreign} & set(path.parents) and SQL.search(path.read_text())
    ]
    assert strays == []


def test_locks_hold_hashes_and_no_host() -> None:
    names = {path.name for path in LOCKS}
    assert names == {"build.txt", "dev.txt", "models.txt", "run.txt", "service.txt", "ui.txt"}
    for path in LOCKS:
        content = path.read_text()
        assert "://" not in content
        for pin in re.split(r"\n(?=[A-Za-z0-9])", content.strip()):
            assert "--hash=sha256:" in pin, pin


def test_locks_agree_on_versions() -> None:
    pinned = {
        path.name: dict(re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(\S+)", path.read_text(), flags=re.MULTILINE))
        for path in LOCKS
    }
    beside = pinned["ui.txt"] | pinned["models.txt"]
    own = {name: version for name, version in beside.items() if name not in pinned["dev.txt"]}
    assert {"playwright", "axe-playwright-python", "sentence-transformers", "torch"} <= own.keys()
    for name, pins in pinned.items():
        assert pins.items() <= (pinned["dev.txt"] | own).items(), name


def test_no_package_index_is_named() -> None:
    named = [str(path.relative_to(ROOT)) for path in tracked() if INDEX.search(path.read_text(errors="ignore"))]
    assert named == []


def test_no_secret_file_is_tracked() -> None:
    assert [path.name for path in tracked() if path.name in {".env", "api-key", "master-key"}] == []
