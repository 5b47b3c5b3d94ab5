"""A person's data on the dashboard: view, export, hold, and erasure up to its report."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from collections.abc import Callable
from uuid import UUID
from zipfile import ZipFile

import pytest

from app.domain.privacy.legal_hold import Scope
from app.services.erasure import mentions, requests
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import export_requests, legal_holds
from app.services.security import operator_log
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said
from tests.services.due_deletions import worked

Visit = Callable[..., Visitor]

ANN = '<script>alert("ann")</script>'


@pytest.fixture
def ids(api: Api) -> list[str]:
    """Ids of three memories about Ann and one about Bob."""
    about = [{"text": f"Ann likes number {n}", "subject": ANN} for n in range(3)]
    return api.remember(*about, {"text": "Bob hums", "subject": "bob"})


def the_erasure(api: Api) -> UUID:
    [found] = requests.page(api.tenant.tenant_id, None, None, 10)
    return found.erasure_id


def test_a_person_is_looked_at_without_being_named_in_an_address(api: Api, visit: Visit, ids: list[str]) -> None:
    visitor = visit()
    before = api.service.rows("SELECT count(*) FROM audit")
    answer = visitor.send("/privacy/subjects", {"subject": ANN, "reason": ""})
    assert api.service.rows("SELECT count(*) FROM audit") == before
    assert requests.page(api.tenant.tenant_id, None, None, 10) == []
    assert answer.status_code == 200
    text = said(answer.text)
    assert f"About {ANN}" in text
    assert "An erasure would cover 3 memories . This page hasn't requested an erasure." in text
    assert "<script>alert" not in answer.text
    api.delete(f"/v1/memories/{ids[0]}")
    after = said(visitor.send("/privacy/subjects", {"subject": ANN, "reason": ""}).text)
    assert "An erasure would cover 2 memories . 1 more is already being deleted." in after


def test_nobody_known_is_nothing(visit: Visit) -> None:
    assert "An erasure would cover 0 memories" in said(visit().send("/privacy/subjects", {"subject": "nobody"}).text)
    assert visit().send("/privacy/subjects", {"subject": ""}).status_code == 422


def test_an_erasure_is_asked_for_and_cancelled(api: Api, visit: Visit, ids: list[str]) -> None:
    visitor = visit()
    form = {"subject": ANN, "kind": "gdpr", "grace_days": "3", "reason": "a letter of the 3rd"}
    where = visitor.act("/privacy/erasures", form)
    which = the_erasure(api)
    assert where == f"/privacy/erasures/{which}?done=erasing"
    assert api.get(f"/v1/memories/{ids[0]}").status_code == 404
    found = requests.get(api.tenant.tenant_id, which)
    assert (found.kind, found.reason, (found.erase_after - found.requested_at).days) == (
        "gdpr",
        "a letter of the 3rd",
        3,
    )
    html = visitor.page(f"/privacy/erasures/{which}")
    assert "grace period" in html
    assert ANN not in html
    assert ANN in said(html.replace("&#34;", '"'))
    assert visitor.get(f"/privacy/erasures/{which}/report").status_code == 409
    assert visitor.act(f"/privacy/erasures/{which}/cancel").endswith("?done=cancelled")
    assert api.get(f"/v1/memories/{ids[0]}").status_code == 200
    assert {act.act for act in operator_log.list_actions(api.tenant.tenant_id)} == {"request_erasure", "cancel_erasure"}
    assert visitor.send(f"/privacy/erasures/{which}/finish").status_code == 409


def test_an_erasure_is_finished_without_the_rest_of_its_grace(api: Api, visit: Visit, ids: list[str]) -> None:
    visitor = visit()
    visitor.act("/privacy/erasures", {"subject": ANN, "kind": "ccpa"})
    which = the_erasure(api)
    worked(api.service)
    assert requests.get(api.tenant.tenant_id, which).status == "grace"
    assert "under legal hold" not in said(visitor.page(f"/privacy/erasures/{which}"))
    assert visitor.act(f"/privacy/erasures/{which}/finish").endswith("?done=finishing")
    worked(api.service)
    found = requests.get(api.tenant.tenant_id, which)
    assert found.status == "verified"
    html = visitor.page(f"/privacy/erasures/{which}")
    steps = len(found.plan or ())
    assert f"{steps} of {steps}" in said(html)
    [finished] = [act for act in operator_log.list_actions(api.tenant.tenant_id) if act.act == "finish_erasure"]
    assert f"early, by key {finished.actor}" in said(html)
    assert f"Request ID: {which}" in said(html)
    assert ANN not in said(html)
    assert "verified" in visitor.page("/privacy/erasures")
    assert visitor.send(f"/privacy/erasures/{which}/finish").status_code == 409
    assert api.service.one("SELECT count(*) FROM jobs WHERE kind = 'erase' AND finished_at IS NULL") == 0


def test_the_plan_counts_every_pass_of_an_erasure_that_a_hold_delayed(api: Api, visit: Visit, ids: list[str]) -> None:
    tenant_id = api.tenant.tenant_id
    hold = legal_holds.place_hold(tenant_id, Scope(memory_ids=[UUID(ids[0])]), "court", "key")
    which = requests.request(tenant_id, ErasureOptions(Scope(subject=ANN), "gdpr", 0), "k").erasure_id
    worked(api.service)
    assert "Passes" not in said(visit().page(f"/privacy/erasures/{which}"))
    legal_holds.release_hold(tenant_id, hold.hold_id, "key")
    worked(api.service)
    html = visit().page(f"/privacy/erasures/{which}")
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in re.findall("<tr>(.*?)</tr>", html, re.DOTALL)]
    [memories] = [row for row in rows if row[:1] == ["memories"]]
    assert memories[-4:] == ["3", "3", "0", "done"]
    assert [row[-3:] for row in rows if row[:1] in (["1"], ["2"])] == [["2", "1", str(hold.hold_id)], ["1", "0", "–"]]


def test_one_that_was_left_undone_goes_on(api: Api, visit: Visit, ids: list[str]) -> None:
    which = requests.request(api.tenant.tenant_id, ErasureOptions(Scope(subject=ANN), "gdpr", 0), "k").erasure_id
    api.service.rows("UPDATE jobs SET status = 'failed', finished_at = now() WHERE kind = 'erase'")
    api.service.rows("UPDATE erasures SET status = 'running', cut = '1-0', started_at = now()")
    for _ in range(2):
        visit().act(f"/privacy/erasures/{which}/finish")
    assert api.service.one("SELECT count(*) FROM jobs WHERE kind = 'erase' AND finished_at IS NULL") == 1


def test_the_report_is_let_through_by_its_digest_alone(api: Api, visit: Visit, ids: list[str]) -> None:
    which = requests.request(api.tenant.tenant_id, ErasureOptions(Scope(subject=ANN), "gdpr", 0), "k").erasure_id
    worked(api.service)
    answer = visit().get(f"/privacy/erasures/{which}/report")
    assert answer.status_code == 200
    [style] = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = answer.headers["content-security-policy"]
    assert f"style-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert " style=" not in answer.text
    assert str(which) in answer.text


def test_a_hold_is_shown_beside_the_button_that_ends_the_grace_period(api: Api, visit: Visit, ids: list[str]) -> None:
    hold = (
        visit().act("/privacy/holds", {"by": "ids", "what": ids[0], "ground": "none"}).split("/")[-1].partition("?")[0]
    )
    asked = ErasureOptions(Scope(subject=ANN), "gdpr", legal_basis="b")
    which = requests.request(api.tenant.tenant_id, asked, "k").erasure_id
    html = visit().page(f"/privacy/erasures/{which}")
    assert f"/privacy/holds/{hold}" in html
    assert f"/privacy/erasures/{which}/finish" in html
    assert "Legal basis: GDPR Art. 17(1)(b): consent was withdrawn" in said(html)
    assert (
        f"1 of the hidden memories is under legal hold: {hold} . It will be erased when the holds are released"
        in said(html)
    )


def test_what_waits_for_a_hold_goes_on_by_its_release(api: Api, visit: Visit, ids: list[str]) -> None:
    visitor = visit()
    where = visitor.act("/privacy/holds", {"by": "ids", "what": f"{ids[0]}, {ids[1]}\n", "ground": "none"})
    hold = where.split("/")[-1].partition("?")[0]
    assert where.endswith("?done=held")
    which = requests.request(api.tenant.tenant_id, ErasureOptions(Scope(subject=ANN), "gdpr", 0), "k").erasure_id
    worked(api.service)
    assert requests.get(api.tenant.tenant_id, which).status == "held"
    page = said(visitor.page(f"/privacy/erasures/{which}"))
    for part in (
        "delayed by a legal hold",
        "Under legal hold 2",
        "Last pass finished",
        "2 memories are under legal hold",
    ):
        assert part in page
    assert "Left over 0" not in page
    assert "2 under legal hold" in said(visitor.page("/privacy/erasures"))
    assert "No legal ground is stated" in said(visitor.page(f"/privacy/holds/{hold}"))
    correction = {"ground": "archiving", "words": "the court's order of May"}
    assert visitor.act(f"/privacy/holds/{hold}/correct", correction) == f"/privacy/holds/{hold}?done=corrected"
    corrected = said(visitor.page(f"/privacy/holds/{hold}"))
    for part in (
        "Legal ground: archiving",
        "Reason: the court's order of May",
        "Before: no legal ground, reason: a test",
    ):
        assert part in corrected.replace("&#39;", "'")
    assert re.search(r"Legal deadline \d+ days left", page)
    assert "met by the partial answer" not in page
    visitor.act(f"/privacy/requests/{which}/partial")
    assert "met by the partial answer" in said(visitor.page(f"/privacy/erasures/{which}"))
    assert visitor.send(f"/privacy/erasures/{which}/finish").status_code == 409
    assert "Of these hidden by erasures 2" in said(visitor.page(f"/privacy/holds/{hold}"))
    assert visitor.act(f"/privacy/holds/{hold}/release") == f"/privacy/holds/{hold}?done=released"
    worked(api.service)
    assert requests.get(api.tenant.tenant_id, which).status == "verified"


def test_single_deletions_are_listed_apart(api: Api, visit: Visit, ids: list[str]) -> None:
    api.delete(f"/v1/memories/{ids[3]}")
    visitor = visit()
    single = the_erasure(api)
    assert str(single) not in visitor.page("/privacy/erasures")
    assert str(single) in visitor.page("/privacy/erasures?every=true")


def test_holds_are_placed_by_person_conversation_and_ids(api: Api, visit: Visit, ids: list[str]) -> None:
    visitor = visit()
    for by, what in (("subject", ANN), ("thread", "t1"), ("ids", ids[3])):
        visitor.act("/privacy/holds", {"by": by, "what": what, "reason": f"because of {by}", "ground": "archiving"})
    html = visitor.page("/privacy/holds")
    assert "<script>alert" not in html
    assert "because of thread" in html
    [by_ids, by_thread, by_subject] = legal_holds.list_holds(api.tenant.tenant_id, None, 10, released=False)
    assert by_ids.meant.memory_ids == [UUID(ids[3])]
    assert (by_thread.meant.thread, by_subject.meant.subject) == ("t1", ANN)
    assert "because of subject" in visitor.page("/privacy")
    looked_up = said(visitor.send("/privacy/subjects", {"subject": ANN}).text)
    assert "3 of them are under legal hold and erased only after the release of the hold. Legal holds:" in looked_up
    assert str(by_subject.hold_id) in looked_up


def test_a_hidden_memory_under_legal_hold_is_covered_and_not_being_deleted(
    api: Api, visit: Visit, ids: list[str]
) -> None:
    placed = api.post("/v1/privacy/holds", json={"ids": ids[:1], "reason": "x", "ground": "archiving"}).json()
    for deleted in (ids[0], ids[1]):
        api.post("/v1/privacy/erasures", json={"ids": [deleted]})
    visitor = visit()
    shown = said(visitor.page(f"/privacy/holds/{placed['id']}"))
    assert "Memories covered 1 Of these hidden by erasures 1" in shown
    looked_up = said(visitor.send("/privacy/subjects", {"subject": ANN}).text)
    assert "cover 1 memory . 1 more is already being deleted. 1 other memory is hidden already and stays" in looked_up
    assert f"under legal hold. Legal holds: {placed['id']} (1, archiving). This page" in looked_up
    preview = api.post("/v1/privacy/erasures", json={"ids": ids[:1], "dry_run": True}).json()
    assert (preview["memories"], preview["held"], preview["already_hidden"], preview["hidden_held"]) == (0, 0, 1, 1)
    assert [hold["hold_id"] for hold in preview["holds"]] == [placed["id"]]


def test_the_end_of_a_grace_period_by_the_api_is_a_manual_action(api: Api, visit: Visit, ids: list[str]) -> None:
    which = api.post("/v1/privacy/erasures", json={"subject": ANN}).json()["id"]
    assert api.post(f"/v1/privacy/erasures/{which}/finish").is_success
    for path in ("/", "/audit"):
        shown = said(visit().page(path))
        assert "API calls and commands that ended the grace period of an erasure early" in shown
        assert "called with the API" in shown


@pytest.mark.parametrize(
    "form",
    [
        {"by": "subject", "what": "", "ground": "none"},
        {"by": "thread", "what": "", "ground": "none"},
        {"by": "ids", "what": "  ", "ground": "none"},
        {"by": "ids", "what": "nonsense", "ground": "none"},
        {"by": "ids", "what": "00000000-0000-0000-0000-000000000001", "ground": "none"},
        {"by": "all", "what": "x", "ground": "none"},
        {"by": "subject", "what": "x"},
        {"by": "subject", "what": "x", "ground": "anger"},
        {},
    ],
)
def test_a_hold_of_nothing_is_refused(api: Api, visit: Visit, form: dict[str, str]) -> None:
    assert visit().send("/privacy/holds", form).status_code == 422
    assert legal_holds.list_holds(api.tenant.tenant_id, None, 10, released=True) == []


@pytest.mark.parametrize(
    "form", [{"kind": "law"}, {"kind": "gdpr", "grace_days": "15"}, {"grace_days": "-1"}, {"grace_days": "x"}]
)
def test_an_erasure_that_no_law_allows_is_refused(api: Api, visit: Visit, ids: list[str], form: dict[str, str]) -> None:
    assert visit().send("/privacy/erasures", {"subject": ANN, **form}).status_code == 422
    assert requests.page(api.tenant.tenant_id, None, None, 10) == []


def test_an_export_is_asked_for_and_fetched(api: Api, visit: Visit, ids: list[str]) -> None:
    visitor = visit()
    form = {"subject": ANN, "kind": "portable", "law": "gdpr"}
    assert visitor.act("/privacy/exports", form) == "/privacy/exports?done=exporting"
    assert "Download" not in visitor.page("/privacy/exports")
    worked(api.service)
    html = visitor.page("/privacy/exports")
    assert "<script>alert" not in html
    [made] = export_requests.list_exports(api.tenant.tenant_id, None, 10)
    answer = visitor.send(f"/privacy/exports/{made.export_id}/file")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/zip"
    assert "attachment" in answer.headers["content-disposition"]
    with ZipFile(io.BytesIO(answer.content)) as held:
        assert held.testzip() is None
        assert "manifest.json" in held.namelist()
    assert api.service.one("SELECT count(*) FROM audit WHERE action = 'export_fetched'") == 1
    assert visitor.get(f"/privacy/exports/{made.export_id}/file").status_code in (404, 405)


@pytest.mark.parametrize("path", ["/erasures/x", "/erasures/x/report", "/holds/x", "/erasures/{}", "/holds/{}"])
def test_what_isnt_there_is_a_page_that_says_so(visit: Visit, path: str) -> None:
    answer = visit().get(f"/privacy{path.format(UUID(int=7))}")
    assert answer.status_code == 404
    assert "text/html" in answer.headers["content-type"]


def test_texts_that_may_mention_the_person_are_reviewed(api: Api, visit: Visit) -> None:
    api.remember({"text": "tea", "subject": "Mei Chen"})
    tenant_id = api.tenant.tenant_id
    operator_log.record_action(tenant_id, "key", "run", "night", "call from <Chen>")
    operator_log.record_action(tenant_id, "key", "run", "night", "Chen Li")
    which = requests.request(tenant_id, ErasureOptions(Scope(subject="Mei Chen"), "gdpr", 0), "k").erasure_id
    worked(api.service)
    visitor, place = visit(), f"/privacy/erasures/{which}"
    text = said(visitor.page(place))
    assert "Reason of an action on the dashboard call from <Chen>" in text
    numbers = {each.text: each.number for each in mentions.list_mentions(tenant_id, which)}
    form = {"decision": "redact", "number": str(numbers["call from <Chen>"])}
    assert visitor.act(f"{place}/mentions", form).endswith("?done=reviewed")
    visitor.act(f"{place}/mentions", {"decision": "keep", "number": str(numbers["Chen Li"])})
    text = said(visitor.page(place))
    assert "redacted Reason of an action on the dashboard The text was removed." in text
    assert "kept Reason of an action on the dashboard Chen Li" in text
    assert visitor.send(f"{place}/mentions", {"decision": "keep", "number": "x"}).status_code == 422
    assert "not reviewed" not in text


def test_a_text_that_another_erasure_replaced_does_not_await_a_review(api: Api, visit: Visit) -> None:
    api.remember({"text": "tea", "subject": "Mei Chen"}, {"text": "tea", "subject": "Chen Li"})
    tenant_id = api.tenant.tenant_id
    for reason in ("call from Chen Li", "Chen Li, again"):
        operator_log.record_action(tenant_id, "key", "run", "night", reason)
    asked = [ErasureOptions(Scope(subject=subject), "gdpr", 0) for subject in ("Mei Chen", "Chen Li")]
    which = requests.request(tenant_id, asked[0], "k").erasure_id
    worked(api.service)
    visitor, place = visit(), f"/privacy/erasures/{which}"
    visitor.act(f"{place}/mentions", {"decision": "keep", "number": "1"})
    requests.request(tenant_id, asked[1], "k")
    worked(api.service)
    text = said(visitor.page(place))
    gone = "replaced or deleted since Reason of an action on the dashboard The text was removed."
    assert text.count(gone) == 2
    assert "not reviewed" not in text
