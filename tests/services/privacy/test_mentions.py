"""Texts with a part of an erased person's name are listed for review, and change only by an operator's decision."""

from __future__ import annotations

import unicodedata
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.privacy.case_details import CLEARED, REDACTED
from app.domain.privacy.documents.report_counts import count_reviews
from app.domain.privacy.documents.report_page import render_report
from app.domain.privacy.erasure import MentionReview
from app.domain.privacy.legal_hold import HoldCorrection, Scope
from app.errors import Conflict, Invalid
from app.services.erasure import mentions, requests
from app.services.erasure.report import read_report
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import legal_holds, request_log, retained_texts, rights_overview
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


@pytest.mark.parametrize(("stored", "erased"), [("Mei Chen", "MEI CHEN"), ("orla", "Orla")])
def test_a_text_about_a_namesake_in_another_spelling_is_reviewed(desk: Desk, stored: str, erased: str) -> None:
    desk.service.send(desk.tenant_id, {"text": "tea", "subject": stored})
    desk.service.work()
    desk.act(f"{stored} sent many requests", f"{erased} and {stored} called")
    asked = ErasureOptions(Scope(subject=erased), "gdpr", 0)
    erasure_id = requests.request(desk.tenant_id, asked, "key").erasure_id
    worked(desk.service)
    assert requests.get(desk.tenant_id, erasure_id).status == "verified"
    assert desk.reasons() == [f"{stored} sent many requests", REDACTED]
    [listed] = mentions.list_mentions(desk.tenant_id, erasure_id)
    assert (listed.text, listed.decision) == (f"{stored} sent many requests", None)


def test_a_namesake_beside_a_longer_name_and_in_another_unicode_form_is_reviewed(desk: Desk) -> None:
    desk.service.send(desk.tenant_id, {"text": "tea", "subject": "Mei Chén"})
    desk.service.work()
    reasons = ["Mei Chén met MEI CHÉNG", unicodedata.normalize("NFD", "Mei Chén called")]
    desk.act(*reasons)
    asked = ErasureOptions(Scope(subject="MEI CHÉN"), "gdpr", 0)
    erasure_id = requests.request(desk.tenant_id, asked, "key").erasure_id
    worked(desk.service)
    assert requests.get(desk.tenant_id, erasure_id).status == "verified"
    assert desk.reasons() == reasons
    assert len(mentions.list_mentions(desk.tenant_id, erasure_id)) == 2


@pytest.mark.parametrize(
    ("reason", "after"),
    [
        ("fee dispute, court file 17", "fee dispute, court file 17"),
        ("claim of mei chen", REDACTED),
        ("claim of Chen", REDACTED),
    ],
)
def test_a_released_hold_keeps_its_reason_unless_it_names_the_person(desk: Desk, reason: str, after: str) -> None:
    hold = legal_holds.place_hold(desk.tenant_id, Scope(subject="Mei Chen"), "x", "key")
    desk.service.rows("UPDATE holds SET reason = %s", reason)
    erasure_id = desk.erase()
    legal_holds.release_hold(desk.tenant_id, hold.hold_id, "key")
    worked(desk.service)
    assert requests.get(desk.tenant_id, erasure_id).status == "verified"
    kept = legal_holds.get(desk.tenant_id, hold.hold_id)[0]
    assert (kept.meant.subject, kept.reason) == (CLEARED, after)
    [written] = read_report(desk.tenant_id, erasure_id)["operator_texts"]
    assert (written["code"], written["state"]) == ("hold", "replaced" if after == REDACTED else "retained")


@pytest.mark.parametrize("subject", ["Bo", "user"])
def test_a_released_hold_loses_a_name_that_other_texts_are_not_searched_for(desk: Desk, subject: str) -> None:
    """Initials and roles are ordinary words elsewhere; in the texts of a hold on the person, they mean the person."""
    desk.service.send(desk.tenant_id, {"text": "tea", "subject": subject, "speaker": "Wei Zhang"})
    desk.service.work()
    hold = legal_holds.place_hold(desk.tenant_id, Scope(subject=subject), f"claim of {subject}", "key")
    corrected = HoldCorrection(reason=f"second claim of {subject.upper()}")
    legal_holds.correct_hold(desk.tenant_id, hold.hold_id, corrected, "key")
    legal_holds.release_hold(desk.tenant_id, hold.hold_id, "key", f"settled with {subject}")
    desk.act(f"{subject} called")
    asked = ErasureOptions(Scope(subject=subject), "gdpr", 0)
    erasure_id = requests.request(desk.tenant_id, asked, "key").erasure_id
    worked(desk.service)
    done = requests.get(desk.tenant_id, erasure_id)
    assert (done.status, done.texts_redacted) == ("verified", 3)
    assert desk.service.rows("SELECT reason, release_reason FROM holds") == [(REDACTED, REDACTED)]
    assert desk.service.rows("SELECT reason FROM hold_changes") == [(REDACTED,)]
    assert desk.reasons() == [f"{subject} called"]
    assert "3 texts written by the operator" in visible(render_report(read_report(desk.tenant_id, erasure_id)))


