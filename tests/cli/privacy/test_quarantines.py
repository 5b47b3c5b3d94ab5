"""`ebbing quarantine`, and memories in quarantine in the output of `ebbing why`."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

PATH = "/v1/quarantines"
COUNTS = {
    "key_id": "k1",
    "source": None,
    "after": None,
    "before": "2026-03-07T11:00:00Z",
    "memories": 3,
    "held": 1,
    "summaries": 1,
    "hidden": 0,
}
PLACED = {
    "id": "q1",
    "key_id": "k1",
    "source": None,
    "after": None,
    "before": "2026-03-07T11:00:00Z",
    "status": "placed",
    "memories": 4,
    "placed_at": "2026-03-07T11:00:00Z",
    "placed_by": "k2",
    "lifted_at": None,
    "lifted_by": None,
}


def test_a_quarantine_is_counted_confirmed_and_placed(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = [Reply(200, COUNTS), Reply(201, PLACED)]
    done = cli("quarantine", "place", "--key", "k1", given="y\n")
    assert "Hide 3 memories, 1 of them under a legal hold, and 1 summary until regenerated without them?" in done.err
    assert "quarantine q1 is placed: 4 memories hidden" in done.out
    assert "ebbing keys revoke k1" in done.err
    assert [asked.json for asked in api.asked] == [
        {"key_id": "k1"},
        {"key_id": "k1", "before": COUNTS["before"], "confirm": True},
    ]


def test_a_preview_names_only_what_there_is(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(200, COUNTS | {"memories": 0, "held": 0, "summaries": 0, "hidden": 1200})
    shown = cli("quarantine", "place", "--source", "tool", "--dry-run").out
    assert shown == "would hide 0 memories (1,200 more are hidden already)\n"


@pytest.mark.parametrize("words", [[], ["--key", "k1", "--source", "tool"]])
def test_a_quarantine_needs_either_a_key_or_a_source(cli: Cli, api: Stub, words: list[str]) -> None:
    done = cli("quarantine", "place", *words)
    assert (done.code, api.asked) == (2, [])
    assert "give either --key or --source" in done.err


def test_a_dry_run_and_a_refused_question_change_nothing(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(200, COUNTS)
    assert "would hide 3 memories" in cli("quarantine", "place", "--source", "tool", "--dry-run").out
    assert cli("quarantine", "place", "--source", "tool", given="n\n").code == 1
    assert [asked.json for asked in api.asked] == [{"source": "tool"}] * 2


def test_quarantines_are_listed_and_lifted(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = Reply(200, {"quarantines": [PLACED], "next_cursor": None})
    api.replies[f"GET {PATH}/q1"] = Reply(200, PLACED)
    api.replies[f"POST {PATH}/q1/lift"] = Reply(200, PLACED | {"status": "lifted", "memories": 0})
    assert "key k1 to 2026-03-07" in cli("quarantine", "list").out
    assert json.loads(cli("quarantine", "list", "--json").out) == {"quarantines": [PLACED]}
    done = cli("quarantine", "lift", "q1", given="y\n")
    assert "Show 4 memories of quarantine q1 again?" in done.err
    assert "quarantine q1 is lifted" in done.out


def test_a_key_is_created_with_a_source(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/admin/keys"] = Reply(201, {"id": "k1", "api_key": "ebb_x", "source": "agent"})
    done = cli("keys", "create", "bot", "--source", "agent")
    assert api.asked[0].json == {"name": "bot", "source": "agent"}
    assert "agent" in done.out
