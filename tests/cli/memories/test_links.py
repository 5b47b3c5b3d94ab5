"""`ebbing links`: add, list and remove."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

PATH = "/v1/links"
LINK = {
    "from": "m1",
    "to": "m2",
    "kind": "caused\x1b[2J",
    "weight": 0.25,
    "source": "caller",
    "created_at": "2026-03-07T11:00:00Z",
}


def test_a_link_is_added(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(200, {"added": 1, "updated": 0})
    assert "1 added, 0 updated" in cli("links", "add", "m1", "m2").out
    done = cli("links", "add", "m1", "m2", "--relation", "caused", "--weight", "0.5", "--both-ways", "--json")
    assert json.loads(done.out) == {"added": 1, "updated": 0}
    assert [asked.json for asked in api.asked] == [
        {"from": "m1", "to": "m2"},
        {"from": "m1", "to": "m2", "kind": "caused", "weight": 0.5, "both_ways": True},
    ]


def test_a_refused_link_names_the_field(cli: Cli, api: Stub) -> None:
    error = {"field": "to", "message": "doesn't match any memory of this tenant", "value": "m2"}
    api.replies[f"POST {PATH}"] = Reply(404, problem(404, "not-found", error))
    done = cli("links", "add", "m1", "m2")
    assert done.code == 1
    assert "to doesn't match any memory" in done.err


def test_links_are_listed_over_pages_and_cannot_steer_the_terminal(cli: Cli, api: Stub) -> None:
    more, last = {"links": [LINK] * 2, "next_cursor": "c"}, {"links": [LINK], "next_cursor": None}
    api.replies[f"GET {PATH}"] = [Reply(200, more), Reply(200, last)]
    shown = cli("links", "list", "m1", "--relation", "caused").out
    assert shown.count("m2") == 3
    assert "0.25" in shown
    assert "\x1b" not in shown
    assert [asked.path for asked in api.asked] == [
        f"{PATH}?limit=100&memory=m1&kind=caused",
        f"{PATH}?limit=100&memory=m1&kind=caused&cursor=c",
    ]


def test_a_list_ends_at_its_limit(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = Reply(200, {"links": [LINK] * 2, "next_cursor": "c"})
    done = cli("links", "list", "--from", "m1", "--to", "m2", "--limit", "3", "--json")
    assert json.loads(done.out) == {"links": [LINK] * 3}
    assert api.asked[0].path == f"{PATH}?limit=3&from=m1&to=m2"


def test_links_are_removed(cli: Cli, api: Stub) -> None:
    api.replies[f"DELETE {PATH}"] = Reply(200, {"removed": 2})
    assert "2 removed" in cli("links", "remove", "m1").out
    done = cli("links", "remove", "--from", "m1", "--to", "m2", "--both-ways", "--json")
    assert json.loads(done.out) == {"removed": 2}
    assert [asked.path for asked in api.asked] == [f"{PATH}?memory=m1", f"{PATH}?from=m1&to=m2&both_ways=true"]


def test_removing_needs_a_memory_to_be_named(cli: Cli, api: Stub) -> None:
    for words in ((), ("--relation", "caused")):
        done = cli("links", "remove", *words)
        assert done.code == 2
        assert "--from" in done.err
    assert api.asked == []
