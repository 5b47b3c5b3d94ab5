"""`ebbing reviews`, `ebbing review` and `ebbing history`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem


def entry(**more: Any) -> dict[str, Any]:
    return {
        "id": "m1",
        "text": "the cat\x1b[2J sleeps",
        "urgency": 1.234,
        "priority": 0.75,
        "importance": 0.5,
        "strength": 0.3,
        "overdue_days": 2.0,
        "review_count": 3,
        "flagged": False,
        **more,
    }


def outcome(**more: Any) -> dict[str, Any]:
    return {
        "id": "m1",
        "changed": True,
        "strength": {"before": 0.5, "after": 0.575},
        "interval_days": 6.0,
        "next_review_at": "2026-03-13T12:00:00Z",
        **more,
    }


def test_what_is_due_is_listed(cli: Cli, api: Stub) -> None:
    found = {"reviews": [entry(), entry(flagged=True)], "total": 5}
    api.replies["GET /v1/reviews"] = Reply(200, found)
    done = cli("reviews")
    for words in ("1.23", "0.50", "2 days", "failed", "sleeps", "m1"):
        assert words in done.out
    assert "\x1b" not in done.out
    assert "3 more" in done.err
    assert json.loads(cli("reviews", "--json").out) == found
    assert "0.75" in cli("reviews", "--danger", "--limit", "5", "--subject", "ann").out
    assert [asked.path for asked in api.asked] == [
        "/v1/reviews",
        "/v1/reviews",
        "/v1/reviews?limit=5&subject=ann&by=danger",
    ]


def test_nothing_to_review_is_said(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/reviews"] = Reply(200, {"reviews": [], "total": 0})
    done = cli("reviews")
    assert (done.code, done.out, done.err) == (0, "", "no memory is due\n")


def test_a_result_is_entered(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/reviews/m1"] = [Reply(200, outcome()), Reply(200, outcome(changed=False))]
    shown = cli("review", "m1", "--passed").out
    for words in ("0.500", "0.575", "6 days", "2026-03-13"):
        assert words in shown
    assert "already recorded" in cli("review", "m1", "--failed", "--at", "2026-03-07T12:00:00Z").out
    assert [asked.json for asked in api.asked] == [
        {"result": "passed"},
        {"result": "failed", "at": "2026-03-07T12:00:00+00:00"},
    ]
    assert json.loads(cli("review", "m1", "--passed", "--json").out) == outcome(changed=False)


def test_a_review_needs_a_result(cli: Cli, api: Stub) -> None:
    done = cli("review", "m1")
    assert done.code == 2
    assert "--passed or --failed" in done.err
    assert api.asked == []


def test_what_happened_is_shown(cli: Cli, api: Stub) -> None:
    use = {"at": "2026-03-07T12:00:00Z", "kind": "use", "before": 0.123456, "after": 0.3, "strength": 0.3}
    tier = {
        "at": "2026-03-06T12:00:00Z",
        "kind": "wanted_tier",
        "before": "active",
        "after": "archived",
        "strength": 0.29,
    }
    found = {"history": [use, tier], "next_cursor": None}
    api.replies["GET /v1/memories/m1/history"] = Reply(200, found)
    shown = cli("history", "m1").out
    for words in ("0.123", "wanted tier", "archived"):
        assert words in shown
    assert json.loads(cli("history", "m1", "--json").out) == found


@pytest.mark.parametrize("words", [("history", "../x"), ("review", "../x", "--passed")])
def test_an_id_is_one_part_of_the_path(cli: Cli, api: Stub, words: tuple[str, ...]) -> None:
    api.replies["GET /v1/memories/x/history"] = api.replies["POST /v1/x"] = Reply(404, problem(404, "not-found"))
    assert cli(*words).code == 1
    assert "..%2Fx" in api.asked[0].path
