"""`ebbing curve` evaluates formulas and needs no service."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.cli.maintenance.curve import KINDS
from app.domain.ingest import memory
from tests.cli.conftest import Cli
from tests.cli.maintenance.test_forecast import texts


def curves(cli: Cli, *given: str) -> dict[str, dict[str, Any]]:
    done = cli("curve", "--json", *given)
    assert done.code == 0, done.err
    return {found["profile"]: found for found in json.loads(done.out)["curves"]}


def at(found: dict[str, Any], day: float) -> float:
    strength: float = found["strengths"][found["days"].index(day)]
    return strength


def test_all_profiles_are_shown_side_by_side(cli: Cli) -> None:
    done = cli("curve")
    assert (done.code, done.err) == (0, "")
    rows = [line.split() for line in done.out.splitlines()]
    names = ["spec", "mnemex", "cmm", "memory_decay"]
    drawn, numbers = rows[2:6], rows[9:]
    assert [row[0] for row in drawn] == [row[0] for row in numbers] == names
    assert drawn[0][1].startswith("█")
    assert drawn[0][1].endswith("▁")
    # Seed 004 §2.1: salience .5, never accessed; 30 days, then the thresholds of §2.4.
    assert numbers[0][5] == "0.174"
    assert numbers[0][-3:] == ["22.5", "31.9", "45.5"]
    assert all(len(line) <= 120 for line in done.out.splitlines())


def test_its_numbers_are_the_models_own(cli: Cli) -> None:
    found = curves(cli)
    assert at(found["spec"], 30) == pytest.approx(0.174160, abs=1e-6)
    assert at(found["mnemex"], 3) == 0.5
    assert at(found["cmm"], 7) == 1
    assert found["spec"]["below_days"] == pytest.approx({"0.3": 22.5, "0.15": 31.9, "0.05": 45.5}, abs=0.05)
    assert found["spec"]["parameters"]["base_per_day"] == 0.1


def test_parameters_are_set_for_one_model_or_by_its_name(cli: Cli) -> None:
    assert at(curves(cli, "--profile", "mnemex", "--set", "half_life_days=7")["mnemex"], 7) == 0.5
    found = curves(cli, "--set", "mnemex.half_life_days=7", "--set", "spec.kinds.episodic=0")
    assert at(found["mnemex"], 7) == 0.5
    assert found["spec"]["below_days"] == {"0.3": None, "0.15": None, "0.05": None}
    assert at(found["spec"], 60) == 1


def test_a_memory_is_described(cli: Cli) -> None:
    found = curves(cli, "--profile", "spec", "--salience", "0.9", "--kind", "semantic", "--uses", "10")
    assert at(found["spec"], 60) > 0.4
    assert "never" in cli("curve", "--profile", "spec", "--set", "base_per_day=0").out


def test_a_touch_lifts_the_curve(cli: Cli) -> None:
    found = curves(cli, "--profile", "spec", "--touch-at", "10.5", "--days", "20")["spec"]
    place = found["days"].index(10.5)
    before, after = found["strengths"][place : place + 2]
    assert found["days"][place + 1] == 10.5
    assert after == pytest.approx(before + 0.15 * (1 - before), abs=1e-6)


def test_kinds_are_the_domain_s() -> None:
    assert KINDS == memory.KINDS


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--profile", "linear"], "unknown dynamics"),
        (["--set", "beta=0.5"], "mnemex.beta=0.5"),
        (["--profile", "mnemex", "--set", "beta=2"], "mnemex.beta"),
        (["--profile", "mnemex", "--set", "bet=2"], "mnemex.bet"),
        (["--profile", "spec", "--set", "mnemex.beta=0.5"], "--profile mnemex"),
        (["--profile", "mnemex", "--set", "beta"], "field=value"),
        (["--kind", "odd"], "episodic"),
        (["--salience", "2"], "less than or equal to 1"),
        (["--plot", "c.png"], "ends in .svg"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Cli, given: list[str], said: str) -> None:
    done = cli("curve", *given)
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())


def test_curves_are_drawn(cli: Cli, folder: Path) -> None:
    assert cli("curve", "--plot", "c.svg").code == 0
    picture = (folder / "c.svg").read_text()
    for number, colour in enumerate(("#0072b2", "#d55e00", "#009e73", "#cc79a7")):
        assert f'<polyline class="line-{number}"' in picture
        assert f".line-{number} {{ stroke: {colour} }}" in picture
    assert cli("curve", "--profile", "cmm", "--touch-at", "3", "--plot", "c.svg").code == 0
    assert {"cmm", "archived below 0.3", "strength by days since creation: episodic, salience 0.5, 0 uses"} <= texts(
        folder / "c.svg"
    )
