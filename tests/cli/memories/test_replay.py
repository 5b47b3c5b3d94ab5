"""Requests and output of `ebbing replay`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KEY, Cli
from tests.cli.stub import Reply, Stub, problem
from tests.waiting import PATIENCE_SECONDS

REPLAY, FIT = "POST /v1/policy/replay", "POST /v1/policy/fit"
FOUND: dict[str, Any] = {
    "changes": [{"field": "ranking.role", "from": 0.75, "to": 0.5}],
    "again": False,
    "vitals": "recorded",
    "left_out": {"hidden_memories": 3},
    "searches": 1_204,
    "as_answered": 1_200,
    "changed": {"top_1": 31, "top_5": 200, "top_10": 340},
    "overlap": {"top_1": 0.9743, "top_5": 0.95, "top_10": 0.9412},
    "uses": {
        "searches": 90,
        "memories": 101,
        "recall_at_10": {"before": 0.9, "after": 0.92, "difference": {"mean": 0.02, "low": -0.01, "high": 0.05}},
        "reciprocal_rank": {"before": 0.5, "after": 0.4, "difference": {"mean": -0.1, "low": -0.2, "high": -0.05}},
    },
    "examples": [{"search_id": "s1", "before": [f"m{n}" for n in range(10)], "after": ["m9", "m1"], "used": []}],
}
FITTED: dict[str, Any] = {
    "searches": 90,
    "pairs": 512,
    "reciprocal_rank": {"before": 0.41, "after": 0.52, "difference": {"mean": 0.11, "low": 0.04, "high": 0.18}},
    "policy": {"ranking": {"role": 0.1, "actor": 1.25}},
    "reason": None,
}


@pytest.fixture(autouse=True)
def _answers(api: Stub) -> None:
    api.replies[REPLAY] = Reply(200, FOUND)
    api.replies[FIT] = Reply(200, FITTED)


def lines(shown: str) -> list[str]:
    return [" ".join(line.split()) for line in shown.splitlines()]


def test_it_shows_what_changes_and_where_used_memories_stand(cli: Cli, api: Stub) -> None:
    done = cli("replay", "--set", "ranking.role=0.5")
    assert (done.code, done.err) == (0, "")
    assert api.asked[0].json == {"policy": {"ranking": {"role": 0.5}}, "again": False, "examples": 5}
    shown = lines(done.out)
    for line in (
        "ranking.role 0.75 0.5",
        "replayed searches: 1,204",
        "skipped searches: 3 (a result is hidden by an erasure)",
        "same order as originally returned, under the current policy: 1,200",
        "top 10 340 94.1%",
        "reported uses: 101, searches with a use: 90",
        "recall at 10 0.900 0.920 +0.020 [-0.010, +0.050]",
        "reciprocal rank 0.500 0.400 -0.100 [-0.200, -0.050]",
        "before: m0, m1, m2, …",
        "after: m9, m1",
        "used: none",
    ):
        assert line in shown, done.out


def test_a_file_a_preset_and_options_are_sent(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / "changes.json").write_text('{"ranking": {"role": 0.2, "now": 1}}')
    words = ("--set", "ranking.role=0.4", "--preset", "development", "--searches", "50", "--examples", "0", "--again")
    assert cli("replay", "changes.json", *words).code == 0
    assert api.asked[0].json == {
        "policy": {"ranking": {"role": 0.4, "now": 1}},
        "preset": "development",
        "searches": 50,
        "examples": 0,
        "again": True,
    }


def test_what_was_printed_by_policy_show_can_be_replayed(cli: Cli, api: Stub, folder: Path) -> None:
    (folder / "other.json").write_text('{"version": 3, "policy": {"ranking": {"role": 0.2}}}')
    assert cli("replay", "other.json").code == 0
    assert api.asked[0].json["policy"] == {"ranking": {"role": 0.2}}


def test_without_uses_it_says_how_to_report_them(cli: Cli, api: Stub) -> None:
    api.replies[REPLAY] = Reply(200, FOUND | {"uses": None, "vitals": "present", "changes": [], "examples": []})
    shown = cli("replay").out
    assert "no uses were reported for these searches: report them with POST /v1/observations" in shown
    assert "both policies use current strength and importance values" in shown
    assert "mean overlap" not in shown, "no comparison without recorded uses"


def test_without_records_it_shows_no_figures(cli: Cli, api: Stub) -> None:
    api.replies[REPLAY] = Reply(200, FOUND | {"searches": 0, "changes": [], "left_out": {"other_layout": 2}})
    assert lines(cli("replay").out) == [
        "replayed searches: 0",
        "skipped searches: 2 (recorded by an incompatible version of Ebbing)",
    ]


def test_a_fit_prints_the_command_that_would_apply_it(cli: Cli, api: Stub) -> None:
    done = cli("replay", "--fit")
    assert api.asked[0].json == {}
    sets = "--set ranking.role=0.1 --set ranking.actor=1.25"
    assert lines(done.out)[-3:] == [
        "proposal, not applied:",
        f"ebbing replay {sets}",
        f"ebbing policy set {sets}",
    ]
    assert "0.410 now, 0.520 with fitted weights, difference +0.110 [+0.040, +0.180]" in done.out


def test_a_fit_that_proposes_nothing_says_why(cli: Cli, api: Stub) -> None:
    none = {"difference": None, "before": 0.0, "after": 0.0}
    api.replies[FIT] = Reply(200, FITTED | {"policy": None, "reason": "too few", "reciprocal_rank": none})
    assert lines(cli("replay", "--fit", "--searches", "7").out)[-1] == "no proposal: too few"
    assert api.asked[0].json == {"searches": 7}


@pytest.mark.parametrize("words", [("--set", "ranking.role=1"), ("--preset", "development"), ("--again",), ("f.json",)])
def test_a_fit_takes_no_other_policy(cli: Cli, api: Stub, words: tuple[str, ...]) -> None:
    done = cli("replay", "--fit", *words)
    assert (done.code, api.asked) == (2, [])
    assert "--fit uses the current policy" in done.err


def test_without_consent_the_api_says_what_to_do(cli: Cli, api: Stub) -> None:
    detail = "this tenant's searches aren't recorded: set record_searches=true in its policy, and replay them later"
    api.replies[REPLAY] = Reply(409, problem(409, "conflict", detail=detail))
    done = cli("replay")
    assert done.code == 1
    assert detail in done.err


@pytest.mark.slow
def test_another_process_prints_json(api: Stub, folder: Path) -> None:
    environment = {**os.environ, "EBBING_API_URL": api.url, "EBBING_API_KEY": KEY}
    for words, found in ((["--set", "ranking.role=0.5"], FOUND), (["--fit"], FITTED)):
        command = [sys.executable, "-m", "app.cli", "replay", *words, "--json"]
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, check=True, timeout=PATIENCE_SECONDS
        )
        assert json.loads(done.stdout) == found
        assert done.stdout.count("\n") == 1
