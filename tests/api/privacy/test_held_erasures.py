"""Erasures that a legal hold delays: answered by a letter, and continued by the hold's release."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import text

from app.domain.privacy.legal_hold import HOLD_GROUNDS
from app.services.privacy import deadlines
from app.store.core import database
from tests.api.caller import Api, fields
from tests.services.due_deletions import UNFINISHED, worked

HOLDS = "/v1/privacy/holds"
ERASURES = "/v1/privacy/erasures"
REQUESTS = "/v1/privacy/requests"
_MOVE_BACK = text("UPDATE privacy_requests SET received_at = received_at - :age, due_at = due_at - :age")


class Case:
    """Three memories of a person, one of them under a legal hold, and the person's erasure."""

    def __init__(self, api: Api, law: str = "gdpr", **hold: Any) -> None:
        self.api = api
        texts = ("Ann sued us", "Ann likes tea", "Ann moved")
        ids = api.service.send(api.tenant.tenant_id, *({"text": text, "subject": "ann"} for text in texts))
        api.service.work()
        placed = api.post(HOLDS, json={"reason": "case 17", "ids": [str(ids[0])]} | hold)
        assert placed.status_code == 201, placed.text
        self.hold: dict[str, Any] = placed.json()
        self.memory_id = str(ids[0])
        asked = {"subject": "ann", "kind": law, "grace_days": 0, "case_reference": "DSR-17"}
        self.preview: dict[str, Any] = api.post(ERASURES, json=asked | {"dry_run": True}).json()
        self.erasure_id: str = api.post(ERASURES, json=asked).json()["id"]
        worked(api.service, UNFINISHED)

    def letter(self, name: str = "partial", form: str = "text") -> Any:
        return self.api.get(f"{REQUESTS}/{self.erasure_id}/letters/{name}?format={form}")

    def erasure(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{ERASURES}/{self.erasure_id}").json()
        return found


def test_a_held_erasure_is_answered_by_a_letter(api: Api) -> None:
    case = Case(api, ground="legal_claims")
    assert case.erasure()["status"] == "held"
    assert "Ebbing-Open-Work" not in case.letter().headers
    text = case.letter().text
    assert "Partial answer to the request" in text
    assert "Case reference: DSR-17" in text
    assert "we erased 2 memories, together with the data derived from them" in text
    assert f"We retain 1 memory under legal hold {case.hold['id']}" in text
    assert "Legal ground: establishment, exercise or defence of legal claims (GDPR Art. 17(3)(e))." in text
    assert "when the legal hold is released" in text
    assert "supervisory authority" in text
    assert "We retain 1 memory" in case.letter(form="html").text
    assert api.post(f"{HOLDS}/{case.hold['id']}/release").is_success
    worked(api.service, UNFINISHED)
    assert case.erasure()["status"] == "verified"
    assert case.letter().status_code == 409
    assert "We erased the data" in case.letter("completion").text


def test_a_partial_answer_meets_the_deadline_of_a_held_erasure(api: Api) -> None:
    case = Case(api)
    assert case.letter().headers["Ebbing-Open-Work"] == f"legal hold {case.hold['id']} without a legal ground"
    place = f"{REQUESTS}/{case.erasure_id}"
    with database.tenant(api.tenant.tenant_id) as tx:
        tx.execute(_MOVE_BACK, {"age": timedelta(days=40)})

    def late() -> int:
        tallies = api.get(f"{REQUESTS}/summary?after=2020-01-01T00:00:00Z").json()["tallies"]
        return sum(each["late"] for each in tallies)

    def urgent() -> int:
        return deadlines.next_deadlines(api.tenant.tenant_id).requests

    assert (late(), urgent()) == (1, 1)
    future = {"sent_at": (datetime.now(UTC) + timedelta(days=1)).isoformat()}
    assert fields(api.post(f"{place}/partial", json=future)) == ["sent_at"]
    in_time = {"sent_at": (datetime.now(UTC) - timedelta(days=20)).isoformat()}
    answered = api.post(f"{place}/partial", json=in_time).json()
    assert (answered["answer"], answered["days_left"], late(), urgent()) == (None, None, 0, 0)
    assert answered["partial_recorded_by"] == api.service.one(
        "SELECT key_id FROM api_keys WHERE tenant_id = %s", api.tenant.tenant_id
    )
    again = api.post(f"{place}/partial")
    assert (again.status_code, "already recorded" in again.json()["detail"]) == (409, True)
    assert api.service.one("SELECT count(*) FROM audit WHERE action = 'request_partly_answered'") == 1
    page = api.get(f"{ERASURES}/{case.erasure_id}/report?format=html").text
    assert "the requester was sent a partial answer, on " in page
    assert api.post(f"{HOLDS}/{case.hold['id']}/release").is_success
    worked(api.service, UNFINISHED)
    [done] = api.get(REQUESTS).json()["requests"]
    assert (done["answer"], done["partial_sent_at"], late()) == ("done", answered["partial_sent_at"], 0)


def test_a_request_without_a_held_erasure_has_no_partial_answer(api: Api) -> None:
    made = api.post(ERASURES, json={"subject": "bob", "kind": "gdpr"}).json()
    answer = api.post(f"{REQUESTS}/{made['id']}/partial")
    assert (answer.status_code, "delayed by a legal hold" in answer.json()["detail"]) == (409, True)


def test_no_refusal_of_a_held_erasure_leads_in_a_circle(api: Api) -> None:
    case = Case(api)
    answers = [
        api.post(f"{REQUESTS}/{case.erasure_id}/deny", json={"basis": "GDPR Art. 17(3)(e)"}),
        api.post(f"{REQUESTS}/{case.erasure_id}/complete"),
        api.post(f"{ERASURES}/{case.erasure_id}/cancel"),
        case.letter("completion"),
        case.letter("refusal"),
    ]
    assert [answer.status_code for answer in answers] == [409] * 5
    assert all("send the letter `partial`" in answer.json()["detail"] for answer in answers)
    assert "Legal ground: ____" in case.letter().text, "the hold records no ground"


@pytest.mark.parametrize("law", ["ccpa", "user"])
def test_a_letter_cites_no_article_of_another_law(api: Api, law: str) -> None:
    text = Case(api, law, ground="legal_obligation").letter().text
    assert "Legal ground: compliance with a legal obligation." in text
    assert "GDPR" not in text


def test_a_letter_about_an_erasure_that_is_not_held_is_refused(api: Api) -> None:
    made = api.post(ERASURES, json={"subject": "bob", "kind": "gdpr"}).json()
    answer = api.get(f"{REQUESTS}/{made['id']}/letters/partial")
    assert (answer.status_code, "delayed by a legal hold" in answer.json()["detail"]) == (409, True)


def test_the_ground_of_a_hold_is_stored_and_shown(api: Api) -> None:
    case = Case(api, ground="archiving")
    assert api.get(f"{HOLDS}/{case.hold['id']}").json()["ground"] == "archiving"
    assert [each["ground"] for each in case.preview["holds"]] == ["archiving"]
    report = api.get(f"{ERASURES}/{case.erasure_id}/report").json()
    [kept] = [row for row in report["kept"] if row.get("code") == "held"]
    assert kept["values"]["ground"] == "archiving"
    page = api.get(f"{ERASURES}/{case.erasure_id}/report?format=html").text
    assert "Legal ground: archiving in the public interest, research or statistics (GDPR Art. 17(3)(d))." in page
    assert fields(api.post(HOLDS, json={"reason": "x", "subject": "ann", "ground": "revenge"})) == ["ground"]
    assert len(HOLD_GROUNDS) == 6


def test_a_ground_that_is_added_later_is_stated_by_letter_report_and_page(api: Api) -> None:
    case = Case(api)
    assert "archiving" not in case.letter().text
    hold = f"{HOLDS}/{case.hold['id']}"
    done = api.patch(hold, json={"ground": "archiving", "reason": "case 17, second claim"})
    assert done.status_code == 200, done.text
    [change] = api.get(hold).json()["changes"]
    assert (change["ground"], change["reason"]) == (None, case.hold["reason"])
    assert done.json()["changes"] == [change]
    report = api.get(f"{ERASURES}/{case.erasure_id}/report").json()
    [kept] = [row for row in report["kept"] if row.get("code") == "held"]
    assert kept["values"]["ground"] == "archiving"
    assert [each["code"] for each in report["operator_texts"]] == ["hold", "correction"]
    page = api.get(f"{ERASURES}/{case.erasure_id}/report?format=html").text
    assert "Legal ground: archiving in the public interest" in page
    assert "whose ground or reason was corrected on" in page
    assert "Legal ground: archiving in the public interest" in case.letter().text
    assert fields(api.patch(hold, json={})) == ["ground"]
    assert fields(api.patch(hold, json={"ground": "revenge"})) == ["ground"]


def test_a_release_says_which_erasures_it_continues_and_stores_its_reason(api: Api) -> None:
    case = Case(api)
    other = api.post(HOLDS, json={"reason": "case 18", "subject": "ann"}).json()["id"]
    shared = api.get(f"{HOLDS}/{case.hold['id']}").json()
    assert shared["waiting"] == {"erasures": 0, "memories": 0}, "another hold covers the memory too"
    first = api.post(f"{HOLDS}/{other}/release").json()
    assert (first["release_reason"], first["continued"]["erasures"]) == (None, 0)
    assert api.get(f"{HOLDS}/{case.hold['id']}").json()["waiting"] == {"erasures": 1, "memories": 1}
    done = api.post(f"{HOLDS}/{case.hold['id']}/release", json={"reason": "case 17 is settled"}).json()
    assert (done["release_reason"], done["continued"]) == ("case 17 is settled", {"erasures": 1, "memories": 1})
    worked(api.service, UNFINISHED)
    assert api.service.one("SELECT count(*) FROM memories WHERE memory_id = %s", UUID(case.memory_id)) == 0


def test_a_reason_of_a_release_does_not_name_the_subject(api: Api) -> None:
    hold = api.post(HOLDS, json={"reason": "case 17", "subject": "ann"}).json()["id"]
    refused = api.post(f"{HOLDS}/{hold}/release", json={"reason": "ANN agreed"})
    assert (refused.status_code, fields(refused)) == (422, ["reason"])
    assert fields(api.post(HOLDS, json={"reason": "claim of Ann", "subject": "ann"})) == ["reason"]


def test_an_erasure_shows_the_number_held_the_holds_and_the_case(api: Api) -> None:
    case = Case(api, ground="legal_claims")
    second = api.post(HOLDS, json={"reason": "case 18", "subject": "ann"}).json()
    [listed] = api.get(ERASURES).json()["erasures"]
    for found in (listed, case.erasure()):
        assert (found["held"], found["case_reference"]) == (1, "DSR-17")
        assert [(hold["hold_id"], hold["memories"], hold["ground"]) for hold in found["holds"]] == [
            (case.hold["id"], 1, "legal_claims"),
            (second["id"], 1, None),
        ]
    for hold in (case.hold, second):
        api.post(f"{HOLDS}/{hold['id']}/release")
    worked(api.service, UNFINISHED)
    assert (case.erasure()["held"], case.erasure()["holds"]) == (0, [])


@pytest.mark.parametrize(
    ("law", "cited", "foreign"), [("gdpr", "GDPR Art. 5(2)", "CCR"), ("ccpa", "11 CCR 7101", "GDPR"), ("user", "", "(")]
)
def test_a_report_cites_only_the_law_of_its_request(api: Api, law: str, cited: str, foreign: str) -> None:
    asked = api.post(ERASURES, json={"subject": "ann", "kind": law, "grace_days": 0}).json()
    worked(api.service, UNFINISHED)
    report = api.get(f"{ERASURES}/{asked['id']}/report").json()
    [case] = [row["ground"] for row in report["kept"] if row["code"] == "case"]
    [recipients] = [row["goes"] for row in report["elsewhere"] if row["code"] == "recipients"]
    assert cited in case
    assert foreign not in case + recipients


# --- Ids of memories ---


def test_a_repeated_deletion_has_the_same_answer(api: Api) -> None:
    [memory_id] = api.remember({"text": "one"})
    first = api.delete(f"/v1/memories/{memory_id}")
    again = api.delete(f"/v1/memories/{memory_id}")
    assert (first.status_code, again.status_code) == (202, 202)
    assert again.json() == first.json()
    assert first.json()["status"] == "grace"
    assert len(api.get(ERASURES).json()["erasures"]) == 1


def test_a_deletion_is_cancelled_by_the_id_of_its_memory(api: Api) -> None:
    [memory_id] = api.remember({"text": "one"})
    deletion = api.delete(f"/v1/memories/{memory_id}").json()
    refused = api.post(f"/v1/memories/{memory_id}/restore")
    assert (refused.status_code, deletion["erasure_id"] in refused.json()["detail"]) == (404, True)
    assert api.get(f"{ERASURES}/{memory_id}").json()["id"] == deletion["erasure_id"]
    cancelled = api.post(f"{ERASURES}/{memory_id}/cancel").json()
    assert (cancelled["id"], cancelled["status"]) == (deletion["erasure_id"], "cancelled")
    assert api.get(f"/v1/memories/{memory_id}").status_code == 200
    assert api.post(f"{ERASURES}/{memory_id}/cancel").status_code == 404


def test_a_memorys_id_does_not_cancel_the_erasure_of_a_person(api: Api) -> None:
    [memory_id, _] = api.remember({"text": "one", "subject": "ann"}, {"text": "two", "subject": "ann"})
    erasure_id = api.post(ERASURES, json={"subject": "ann"}).json()["id"]
    refused = api.post(f"{ERASURES}/{memory_id}/cancel")
    assert (refused.status_code, erasure_id in refused.json()["detail"]) == (409, True)
    for answer in (api.delete(f"/v1/memories/{memory_id}"), api.post(f"/v1/memories/{memory_id}/restore")):
        assert (answer.status_code, erasure_id in answer.text) == (404, False), "writers don't learn of the erasure"
