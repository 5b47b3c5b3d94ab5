"""`ebbing simulate` reports the outcome of a simulated year as text, JSON and a plot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from app.domain.simulation.measures import Measures
from app.domain.simulation.pillars import Pillars
from app.services.evaluation import simulation
from app.services.evaluation.simulation import KEEP_ALL, SimulationOutcome
from app.supervisor import standalone
from tests.cli.conftest import Cli

MEASURES = Measures(12, 1.0, 0.75, 0.0, 0.5, 0.96, 0.98, 0.04, 0.25)
PILLARS = Pillars(0.5, 0.96, 0.4)
WITHOUT_STRENGTH = Pillars(0.5, 0.96, None)


class CannedSimulation:
    """Stub of a simulation with predefined outcomes."""

    given: dict[str, Any]
    languages: set[str]

    def __init__(self, year: Any, _say: Any, given: dict[str, Any]) -> None:
        CannedSimulation.languages = {statement.language for statement in year.said}
        CannedSimulation.given = {"memories": len(year.said), "days": year.days, "seed": year.seed} | given
        self.keep_all = SimulationOutcome(KEEP_ALL, None, MEASURES, WITHOUT_STRENGTH, (), 1.0)

    def outcomes(self, profile: str) -> Iterator[SimulationOutcome]:
        yield SimulationOutcome(profile, None, MEASURES, PILLARS, (1, 2, 3), 2.0)
        yield SimulationOutcome("lru", profile, MEASURES, WITHOUT_STRENGTH, (), 3.0)


@pytest.fixture(autouse=True)
def canned_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def no_servers(_home: Path) -> Iterator[None]:
        yield

    monkeypatch.setattr(standalone, "standalone_servers", no_servers)
    monkeypatch.setattr(simulation, "Simulation", CannedSimulation)


def test_each_profile_has_a_row_with_its_baselines_below(cli: Cli) -> None:
    done = cli("simulate", "--profile", "all", "--memories", "50", "--days", "28", COLUMNS="120")
    assert done.code == 0, done.err
    measured, pillars = done.out.split("\n\n")
    rows = [line.split() for line in measured.splitlines()[2:]]
    own = [name for profile in ("spec", "mnemex", "cmm", "memory_decay") for name in (profile, "lru")]
    assert [row[0] for row in rows] == [KEEP_ALL, *own]
    assert rows[1][1:] == ["12", "100.0%", "75.0%", "0.0%", "50.0%", "96.0%", "98.0%", "4.0%", "25.0%"]
    assert max(map(len, cli("simulate", COLUMNS="80").out.splitlines())) <= 80
    assert "important memories" in done.err
    assert pillars.split()[:4] == ["retrieval", "forgetting", "plausibility", "sum"]
    rows = [line.split() for line in pillars.splitlines()[2:]]
    assert rows[:2] == [[KEEP_ALL, "0.50", "0.96", "none", "0.54"], ["spec", "0.50", "0.96", "0.40", "0.64"]]


def test_json_says_which_year_it_was(cli: Cli) -> None:
    done = cli("simulate", "--short", "--seed", "7", "--set", "tiers.cold_below=0.1", "--json")
    found = json.loads(done.out)
    assert (found["year"], found["seed"], found["days"], found["memories"]) == ("old", 7, 60, 300)
    assert [(one["name"], one["size_of"]) for one in found["outcomes"]] == [
        (KEEP_ALL, None),
        ("spec", None),
        ("lru", "spec"),
    ]
    assert found["outcomes"][1]["found_in_reach"] == 0.96
    pillars = {"retrieval": 0.5, "forgetting": 0.96, "plausibility": 0.4, "sum": 0.636}
    assert found["outcomes"][1]["pillars"] == pillars
    assert found["outcomes"][2]["pillars"] == pillars | {"plausibility": None, "sum": 0.536}
    assert CannedSimulation.languages == {"en"}
    assert CannedSimulation.given["tiers"] == {"cold_below": 0.1}


def test_the_hard_year_is_an_option(cli: Cli) -> None:
    found = json.loads(cli("simulate", "--short", "--year", "hard", "--json").out)
    assert (found["year"], found["memories"]) == ("hard", 300)
    assert {"de", "en", "es"} <= CannedSimulation.languages
    wrong = cli("simulate", "--year", "easy")
    assert wrong.code == 2
    assert "easy" in wrong.err


def test_a_picture_is_drawn(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "year.svg"
    done = cli("simulate", "--short", "--plot", str(path))
    assert done.code == 0, done.err
    assert '<polyline class="line-0"' in path.read_text()


def test_an_unknown_profile_is_named(cli: Cli) -> None:
    done = cli("simulate", "--profile", "nonsense")
    assert done.code == 2
    assert "nonsense" in done.err
