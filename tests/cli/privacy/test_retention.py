"""`ebbing privacy retention`: show, set and remove the retention periods of a subject."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

PATH = "/v1/privacy/subjects/retention"
PERIODS = {
    "subject": "ann",
    "retention": [
        {"category": None, "keep_days": 365.0, "set_at": "2026-03-07T11:00:00Z"},
        {"category": "health", "keep_days": 30.0, "set_at": "2026-03-08T11:00:00Z"},
    ],
}


def test_periods_are_shown(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/subjects/ann"] = Reply(200, PERIODS | {"held": 0})
    lines = [line.split() for line in cli("privacy", "retention", "ann").out.splitlines()]
    assert ["all", "365", "2026-03-07"] in lines
    assert ["health", "30", "2026-03-08"] in lines
    assert json.loads(cli("privacy", "retention", "ann", "--json").out) == PERIODS


@pytest.mark.parametrize(
    ("options", "body"),
    [
        (("--days", "90"), {"subject": "ann", "keep_days": 90.0}),
        (("--days", "90", "--category", "health"), {"subject": "ann", "keep_days": 90.0, "category": "health"}),
        (("--remove",), {"subject": "ann", "keep_days": None}),
    ],
)
def test_a_period_is_set_or_removed(cli: Cli, api: Stub, options: tuple[str, ...], body: dict[str, object]) -> None:
    api.replies[f"PUT {PATH}"] = Reply(200, PERIODS)
    assert cli("privacy", "retention", "ann", *options).code == 0
    assert [one.json for one in api.asked] == [body]


@pytest.mark.parametrize("options", [("--days", "3", "--remove"), ("--category", "health")])
def test_options_that_contradict_are_refused_before_a_request(cli: Cli, api: Stub, options: tuple[str, ...]) -> None:
    assert (cli("privacy", "retention", "ann", *options).code, api.asked) == (2, [])
