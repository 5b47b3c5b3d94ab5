"""Identity checks, extensions and letters of privacy requests."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from app.domain.privacy.documents.texts import ENGLISH
from app.domain.privacy.requests import IdentityMethod
from app.services.privacy import export_requests
from app.store.core import database
from app.store.privacy import subject_data
from tests.api.caller import Api, fields
from tests.services.due_deletions import UNFINISHED, worked

REQUESTS = "/v1/privacy/requests"
ERASURES = "/v1/privacy/erasures"
RECEIVED = datetime.now(UTC) - timedelta(days=20)
CASE = {"controller": "Example Ltd, Dublin", "case_reference": "DSR-17"}


def record(api: Api, law: str = "gdpr", nature: str = "access", **more: Any) -> dict[str, Any]:
    asked = {"nature": nature, "law": law, "received_at": RECEIVED.isoformat()}
    made: dict[str, Any] = api.post(REQUESTS, json=asked | CASE | more).json()
    return made


def path(request: dict[str, Any]) -> str:
    return f"{REQUESTS}/{request.get('request_id') or request['erasure_id']}"


def notes(api: Api) -> int:
    count: int = api.service.one("SELECT count(*) FROM privacy_requests WHERE identity_note IS NOT NULL")
    return count


def test_an_identity_check_is_recorded_with_its_method_time_and_key(api: Api) -> None:
    made = record(api)
    checked = api.post(f"{path(made)}/identity", json={"method": "document", "note": "passport seen"}).json()
    assert (checked["identity_method"], checked["identity_note"]) == ("document", "passport seen")
    key_id = api.service.one("SELECT key_id FROM api_keys WHERE tenant_id = %s", api.tenant.tenant_id)
    assert checked["identity_checked_by"] == key_id
    earlier = (RECEIVED + timedelta(days=1)).isoformat()
    again = api.post(f"{path(made)}/identity", json={"method": "account", "checked_at": earlier}).json()
    assert (again["identity_method"], again["identity_note"]) == ("account", None)
    [entry, _] = api.service.rows("SELECT details::text FROM audit WHERE action = 'identity_checked'")
    assert "passport" not in entry[0]
    future = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    refused = api.post(f"{path(made)}/identity", json={"method": "account", "checked_at": future})
    assert fields(refused) == ["checked_at"]
    assert api.post(f"{path(made)}/identity", json={"method": "guess"}).status_code == 422


@pytest.mark.parametrize("answer", ["complete", "deny"])
def test_the_note_is_deleted_when_the_request_is_answered(api: Api, answer: str) -> None:
    made = record(api)
    api.post(f"{path(made)}/identity", json={"method": "document", "note": "passport seen"})
    done = api.post(f"{path(made)}/{answer}", json={"basis": "Art. 12(5)"} if answer == "deny" else None).json()
    assert (done["identity_method"], done["identity_note"]) == ("document", None)
    assert api.post(f"{path(made)}/identity", json={"method": "account"}).status_code == 409


def test_an_erasure_deletes_the_notes_about_its_subject(api: Api) -> None:
    api.service.configure(master_key="a master key of tests, as long as it must be")
    api.remember({"text": "one", "subject": "ann"}, {"text": "two", "subject": "bob"})
    export = api.post("/v1/privacy/exports", json={"subject": "ann"}).json()
    for request, note in (
        ({"request_id": export["id"]}, "at the desk"),
        (record(api), "the passport of ANN, seen"),
        (record(api), "the passport of Joanna, seen"),
    ):
        assert api.post(f"{path(request)}/identity", json={"method": "document", "note": note}).is_success
    asked = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr", "grace_days": 0}).json()
    assert api.post(f"{path(asked)}/identity", json={"method": "document", "note": "also hers"}).is_success
    export_requests.forget(api.tenant.tenant_id, "ann")
    worked(api.service, UNFINISHED)
    assert api.get(f"{ERASURES}/{asked['erasure_id']}").json()["status"] == "verified"
    left = api.service.rows("SELECT identity_note FROM privacy_requests WHERE identity_note IS NOT NULL")
    assert left == [("the passport of Joanna, seen",)]
    report = api.get(f"{ERASURES}/{asked['erasure_id']}/report").json()
    assert report["left"]["notes on identity checks"] == 0


def test_a_note_that_an_older_version_left_is_deleted_with_the_next_erasure(api: Api) -> None:
    made = record(api)
    api.post(f"{path(made)}/identity", json={"method": "document", "note": "seen"})
    api.service.rows("UPDATE privacy_requests SET answer = 'done', answered_at = now()")
    api.remember({"text": "one", "subject": "ann"})
    api.post(ERASURES, json={"subject": "ann", "grace_days": 0})
    worked(api.service, UNFINISHED)
    assert notes(api) == 0


def test_an_extension_moves_the_deadline_of_the_request_and_of_its_erasure(api: Api) -> None:
    api.remember({"text": "one", "subject": "ann"})
    asked = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr"} | CASE).json()
    extended = api.post(f"{path(asked)}/extend", json={"reason": "many requests", "months": 1}).json()
    assert extended["first_due_at"] == asked["due_at"]
    shown = api.get(f"{ERASURES}/{asked['erasure_id']}").json()
    assert shown["due_at"] == extended["due_at"] > asked["due_at"]
    assert shown["erase_after"] == asked["erase_after"]
    assert extended["days_left"] > 50
    again = api.post(f"{path(asked)}/extend", json={"reason": "more"})
    assert (again.status_code, "already extended" in again.text) == (409, True)
    backup = api.service.rows("SELECT asked->>'due_at', logged->>'extension_reason' FROM ebbing_keys.erasure_requests")
    assert [(datetime.fromisoformat(due), reason) for due, reason in backup] == [
        (datetime.fromisoformat(extended["due_at"]), "many requests")
    ]


def test_the_backup_of_a_request_contains_no_note(api: Api) -> None:
    asked = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr"}).json()
    api.post(f"{path(asked)}/identity", json={"method": "document", "note": "passport"})
    api.post(f"{path(asked)}/extend", json={"reason": "many requests"})
    assert "passport" not in str(api.service.rows("SELECT logged::text FROM ebbing_keys.erasure_requests"))


def test_the_ccpa_allows_45_further_days(api: Api) -> None:
    made = record(api, "ccpa")
    assert fields(api.post(f"{path(made)}/extend", json={"reason": "x", "months": 1})) == ["months"]
    extended = api.post(f"{path(made)}/extend", json={"reason": "x"}).json()
    assert datetime.fromisoformat(extended["due_at"]).date() - RECEIVED.date() == timedelta(days=90)


@pytest.mark.parametrize(
    ("law", "body", "status"),
    [
        ("user", {"reason": "x"}, 409),
        ("gdpr", {}, 422),
        ("gdpr", {"reason": "  "}, 422),
        ("gdpr", {"reason": "x", "months": 3}, 422),
        ("gdpr", {"reason": "x", "notified_at": (RECEIVED - timedelta(days=1)).isoformat()}, 422),
        ("gdpr", {"reason": "x", "notified_at": (datetime.now(UTC) + timedelta(days=1)).isoformat()}, 422),
    ],
)
def test_an_extension_that_the_law_does_not_allow_is_refused(api: Api, law: str, body: Any, status: int) -> None:
    made = record(api, law)
    assert api.post(f"{path(made)}/extend", json=body).status_code == status
    [shown] = api.get(REQUESTS).json()["requests"]
    assert (shown["due_at"], shown["extended_at"]) == (made["due_at"], None)


def test_an_extension_after_the_deadline_is_refused_unless_the_notice_was_in_time(api: Api) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=40)
    made = record(api, received_at=long_ago.isoformat())
    assert fields(api.post(f"{path(made)}/extend", json={"reason": "x"})) == ["notified_at"]
    in_time = {"reason": "x", "notified_at": (long_ago + timedelta(days=3)).isoformat()}
    assert api.post(f"{path(made)}/extend", json=in_time).json()["days_left"] > 0


def test_letters_state_the_case_and_follow_the_state_of_the_request(api: Api) -> None:
    made = record(api)

    def letter(name: str, form: str = "text") -> Any:
        return api.get(f"{path(made)}/letters/{name}?format={form}")

    text = letter("acknowledgement").text
    for part in ("Example Ltd, Dublin", "DSR-17", "access to personal data", "If we have reasonable doubts"):
        assert part in text
    for early in ("extension", "refusal", "completion"):
        assert letter(early).status_code == 409
    api.post(f"{path(made)}/identity", json={"method": "account", "note": "by heart"})
    text = letter("acknowledgement").text
    assert "We checked your identity on" in text
    assert "by heart" not in text
    api.post(f"{path(made)}/extend", json={"reason": "many <requests>"})
    assert "Reason: many <requests>" in letter("extension").text
    page = letter("extension", "html")
    assert "many &lt;requests&gt;" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "Art. 12(3)" in page.text
    api.post(f"{path(made)}/deny", json={"basis": "GDPR Art. 12(5)(b)"})
    refusal = letter("refusal").text
    assert "Legal ground: GDPR Art. 12(5)(b)" in refusal
    assert "supervisory authority" in refusal
    assert letter("completion").status_code == 409
    assert letter("acknowledgement").status_code == 409
    assert letter("poem").status_code == 422
    assert api.get(f"{REQUESTS}/{uuid4()}/letters/acknowledgement").status_code == 404


@pytest.mark.parametrize("nature", ["erasure", "access", "portable", "correction", "restriction", "objection"])
@pytest.mark.parametrize("law", ["user", "gdpr", "ccpa"])
def test_each_kind_of_request_has_its_completion(api: Api, nature: str, law: str) -> None:
    made = record(api, law, nature)
    api.post(f"{path(made)}/complete")
    text = api.get(f"{path(made)}/letters/completion").text
    assert ("supervisory authority" in text) == (law == "gdpr")
    assert ("purposes of the processing" in text) == ((nature, law) == ("access", "gdpr"))
    assert "{" not in text


@pytest.mark.parametrize("nature", ["erasure", "access", "portable", "correction", "restriction", "objection"])
def test_only_the_receipt_of_a_request_for_data_announces_a_search(api: Api, nature: str) -> None:
    made = record(api, "gdpr", nature)
    text = api.get(f"{path(made)}/letters/acknowledgement").text
    assert ("We will search all systems" in text) == (nature in {"erasure", "access", "portable"})
    assert "inform you in writing of the result." in text


def test_only_an_erasure_in_the_service_encloses_its_report(api: Api) -> None:
    made = record(api, "gdpr", "erasure")
    api.post(f"{path(made)}/complete")
    text = api.get(f"{path(made)}/letters/completion").text
    assert "We erased the data by " in text
    assert "report" not in text
    api.remember({"text": "one heron", "subject": "ann"})
    erasure = {"subject": "ann", "kind": "gdpr", "grace_days": 0}
    erasure_id = api.post("/v1/privacy/erasures", json=erasure).json()["erasure_id"]
    worked(api.service, UNFINISHED)
    text = api.get(f"{REQUESTS}/{erasure_id}/letters/completion").text
    made_at = api.get(f"/v1/privacy/erasures/{erasure_id}/report").json()["made_at"]
    assert f"We erased the data. The enclosed report, dated {ENGLISH.day(made_at)}, lists what was found" in text


def test_an_erasure_that_found_nothing_says_so(api: Api) -> None:
    erasure_id = api.post(ERASURES, json={"subject": "nobody", "kind": "gdpr", "grace_days": 0}).json()["erasure_id"]
    worked(api.service, UNFINISHED)
    text = api.get(f"{REQUESTS}/{erasure_id}/letters/completion").text
    assert "We searched our memory service for entries about you under the name or ID given in your request" in text
    assert "We erased" not in text
    page = api.get(f"{ERASURES}/{erasure_id}/report?format=html").text
    assert "No memory in scope was found." in page
    assert "The last backup" not in page


@pytest.mark.parametrize("scope", ["filter", "ids", "thread"])
def test_an_erasure_of_a_part_that_found_nothing_does_not_deny_all_data(api: Api, scope: str) -> None:
    [memory_id, _] = api.remember({"text": "one heron", "subject": "ann"}, {"text": "two herons", "subject": "ann"})
    if scope == "ids":
        assert api.delete(f"/v1/memories/{memory_id}").is_success
        api.post(ERASURES, json={"ids": [memory_id], "grace_days": 0})
        worked(api.service, UNFINISHED)
    scopes: dict[str, dict[str, Any]] = {
        "filter": {"subject": "ann", "filter": {"before": "2025-01-01T00:00:00Z"}},
        "ids": {"ids": [memory_id]},
        "thread": {"thread": "chat-77"},
    }
    answer = api.post(ERASURES, json=scopes[scope] | {"kind": "gdpr", "grace_days": 0})
    assert answer.is_success, answer.text
    worked(api.service, UNFINISHED)
    erasure_id = answer.json()["erasure_id"]
    assert api.get(f"{ERASURES}/{erasure_id}/report").json()["counts"]["in_scope"] == 0
    text = api.get(f"{REQUESTS}/{erasure_id}/letters/completion").text
    assert "entries about you" not in text
    assert "We erased" not in text
    assert "We searched our memory service for the data that this erasure covers and found none." in text


@pytest.mark.parametrize("method", IdentityMethod.__args__)  # type: ignore[attr-defined]
def test_each_method_of_an_identity_check_is_accepted(api: Api, method: str) -> None:
    made = record(api)
    assert api.post(f"{path(made)}/identity", json={"method": method}).json()["identity_method"] == method


def test_an_access_export_contains_the_identity_checks_and_the_case(api: Api) -> None:
    api.remember({"text": "one", "subject": "ann"})
    asked = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr"} | CASE).json()
    api.post(f"{path(asked)}/identity", json={"method": "document", "note": "passport seen"})
    with database.tenant(api.tenant.tenant_id) as tx:
        lines = [json.loads(line) for line in subject_data.list_service_data(tx, api.tenant.tenant_id, "ann")]
        others = subject_data.list_service_data(tx, api.tenant.tenant_id, "bob")
    [erasure] = [line for line in lines if "erasure" in line]
    [check] = [line for line in lines if "request" in line]
    assert erasure["case_reference"] == "DSR-17"
    assert (check["request"], check["identity_note"]) == (asked["erasure_id"], "passport seen")
    assert "passport" not in str(others)


def test_an_extension_and_its_notice_are_two_facts(api: Api) -> None:
    made = record(api)
    refused = api.post(f"{path(made)}/notice")
    assert (refused.status_code, "record the extension first" in refused.text) == (409, True)
    extended = api.post(f"{path(made)}/extend", json={"reason": "many requests"}).json()
    assert extended["extended_at"] > made["received_at"]
    assert [extended[name] for name in ("notice_sent_at", "notice_recorded_at", "notice_recorded_by")] == [None] * 3
    for sent_at in (RECEIVED - timedelta(days=1), datetime.now(UTC) + timedelta(days=1)):
        assert fields(api.post(f"{path(made)}/notice", json={"sent_at": sent_at.isoformat()})) == ["sent_at"]
    sent_at = RECEIVED + timedelta(days=2)
    noted = api.post(f"{path(made)}/notice", json={"sent_at": sent_at.isoformat()}).json()
    key_id = api.service.one("SELECT key_id FROM api_keys WHERE tenant_id = %s", api.tenant.tenant_id)
    assert (datetime.fromisoformat(noted["notice_sent_at"]), noted["notice_recorded_by"]) == (sent_at, key_id)
    assert noted["notice_recorded_at"] >= extended["extended_at"] == noted["extended_at"]
    assert api.post(f"{path(made)}/notice").status_code == 409
    assert api.service.one("SELECT count(*) FROM audit WHERE action = 'extension_notified'") == 1


def test_a_notice_that_was_sent_already_is_given_with_the_extension(api: Api) -> None:
    made, sent_at = record(api), RECEIVED + timedelta(days=3)
    body = {"reason": "x", "notified_at": sent_at.isoformat()}
    extended = api.post(f"{path(made)}/extend", json=body).json()
    assert (
        datetime.fromisoformat(extended["notice_sent_at"]) == sent_at < datetime.fromisoformat(extended["extended_at"])
    )


def test_the_backup_of_a_request_has_the_notice(api: Api) -> None:
    asked = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr"}).json()
    api.post(f"{path(asked)}/extend", json={"reason": "many requests"})
    noted = "SELECT logged->>'notice_sent_at' IS NOT NULL FROM ebbing_keys.erasure_requests"
    assert api.service.rows(noted) == [(False,)]
    api.post(f"{path(asked)}/notice")
    assert api.service.rows(noted) == [(True,)]


def test_a_report_says_whether_a_notice_is_recorded(api: Api) -> None:
    asked = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr", "grace_days": 0}).json()
    api.post(f"{path(asked)}/extend", json={"reason": "many requests"})
    worked(api.service, UNFINISHED)
    report = f"{ERASURES}/{asked['erasure_id']}/report"
    assert api.get(report).json()["extension"]["notified_at"] is None
    assert "No notice to the requester is recorded" in api.get(f"{report}?format=html").text
    assert api.post(f"{path(asked)}/notice").is_success, "the erasure has answered the request since"
    assert "the requester was notified on" in api.get(f"{report}?format=html").text


def test_a_dry_run_of_an_extension_shows_the_new_deadline_and_stores_nothing(api: Api) -> None:
    made = record(api)
    would = api.post(f"{path(made)}/extend", json={"reason": "x", "dry_run": True}).json()
    assert (would["first_due_at"], would["due_at"] > made["due_at"]) == (made["due_at"], True)
    [shown] = api.get(REQUESTS).json()["requests"]
    assert (shown["due_at"], shown["first_due_at"], shown["extension_reason"]) == (made["due_at"], None, None)


def test_an_identity_check_before_the_receipt_is_refused(api: Api) -> None:
    made = record(api)
    checked_at = (RECEIVED - timedelta(minutes=1)).isoformat()
    refused = api.post(f"{path(made)}/identity", json={"method": "account", "checked_at": checked_at})
    assert fields(refused) == ["checked_at"]
    assert f"before the receipt of the request ({RECEIVED:%Y-%m-%d %H:%M} UTC)" in refused.text


@pytest.mark.parametrize("answer", ["complete", "deny"])
def test_an_answer_confirms_no_receipt(api: Api, answer: str) -> None:
    silent, confirmed = record(api), record(api)
    api.post(f"{path(confirmed)}/confirm")
    for made in (silent, confirmed):
        assert api.post(f"{path(made)}/{answer}", json={"basis": "x"} if answer == "deny" else None).is_success
    log = {each["request_id"]: each for each in api.get(REQUESTS).json()["requests"]}
    assert log[silent["request_id"]]["confirmed_at"] is None
    assert log[confirmed["request_id"]]["confirmed_at"] is not None


def test_a_recorded_request_is_read_and_carried_out_through_the_api(api: Api) -> None:
    api.remember({"text": "heron", "subject": "ann"})
    made = record(api, "gdpr", "erasure")
    assert api.get(path(made)).json() == made
    ours = {"subject": "ann", "request_id": made["id"]}
    would = api.post(ERASURES, json=ours | {"dry_run": True}).json()
    assert (would["received_at"], would["due_at"]) == (made["received_at"], made["due_at"])
    assert fields(api.post(ERASURES, json=ours | {"received_at": made["received_at"]})) == ["received_at"]
    assert fields(api.post(ERASURES, json=ours | {"kind": "ccpa"})) == ["kind"]
    assert fields(api.post(ERASURES, json=ours | {"request_id": str(uuid4())})) == ["request_id"]
    done = api.post(ERASURES, json=ours).json()
    assert (done["id"], done["kind"], done["received_at"]) == (made["id"], "gdpr", made["received_at"])
    assert (done["controller"], done["case_reference"]) == tuple(CASE.values())
    assert api.post(ERASURES, json=ours).status_code == 409
    assert [each["id"] for each in api.get(REQUESTS).json()["requests"]] == [made["id"]]
    future = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    assert fields(api.post("/v1/privacy/exports", json={"subject": "bob", "received_at": future})) == ["received_at"]
