"""`ebbing hold`, and holds in the output of `ebbing why`."""

from __future__ import annotations

import json

from app.domain.privacy.legal_hold import HOLD_GROUNDS
from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

PATH = "/v1/privacy/holds"
HOLD = {
    "id": "h1",
    "reason": "case 17\x1b[2J",
    "memory_ids": None,
    "subject": "ann",
    "filter": {"tags": ["a", "b"], "after": "2026-01-01T00:00:00Z"},
    "placed_at": "2026-03-07T11:00:00.5Z",
    "placed_by": "k1",
    "released_at": None,
    "released_by": None,
    "ground": "legal_claims",
}
RELEASED = HOLD | {"released_at": "2026-04-01T09:30:00Z", "released_by": "k2"}
COUNTS = {"memories": 3, "hidden": 1}


def test_a_hold_is_placed_and_says_what_it_is_on(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = [Reply(200, COUNTS), Reply(201, HOLD)]
    api.replies[f"GET {PATH}/h1"] = Reply(200, HOLD | COUNTS)
    done = cli(
        "hold", "place", "--subject", "ann", "--tag", "a", "--after", "2026-01-01", "--reason", "case 17", "--yes"
    )
    assert "hold h1 covers 4 memories (1 of them hidden by a pending erasure), and future memories" in done.out
    assert api.asked[1].json == {
        "subject": "ann",
        "filter": {"tags": ["a"], "after": "2026-01-01T00:00:00+00:00"},
        "reason": "case 17",
    }
    assert json.loads(cli("hold", "place", "m1", "m2", "--reason", "x", "--yes", "--json").out) == HOLD
    assert api.asked[-1].json == {"memory_ids": ["m1", "m2"], "reason": "x"}
    assert "warning: no legal ground is stated" in done.err
    grounded = cli("hold", "place", "m1", "--reason", "x", "--ground", "archiving", "--yes", "--json")
    assert grounded.err == ""


def test_a_dry_run_says_what_a_hold_would_be_on(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(200, COUNTS)
    done = cli("hold", "place", "--subject", "ann", "--reason", "x", "--dry-run")
    assert "Would hold 4 memories (1 of them hidden by a pending erasure). Note: no legal ground is stated" in done.out
    assert api.asked[0].json == {"subject": "ann", "reason": "x", "dry_run": True}
    assert json.loads(cli("hold", "place", "m1", "--reason", "x", "--dry-run", "--json").out) == COUNTS


def test_a_hold_is_asked_about(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(200, COUNTS)
    asked = cli("hold", "place", "--subject", "ann", "--reason", "x", given="n\n")
    assert asked.code == 1
    assert "Place a hold on 4 memories (1 of them hidden by a pending erasure), and future memories" in asked.err
    assert [one.json["dry_run"] for one in api.asked] == [True]


def test_what_is_to_be_held_must_be_said(cli: Cli, api: Stub) -> None:
    done = cli("hold", "place", "--reason", "x")
    assert (done.code, api.asked) == (2, [])
    assert "--subject" in done.err


def test_holds_are_listed_and_shown_with_their_dates(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = Reply(200, {"holds": [RELEASED, HOLD], "next_cursor": None})
    api.replies[f"GET {PATH}/h1"] = Reply(200, RELEASED | {"memories": 0, "hidden": 0})
    listed = cli("hold", "list", "--all").out
    assert "2026-03-07" in listed
    assert "2026-04-01" in listed
    assert "subject ann; tags a, b; after 2026-01-01 00:00 UTC" in listed
    assert "legal claims" in listed
    assert "\x1b" not in listed
    assert api.asked[0].path == f"{PATH}?limit=100&released=true"
    shown = cli("hold", "show", "h1").out
    assert "2026-04-01 09:30 UTC by key k2" in shown
    assert "\x1b" not in shown


def test_a_release_is_asked_about(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/h1"] = Reply(200, HOLD | COUNTS)
    api.replies[f"POST {PATH}/h1/release"] = Reply(200, RELEASED)
    asked = cli("hold", "release", "h1", given="n\n")
    assert asked.code == 1
    assert "hold of 2026-03-07" in asked.err
    assert [one.method for one in api.asked] == ["GET"]
    assert "released hold h1 at 2026-04-01 09:30 UTC" in cli("hold", "release", "h1", "--yes").out
    assert api.asked[-1].json == {}
    assert cli("hold", "release", "h1", given="y\n").code == 0, "scripts of the version before answer one question"


def test_a_release_names_the_erasures_that_it_continues_and_asks_for_a_reason(cli: Cli, api: Stub) -> None:
    counts = {"erasures": 2, "memories": 31}
    api.replies[f"GET {PATH}/h1"] = Reply(200, HOLD | COUNTS | {"waiting": counts})
    api.replies[f"POST {PATH}/h1/release"] = Reply(200, RELEASED | {"continued": counts})
    done = cli("hold", "release", "h1", given="y\ncase 17 is settled\n")
    assert "warning: on release, 2 waiting erasures delete 31 memories at once; this can't be undone" in done.err
    assert "2 waiting erasures delete 31 memories now" in done.out
    assert api.asked[-1].json == {"reason": "case 17 is settled"}
    assert "2 erasures; on release, they delete 31 memories" in cli("hold", "show", "h1").out


def test_a_hold_on_hidden_memories_covers_them(cli: Cli, api: Stub) -> None:
    waiting = {"erasures": 1, "memories": 1}
    api.replies[f"GET {PATH}/h1"] = Reply(200, HOLD | {"memories": 0, "hidden": 1, "waiting": waiting})
    asked = cli("hold", "release", "h1", given="n\n").err
    assert "on release, 1 waiting erasure deletes 1 memory at once" in asked
    assert "on 1 memory (hidden by a pending erasure)?" in asked
    assert "1 memory (hidden by a pending erasure)" in cli("hold", "show", "h1").out
    api.replies[f"GET {PATH}/h1"] = Reply(200, HOLD | {"memories": 1_000, "hidden": 1_234})
    assert "2,234 memories (1,234 of them hidden by pending erasures)" in cli("hold", "show", "h1").out


def test_a_legal_ground_is_accepted_in_words(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = [Reply(200, COUNTS), Reply(201, HOLD)] * len(HOLD_GROUNDS)
    api.replies[f"GET {PATH}/h1"] = Reply(200, HOLD | COUNTS)
    for ground in HOLD_GROUNDS:
        words = ground.replace("_", " ").capitalize()
        assert cli("hold", "place", "m1", "--reason", "x", "--ground", words, "--dry-run").code == 0
        assert api.asked[-1].json["ground"] == ground
        assert cli("hold", "place", "m1", "--reason", "x", "--ground", words, "--yes").code == 0
        assert api.asked[-2].json["ground"] == ground
    api.replies[f"PATCH {PATH}/h1"] = Reply(200, HOLD)
    assert cli("hold", "correct", "h1", "--ground", "legal claims").code == 0
    assert api.asked[-1].json == {"ground": "legal_claims"}
    before = len(api.asked)
    for command in (("place", "m1", "--reason", "x"), ("correct", "h1")):
        refused = cli("hold", *command, "--ground", "revenge")
        assert (refused.code, len(api.asked)) == (2, before)
        assert "no legal ground is named `revenge`, nothing was changed: use legal_claims, " in refused.err
    assert cli("hold", "place", "m1", "--reason", "x", "--ground", "none", "--dry-run").code == 2


def test_the_legal_ground_of_a_hold_is_asked_for(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(200, COUNTS)
    api.replies[f"GET {PATH}/h1"] = Reply(200, HOLD | COUNTS | {"ground": "legal_claims"})
    place = ("hold", "place", "m1", "--reason", "x")
    refused = cli(*place, given="y\nrevenge\n")
    assert (refused.code, [one.json["dry_run"] for one in api.asked]) == (2, [True])
    api.replies[f"POST {PATH}"] = [Reply(200, COUNTS), Reply(201, HOLD)]
    assert cli(*place, given="y\nlegal claims\n").code == 0
    assert api.asked[-2].json == {"memory_ids": ["m1"], "reason": "x", "ground": "legal_claims"}
    assert "legal claims" in cli("hold", "show", "h1").out


def test_why_tells_the_hold(cli: Cli, api: Stub) -> None:
    holds = [{"id": "h1", "placed_at": HOLD["placed_at"]}]
    found = {"tier": "active", "wanted": "active", "rule": "hold", "why": "under a legal hold", "numbers": {}}
    api.replies["GET /v1/memories/m1/why"] = Reply(200, found | {"next_change": None, "holds": holds})
    assert "h1, placed 2026-03-07" in cli("why", "m1").out


def test_why_keeps_names_and_numbers_apart(cli: Cli, api: Stub) -> None:
    numbers = {"strength": 0.25, "expires_after_days": 730}
    found = {"tier": "archived", "wanted": "archived", "rule": "decay", "why": "weak", "numbers": numbers}
    api.replies["GET /v1/memories/m1/why"] = Reply(200, found | {"next_change": None, "holds": []})
    printed = cli("why", "m1").out.splitlines()
    assert "retention period   730 days" in printed
    assert "strength           0.25" in printed
    assert "tier               archived" in printed


def test_a_ground_is_corrected_and_the_values_before_are_shown(cli: Cli, api: Stub) -> None:
    change = {"changed_at": "2026-03-08T10:00:00Z", "changed_by": "k2", "ground": None, "reason": "case 17"}
    corrected = HOLD | {"ground": "legal_claims", "changes": [change]}
    api.replies[f"PATCH {PATH}/h1"] = Reply(200, corrected)
    api.replies[f"GET {PATH}/h1"] = Reply(200, corrected | COUNTS)
    assert "ground legal claims" in cli("hold", "correct", "h1", "--ground", "legal_claims").out
    assert cli("hold", "correct", "h1", "--ground", "none", "--reason", "x").code == 0
    assert [one.json for one in api.asked] == [{"ground": "legal_claims"}, {"ground": None, "reason": "x"}]
    nothing = cli("hold", "correct", "h1")
    assert (nothing.code, len(api.asked)) == (2, 2)
    shown = " ".join(cli("hold", "show", "h1").out.split())
    assert "by key k2; before: ground not stated, reason case 17" in shown