def place_on_conversation(desk: Desk) -> UUID:
    """Place and correct a hold on the conversation `chat-77`, and return its id."""
    desk.service.send(desk.tenant_id, {"text": "tea", "subject": "u-17", "thread": "chat-77"})
    desk.service.work()
    hold_id = legal_holds.place_hold(desk.tenant_id, Scope(thread="chat-77"), "claim of Ann Lee", "key").hold_id
    legal_holds.correct_hold(desk.tenant_id, hold_id, HoldCorrection(reason="claim of Ann"), "key")
    return hold_id


def erase_conversation(desk: Desk) -> UUID:
    asked = ErasureOptions(Scope(thread="chat-77"), "gdpr", 0)
    erasure_id = requests.request(desk.tenant_id, asked, "key").erasure_id
    worked(desk.service)
    return erasure_id


def test_a_released_hold_on_an_erased_conversation_loses_its_reasons(desk: Desk) -> None:
    """No names are known that could be sought in these reasons."""
    other = legal_holds.place_hold(desk.tenant_id, Scope(thread="chat-78"), "claim of Ann Lee", "key").hold_id
    legal_holds.release_hold(desk.tenant_id, other, "key")
    hold_id = place_on_conversation(desk)
    legal_holds.release_hold(desk.tenant_id, hold_id, "key")
    assert requests.get(desk.tenant_id, erase_conversation(desk)).status == "verified"
    kept = legal_holds.get(desk.tenant_id, hold_id)[0]
    assert (kept.meant.thread, kept.reason) == (CLEARED, CLEARED)
    assert desk.service.rows("SELECT reason FROM hold_changes") == [(CLEARED,)]
    assert legal_holds.get(desk.tenant_id, other)[0].reason == "claim of Ann Lee"


def test_the_report_says_that_the_reasons_of_a_hold_on_the_conversation_are_removed(desk: Desk) -> None:
    hold_id = place_on_conversation(desk)
    erasure_id = erase_conversation(desk)
    report = read_report(desk.tenant_id, erasure_id)
    assert [(each["code"], each["state"]) for each in report["operator_texts"]] == [
        ("hold", "to_remove"),
        ("correction", "to_remove"),
    ]
    text = visible(render_report(report))
    assert text.count("retained with the record of the hold until this erasure is completed, then removed") == 2
    assert "also after its release, until the controller's data area" not in text
    assert "those that contain the person's name are replaced" not in text
    legal_holds.release_hold(desk.tenant_id, hold_id, "key", "settled")
    worked(desk.service)
    report = read_report(desk.tenant_id, erasure_id)
    assert [(each["code"], each["state"]) for each in report["operator_texts"]] == [
        ("hold", "removed"),
        ("release", "retained"),
        ("correction", "removed"),
    ]
    text = visible(render_report(report))
    assert text.count("removed with the conditions of the hold, whether or not it contained a name") == 2
    assert "because it referred to the person" not in text


def test_a_listed_reason_that_the_erasure_of_its_conversation_removes_is_gone(desk: Desk) -> None:
    hold_id = place_on_conversation(desk)
    legal_holds.release_hold(desk.tenant_id, hold_id, "key")
    desk.service.send(desk.tenant_id, {"text": "tea", "subject": "Ann Smith"})
    desk.service.work()
    asked = ErasureOptions(Scope(subject="Ann Smith"), "gdpr", 0)
    first = requests.request(desk.tenant_id, asked, "key").erasure_id
    worked(desk.service)
    assert sorted(str(each.text) for each in mentions.list_mentions(desk.tenant_id, first)) == [
        "claim of Ann",
        "claim of Ann Lee",
    ]
    erase_conversation(desk)
    assert [each.text for each in mentions.list_mentions(desk.tenant_id, first)] == [None, None]
    assert count_reviews(read_report(desk.tenant_id, first)) == (0, 0, 0, 2)


def test_a_kept_text_that_another_erasure_replaces_is_gone_in_the_first_report(desk: Desk) -> None:
    desk.service.send(desk.tenant_id, {"text": "rice", "subject": "Chen Li"})
    desk.service.work()
    desk.act("call from Chen")
    first = desk.erase()
    asked = ErasureOptions(Scope(subject="Chen Li"), "gdpr", 0)
    second = requests.request(desk.tenant_id, asked, "key").erasure_id
    worked(desk.service)
    mentions.review(desk.tenant_id, first, MentionReview(keep=(1,)), "key")
    kept = "A review decided that the text referred to another person; it is retained."
    assert kept in visible(render_report(read_report(desk.tenant_id, first)))
    mentions.review(desk.tenant_id, second, MentionReview(redact=(1,)), "key")
    text = visible(render_report(read_report(desk.tenant_id, first)))
    assert "The text has since been deleted, or replaced because of another erasure." in text
    assert kept not in text
    assert "A review decided that the text referred to the person" in visible(
        render_report(read_report(desk.tenant_id, second))
    )
    with pytest.raises(Invalid) as refused:
        mentions.review(desk.tenant_id, first, MentionReview(keep=(1,)), "key")
    assert [each.message for each in refused.value.errors] == [
        "text 1 isn't stored any more: it was replaced or deleted"
    ]


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
    erasure_id = desk.erase()
    report = read_report(desk.tenant_id, erasure_id)
    counts = {"memories": 4, "subjects": 2, "complete": True}
    assert report["similar_names"] == counts | {"hidden": 0, "hidden_by": []}
    assert "Mei" not in str(report)
    text = visible(render_report(report))
    assert "4 memories stored under a similar name were not part of this erasure" in text
    sentence = "When the result was checked, 4 memories were stored under similar names"
    assert sentence in text
    assert sentence in request_log.write_letter(desk.tenant_id, erasure_id, "completion", as_page=False).text
    alone = requests.request(desk.tenant_id, ErasureOptions(Scope(subject="bob"), "gdpr", 0), "key").erasure_id
    worked(desk.service)
    text = visible(render_report(read_report(desk.tenant_id, alone)))
    assert "no memory was stored under another spelling" in text
    assert "under a similar name" not in text
    letter = request_log.write_letter(desk.tenant_id, alone, "completion", as_page=False).text
    assert "similar" not in letter


