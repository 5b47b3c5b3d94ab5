"""`ebbing privacy record`, `confirm`, `complete`, `show`, `identity`, `extend` and `letter`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

PATH = "/v1/privacy/requests/r1"
REQUEST = {
    "request_id": "r1",
    "identity_method": "document",
    "identity_checked_at": "2026-03-07T11:00:00Z",
    "first_due_at": "2026-04-07T11:00:00Z",
    "due_at": "2026-06-07T11:00:00Z",
}


def test_an_identity_check_is_recorded(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/identity"] = Reply(200, REQUEST)
    done = cli("privacy", "identity", "r1", "--method", "document", "--note", "seen", "--at", "2026-03-07T11:00:00Z")
    assert done.out == "r1: identity checked by document on 2026-03-07\n"
    sent = api.asked[0].json
    assert (sent["method"], sent["note"], sent["checked_at"][:16]) == ("document", "seen", "2026-03-07T11:00")


def test_an_extension_is_asked_about(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/extend"] = Reply(200, REQUEST)
    assert cli("privacy", "extend", "r1", "--reason", "many", given="n\n").code == 1
    assert [each.json for each in api.asked] == [{"reason": "many", "dry_run": True}]
    asked = cli("privacy", "extend", "r1", "--reason", "many", given="n\n")
    assert "Extend the deadline of r1 from 2026-04-07 to 2026-06-07?" in asked.err
    done = cli("privacy", "extend", "r1", "--reason", "many", "--months", "1", "--yes")
    assert done.out.startswith("r1: deadline moved from 2026-04-07 to 2026-06-07; no notice is recorded yet")
    assert api.asked[-1].json == {"reason": "many", "months": 1}
    api.replies[f"POST {PATH}/extend"] = Reply(200, REQUEST | {"notice_sent_at": "2026-03-20T11:00:00Z"})
    sent = cli("privacy", "extend", "r1", "--reason", "many", "--notified", "2026-03-20", "--yes")
    assert sent.out == "r1: deadline moved from 2026-04-07 to 2026-06-07\n"


def test_a_notice_is_recorded(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/notice"] = Reply(200, REQUEST | {"notice_sent_at": "2026-04-09T11:00:00Z"})
    done = cli("privacy", "notice", "r1", "--at", "2026-04-09T11:00:00Z")
    assert done.out == "r1: notice of the extension sent on 2026-04-09, after the first deadline\n"
    assert api.asked[0].json["sent_at"][:16] == "2026-04-09T11:00"


def test_a_partial_answer_is_recorded(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/partial"] = Reply(200, REQUEST | {"partial_sent_at": "2026-03-20T11:00:00Z"})
    done = cli("privacy", "partial", "r1", "--at", "2026-03-20T11:00:00Z", "--yes")
    assert done.out == "r1: partial answer sent on 2026-03-20\n"
    assert api.asked[0].json["sent_at"][:16] == "2026-03-20T11:00"


def test_a_request_that_its_erasure_answers_is_refused_before_the_question(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/complete"] = Reply(409, problem(409, "conflict"))
    done = cli("privacy", "complete", "r1", given="y\n")
    assert (done.code, "Record r1 as completed" in done.err) == (1, False)
    assert len(api.asked) == 1


def test_a_letter_is_printed_or_written_as_a_page(cli: Cli, api: Stub, tmp_path: Path) -> None:
    api.replies[f"GET {PATH}/letters/extension"] = Reply(200, b"Dear")
    assert cli("privacy", "letter", "r1", "extension").out == "Dear\n"
    assert api.asked[-1].path.endswith("?format=text")
    page = tmp_path / "notice.html"
    assert cli("privacy", "letter", "r1", "extension", "--html", str(page)).code == 0
    assert api.asked[-1].path.endswith("?format=html")
    assert page.read_text() == "Dear"
    done = cli("privacy", "letter", "r1", "extension", "--html", str(page), "--json")
    assert (json.loads(done.out), done.err) == ({"letter": "extension", "html": str(page)}, "")


@pytest.mark.parametrize("form", [(), ("--html", "letter.html")], ids=["text", "page"])
def test_a_letter_that_states_open_work_has_a_warning(
    cli: Cli, api: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    headers = {"Ebbing-Open-Work": "2 texts with a part of the person's name still to review"}
    api.replies[f"GET {PATH}/letters/completion"] = Reply(200, b"Dear", headers)
    done = cli("privacy", "letter", "r1", "completion", *form)
    assert "warning: before you send the letter: 2 texts with a part of the person's name" in done.err
    assert ("Dear" in done.out) == (not form)
    api.replies[f"GET {PATH}/letters/completion"] = Reply(200, b"Dear")
    assert "warning" not in cli("privacy", "letter", "r1", "completion", *form).err


def test_a_request_is_recorded_confirmed_and_completed(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/privacy/requests"] = Reply(201, REQUEST | {"received_at": "2026-03-07T11:00:00Z"})
    given = ("--law", "gdpr", "--channel", "letter", "--received", "2026-03-07", "--case", "D1")
    done = cli("privacy", "record", "correction", *given)
    assert done.out == "Request ID r1: recorded as received on 2026-03-07, to be answered by 2026-06-07\n"
    assert api.asked[0].json == {
        "nature": "correction",
        "law": "gdpr",
        "manner": "letter",
        "received_at": "2026-03-07T00:00:00+00:00",
        "case_reference": "D1",
    }
    api.replies[f"POST {PATH}/confirm"] = Reply(200, REQUEST | {"confirmed_at": "2026-03-08T11:00:00Z"})
    assert cli("privacy", "confirm", "r1").out == "r1: receipt confirmed on 2026-03-08\n"
    api.replies[f"POST {PATH}/complete"] = Reply(200, REQUEST | {"answered_at": "2026-03-09T11:00:00Z"})
    asked = cli("privacy", "complete", "r1", given="n\n")
    assert (asked.code, "This can't be undone" in asked.err) == (1, True)
    assert api.asked[-1].path.endswith("/complete?dry_run=true")
    assert cli("privacy", "complete", "r1", "--yes").out == "r1: completed on 2026-03-09\n"


def test_a_request_without_an_erasure_is_shown_with_its_export(cli: Cli, api: Stub) -> None:
    request = REQUEST | {"nature": "access", "law": "gdpr", "answer": None, "basis": None, "case_reference": "D1"}
    api.replies[f"GET {PATH}"] = Reply(200, request)
    shown = cli("privacy", "show", "r1")
    assert (shown.code, "answer             open" in shown.out, "export " in shown.out) == (0, True, False)
    held = request | {"partial_sent_at": "2026-03-08T11:00:00Z"}
    api.replies[f"GET {PATH}"] = Reply(200, held)
    assert "answer             partial answer sent, delayed by a legal hold" in cli("privacy", "show", "r1").out
    api.replies[f"GET {PATH}"] = Reply(200, request)
    export = {"status": "ready", "counts": {"memories.jsonl": 2, "hidden": 1}, "expires_at": "2026-04-07T11:00:00Z"}
    api.replies["GET /v1/privacy/exports/r1"] = Reply(200, export)
    shown = cli("privacy", "show", "r1")
    assert "export             ready (2 in memories.jsonl, 1 hidden)" in shown.out
    assert json.loads(cli("privacy", "show", "r1", "--json").out) == request | {"export": export}
    assert cli("privacy", "show", "nothing").code == 1
