"""Names of people in texts that outlive an erasure: refused when written, redacted when the person is erased."""

from __future__ import annotations

import unicodedata
from typing import Any
from uuid import UUID, uuid4

import pytest

from app.domain.privacy.case_details import NAMED, REDACTED
from app.domain.privacy.documents.report_page import render_report
from app.domain.privacy.legal_hold import HoldCorrection, NewHold, Scope, parse_scope
from app.domain.privacy.requests import Extension, NewRequest
from app.domain.privacy.subject_names import NameFinder
from app.errors import Invalid
from app.services.erasure import requests
from app.services.erasure.report import read_report
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import anonymisation, legal_holds, request_log
from app.services.security import operator_log
from app.store.core import database
from app.store.erasure import residue
from tests.service import Service
from tests.services.due_deletions import worked
from tests.variants import variants

MAIL = "chen.li@example.com"
NFD = unicodedata.normalize("NFD", "chén.li")
SPELLINGS = ("Chén Li", "CHEN LI", NFD, "chenli", f"letter of <{MAIL}>", "file of Wei Zhang")
"""Names of the person: spellings of the subject, the part of the address before the @, and a speaker."""
OTHERS = ("file of Chen Xi", "Li & Sons", "kitchen line", "file of Zhang Wei")
ACTS = "SELECT reason FROM operator_acts ORDER BY at"


