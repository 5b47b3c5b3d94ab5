"""`ebbing supersede`."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

PATH = "/v1/supersessions"
PROPOSED = {
    "id": "s1",
    "memory": {"id": "m2", "text": "Ann lives in Oslo\x1b[2J"},
    "supersedes": {"id": "m1", "text": "Ann lives " + "very " * 40 + "far"},
    "named": None,
    "status": "proposed",
    "source": "model",
    "reason": None,
    "since": "2026-03-07T11:00:00Z",
    "made_at": "2026-03-08T02:00:00Z",
    "decided_at": None,
    "decided_by": None,
}
WAITING = PROPOSED | {"id": "s2", "status": "waiting", "supersedes": {"id": None, "text": None}, "named": "home"}


def test_they_are_listed_with_what_they_say(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = Reply(200, {"supersessions": [PROPOSED, WAITING], "next_cursor": None})
    listed = cli("supersede", "list", "--status", "proposed", "--memory", "m1").out
    for shown in ("s1", "proposed", "model", "Ann lives in Oslo", "Ann lives very", "…", "waiting", "home"):
        assert shown in listed
    assert "\x1b" not in listed
    assert api.asked[0].path == f"{PATH}?limit=100&status=proposed&memory=m1"
    assert json.loads(cli("supersede", "list", "--json").out)["supersessions"] == [PROPOSED, WAITING]


def test_they_are_decided_made_and_taken_back(cli: Cli, api: Stub) -> None:
    active, rejected = PROPOSED | {"status": "active"}, PROPOSED | {"status": "rejected", "reason": "declined"}
    api.replies[f"POST {PATH}/s1/approve"] = Reply(200, active)
    api.replies[f"POST {PATH}/s1/reject"] = Reply(200, rejected)
    api.replies[f"POST {PATH}"] = Reply(200, active)
    api.replies[f"DELETE {PATH}/s1"] = Reply(204, None)
    assert cli("supersede", "approve", "s1").out.startswith("s1 is active\n  newer  Ann lives in Oslo")
    assert "s1 is rejected (declined)" in cli("supersede", "reject", "s1").out
    assert json.loads(cli("supersede", "add", "m2", "m1", "--json").out) == active
    assert api.asked[-1].json == {"memory": "m2", "supersedes": "m1"}
    assert cli("supersede", "undo", "s1").out == "s1 is undone\n"
    assert json.loads(cli("supersede", "undo", "s1", "--json").out) == {"id": "s1", "undone": True}
