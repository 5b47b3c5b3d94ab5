"""Texts with a part of an erased person's name are listed for review, and change only by an operator's decision."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.privacy.case_details import REDACTED
from app.domain.privacy.documents.report_page import render_report
from app.domain.privacy.erasure import MentionReview
from app.domain.privacy.legal_hold import Scope
from app.errors import Conflict, Invalid
from app.services.erasure import mentions, requests
from app.services.erasure.report import read_report
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import legal_holds, request_log, retained_texts
from app.services.security import operator_log
from tests.api.privacy.test_report_letter import visible
from tests.service import Service
from tests.services.due_deletions import worked

REASONS = "SELECT reason FROM operator_acts ORDER BY at"


class Desk:
    """A tenant with memories about Mei Chen, whose operators write reasons."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tenant_id = service.tenant().tenant_id
        service.send(self.tenant_id, {"text": "tea", "subject": "Mei Chen"}, {"text": "x", "subject": "bob"})
        service.work()

    def act(self, *reasons: str) -> None:
        for reason in reasons:
            operator_log.record_action(self.tenant_id, "key", "run", "night", reason)

    def erase(self, **fields: Any) -> UUID:
        asked = ErasureOptions(Scope(subject="Mei Chen"), "gdpr", 0, **fields)
        erasure_id = requests.request(self.tenant_id, asked, "key").erasure_id
        worked(self.service)
        return erasure_id

    def reasons(self) -> list[str]:
        return [reason for (reason,) in self.service.rows(REASONS)]


@pytest.fixture
def desk(service: Service) -> Desk:
    return Desk(service)


def test_parts_of_a_name_are_listed_and_not_redacted(desk: Desk) -> None:
    desk.act("call from Chen", "about Mei Chen", "kitchen closed")
    erasure_id = desk.erase(case_reference="Chen 17")
    assert desk.reasons() == ["call from Chen", REDACTED, "kitchen closed"]
    listed = mentions.list_mentions(desk.tenant_id, erasure_id)
    assert sorted((each.table, each.column, each.text, each.decision) for each in listed) == [
        ("erasures", "case_reference", "Chen 17", None),
        ("operator_acts", "reason", "call from Chen", None),
        ("privacy_requests", "case_reference", "Chen 17", None),
    ]
    report = read_report(desk.tenant_id, erasure_id)
    assert report["mentions"]["more"] == 0
    assert "call from" not in str(report), "the report names places, not texts"
    text = visible(render_report(report))
    assert "3 texts written by the operator contained a part of the person's name" in text
    assert f"Case reference of an erasure, ID {erasure_id}: not reviewed yet" in text
    assert "Completed and checked; 3 texts still await a review" in text


def test_a_decision_redacts_or_keeps_a_text_and_is_recorded(desk: Desk) -> None:
    desk.act("call from Chen", "Chen Li was here")
    erasure_id = desk.erase()
    numbers = {each.text: each.number for each in mentions.list_mentions(desk.tenant_id, erasure_id)}
    given = MentionReview((numbers["call from Chen"],), (numbers["Chen Li was here"],))
    reviewed = mentions.review(desk.tenant_id, erasure_id, given, "key")
    assert {each.number: (each.text, each.decision) for each in reviewed} == {
        numbers["call from Chen"]: (None, "redact"),
        numbers["Chen Li was here"]: ("Chen Li was here", "keep"),
    }
    assert desk.reasons() == [REDACTED, "Chen Li was here"]
    text = visible(render_report(read_report(desk.tenant_id, erasure_id)))
    assert (
        "Of these texts: 1 referred to the person and was replaced by a standard sentence, 1 referred to another "
        "person and is retained."
    ) in text
    assert "await" not in text
    assert "refers to the person; replaced by a standard sentence on" in text
    assert desk.service.one("SELECT items FROM audit WHERE action = 'texts_reviewed'") == 2
    for wrong, field in ((MentionReview((9,)), "redact"), (MentionReview((1,), (1,)), "keep")):
        with pytest.raises(Invalid) as refused:
            mentions.review(desk.tenant_id, erasure_id, wrong, "key")
        assert [each.field for each in refused.value.errors] == [field]


