"""Pages of a privacy request's answers: identity check, extension, letters; and of subjects with near names."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.domain.privacy.requests import NewRequest
from app.services.erasure import requests
from app.services.privacy import request_log
from app.services.security import operator_log
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said
from tests.services.due_deletions import UNFINISHED, worked

Visit = Callable[..., Visitor]

CASE = {"controller": "Example <Ltd>", "case_reference": "DSR-17"}


def test_a_request_is_recorded_checked_extended_and_answered_with_letters(api: Api, visit: Visit) -> None:
    visitor = visit()
    visitor.act("/privacy/requests", {"nature": "access", "law": "gdpr", "manner": "mail", **CASE})
    [request] = request_log.list_requests(api.tenant.tenant_id, None, 10, is_open=True)
    assert (request.controller, request.case_reference) == (CASE["controller"], CASE["case_reference"])
    place = f"/privacy/requests/{request.request_id}"
    assert visitor.act(f"{place}/identity", {"method": "document", "note": "seen <here>"}).endswith("?done=identified")
    html = visitor.page("/privacy")
    assert "seen &lt;here&gt;" in html
    assert "(identity document, by key" in said(html)
    assert visitor.act(f"{place}/extend", {"extension_reason": "many requests", "months": "1"}).endswith("extended")
    text = said(visitor.page("/privacy"))
    assert re.search(r"· first deadline [^·]+, extended, no notice recorded", text)
    assert visitor.act(f"{place}/notice").endswith("noticed")
    assert ", notice sent " in said(visitor.page("/privacy"))
    assert f"{place}/notice" not in visitor.page("/privacy")
    assert "case DSR-17" in text
    assert visitor.send(f"{place}/extend", {"extension_reason": "again"}).status_code == 409
    links = re.findall(rf'href="/ops({place}/letters/\w+)"', visitor.page("/privacy"))
    assert [link.rpartition("/")[2] for link in links] == ["acknowledgement", "extension"]
    for link in links:
        answer = visitor.get(link)
        assert answer.status_code == 200
        assert "Example &lt;Ltd&gt;" in answer.text
        assert "unsafe" not in answer.headers["content-security-policy"]
    visitor.act(f"{place}/deny", {"basis": "GDPR Art. 12(5)"})
    assert "refusal" in visitor.page("/privacy/log")
    acts = {act.act for act in operator_log.list_actions(api.tenant.tenant_id)}
    assert {"check_identity", "extend_request", "record_notice"} <= acts


def test_a_request_without_a_deadline_cannot_be_extended(api: Api, visit: Visit) -> None:
    made = request_log.create(api.tenant.tenant_id, NewRequest("access", "user"))
    assert f"{made.request_id}/extend" not in visit().page("/privacy")
    assert visit().send(f"/privacy/requests/{made.request_id}/extend", {"extension_reason": "x"}).status_code == 409


def test_subjects_are_listed_and_a_near_miss_is_proposed(api: Api, visit: Visit) -> None:
    api.remember(*({"text": f"heron {n}", "subject": "chen"} for n in range(3)), {"text": "x", "subject": "<orla>"})
    visitor = visit()
    html = visitor.page("/privacy/subjects")
    assert "<orla>" not in html
    assert "chen 3 0" in said(html)
    text = said(visitor.send("/privacy/subjects", {"subject": "Chen"}).text)
    assert "No stored memory has the subject Chen" in text
    assert "chen: 3 memories" in text
    assert "No stored memory" not in said(visitor.send("/privacy/subjects", {"subject": "chen"}).text)
    assert "Other spellings" not in said(visitor.send("/privacy/subjects", {"subject": "chen"}).text)
    api.remember({"text": "y", "subject": "Chén"})
    assert "Other spellings of this name" in said(visitor.send("/privacy/subjects", {"subject": "chen"}).text)
    unknown = said(visitor.send("/privacy/subjects", {"subject": "zoe"}).text)
    assert "No similar name was found either. Search for the family name alone" in unknown


def test_the_same_words_in_another_order_are_proposed_as_another_spelling(api: Api, visit: Visit) -> None:
    api.remember({"text": "heron", "subject": "Liam O'Brien"}, {"text": "swift", "subject": "O'Brien, Liam"})
    for name in ("Liam O'Brien", "Mr Liam O'Brien"):
        text = said(visit().send("/privacy/subjects", {"subject": name}).text).replace("&#39;", "'")
        assert "O'Brien, Liam: 1 memory; other order of the words, or a title" in text


def test_a_near_name_in_another_unicode_form_is_told_apart(api: Api, visit: Visit) -> None:
    api.remember({"text": "heron", "subject": "Zoe\u0308"})
    text = said(visit().send("/privacy/subjects", {"subject": "Zo\u00eb"}).text)
    assert "the same letters, stored in another Unicode form" in text


def test_a_request_has_its_id_on_the_pages(api: Api, visit: Visit) -> None:
    made = request_log.create(api.tenant.tenant_id, NewRequest("access", "gdpr"))
    assert f"Request ID: {made.request_id}" in said(visit().page("/privacy"))
    assert str(made.request_id) in visit().page("/privacy/log")


def test_the_list_of_subjects_goes_on_without_names_in_addresses(
    api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.dashboard.pages.erasures.PAGE", 1)
    api.remember({"text": "x", "subject": "chen"}, {"text": "x", "subject": "orla"})
    html = visit().page("/privacy/subjects")
    [following] = re.findall(r'href="/ops(/privacy/subjects\?cursor=[^"]+)"', html)
    assert "chen" not in following
    assert "orla" in visit().page(following)


def test_the_case_of_an_erasure_is_stored_and_shown(api: Api, visit: Visit) -> None:
    api.remember({"text": "x", "subject": "chen"})
    visitor = visit()
    form = {"subject": "chen", "kind": "gdpr", "legal_basis": "a", **CASE}
    place = visitor.act("/privacy/erasures", form).partition("?")[0]
    text = said(visitor.page(place))
    assert "Controller: Example <Ltd>. Case reference: DSR-17. Legal basis: GDPR Art. 17(1)(a): the" in text
    [erasure] = requests.page(api.tenant.tenant_id, None, None, 10)
    assert erasure.case_reference == "DSR-17"
    assert visitor.send("/privacy/erasures", form | {"legal_basis": "z"}).status_code == 422
    assert visitor.send("/privacy/erasures", form | {"case_reference": "about chen"}).status_code == 422


def test_an_action_on_an_erasure_does_not_name_its_person(api: Api, visit: Visit) -> None:
    visitor = visit()
    form = {"subject": "chen", "kind": "gdpr", "grace_days": "7"}
    assert visitor.send("/privacy/erasures", form | {"reason": "Chén asked"}).status_code == 422
    place = visitor.act("/privacy/erasures", form | {"reason": "letter of May"}).partition("?")[0]
    assert visitor.send(f"{place}/finish", {"reason": "CHEN called again"}).status_code == 422
    assert requests.get(api.tenant.tenant_id, UUID(place.rpartition("/")[2])).status == "grace"
    assert [act.reason for act in operator_log.list_actions(api.tenant.tenant_id)] == ["letter of May"]


def test_a_held_erasure_links_its_letter_and_a_release_says_what_it_deletes(api: Api, visit: Visit) -> None:
    [memory_id, _] = api.remember({"text": "one", "subject": "chen"}, {"text": "two", "subject": "chen"})
    visitor = visit()
    fields = {"by": "ids", "what": memory_id, "ground": "legal_claims", "reason": "case 17"}
    hold = visitor.act("/privacy/holds", fields).partition("?")[0]
    made = api.post("/v1/privacy/erasures", json={"subject": "chen", "kind": "gdpr", "grace_days": 0}).json()
    assert "Legal ground: legal claims" in said(visitor.page(hold))
    worked(api.service, UNFINISHED)
    assert "On release, 1 waiting erasure deletes 1 memory at once" in said(visitor.page(hold))
    letter = f"/privacy/requests/{made['id']}/letters/partial"
    assert letter in visitor.page(f"/privacy/erasures/{made['id']}")
    assert "We retain 1 memory" in visitor.get(letter).text
    partial = f"/privacy/requests/{made['id']}/partial"
    assert partial in visitor.page(f"/privacy/erasures/{made['id']}")
    assert visitor.act(partial, {"sent": ""}).endswith("partly_answered")
    assert partial not in visitor.page(f"/privacy/erasures/{made['id']}")
    assert "Partial answer sent" in said(visitor.page("/privacy"))
    visitor.act(f"{hold}/release", {"reason": "case 17 is settled"})
    assert "Reason for the release: case 17 is settled" in said(visitor.page(hold))


def test_a_recorded_request_is_carried_out_by_an_erasure(api: Api, visit: Visit) -> None:
    api.remember({"text": "heron", "subject": "ann"})
    visitor = visit()
    form = {"nature": "erasure", "law": "gdpr", "manner": "letter", "received": "2026-11-16", **CASE}
    visitor.act("/privacy/requests", form)
    [request] = request_log.list_requests(api.tenant.tenant_id, None, 10, is_open=True)
    assert "Carry out" in visitor.page("/privacy")
    ours = {"subject": "ann", "request_id": str(request.request_id)}
    html = visitor.send("/privacy/subjects", ours).text
    assert "No identity check is recorded." in said(html)
    assert "DSR-17" in html
    assert html.count(f'name="request_id" value="{request.request_id}"') == 2
    assert "Export or hold" not in html
    visitor.act(f"/privacy/requests/{request.request_id}/identity", {"method": "document"})
    assert "Identity checked" in said(visitor.send("/privacy/subjects", ours).text)
    place = visitor.act("/privacy/erasures", ours | {"legal_basis": "a"})
    assert place == f"/privacy/erasures/{request.request_id}?done=erasing"
    made = requests.get(api.tenant.tenant_id, request.request_id)
    assert (made.kind, made.due_at, made.arrived_at) == ("gdpr", request.due_at, request.received_at)
    assert "Carry out" not in visitor.page("/privacy")
    assert visitor.send("/privacy/erasures", ours).status_code == 409


def test_a_recorded_request_is_carried_out_by_an_export(api: Api, visit: Visit) -> None:
    api.remember({"text": "heron", "subject": "ann"})
    made = request_log.create(api.tenant.tenant_id, NewRequest("portable", "gdpr", "letter"))
    visitor, ours = visit(), {"subject": "ann", "request_id": str(made.request_id)}
    html = visitor.send("/privacy/subjects", ours).text
    assert "Erase 1 memory" not in html
    assert visitor.act("/privacy/exports", ours).endswith("exporting")
    assert "Carry out" not in visitor.page("/privacy")
    worked(api.service)
    assert request_log.get(api.tenant.tenant_id, made.request_id).answer == "done"


def test_an_erasure_has_the_day_of_receipt_of_its_form(api: Api, visit: Visit) -> None:
    api.remember({"text": "heron", "subject": "ann"})
    visit().act("/privacy/erasures", {"subject": "ann", "kind": "gdpr", "received": "2026-11-16"})
    visit().act("/privacy/exports", {"subject": "ann", "law": "gdpr", "received": "2026-11-17"})
    found = request_log.list_requests(api.tenant.tenant_id, None, 10, is_open=True)
    assert [f"{each.received_at:%d} {each.due_at:%m-%d}" for each in found] == ["17 12-17", "16 12-16"]


def test_a_request_without_time_for_a_grace_period_says_so(api: Api, visit: Visit) -> None:
    received_at = datetime.now(UTC) - timedelta(days=60)
    made = request_log.create(api.tenant.tenant_id, NewRequest("erasure", "gdpr", "letter", received_at))
    ours = {"subject": "ann", "request_id": str(made.request_id)}
    assert "starts at once and can't be cancelled" in said(visit().send("/privacy/subjects", ours).text)