def test_hidden_memories_under_another_spelling_are_counted_by_the_erasure_that_hides_them(desk: Desk) -> None:
    named = ("mei chen", "mei chen", "MEI CHEN", "Chen Mei")
    desk.service.send(desk.tenant_id, *({"text": f"rice {n}", "subject": name} for n, name in enumerate(named)))
    desk.service.work()
    asked = {name: ErasureOptions(Scope(subject=name), "gdpr", 7) for name in set(named)}
    hiding = {name: requests.request(desk.tenant_id, options, "key") for name, options in asked.items()}
    requests.cancel(desk.tenant_id, hiding.pop("Chen Mei").erasure_id, "key")
    legal_holds.place_hold(desk.tenant_id, Scope(subject="MEI CHEN"), "case 17", "key", "legal_claims")
    rights_overview.finish(desk.tenant_id, hiding["MEI CHEN"].erasure_id, "key")
    worked(desk.service)
    erasure_id = desk.erase()
    report = read_report(desk.tenant_id, erasure_id)
    similar = report["similar_names"]
    assert (similar["memories"], similar["hidden"]) == (1, 3)
    listed = [(each["id"], each["status"], each["memories"]) for each in similar["hidden_by"]]
    assert listed == [
        (str(hiding["mei chen"].erasure_id), "grace", 2),
        (str(hiding["MEI CHEN"].erasure_id), "held", 1),
    ]
    text = visible(render_report(report))
    assert "3 hidden memories stored under a similar name were not part of this erasure (section 2)." in text
    known = f"2 memories, hidden by the erasure with the request ID {hiding['mei chen'].erasure_id}, which could be"
    assert f"{known} cancelled until" in text
    assert f"request ID {hiding['MEI CHEN'].erasure_id}, which a legal hold delayed" in text
    requests.cancel(desk.tenant_id, hiding["mei chen"].erasure_id, "key")
    for shown in (text, visible(render_report(read_report(desk.tenant_id, erasure_id)))):
        assert "no memory was stored under another spelling" not in shown
        assert "chen" not in shown.casefold()


def test_memories_under_another_spelling_in_quarantine_are_counted(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report lists only the erasures and quarantines that hide most memories."""
    desk.service.send(desk.tenant_id, *({"text": f"rice {n}", "subject": "mei chen"} for n in range(3)))
    desk.service.work()
    monkeypatch.setattr(mentions, "HIDING_MAX", 1)
    hidden = "INSERT INTO hidden_memories (tenant_id, memory_id, erasure_id, tier) SELECT tenant_id, memory_id, %s, %s "
    quarantine = uuid4()
    ids = [row for (row,) in desk.service.rows("SELECT memory_id FROM memories WHERE subject = 'mei chen'")]
    for owner, some in ((quarantine, ids[:2]), (uuid4(), ids[2:])):
        desk.service.rows(f"{hidden} FROM memories WHERE memory_id = ANY (%s)", owner, "active", some)
        desk.service.rows("UPDATE memories SET deleted_at = now() WHERE memory_id = ANY (%s)", some)
    text = visible(render_report(read_report(desk.tenant_id, desk.erase())))
    assert f"2 memories, hidden by the quarantine with the ID {quarantine}; when" in text
    assert "1 further memory, hidden by another erasure or quarantine" in text


def test_the_report_names_only_the_kinds_of_records_that_it_found(desk: Desk) -> None:
    hold = legal_holds.place_hold(desk.tenant_id, Scope(subject="Mei Chen"), "case 17", "key", "legal_claims")
    legal_holds.release_hold(desk.tenant_id, hold.hold_id, "other", "settled")
    desk.act("about Mei Chen")
    text = visible(render_report(read_report(desk.tenant_id, desk.erase())))
    assert "1 released legal hold: name removed" in text
    assert "Texts or records that name the person were also found (section 2)" in text
    assert "recorded search" not in text.split("Check of the result")[0]
