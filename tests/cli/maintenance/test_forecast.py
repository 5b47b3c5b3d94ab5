"""Requests, output and plots of `ebbing forecast`."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem


def days(last: int, slope: int = 10) -> list[dict[str, Any]]:
    """Build forecast days for a thousand memories of which `slope` per day leave the first tier."""
    first = date(2026, 11, 20)
    return [
        {
            "date": (first + timedelta(days=day)).isoformat(),
            "active": 1_000 - slope * day,
            "archived": slope * day,
            "cold": 0,
            "deleted": 0,
        }
        for day in range(last + 1)
    ]


def forecast_json(last: int) -> dict[str, Any]:
    return {"as_of": "2026-11-20T14:00:00Z", "days": days(last)}


def compared(last: int) -> dict[str, Any]:
    move = {"from": "active", "to": "cold", "memories": 1_204, "ids": [f"m{n}" for n in range(20)]}
    return forecast_json(last) | {"what_if": days(last, 2), "moves": [move]}


@pytest.fixture(autouse=True)
def _answers(api: Stub) -> None:
    api.replies["POST /v1/forecast"] = lambda asked: Reply(
        200, (compared if "policy" in asked.json else forecast_json)(asked.json["days"])
    )


def words(shown: str) -> list[list[str]]:
    return [line.split() for line in shown.splitlines()]


def texts(path: Path) -> set[str]:
    """Return the texts of an SVG."""
    root = ET.parse(path).getroot()  # noqa: S314 - our own SVG
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return {"".join(each.itertext()).strip() for each in root.iter("{http://www.w3.org/2000/svg}text")}


def test_a_long_span_is_shown_by_weeks_and_its_last_day(cli: Cli, api: Stub) -> None:
    done = cli("forecast")
    assert (done.code, done.err) == (0, "")
    shown = words(done.out)
    assert shown[0] == ["date", "day", "active", "archived", "cold", "deleted"]
    assert [line[1] for line in shown[2:]] == [*map(str, range(0, 90, 7)), "90"]
    assert shown[2] == ["2026-11-20", "0", "1,000", "0", "0", "0"]
    assert shown[-1] == ["2027-02-18", "90", "100", "900", "0", "0"]
    assert api.asked[0].json == {"days": 90}


@pytest.mark.parametrize(("last", "shown"), [(0, "0"), (14, "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14"), (8, None)])
def test_a_short_one_day_by_day(cli: Cli, last: int, shown: str | None) -> None:
    rows = words(cli("forecast", "--days", str(last)).out)[2:]
    assert [line[1] for line in rows] == (shown.split() if shown else [str(day) for day in range(last + 1)])


def test_years_are_shown_by_months(cli: Cli) -> None:
    rows = words(cli("forecast", "--days", "730").out)[2:]
    assert [line[1] for line in rows] == [*map(str, range(0, 730, 30)), "730"]


def test_another_policy_stands_beside_with_what_it_would_move(cli: Cli, api: Stub) -> None:
    done = cli("forecast", "--days", "1", "--set", "forgetting.profile=mnemex", "--set", "tiers.cold_below=0.1")
    assert api.asked[0].json["policy"] == {"forgetting": {"profile": "mnemex"}, "tiers": {"cold_below": 0.1}}
    shown = words(done.out)
    assert shown[0][-8:] == ["what-if", "active", "what-if", "archived", "what-if", "cold", "what-if", "deleted"]
    assert shown[3] == ["2026-11-21", "1", "990", "10", "0", "0", "998", "2", "0", "0"]
    assert "1,204 would move at once from active to cold: m0, m1, m2, …" in done.out


def test_a_change_that_moves_nothing_says_so(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/forecast"] = Reply(200, compared(1) | {"moves": []})
    assert "would not move any memory at once" in cli("forecast", "--set", "history_days=7").out


def test_a_file_s_policy_is_changed_by_what_is_set(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / "p.json").write_text('{"tiers": {"cold_below": 0.1, "deleted_below": 0.01}}')
    done = cli("forecast", "--policy", "p.json", "--set", "tiers.cold_below=0.2", "--subject", "ann", "--json")
    assert json.loads(done.out) == compared(90)
    tiers = {"cold_below": 0.2, "deleted_below": 0.01}
    assert api.asked[0].json == {"days": 90, "policy": {"tiers": tiers}, "subject": "ann"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--set", "tiers"], "field=value"),
        (["--set", "=1"], "field=value"),
        (["--set", "a=1", "--set", "a.b=2"], "already has a plain value"),
        (["--policy", "list.json"], "must contain a JSON object"),
        (["--policy", "bad.json"], "invalid JSON"),
        (["--policy", "none.json"], "none.json"),
        (["--plot", "forecast.png"], "ends in .svg"),
        (["--plot", "nowhere/forecast.svg"], "no such folder"),
        (["--days", "3651"], "less than or equal to 3650"),
    ],
)
def test_what_makes_no_sense_isn_t_asked_for(cli: Cli, api: Stub, folder: Path, given: list[str], said: str) -> None:
    (folder / "list.json").write_text("[1]")
    (folder / "bad.json").write_text("{")
    done = cli("forecast", *given)
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())
    assert api.asked == []


def test_a_refusal_names_the_field_of_the_policy(cli: Cli, api: Stub) -> None:
    wrong = {"field": "policy.tiers.cold_below", "message": "is too large"}
    api.replies["POST /v1/forecast"] = Reply(422, problem(422, "invalid", wrong))
    done = cli("forecast", "--set", "tiers.cold_below=2")
    assert done.code == 1
    assert "policy.tiers.cold_below is too large" in done.err


@pytest.mark.parametrize("last", [0, 1, 90, 730])
def test_a_plot_of_the_tiers_is_saved(cli: Cli, folder: Path, last: int) -> None:
    done = cli("forecast", "--days", str(last), "--plot", "f.svg")
    assert done.code == 0
    assert "plot written: f.svg" in done.err
    picture = (folder / "f.svg").read_text()
    assert ".fill-active { fill: #0072b2 }" in picture
    assert 1 <= picture.count('class="fill-archived" x="') <= 121


def test_it_is_drawn_as_an_svg_with_both_policies(cli: Cli, folder: Path) -> None:
    assert cli("forecast", "--set", "forgetting.profile=cmm", "--plot", "f.SVG").code == 0
    said = texts(folder / "f.SVG")
    assert {"current policy", "what-if: forgetting.profile=cmm", "active", "deleted", "1,000"} <= said


def test_no_memories_are_drawn_too(cli: Cli, api: Stub, folder: Path) -> None:
    none = [day | {"active": 0, "archived": 0} for day in days(3)]
    api.replies["POST /v1/forecast"] = Reply(200, {"as_of": "x", "days": none})
    assert cli("forecast", "--plot", "f.svg").code == 0
    assert (folder / "f.svg").stat().st_size > 1_000


def test_a_picture_that_can_t_be_written_is_told(cli: Cli, folder: Path) -> None:
    (folder / "f.svg").mkdir()
    assert cli("forecast", "--plot", "f.svg").code == 2
    (folder / "g.svg").symlink_to(folder / "gone" / "g.svg")
    done = cli("forecast", "--plot", "g.svg")
    assert done.code == 1
    assert "g.svg can't be written: No such file or directory" in done.err
