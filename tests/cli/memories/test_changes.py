"""`ebbing changes`: the list of changes, and changes as they come."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.cli.memories import changes
from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

FIRST = {"cursor": "a1", "type": "memory.stored", "at": "2026-11-21T09:12:44Z", "id": "m1"}
SECOND = {"cursor": "a2", "type": "memory.deleted", "at": "2026-11-21T09:13:00Z", "id": "m2"}


def page(*listed: dict[str, Any], more: bool = False) -> Reply:
    return Reply(
        200, {"changes": list(listed), "next_cursor": listed[-1]["cursor"] if listed else "a0", "has_more": more}
    )


def test_changes_are_listed_page_by_page_up_to_the_limit(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/changes"] = [page(FIRST, more=True), page(SECOND, more=True)]
    shown = cli("changes", "--limit", "2", "--types", "memory.stored,memory.deleted").out
    assert [line.split()[-2:] for line in shown.splitlines()[-2:]] == [
        ["memory.stored", "m1"],
        ["memory.deleted", "m2"],
    ]
    types = "types=memory.stored%2Cmemory.deleted"
    assert [asked.path for asked in api.asked] == [
        f"/v1/changes?{types}&limit=2",
        f"/v1/changes?cursor=a1&{types}&limit=1",
    ]


def test_json_has_the_next_cursor(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/changes"] = page(FIRST)
    found = json.loads(cli("changes", "--json", "--cursor", "a0").out)
    assert found == {"changes": [FIRST], "next_cursor": "a1", "has_more": False}
    assert api.asked[0].path == "/v1/changes?cursor=a0&limit=100"


@pytest.mark.parametrize("as_json", [False, True])
def test_followed_changes_begin_now_and_are_printed_as_they_come(
    cli: Cli, api: Stub, monkeypatch: pytest.MonkeyPatch, *, as_json: bool
) -> None:
    monkeypatch.setattr(changes, "POLL_SECONDS", 0)
    gone = {"field": "cursor", "message": "is older than the oldest retained change", "limit": "a9"}
    api.replies["GET /v1/changes"] = [page(), page(FIRST, SECOND), Reply(410, problem(410, "cursor-gone", gone))]
    ended = cli("changes", "--follow", *(["--json"] if as_json else []))
    assert ended.code != 0
    assert "a9" in ended.err
    lines = ended.out.splitlines()
    if as_json:
        assert [json.loads(line) for line in lines] == [FIRST, SECOND]
    else:
        assert [line.split()[-2:] for line in lines] == [["memory.stored", "m1"], ["memory.deleted", "m2"]]
    assert [asked.path.partition("&")[0] for asked in api.asked] == [
        f"/v1/changes?cursor={cursor}" for cursor in ("newest", "a0", "a2")
    ]
