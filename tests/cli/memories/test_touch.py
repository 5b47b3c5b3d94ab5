"""Requests and output of `ebbing touch` and `ebbing observe`."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

DONE: dict[str, Any] = {
    "id": "0190",
    "strength": {"before": 0.25, "after": 0.3625},
    "score": {"before": 0.25, "after": 0.3625},
    "access_count": 3,
    "multiplier": 1.1,
    "reinforced": True,
}


def test_a_touch_shows_what_it_has_done(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/memories/0190/touch"] = Reply(200, DONE)
    done = cli("touch", "0190")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "strength    0.250 → 0.362",
        "score       0.250 → 0.362",
        "uses        3",
        "multiplier  1.1",
    ]
    words = ["--boost", "--tag", "a", "--tag", "b", "--session", "s", "--at", "2026-01-02"]
    assert json.loads(cli("touch", "0190", *words, "--json").out) == DONE
    assert [asked.json for asked in api.asked] == [
        {},
        {"boost": True, "context_tags": ["a", "b"], "session": "s", "used_at": "2026-01-02T00:00:00+00:00"},
    ]


def test_a_touch_without_effect_says_why(cli: Cli, api: Stub) -> None:
    for why, said in (("refractory", "has just reinforced"), ("late", "a later use"), ("new", "not reinforced")):
        api.replies["POST /v1/memories/0190/touch"] = Reply(200, DONE | {"reinforced": False, "why": why})
        done = cli("touch", "0190")
        assert done.code == 0
        assert said in done.err


def test_an_unknown_memory_fails(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/memories/x%2Fy/touch"] = Reply(404, problem(404, "not-found"))
    done = cli("touch", "x/y")
    assert done.code == 1
    assert "404" in done.err


def test_observations_are_sent_once_however_often_they_are_tried(cli: Cli, api: Stub, pauses: list[float]) -> None:
    api.replies["POST /v1/observations"] = [Reply(503, problem(503, "unavailable")), Reply(202, {"request_id": "r"})]
    done = cli("observe", "a", "b", "--session", "s")
    assert (done.code, done.out) == (0, "accepted: 2 uses\n")
    first, second = api.asked
    assert first.headers["idempotency-key"] == second.headers["idempotency-key"]
    assert first.json == second.json == {"memories": ["a", "b"], "session": "s"}
    assert len(pauses) == 1


def test_observations_of_another_moment(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/observations"] = Reply(202, {"request_id": "r"})
    assert json.loads(cli("observe", "a", "--at", "2026-01-02", "--tag", "t", "--boost", "--json").out) == {
        "request_id": "r"
    }
    [asked] = api.asked
    moment = "2026-01-02T00:00:00+00:00"
    assert asked.json == {"memories": [{"id": "a", "used_at": moment}], "boost": True, "context_tags": ["t"]}