def test_a_word_in_very_many_texts_and_a_full_list_are_only_counted(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.act(*(f"team Chen, run {number}" for number in range(12)), "Mei asked")
    report = read_report(desk.tenant_id, desk.erase())
    assert (len(report["mentions"]["texts"]), report["mentions"]["more"]) == (1, 12)
    monkeypatch.setattr(retained_texts, "MENTIONS_MAX", 1)
    desk.service.send(desk.tenant_id, {"text": "tea", "subject": "Mei Chen"})
    desk.service.work()
    desk.act("Mei again")
    report = read_report(desk.tenant_id, desk.erase())
    assert (len(report["mentions"]["texts"]), report["mentions"]["more"]) == (1, 13)
    assert "13 further texts contain a part of the person's name. They aren't listed" in visible(render_report(report))


def test_decisions_survive_the_next_pass_of_a_held_erasure(desk: Desk) -> None:
    hold = legal_holds.place_hold(desk.tenant_id, Scope(subject="Mei Chen"), "case 17", "key", "legal_claims")
    desk.act("call from Chen")
    erasure_id = desk.erase()
    mentions.review(desk.tenant_id, erasure_id, MentionReview(keep=(1,)), "key")
    legal_holds.release_hold(desk.tenant_id, hold.hold_id, "other", "settled")
    worked(desk.service)
    assert requests.get(desk.tenant_id, erasure_id).status == "verified"
    assert [each.decision for each in mentions.list_mentions(desk.tenant_id, erasure_id)] == ["keep"]
    written = read_report(desk.tenant_id, erasure_id)["operator_texts"]
    assert [(each["code"], each["by"]) for each in written] == [("hold", "key"), ("release", "other")]


def test_nothing_is_listed_before_the_report_or_without_parts(desk: Desk) -> None:
    asked = ErasureOptions(Scope(subject="Mei Chen"), "gdpr", 7)
    waiting = requests.request(desk.tenant_id, asked, "key").erasure_id
    with pytest.raises(Conflict, match="when its report is written"):
        mentions.list_mentions(desk.tenant_id, waiting)
    desk.act("bob called Bobby")
    single = requests.request(desk.tenant_id, ErasureOptions(Scope(subject="bob"), "gdpr", 0), "key").erasure_id
    worked(desk.service)
    assert mentions.list_mentions(desk.tenant_id, single) == []


def test_memories_under_another_spelling_are_counted_in_the_report_and_the_letter(desk: Desk) -> None:
    others = [{"text": f"rice {n}", "subject": "Mei Chén"} for n in range(3)]
    desk.service.send(desk.tenant_id, *others, {"text": "soup", "subject": "mei chen"}, {"text": "x", "subject": "Mai"})
    desk.service.work()
    requests.request(desk.tenant_id, ErasureOptions(Scope(subject="mei chen"), "gdpr", 7), "key")
    erasure_id = desk.erase()
    report = read_report(desk.tenant_id, erasure_id)
    assert report["similar_names"] == {"memories": 3, "subjects": 1, "complete": True}, "hidden ones have an erasure"
    assert "Mei" not in str(report)
    text = visible(render_report(report))
    assert "3 memories stored under a similar name were not part of this erasure" in text
    sentence = "When the result was checked, 3 memories were stored under similar names"
    assert sentence in text
    assert sentence in request_log.write_letter(desk.tenant_id, erasure_id, "completion", as_page=False).text
    alone = requests.request(desk.tenant_id, ErasureOptions(Scope(subject="bob"), "gdpr", 0), "key").erasure_id
    worked(desk.service)
    text = visible(render_report(read_report(desk.tenant_id, alone)))
    assert "no memory was stored under another spelling" in text
    assert "under a similar name" not in text
    letter = request_log.write_letter(desk.tenant_id, alone, "completion", as_page=False).text
    assert "similar" not in letter


def test_the_report_names_only_the_kinds_of_records_that_it_found(desk: Desk) -> None:
    hold = legal_holds.place_hold(desk.tenant_id, Scope(subject="Mei Chen"), "case 17", "key", "legal_claims")
    legal_holds.release_hold(desk.tenant_id, hold.hold_id, "other", "settled")
    desk.act("about Mei Chen")
    text = visible(render_report(read_report(desk.tenant_id, desk.erase())))
    assert "1 released legal hold: name removed" in text
    assert "Texts or records that name the person were also found (section 2)" in text
    assert "recorded search" not in text.split("Check of the result")[0]
