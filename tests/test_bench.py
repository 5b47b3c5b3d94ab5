"""`make bench` runs and reports its required figures. No test asserts a speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest

from ops.bench import load, rating, reembed
from ops.bench.corpus import Corpus
from ops.bench.figures import Figure, Goal, Plan
from ops.bench.floors import statements
from ops.bench.place import Running
from tests.provider import model
from tests.provider.server import provider
from tests.waiting import PATIENCE_SECONDS, until

ROOT = Path(__file__).resolve().parents[1]


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ops.bench", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * PATIENCE_SECONDS,
        check=False,
    )


@pytest.mark.long
def test_a_quick_run_prints_a_table_and_writes_json(tmp_path: Path) -> None:
    written = tmp_path / "bench.json"
    done = bench("stages", "search", "strength", "upkeep", "--quick", "--repeats", "1", "--json", str(written))
    assert done.returncode == 0, done.stderr
    assert "ratio" in done.stdout
    assert "rows/s" in done.stderr  # progress
    document = json.loads(written.read_text())
    assert document["quick"] is True
    assert document["repeats"] == 1
    works = [figure["work"] for figure in document["figures"]]
    for work in (
        "index stage",
        "embed stage",
        "search",
        "live strength",
        "importance",
        "due-only sweep",
        "rebase",
        "touches",
        "forecast",
    ):
        assert any(name.startswith(work) for name in works), works
    for figure in document["figures"]:
        assert figure["unit"]
        assert figure["value"] > 0
        assert len(figure["values"]) == 1
        assert (figure["floor"] is None) == (figure["ratio"] is None)
        assert figure["spread"][0] <= figure["spread"][1]


@pytest.mark.slow
def test_help_has_examples_and_names_the_benchmarks() -> None:
    done = bench("--help")
    assert done.returncode == 0
    assert "make bench ARGS=" in done.stdout
    for name in (
        "ingest",
        "drain",
        "flood",
        "stages",
        "search",
        "rating",
        "reembed",
        "strength",
        "upkeep",
        "consolidation",
        "startup",
    ):
        assert name in done.stdout


@pytest.mark.slow
def test_an_unknown_benchmark_is_named_with_the_known_ones() -> None:
    done = bench("speed")
    assert done.returncode == 2
    assert "no such benchmark: speed; there are: ingest" in done.stderr


def test_rounds_alternate_and_turn_round() -> None:
    order: list[str] = []
    plan = Plan(repeats=2, quick=True)
    given = plan.rounds(lambda: order.append("work"), lambda: order.append("floor"))
    assert order == ["work", "floor", "floor", "work"]
    assert [len(runs) for runs in given] == [2, 2]


def test_a_ratio_is_the_median_of_the_rounds_own() -> None:
    # The second round ran on a machine half as fast, for both measurements.
    figure = Figure("work", "rows/s", [60, 30, 90], "floor", [100, 50, 100], Goal(ratio_least=0.6, least=70))
    assert figure.ratio == 0.6
    assert figure.spread == (0.6, 0.9)
    row = figure.row()
    assert row["met"] is False  # the ratio passes, the median of 60 doesn't
    assert row["goal"] == {"ratio_least": 0.6, "least": 70}


def test_texts_are_the_same_each_time() -> None:
    assert Corpus().bodies(3, 10) == Corpus().bodies(3, 10)
    assert Corpus(seed=1).bodies(1, 1) != Corpus(seed=2).bodies(1, 1)


def test_the_floor_of_ratings_asks_about_every_memory_in_the_stages_batches() -> None:
    asked = [model.memories(json.loads(body)["messages"]) for body in rating.requests(45)]
    assert [len(batch) for batch in asked] == [20, 20, 5]


def test_searches_that_fail_are_counted_and_dont_end_the_load() -> None:
    with provider() as fake:
        nowhere = Running(cast("subprocess.Popen[bytes]", None), fake.port)
        with reembed.searching(nowhere, [load.request("POST", "/v1/search", b"{}")]) as found:
            until(lambda: found.failed >= 3, "three failures")
    assert not found.latencies_ms


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("search", "vectors"),
        ("index", "to_tsvector"),
        ("index", "ready_indexed"),
        ("strength", "three_exp"),
        ("upkeep", "anchors"),
    ],
)
def test_floors_are_found_by_name(name: str, known: str) -> None:
    assert known in statements(name)
