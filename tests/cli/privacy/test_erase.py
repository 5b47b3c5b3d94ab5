"""`ebbing erase` and `ebbing privacy`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

PATH = "/v1/privacy/erasures"
WOULD = {"memories": 3, "held": 1, "due_at": "2026-04-07T11:00:00Z", "erase_after": "2026-03-14T11:00:00Z"}
ERASURE = {
    "erasure_id": "e1",
    "kind": "gdpr",
    "status": "grace",
    "subject": "ann\x1b[2J",
    "ids": None,
    "thread": None,
    "filter": {"tags": ["a"]},
    "hidden": 3,
    "requested_at": "2026-03-07T11:00:00Z",
    "erase_after": "2026-03-14T11:00:00Z",
    "due_at": "2026-04-07T11:00:00Z",
    "started_at": None,
    "verified_at": None,
    "cancelled_at": None,
    "plan": [{"step": "memories", "store": "memories", "found": 3}],
    "executed": [],
}
REPORT = {
    "erasure_id": "e1",
    "kind": "user",
    "clocks": {"requested_at": "2026-03-07T11:00:00Z", "rewrite_by": "2026-04-03T08:00:00Z", "rewritten_at": None},
    "stores": [
        {"store": "memories", "found": 3, "removed": 3, "left": 0},
        {"store": "table links", "found": 0, "removed": 0, "left": 0},
    ],
    "kept": [{"what": "audit entries", "count": None, "ground": "proof"}],
    "recipients": [{"host": "api.example"}],
    "backups": {"newest_affected_expires": "2026-05-01T00:00:00Z"},
}


def test_an_erasure_is_asked_about_with_numbers_and_dates(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(200, WOULD)
    refused = cli("erase", "ann", "--law", "gdpr", "--tag", "a", given="n\n")
    assert refused.code == 1
    for said in (
        "Hide 3 memories? 2 will be erased permanently after 2026-03-14 11:00 UTC",
        "1 stays under legal hold",
        "Legal deadline: 2026-04-07",
    ):
        assert said in refused.err
    assert [asked.json.get("dry_run") for asked in api.asked] == [True]
    assert api.asked[0].json["filter"] == {"tags": ["a"]}


def test_it_is_done_without_a_question_where_that_is_wanted(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(202, ERASURE)
    done = cli("erase", "--id", "m1", "--id", "m2", "--grace-days", "0", "--yes")
    assert "e1: 3 memories hidden. 3 will be erased permanently after 2026-03-14 11:00 UTC" in done.out
    assert [asked.json for asked in api.asked] == [{"ids": ["m1", "m2"], "grace_days": 0}]


def test_a_recorded_request_and_a_time_of_receipt_are_sent(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(202, ERASURE | {"erase_after": ERASURE["requested_at"]})
    done = cli("erase", "--id", "m1", "--request", "r1", "--yes")
    assert "3 will be erased permanently at once, which can't be cancelled" in done.out
    cli("erase", "--id", "m1", "--law", "gdpr", "--received", "2026-03-02", "--yes")
    assert [asked.json for asked in api.asked] == [
        {"ids": ["m1"], "request_id": "r1"},
        {"ids": ["m1"], "kind": "gdpr", "received_at": "2026-03-02T00:00:00+00:00"},
    ]


def test_two_holds_are_named_until_both_are_released(cli: Cli, api: Stub) -> None:
    holds = [{"hold_id": f"h{number}", "memories": 1, "ground": None} for number in (1, 2)]
    api.replies[f"POST {PATH}"] = Reply(200, WOULD | {"holds": holds})
    assert "1 stays under legal holds h1 and h2 until all are released." in cli("erase", "--id", "m", "--dry-run").out


def test_texts_that_may_mention_the_subject_are_listed_and_decided_on(cli: Cli, api: Stub) -> None:
    mention = {"number": 1, "table": "holds", "column": "reason", "record_id": "h1", "text": "Chen", "decision": None}
    api.replies[f"GET {PATH}/e1/mentions"] = Reply(200, {"mentions": [mention], "more": 2})
    shown = cli("privacy", "mentions", "e1").out
    assert "holds.reason" in shown
    assert "not listed: 2 further texts" in shown
    api.replies[f"POST {PATH}/e1/mentions"] = Reply(200, {"mentions": [mention | {"text": None, "decision": "redact"}]})
    assert cli("privacy", "mentions", "e1", "--redact", "1", given="n\n").code == 1
    assert "(removed)" in cli("privacy", "mentions", "e1", "--redact", "1", "--keep", "2", "--yes").out
    assert api.asked[-1].json == {"redact": [1], "keep": [2]}


def test_a_dry_run_only_tells(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(200, WOULD)
    assert "Would hide 3 memories" in cli("erase", "--thread", "t", "--dry-run").out
    assert json.loads(cli("erase", "--thread", "t", "--dry-run", "--json").out) == WOULD
    assert all(asked.json["dry_run"] for asked in api.asked)


def test_memories_that_are_already_being_deleted_are_counted_apart(cli: Cli, api: Stub) -> None:
    for already, said in ((1, " 1 more is already being deleted."), (2, " 2 more are already being deleted."), (0, "")):
        api.replies[f"POST {PATH}"] = Reply(200, WOULD | {"already_hidden": already})
        assert f"Would hide 3 memories.{said} 2 will be erased" in cli("erase", "ann", "--dry-run").out
        assert f"Hide 3 memories?{said} 2 will be erased" in cli("erase", "ann", given="n\n").err


def test_a_hidden_memory_under_legal_hold_is_not_being_deleted(cli: Cli, api: Stub) -> None:
    hold = {"hold_id": "h1", "memories": 1, "ground": "legal_claims"}
    hidden = {"memories": 0, "held": 0, "already_hidden": 1, "hidden_held": 1, "holds": [hold], "due_at": None}
    api.replies[f"POST {PATH}"] = Reply(200, WOULD | hidden)
    said = "1 other memory is hidden already and stays under legal hold h1 (legal claims) until its release."
    assert cli("erase", "--id", "m1", "--dry-run").out == f"Would hide 0 memories. {said}\n"
    api.replies[f"POST {PATH}"] = Reply(200, WOULD | hidden | {"already_hidden": 4, "hidden_held": 2})
    said = (
        "2 more are already being deleted. 2 other memories are hidden already and stay under legal hold h1 "
        "(legal claims) until its release. Data that arrives until 2026-03-14 11:00 UTC will be erased too."
    )
    assert f"Would hide 0 memories. {said}" in cli("erase", "ann", "--dry-run").out


def test_an_erasure_by_id_covers_no_data_that_arrives_later(cli: Cli, api: Stub) -> None:
    none = {"memories": 0, "held": 0, "holds": [], "due_at": None}
    api.replies[f"POST {PATH}"] = Reply(200, WOULD | none)
    assert cli("erase", "--id", "m1", "--dry-run").out == "Would hide 0 memories.\n"
    assert "Data that arrives until" in cli("erase", "--thread", "t", "--dry-run").out
    api.replies[f"POST {PATH}"] = Reply(202, ERASURE | none | {"hidden": 0})
    assert cli("erase", "--id", "m1", "--yes").out == "Request ID e1: 0 memories hidden.\n"


def test_what_is_to_be_erased_must_be_said(cli: Cli, api: Stub) -> None:
    done = cli("erase", "--yes")
    assert (done.code, api.asked) == (2, [])


def test_requests_are_listed_and_shown(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = Reply(200, {"erasures": [ERASURE], "next_cursor": None})
    api.replies[f"GET {PATH}/e1"] = Reply(200, ERASURE)
    listed, shown = cli("privacy", "requests", COLUMNS="200").out, cli("privacy", "show", "e1").out
    for out in (listed, shown):
        assert "tags a" in out
        assert "2026-04-07" in out
        assert "\x1b" not in out
    assert "grace period ends  2026-03-14 11:00 UTC" in shown
    assert "hidden at once     3" in shown
    assert "hidden at once" in listed
    assert "request ID         e1" in shown
    assert "request ID" in listed


def test_a_completed_erasure_is_shown_without_its_scope_and_with_its_basis_in_words(cli: Cli, api: Stub) -> None:
    empty: dict[str, Any] = {"subject": None, "ids": None, "thread": None, "filter": None}
    done = ERASURE | empty | {"kind": "gdpr", "status": "verified", "legal_basis": "b"}
    api.replies[f"GET {PATH}/e1"] = Reply(200, done | {"erase_after": ERASURE["requested_at"]})
    shown = cli("privacy", "show", "e1").out
    assert "scope              no longer stored" in shown
    assert "grace period ends" not in shown
    assert "legal basis        GDPR Art. 17(1)(b): consent was withdrawn" in shown


def test_the_scope_of_an_ended_erasure_is_no_longer_stored_and_numbers_agree(cli: Cli, api: Stub) -> None:
    for status in ("verified", "cancelled"):
        ended = ERASURE | {"status": status, "subject": None, "filter": None}
        api.replies[f"GET {PATH}/e1"] = Reply(200, ended)
        assert "scope              no longer stored" in cli("privacy", "show", "e1").out
    for number, said in ((1, "1 text of operators named the subject and was"), (2, "2 texts of operators")):
        api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | {"texts_redacted": number})
        assert said in cli("privacy", "report", "e1").out


def test_a_report_begins_with_its_case(cli: Cli, api: Stub) -> None:
    case = {"erasure_id": "e1", "kind": "gdpr", "legal_basis": "b", "controller": "Heron Ltd", "case_reference": "D-17"}
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | case)
    basis = "GDPR Art. 17(1)(b): consent was withdrawn, and there is no other legal ground for the processing"
    assert [line[16:] for line in cli("privacy", "report", "e1").out.splitlines()[:5]] == [
        *("e1", "gdpr", "Heron Ltd", "D-17", basis)
    ]


def test_the_end_of_a_grace_period_is_asked_about(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/e1"] = Reply(200, ERASURE | {"held": 2})
    api.replies[f"POST {PATH}/e1/finish"] = Reply(200, ERASURE | {"status": "running"})
    asked = cli("privacy", "finish", "e1", given="n\n")
    assert (asked.code, [each.method for each in api.asked]) == (1, ["GET"])
    assert "and later matches now, except 2 under legal hold? This can't be undone." in asked.err
    assert cli("privacy", "finish", "e1", "--yes").out.startswith("Request ID e1: erasing starts now.")
    assert api.asked[-1].path == f"{PATH}/e1/finish"


def test_a_cancellation_is_asked_about(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}/e1"] = Reply(200, ERASURE)
    api.replies[f"POST {PATH}/e1/cancel"] = Reply(200, ERASURE | {"cancelled_at": "2026-03-08T09:30:00Z"})
    asked = cli("privacy", "cancel", "e1", given="n\n")
    assert asked.code == 1
    assert "Restore all hidden memories (3 hidden at 2026-03-07 11:00 UTC, plus later matches)?" in asked.err
    assert "Request ID e1: cancelled at 2026-03-08 09:30 UTC" in cli("privacy", "cancel", "e1", "--yes").out


def test_a_report_is_shown_or_written_as_a_page(cli: Cli, api: Stub, tmp_path: Path) -> None:
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT)
    shown = cli("privacy", "report", "e1").out
    assert "recipients: api.example" in shown
    assert "requested       2026-03-07 11:00 UTC\nrewrite by      2026-04-03 08:00 UTC\n" in shown
    assert "1 other stores had no matching data" in shown
    assert "table links" not in shown
    assert "another spelling" not in shown
    hidden_by = [{"id": "e2", "status": "grace", "erase_after": "2026-03-14T11:00:00Z", "memories": 1}]
    similar = {"memories": 4, "subjects": 1, "complete": True, "hidden": 3, "hidden_by": hidden_by}
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | {"similar_names": similar})
    said = "4 memories stored under another spelling of the name, not part of this erasure"
    hidden = (
        "1 memory under another spelling of the name hidden by e2 (erasure, grace period, can be cancelled until 2026"
    )
    further = "2 further memories under another spelling of the name hidden by other erasures or quarantines\n"
    for each in (said, hidden, further):
        assert each in cli("privacy", "report", "e1").out
    assert "expires 2026-05-01 00:00 UTC" in shown
    page = tmp_path / "report.html"
    assert cli("privacy", "report", "e1", "--html", str(page)).code == 0
    assert api.asked[-1].path == f"{PATH}/e1/report?format=html"
    assert api.asked[-1].headers["authorization"].startswith("Bearer ")
    assert page.read_text()
    done = cli("privacy", "report", "e1", "--html", str(page), "--json")
    assert (json.loads(done.out), done.err) == ({"id": "e1", "html": str(page)}, "")


def test_the_outcome_and_the_end_of_the_grace_period_are_shown(cli: Cli, api: Stub) -> None:
    counts = {"in_scope": 2068, "erased": 2066, "held": 2, "left": 0}
    stores = [{"store": "the key", "found": 1, "removed": 0, "retained": 1, "left": 0}]
    more = {"counts": counts, "grace_ended": {"at": "2026-03-08T11:00:00Z", "by": "k1"}, "stores": stores}
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | more)
    shown = cli("privacy", "report", "e1").out
    assert "2,068 memories in scope: 2,066 erased, 2 retained under legal hold\n" in shown
    assert "grace period    ended early with key k1" in shown
    assert ["the", "key", "1", "0", "1", "0"] in [line.split() for line in shown.splitlines()]


def test_an_erasure_under_legal_hold_alone_has_erased_nothing_yet(cli: Cli, api: Stub) -> None:
    counts = {"in_scope": 2, "erased": 0, "held": 2, "left": 0}
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | {"counts": counts})
    assert "2 memories in scope: none erased yet, all under legal hold\n" in cli("privacy", "report", "e1").out


def test_a_report_lists_nothing_that_a_released_hold_no_longer_retains(cli: Cli, api: Stub) -> None:
    released = {"what": "nothing under a released legal hold", "count": 0, "ground": "x", "until": "–"}
    case = {"what": "the dates", "count": None, "ground": "proof", "until": "later", "code": "case"}
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | {"kept": [released | {"code": "released"}, case]})
    shown = cli("privacy", "report", "e1").out
    assert "the dates" in shown
    assert "released legal hold" not in shown


def test_a_report_counts_texts_to_review_and_names_other_erasures_of_the_case(cli: Cli, api: Stub) -> None:
    texts = [{"decision": decision} for decision in ("redact", None, "keep", "gone")]
    other = {"erasure_id": "e2", "status": "verified", "erase_after": "2026-03-14T11:00:00Z", "memories": 3}
    cancelled = other | {"erasure_id": "e3", "status": "cancelled", "memories": 1}
    others = {"at": "x", "erasures": [other, cancelled]}
    more = {"erasure_id": "e1", "mentions": {"texts": texts, "more": 0}, "same_case": others}
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | more)
    shown = cli("privacy", "report", "e1").out
    assert "1 text of operators may mention the subject by a part of the name: review with" in shown
    assert "2 texts with a part of the name reviewed" in shown
    assert "1 text with a part of the name replaced or deleted since" in shown
    assert "another erasure with the same case reference: e2 (verified, 3 memories in scope)" in shown
    hidden = "e3 (cancelled, 1 memory hidden when it was entered; nothing was erased by it)"
    assert f"another erasure with the same case reference: {hidden}" in shown


def test_a_text_that_is_gone_is_not_reviewed(cli: Cli, api: Stub) -> None:
    more = {"erasure_id": "e1", "mentions": {"texts": [{"decision": "gone"}], "more": 0}}
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | more)
    shown = cli("privacy", "report", "e1").out
    assert "1 text with a part of the name replaced or deleted since" in shown
    assert "review" not in shown


def test_the_passes_of_an_erasure_that_holds_delayed_are_shown(cli: Cli, api: Stub) -> None:
    first = {"started_at": "2026-03-14T11:00:00Z", "finished_at": "2026-03-14T11:05:00Z", "memories": 210, "held": 2}
    second = {"started_at": "2026-05-02T08:00:00Z", "finished_at": "2026-05-02T08:01:00Z", "memories": 2, "held": 0}
    passes = [first | {"holds": ["h1"]}, second | {"holds": []}]
    api.replies[f"GET {PATH}/e1/report"] = Reply(200, REPORT | {"passes": passes, "holds": []})
    words = [line.split() for line in cli("privacy", "report", "e1").out.splitlines()]
    assert ["1", "2026-03-14", "11:05", "UTC", "210", "2", "h1"] in words
    assert ["2", "2026-05-02", "08:01", "UTC", "2", "0"] in words


@pytest.mark.parametrize(
    "words",
    [
        ("erase", "orla"),
        ("hold", "place", "--subject", "orla", "--reason", "case 17"),
        ("privacy", "cancel", "e1"),
        ("maintain", "delete"),
    ],
    ids=" ".join,
)
def test_where_nobody_can_be_asked_the_way_out_is_named(cli: Cli, api: Stub, words: tuple[str, ...]) -> None:
    would = WOULD | {"hidden": 0, "memory_ids": []}
    api.replies |= {f"POST {PATH}": Reply(200, would), "POST /v1/privacy/holds": Reply(200, would)}
    api.replies[f"GET {PATH}/e1"] = Reply(200, ERASURE)
    done = cli(*words, given="")
    assert done.code == 2
    assert "no terminal to ask for confirmation, nothing was changed: pass --yes" in done.err
    assert all(asked.method == "GET" or asked.json["dry_run"] for asked in api.asked)


def test_one_is_told_as_one(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}"] = Reply(201, ERASURE | {"hidden": 1})
    assert "e1: 1 memory hidden. 1 will be erased permanently" in cli("erase", "orla", "--yes").out


def test_requests_show_the_number_held_the_holds_and_the_case(cli: Cli, api: Stub) -> None:
    holds = [{"hold_id": "h1", "placed_at": "2026-03-01T11:00:00Z", "memories": 2, "ground": "legal_claims"}]
    found = ERASURE | {"status": "held", "held": 2, "holds": holds, "case_reference": "DSR-17"}
    api.replies[f"GET {PATH}"] = Reply(200, {"erasures": [found], "next_cursor": None})
    api.replies[f"GET {PATH}/e1"] = Reply(200, found)
    listed, shown = cli("privacy", "requests", COLUMNS="250").out, cli("privacy", "show", "e1").out
    for out in (listed, shown):
        assert "h1" in out
        assert "DSR-17" in out
        assert "delayed by a legal hold" in out
    assert "h1 (2 memories, legal claims)" in shown
    assert "under legal hold   2" in shown
    assert json.loads(cli("privacy", "show", "e1", "--json").out) == found
