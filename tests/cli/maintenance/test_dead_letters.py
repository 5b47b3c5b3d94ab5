"""`ebbing dead-letters`: list, replay and discard, singly or by reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

PATH = "/v1/admin/dead-letters"
BEFORE = "2026-03-07T12:00:00.000001Z"


def letter(**more: Any) -> dict[str, Any]:
    return {
        "id": "l1",
        "stage": "drain",
        "reason": "DataError",
        "attempts": 3,
        "memories": 2,
        "memory_ids": ["m1", "m2"],
        "replayable": True,
        "discarded_at": None,
        **more,
    }


def page(count: int = 12) -> Reply:
    reasons = [{"stage": "drain", "reason": "DataError", "count": count}]
    return Reply(200, {"dead_letters": [letter()], "next_cursor": None, "reasons": reasons})


def test_letters_are_listed_with_their_reasons(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = page()
    shown = cli("dead-letters").out
    for words in ("l1", "drain", "DataError", "yes", "12"):
        assert words in shown
    options = ("--stage", "drain", "--reason", "DataError", "--discarded", "--tenant", "t1", "--limit", "5", "--json")
    assert json.loads(cli("dead-letters", *options).out)["reasons"][0]["count"] == 12
    assert [asked.path for asked in api.asked] == [
        f"{PATH}?limit=20",
        f"{PATH}?stage=drain&reason=DataError&discarded=true&limit=5&tenant_id=t1",
    ]


def test_a_letter_is_shown(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/l1"] = Reply(200, letter())
    shown = cli("dead-letters", "show", "l1").out
    assert "DataError" in shown
    assert "m1, m2" in shown
    assert "discarded_at" not in shown
    assert json.loads(cli("dead-letters", "show", "l1", "--json").out) == letter()


def test_the_memories_that_a_broken_entry_claims_are_unknown(cli: Cli, api: Stub) -> None:
    broken = letter(reason="envelope header out of shape", memories=99)
    api.replies[f"GET {PATH}"] = Reply(200, {"dead_letters": [broken], "next_cursor": None, "reasons": []})
    shown = cli("dead-letters").out
    assert "unknown" in shown
    assert "99" not in shown
    api.replies[f"GET {PATH}/l1"] = Reply(200, broken)
    shown = cli("dead-letters", "show", "l1").out
    assert "unknown" in shown
    assert "99" not in shown


def none() -> Reply:
    return Reply(200, {"dead_letters": [], "next_cursor": None, "reasons": []})


def test_a_letter_is_replayed(cli: Cli, api: Stub, pauses: list[float]) -> None:
    api.replies[f"GET {PATH}"] = none()
    api.replies[f"POST {PATH}/l1/replay"] = Reply(202, letter())
    done = cli("dead-letters", "replay", "l1", "--tenant", "t1")
    assert "queued 1 dead letter again" in done.out
    assert "none has come back yet" in done.out
    assert [asked.path for asked in api.asked if asked.method == "POST"] == [f"{PATH}/l1/replay?tenant_id=t1"]


def test_letters_that_come_back_are_counted(cli: Cli, api: Stub, pauses: list[float]) -> None:
    back = [letter(id=f"l{number}", replays=2) for number in range(12)]
    of_before = letter(id="old", replays=1, reason="OtherError")
    api.replies[f"GET {PATH}"] = [
        Reply(200, {"dead_letters": [of_before], "next_cursor": None, "reasons": []}),
        Reply(200, {"dead_letters": [*back[:5], of_before], "next_cursor": None, "reasons": []}),
        Reply(200, {"dead_letters": [*back, of_before], "next_cursor": None, "reasons": []}),
    ]
    api.replies[f"POST {PATH}/replay"] = Reply(200, {"replayed": 12, "left": 0, "before": BEFORE, "came_back": 12})
    lines = cli("dead-letters", "replay", "--reason", "DataError").out.splitlines()
    assert lines[0] == "queued 12 dead letters again"
    assert lines[1] == "12 of them had been replayed before and came back"
    assert lines[2].startswith("12 came back: fix the cause before the next replay")
    assert len(pauses) == 2, "it waits no longer than until all are back"


@pytest.mark.parametrize(
    "words", [("replay",), ("discard", "--because", "old", "--yes"), ("discard", "--because", "old", "--yes", "--json")]
)
def test_a_reason_that_no_letter_has_is_a_failure(cli: Cli, api: Stub, words: tuple[str, ...]) -> None:
    api.replies[f"GET {PATH}"] = none()
    api.replies[f"POST {PATH}/{words[0]}"] = Reply(200, {f"{words[0]}ed": 0, "left": 0, "before": BEFORE})
    done = cli("dead-letters", *words, "--reason", "DataErorr")
    assert done.code == 1
    assert "no dead letter has the reason 'DataErorr'" in done.err


def test_a_letter_that_cannot_be_replayed_says_why(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = none()
    api.replies[f"POST {PATH}/l1/replay"] = Reply(409, problem(409, "conflict", detail="written by an older version"))
    done = cli("dead-letters", "replay", "l1")
    assert done.code == 1
    assert "older version" in done.err


def test_all_of_a_reason_are_replayed_until_none_is_left(cli: Cli, api: Stub, pauses: list[float]) -> None:
    api.replies[f"POST {PATH}/replay"] = [
        Reply(200, {"replayed": 200, "left": 250, "before": BEFORE}),
        Reply(429, problem(429, "backlog-full"), {"Retry-After": "2"}),
        Reply(200, {"replayed": 200, "left": 50, "before": BEFORE}),
        Reply(200, {"replayed": 50, "left": 0, "before": BEFORE}),
    ]
    done = cli("dead-letters", "replay", "--reason", "DataError", "--stage", "drain", "--json")
    assert json.loads(done.out) == {"replayed": 450, "left": 0, "came_back": 0}
    assert pauses == [2.0]
    first, *others = (asked.json for asked in api.asked)
    assert first == {"reason": "DataError", "stage": "drain"}
    assert others == [{**first, "before": BEFORE}] * 3, "letters that fail again aren't replayed again"


def test_a_letter_is_discarded_for_a_reason(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/l1/discard"] = Reply(200, letter())
    assert "discarded 1 dead letter" in cli("dead-letters", "discard", "l1", "--because", "not needed").out
    assert api.asked[0].json == {"reason": "not needed"}


@pytest.mark.parametrize(("answer", "discards"), [("y\n", True), ("n\n", False), ("", False)])
def test_many_are_discarded_only_when_confirmed(cli: Cli, api: Stub, answer: str, discards: bool) -> None:
    api.replies[f"GET {PATH}"] = page()
    api.replies[f"POST {PATH}/discard"] = Reply(200, {"discarded": 12, "left": 0, "before": BEFORE})
    done = cli("dead-letters", "discard", "--reason", "DataError", "--because", "old", given=answer)
    assert "12 dead letters" in done.err
    assert (done.code == 0) == discards
    assert ("discarded 12 dead letters" in done.out) == discards
    assert len(api.asked) == 1 + discards


def test_with_yes_nobody_is_asked(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/discard"] = Reply(200, {"discarded": 12, "left": 0, "before": BEFORE})
    done = cli("dead-letters", "discard", "--reason", "DataError", "--because", "old", "--yes", "--json")
    assert json.loads(done.out) == {"discarded": 12, "left": 0}
    assert api.asked[0].json == {"reason": "DataError", "because": "old"}


@pytest.mark.parametrize(
    "words",
    [
        ("replay",),
        ("replay", "l1", "--reason", "X"),
        ("replay", "l1", "--stage", "drain"),
        ("discard", "--because", "x"),
        ("discard", "l1"),
    ],
    ids=" ".join,
)
def test_one_letter_or_a_reason_is_named(cli: Cli, api: Stub, words: tuple[str, ...]) -> None:
    assert cli("dead-letters", *words).code == 2
    assert api.asked == []
