"""Imports point in one direction: the arrows of architecture.md match the contracts in pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from grimp import ImportGraph

from ops.checks.arrows import OnlyContract

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_every_import_follows_an_arrow() -> None:
    linter = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run(
        [str(linter), "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("imported", "kept"),
    [
        ("app.domain.ingest.ids", True),
        ("numpy", True),
        ("datetime", True),
        ("time", False),
        ("httpx", False),
        ("app.store", False),
    ],
)
def test_a_package_may_import_only_what_its_contract_names(imported: str, kept: bool) -> None:
    graph = ImportGraph()
    for module in ("app.domain", "app.domain.decay", imported):
        graph.add_module(module)
    graph.add_import(importer="app.domain.decay", imported=imported, line_number=3, line_contents="…")
    contract = OnlyContract(
        name="domain",
        session_options={},
        contract_options={"module": "app.domain", "allowed": ["app.domain", "numpy"], "not_even": ["time"]},
    )

    check = contract.check(graph, verbose=False)

    assert check.kept is kept
    assert check.metadata["strays"] == ([] if kept else [f"app.domain.decay -> {imported} (l.3)"])


def test_the_domain_never_reads_a_clock() -> None:
    clock = re.compile(r"\b(?:datetime|date)\.(?:now|utcnow|today)\(|\btime\.(?:time|monotonic|perf_counter)\(")
    readers = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in sorted((ROOT / "app" / "domain").rglob("*.py"))
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if clock.search(line)
    ]
    assert readers == [], "pass `now` as an argument"