class Office:
    """A tenant with two people, and records of other requests."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.tenant_id = service.tenant().tenant_id
        service.send(
            self.tenant_id,
            {"text": "Chen likes tea", "subject": MAIL, "speaker": "Wei Zhang"},
            {"text": "I note it", "subject": MAIL, "speaker": "assistant"},
            {"text": "hello", "subject": MAIL, "speaker": "Desk"},
            {"text": "hello", "subject": "bob", "speaker": "Desk"},
        )
        service.work()

    def erase(self, grace_days: int = 0, /, **fields: Any) -> UUID:
        asked = ErasureOptions(Scope(subject=MAIL), "gdpr", grace_days, **fields)
        return requests.request(self.tenant_id, asked, "key").erasure_id

    def act(self, reason: str) -> None:
        operator_log.record_action(self.tenant_id, "key", "run", "night", reason)

    def reasons(self) -> list[str]:
        return [reason for (reason,) in self.service.rows(ACTS)]


@pytest.fixture
def office(service: Service) -> Office:
    return Office(service)


@pytest.mark.parametrize("text", SPELLINGS)
def test_every_text_of_a_request_that_names_its_person_is_refused(office: Office, text: str) -> None:
    for field in ("controller", "case_reference", "legal_basis"):
        with pytest.raises(Invalid) as refused:
            office.erase(7, **{field: text})
        assert [(each.field, each.message) for each in refused.value.errors] == [(field, NAMED)]
    erasure_id = office.erase(7)
    with pytest.raises(Invalid) as refused:
        request_log.extend(office.tenant_id, erasure_id, Extension(text), "key")
    assert [each.field for each in refused.value.errors] == ["reason"]
    with pytest.raises(Invalid) as refused:
        request_log.answer_request(office.tenant_id, erasure_id, "denied", text, "key")
    assert [each.field for each in refused.value.errors] == ["basis"]
    [memory_id] = office.service.rows("SELECT memory_id FROM memories WHERE speaker = 'Wei Zhang'")[0]
    requests.cancel(office.tenant_id, erasure_id, "key")
    with pytest.raises(Invalid) as refused:
        anonymisation.anonymise(office.tenant_id, memory_id, "key", text)
    assert [each.field for each in refused.value.errors] == ["ground"]


def test_a_reason_of_a_hold_does_not_name_its_subject() -> None:
    with pytest.raises(Invalid) as refused:
        parse_scope(NewHold("claim of Chén Li", subject=MAIL))
    assert [each.field for each in refused.value.errors] == ["reason"]
    assert parse_scope(NewHold("claim of a customer", subject=MAIL)).subject == MAIL


@pytest.mark.parametrize("text", OTHERS)
def test_texts_about_others_are_accepted_and_retained(office: Office, text: str) -> None:
    office.act(text)
    erasure_id = office.erase(case_reference=text)
    worked(office.service)
    assert requests.get(office.tenant_id, erasure_id).case_reference == text
    assert office.reasons() == [text]


def write_everywhere(office: Office, text: str) -> None:
    """Write a text into every column that outlives an erasure, in records of other requests."""
    made = request_log.create(office.tenant_id, NewRequest("access", "gdpr", controller=text, case_reference=text))
    request_log.extend(office.tenant_id, made.request_id, Extension(text), "key")
    request_log.answer_request(office.tenant_id, made.request_id, "denied", text, "key")
    other = ErasureOptions(Scope(subject="bob"), "gdpr", 7, text, text, text, text)
    requests.request(office.tenant_id, other, "key")
    hold = legal_holds.place_hold(office.tenant_id, Scope(thread="another"), text, "key")
    legal_holds.release_hold(office.tenant_id, hold.hold_id, "key")
    legal_holds.correct_hold(office.tenant_id, hold.hold_id, HoldCorrection(reason=f"{text}, corrected"), "key")
    legal_holds.place_hold(office.tenant_id, Scope(subject="bob"), text, "key")
    office.act(text)
    office.service.rows(
        "INSERT INTO dead_letters (tenant_id, letter_id, stage, reason, attempts, discarded_at, discard_reason) "
        "VALUES (%s, %s, 'drain', 'x', 1, now(), %s)",
        *(office.tenant_id, uuid4(), text),
    )
    office.service.rows(
        "INSERT INTO anonymised (tenant_id, digest, ground, memories) VALUES (%s, '\\x01', %s, 2)",
        *(office.tenant_id, text),
    )
    office.service.rows(
        "INSERT INTO webhooks (tenant_id, webhook_id, url, description, format, created_by, secret_id, cursor) "
        "VALUES (%s, %s, 'https://hooks.example', %s, 'standard', 'key', %s, 0)",
        *(office.tenant_id, uuid4(), text, uuid4()),
    )


WRITTEN = 17
"""Number of texts that `write_everywhere` writes."""


@pytest.mark.parametrize("text", variants(SPELLINGS, {SPELLINGS[0], SPELLINGS[-1]}))
def test_an_erasure_redacts_its_person_in_the_records_of_others(office: Office, text: str) -> None:
    write_everywhere(office, f"about {text}")
    erasure_id = office.erase()
    worked(office.service)
    done = requests.get(office.tenant_id, erasure_id)
    assert (done.status, done.texts_redacted, done.aliases) == ("verified", WRITTEN, None)
    assert read_report(office.tenant_id, erasure_id)["texts_redacted"] == WRITTEN
    tables = "erasures", "privacy_requests", "holds", "hold_changes", "operator_acts", "dead_letters", "anonymised"
    places = (*tables, "webhooks", "ebbing_keys.kept_holds", "ebbing_keys.erasure_requests")
    for table in places:
        rows = office.service.rows(f"SELECT to_jsonb(kept) FROM {table} AS kept")  # noqa: S608 - constants
        assert rows, table
        values = [value for (row,) in rows for value in _strings(row)]
        assert not any(NameFinder([MAIL, "Wei Zhang"]).is_in(value) for value in values), table
        assert REDACTED in values, table
    assert office.service.rows("SELECT act, target, actor FROM operator_acts") == [("run", "night", "key")]


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict | list):
        return [text for each in (value.values() if isinstance(value, dict) else value) for text in _strings(each)]
    return [value] if isinstance(value, str) else []


def test_a_misspelt_name_is_redacted_unless_somebody_else_has_it(office: Office) -> None:
    office.service.send(office.tenant_id, {"text": "x", "subject": "martina"}, {"text": "y", "subject": "Martino"})
    office.service.work()
    for reason in ("Martna asked", "the martinis are late", "Martino called", "Martin called"):
        office.act(reason)
    requests.request(office.tenant_id, ErasureOptions(Scope(subject="martina"), "gdpr", 0), "key")
    worked(office.service)
    assert office.reasons() == [REDACTED, "the martinis are late", "Martino called", REDACTED]


def test_a_name_in_the_report_of_another_erasure_is_redacted(office: Office) -> None:
    [memory_id] = office.service.rows("SELECT memory_id FROM memories WHERE subject = 'bob'")[0]
    anonymisation.anonymise(office.tenant_id, memory_id, "key", "lawsuit of Chen Li")
    earlier = requests.request(office.tenant_id, ErasureOptions(Scope(subject="bob"), "gdpr", 0), "key").erasure_id
    worked(office.service)
    assert "lawsuit of Chen Li" in str(read_report(office.tenant_id, earlier)["kept"])
    erasure_id = office.erase()
    worked(office.service)
    report = read_report(office.tenant_id, earlier)
    assert "Chen Li" not in str(report)
    [row] = [row for row in report["kept"] if row["code"] == "anonymous"]
    assert (row["ground"], row["values"]["ground"], row["count"]) == (REDACTED, REDACTED, 1)
    assert requests.get(office.tenant_id, erasure_id).texts_redacted == 1


def test_another_number_is_another_name(office: Office) -> None:
    office.act("Customer1002 called")
    requests.request(office.tenant_id, ErasureOptions(Scope(subject="customer1001"), "gdpr", 0), "key")
    worked(office.service)
    assert office.reasons() == ["Customer1002 called"]


def test_a_part_of_a_persons_data_redacts_nothing(office: Office) -> None:
    office.act("about Chen Li")
    requests.request(office.tenant_id, ErasureOptions(Scope(subject=MAIL, tags=["x"]), "gdpr", 0), "key")
    worked(office.service)
    assert office.reasons() == ["about Chen Li"]


def test_a_hold_in_force_keeps_its_reason_until_its_release(office: Office) -> None:
    [memory_id] = office.service.rows("SELECT memory_id FROM memories WHERE speaker = 'Wei Zhang'")[0]
    hold = legal_holds.place_hold(office.tenant_id, Scope(memory_ids=[memory_id]), "a claim", "key")
    office.service.rows("UPDATE holds SET reason = 'claim of Chen Li'")  # as an earlier version accepted it
    erasure_id = office.erase()
    worked(office.service)
    assert requests.get(office.tenant_id, erasure_id).status == "held"
    assert legal_holds.get(office.tenant_id, hold.hold_id)[0].reason == "claim of Chen Li"
    legal_holds.release_hold(office.tenant_id, hold.hold_id, "key")
    worked(office.service)
    assert requests.get(office.tenant_id, erasure_id).status == "verified"
    assert legal_holds.get(office.tenant_id, hold.hold_id)[0].reason == REDACTED


def test_the_residue_sweep_finds_a_name_without_the_code_that_redacts(office: Office) -> None:
    erasure_id = office.erase(7)
    erasure = requests.get(office.tenant_id, erasure_id)
    counts = []
    for reason in ("about nobody", f"letter of {MAIL.upper()} of May"):
        office.act(reason)
        with database.tenant(office.tenant_id) as tx:
            counts.append(residue.counts(tx, office.tenant_id, [], erasure)["names in texts of operators"])
    assert counts == [0, 1]


def test_subjects_that_are_roles_or_initials_are_not_sought(service: Service) -> None:
    office = Office(service)
    service.send(office.tenant_id, {"text": "x", "subject": "user"}, {"text": "y", "subject": "ab"})
    service.work()
    office.act("the user ab called")
    for subject in ("user", "ab"):
        requests.request(office.tenant_id, ErasureOptions(Scope(subject=subject), "gdpr", 0), "key")
    worked(service)
    assert office.reasons() == ["the user ab called"]


def test_a_report_counts_redacted_texts_apart_from_records(office: Office) -> None:
    for reason in ("about Chen Li", "CHENLI wrote"):
        office.act(reason)
    erasure_id = office.erase()
    worked(office.service)
    report = read_report(office.tenant_id, erasure_id)
    [records] = [row for row in report["stores"] if row["code"] == "records"]
    assert (records["found"], records["removed"], records["left"]) == (2, 2, 0)
    page = render_report(report)
    assert "2 texts written by the operator" in page
    assert "2 records" not in page
