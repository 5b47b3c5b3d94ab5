"""`ebbing audit`: listing, and verification page by page."""

from __future__ import annotations

import json
from typing import Any

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

PATH = "/v1/privacy/audit"
ENTRY = {
    "seq": 3,
    "at": "2026-05-04T01:02:03Z",
    "actor": "key1",
    "action": "policy_set",
    "items": 0,
    "details": {"version": 2, "parts": ["tiers", "review"], "superseded": None},
}


def verified(count: int, following: str | None = None, **broken: Any) -> Reply:
    return Reply(
        200,
        {
            "well": None if following else not broken,
            "verified": count,
            "entries": 7000,
            "broken": broken or None,
            "anchor": f"{count}:{'0' * 64}",
            "next_cursor": following,
        },
    )


def test_entries_are_listed(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = Reply(200, {"entries": [ENTRY], "next_cursor": None})
    done = cli("audit", "--action", "policy_set", "--limit", "5")
    assert (done.code, done.err) == (0, "")
    assert "3 2026-05-04 01:02:03 UTC key1 policy_set 0 version 2, parts tiers review" in " ".join(done.out.split())
    assert json.loads(cli("audit", "--json").out)["entries"] == [ENTRY]
    assert [asked.path for asked in api.asked] == [f"{PATH}?limit=5&action=policy_set", f"{PATH}?limit=20"]


def test_an_erasure_is_named_by_its_request_id(cli: Cli, api: Stub) -> None:
    for name in ("erasure", "export", "request"):
        api.replies[f"GET {PATH}"] = Reply(200, {"entries": [ENTRY | {"details": {name: "e1"}}], "next_cursor": None})
        assert "request ID e1" in cli("audit").out


def test_it_is_verified_to_its_end(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/verify"] = [verified(5000, "c1"), verified(7000)]
    done = cli("audit", "verify", "--anchor", "a")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == ["verified 7,000 entries: none is missing or altered", f"anchor 7000:{'0' * 64}"]
    assert [asked.path for asked in api.asked] == [f"{PATH}/verify?anchor=a", f"{PATH}/verify?anchor=a&cursor=c1"]


def test_the_first_broken_entry_is_named_and_the_exit_code_says_so(cli: Cli, api: Stub) -> None:
    for options in ((), ("--json",)):
        api.replies[f"GET {PATH}/verify"] = [verified(5000, "c1"), verified(6000, seq=6001, why="it is missing")]
        done = cli("audit", "verify", *options)
        assert done.code == 1
        if options:
            assert json.loads(done.out)["broken"] == {"seq": 6001, "why": "it is missing"}
        else:
            assert "broken at entry 6,001: it is missing" in done.err


def test_a_mistyped_anchor_is_named_as_a_cause_and_no_entry_is_called_intact(cli: Cli, api: Stub) -> None:
    why = "its hash differs from that of the anchor: the anchor was copied wrongly"
    for anchor, ends in (("18:9f3c", why), ("20:9f3c", f"{why}; earlier entries are intact")):
        api.replies[f"GET {PATH}/verify"] = [verified(30, seq=18, why=why)]
        done = cli("audit", "verify", "--anchor", anchor)
        assert (done.code, done.err.strip().endswith(ends)) == (1, True)


def test_a_refusal_is_told(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/verify"] = Reply(403, problem(403, "not-allowed"))
    assert cli("audit", "verify").code == 4


def test_entries_about_a_person_come_with_the_digests_of_the_name(cli: Cli, api: Stub) -> None:
    digests = {"audit_log": "fad1", "erasure_list": None}
    found = {"entries": [ENTRY], "next_cursor": None, "subject_digests": digests}
    api.replies[f"GET {PATH}"] = Reply(200, found)
    shown = cli("audit", "--subject", "Mei Chen", "--target", "e1").out.splitlines()
    assert shown[:2] == [
        "keyed digest of the name in the audit log: fad1",
        "keyed digest of the name in the list of erasures: none, because it has no entries",
    ]
    assert "policy_set" in shown[-1]
    assert api.asked[-1].path == f"{PATH}?limit=20&subject=Mei+Chen&target=e1"
    assert json.loads(cli("audit", "--subject", "Mei Chen", "--json").out) == found


def test_one_entry_is_shown_with_its_hash(cli: Cli, api: Stub) -> None:
    more = {"subject": "fad1", "digest": None, "hash": "9f3c" * 16, "previous": "8e2b" * 16}
    api.replies[f"GET {PATH}"] = Reply(200, {"entries": [ENTRY | more], "next_cursor": None})
    shown = " ".join(cli("audit", "--entry", "3").out.split())
    assert f"hash {'9f3c' * 16}" in shown
    assert "digest of the name fad1" in shown
    assert api.asked[-1].path == f"{PATH}?limit=20&seq=3"
    api.replies[f"GET {PATH}"] = Reply(200, {"entries": [], "next_cursor": None})
    assert cli("audit", "--entry", "9").out == "none\n"
