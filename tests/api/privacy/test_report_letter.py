"""The erasure report as a letter: case, legal basis, prose with counts, retained data, signatures, and translations."""

from __future__ import annotations

import re
import tomllib
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from app import domain
from app.domain.privacy.documents.report_page import render_report
from app.domain.privacy.documents.texts import ENGLISH, Texts, parse_translation
from app.errors import Misconfigured
from app.services.erasure.report import read_report
from app.services.privacy import rights_overview
from tests.api.caller import Api
from tests.services.due_deletions import UNFINISHED, worked

HOLDS = "/v1/privacy/holds"
ERASURES = "/v1/privacy/erasures"
CASE = {"controller": "Example <Ltd>, Dublin", "case_reference": "DSR-17", "legal_basis": "b"}
ENGLISH_FILE = Path(domain.__path__[0]) / "privacy" / "documents" / "en.toml"


def erase(api: Api, **more: Any) -> str:
    """Erase the subject `ann` without a grace period, up to legal holds; return the erasure's id."""
    answer = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr", "grace_days": 0} | more)
    assert answer.status_code == 202, answer.text
    worked(api.service, UNFINISHED)
    erasure_id: str = answer.json()["erasure_id"]
    return erasure_id


def read_page(api: Api, erasure_id: str) -> str:
    """Return the text of the printable page."""
    return visible(api.get(f"{ERASURES}/{erasure_id}/report?format=html").text)


def visible(page: str) -> str:
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def translate(value: Any) -> Any:
    """Return texts in a language of one letter; names in braces remain."""
    if isinstance(value, dict):
        return {name: translate(text) for name, text in value.items()}
    if isinstance(value, list):
        return [translate(text) for text in value]
    parts = re.split(r"(\{\w+\})", value)
    return "".join(part if part.startswith("{") else re.sub("[A-Za-z]", "ж", part) for part in parts)


def as_toml(value: Any) -> str:
    """Return nested texts as a TOML file."""
    return "\n".join(f"{name} = {_toml(text)}" for name, text in value.items())


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(text)}" for name, text in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    quoted = value.replace('"', '\\"')
    return f'"{quoted}"'


def test_the_letter_states_the_case_the_basis_and_the_counts(api: Api) -> None:
    api.remember({"text": "one heron", "subject": "ann"}, {"text": "two herons", "subject": "ann"})
    erasure_id = erase(api, **CASE)
    found = api.get(f"{ERASURES}/{erasure_id}/report").json()
    assert {name: found[name] for name in CASE} == CASE
    assert (found["scope"], found["identity"], found["extension"]) == ("subject", None, None)
    assert {name: api.get(f"{ERASURES}/{erasure_id}").json()[name] for name in CASE} == CASE
    page = api.get(f"{ERASURES}/{erasure_id}/report?format=html").text
    assert "<Ltd>" not in page
    text = visible(page)
    for line in (
        "Controller Example <Ltd>, Dublin Case reference DSR-17",
        "the erasure of all data about one person was requested under the General Data Protection Regulation (GDPR).",
        "Legal basis: GDPR Art. 17(1)(b): consent was withdrawn",
        "2 memories in scope were found and hidden",
        "2 memories were erased, together with the data derived from them",
        "found no remaining data in scope. Section 4 states the data that is retained.",
        "No memory in scope is retained on a legal ground.",
        "Backups are retained for 30 days, according to the setting of this service. The newest backup that can",
        "Prepared by Name and function Place and date Signature Approved for the controller by",
    ):
        assert line in text
    assert "@page" in page
    assert "counter(pages)" in page
    assert "nothing is left" not in text.casefold()
    assert "ann" not in text.split()
    assert "heron" not in text


def test_the_letter_under_a_hold_states_it_and_takes_nothing_back(api: Api) -> None:
    ids = api.remember({"text": "kept", "subject": "ann"}, {"text": "gone", "subject": "ann"})
    hold = api.post(HOLDS, json={"reason": "a lawsuit", "memory_ids": ids[:1]}).json()["id"]
    erasure_id = erase(api, **CASE)
    text = read_page(api, erasure_id)
    assert "found no remaining data in scope except 1 memory under legal hold (section 4)." in text
    assert f"1 memory is retained under legal hold {hold}, placed on" in text
    assert "a lawsuit" not in text
    assert "No memory in scope is retained" not in text
    assert "A new report will be written when that data has been erased." in text
    assert api.post(f"{HOLDS}/{hold}/release").is_success
    worked(api.service, UNFINISHED)
    text = read_page(api, erasure_id)
    assert "the erasure ran in 2 passes: Pass 1" in text
    assert "1 memory erased; 1 memory remained under legal hold. Pass 2" in text
    assert "found no remaining data in scope. Section 4" in text
    assert f"Legal hold {hold}, placed on" in text
    assert "delayed the erasure of 1 memory until its release. It retains nothing any more." in text


def test_remaining_rows_are_counted_in_words(api: Api) -> None:
    api.remember({"text": "one heron", "subject": "ann"})
    report = read_report(api.tenant.tenant_id, UUID(erase(api)))
    for left, said in ((1, "found 1 entry that still has to be erased."), (2, "found 2 entries that still have to be")):
        assert said in visible(render_report({**report, "left": {"memories": left}}))


def test_jobs_are_no_technical_copies(api: Api) -> None:
    erasure_id = erase(api)
    assert "jobs" in {row["code"] for row in api.get(f"{ERASURES}/{erasure_id}/report").json()["elsewhere"]}
    text = read_page(api, erasure_id)
    assert "Redis's log of changes (append-only file): rewritten automatically" in text
    assert "Arguments and results of background jobs" not in text


def test_a_memory_under_two_holds_is_counted_once(api: Api) -> None:
    ids = api.remember({"text": "kept", "subject": "ann"}, {"text": "gone", "subject": "ann"})
    for reason in ("a lawsuit", "an audit"):
        assert api.post(HOLDS, json={"reason": reason, "memory_ids": ids[:1]}).is_success
    assert "except 1 memory under legal hold (section 4)." in read_page(api, erase(api))


def test_the_identity_check_and_the_extension_are_in_the_report(api: Api) -> None:
    api.remember({"text": "one", "subject": "ann"})
    asked = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr"} | CASE).json()
    request = f"/v1/privacy/requests/{asked['erasure_id']}"
    assert api.post(f"{request}/identity", json={"method": "document", "note": "passport of Ann"}).is_success
    assert api.post(f"{request}/extend", json={"reason": "many requests"}).is_success
    assert api.post(f"{request}/notice").is_success
    api.service.rows("UPDATE erasures SET erase_after = now()")
    api.service.rows("UPDATE jobs SET claimed_until = now(), not_before = NULL")
    worked(api.service, UNFINISHED)
    found = api.get(f"{ERASURES}/{asked['erasure_id']}/report").json()
    assert found["identity"]["method"] == "document"
    assert found["extension"]["first_due_at"] == asked["due_at"] < found["clocks"]["due_at"]
    text = read_page(api, asked["erasure_id"])
    assert "(method: identity document)" in text
    assert "was extended; the requester was notified on" in text
    assert "passport" not in text


def test_a_report_of_an_earlier_version_is_still_shown(api: Api) -> None:
    api.remember({"text": "one", "subject": "ann"})
    erasure_id = erase(api)
    for part, added in (("stores", "code,table,method_code"), ("kept", "code,values"), ("elsewhere", "code,at")):
        api.service.rows(
            "UPDATE erasures SET report = report - 'scope' || jsonb_build_object(%s::text, ("
            "SELECT jsonb_agg(each - %s::text[]) FROM jsonb_array_elements(report->%s) AS each))",
            *(part, f"{{{added}}}", part),
        )
    text = read_page(api, erasure_id)
    assert "all data about one person" in text
    assert "memories and data derived from them deleted 1 1 0" in text
    assert "audit entries: –. Ground: proof of the erasure" in text
    assert "PostgreSQL's write-ahead log: as it is recycled" in text


def test_every_text_of_the_report_comes_from_the_file(api: Api, tmp_path: Path) -> None:
    ids = api.remember(*({"text": f"heron {n}", "subject": "ann"} for n in range(3)))
    for number, reason in enumerate(("a lawsuit", "an audit")):
        assert api.post(HOLDS, json={"reason": reason, "memory_ids": [ids[number]]}).is_success
    api.service.configure(master_key="a master key of tests, as long as it must be")
    assert api.post("/v1/privacy/exports", json={"subject": "ann"}).is_success
    worked(api.service, UNFINISHED)
    api.service.rows(
        "INSERT INTO usage (tenant_id, day, purpose, host, model, calls) VALUES (%s, current_date, %s, %s, %s, 3)",
        *(api.tenant.tenant_id, "score", "api.example", "m"),
    )
    erasure_id = erase(api)
    released = api.get(HOLDS).json()["holds"][0]["id"]
    assert api.post(f"{HOLDS}/{released}/release").is_success
    worked(api.service, UNFINISHED)
    translation = tmp_path / "other.toml"
    translation.write_text(as_toml(translate(tomllib.loads(ENGLISH_FILE.read_text()))))
    api.service.configure(document_texts=translation)
    text = read_page(api, erasure_id)
    report = api.get(f"{ERASURES}/{erasure_id}/report").json()
    data = {report["tenant_id"], report["requested_by"], report["versions"]["code"], "api.example"}
    data |= {row["table"] for row in report["stores"] if "table" in row}
    data.add(report["audit_digest"])
    data |= {hold["hold_id"] for hold in report["holds"]} | set(report["pseudonyms"].values()) | {erasure_id}
    for known in sorted(data, key=len, reverse=True):
        text = text.replace(known, "")
    assert re.findall(r"[A-Za-z]{2,}", text) == []
    assert "ж" in text


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda text: text.replace('\ntitle = "Erasure report"', ""), "report.title"),
        (lambda text: text.replace("{requested_at}", "{when}"), "report.request.made"),
        (lambda text: text.replace("Legal basis: {basis}.", "Legal basis."), "report.request.basis"),
        (lambda text: text + "\n[", "isn't a TOML file"),
        (lambda text: text.replace("Erasure report", "Erasure { report"), "single brace"),
    ],
)
def test_an_incomplete_translation_is_refused(change: Any, named: str) -> None:
    with pytest.raises(Misconfigured, match=re.escape(named)):
        parse_translation(change(ENGLISH_FILE.read_text()))


def test_the_english_file_is_a_complete_translation() -> None:
    parsed = parse_translation(ENGLISH_FILE.read_text())
    assert dict(parsed.strings()) == dict(ENGLISH.strings())
    assert isinstance(parsed, Texts)


def test_the_report_of_a_filter_names_no_person(api: Api) -> None:
    api.remember({"text": "one", "subject": "ann", "thread": "t", "tags": ["x"]})
    scopes: tuple[dict[str, Any], ...] = (
        {"subject": "ann", "filter": {"tags": ["x"]}},
        {"subject": None, "thread": "t"},
    )
    for scope, said in zip(scopes, ("data selected by conditions", "all data of one conversation"), strict=True):
        asked = {name: value for name, value in {"subject": "ann", "grace_days": 0, **scope}.items() if value}
        erasure_id = api.post(ERASURES, json=asked).json()["erasure_id"]
        worked(api.service, UNFINISHED)
        page = render_report(read_report(api.tenant.tenant_id, erasure_id))
        assert f"the erasure of {said} was requested without reference to a law" in visible(page)


def test_a_grace_period_ended_with_the_api_is_reported_with_its_key(api: Api) -> None:
    api.remember({"text": "gone", "subject": "ann"})
    erasure_id = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr"}).json()["id"]
    assert api.post(f"{ERASURES}/{erasure_id}/finish").json()["status"] == "grace"
    worked(api.service, UNFINISHED)
    report = api.get(f"{ERASURES}/{erasure_id}/report").json()
    assert (report["status"], report["grace_ended"]["by"]) == ("verified", api.tenant.key_id)
    assert api.post(f"{ERASURES}/{erasure_id}/finish").status_code == 409
    acts = "SELECT count(*) FROM operator_acts WHERE act = 'finish_erasure'"
    assert api.service.one(acts) == 1, "a refused call records no act"
    assert api.post(f"{ERASURES}/{uuid4()}/finish").status_code == 404


def test_the_letter_names_the_receipt_the_authors_of_texts_and_the_dumps_of_the_key_store(api: Api) -> None:
    api.remember({"text": "kept", "subject": "ann", "tags": ["a"]}, {"text": "gone", "subject": "ann"})
    hold = api.post(HOLDS, json={"reason": "a lawsuit", "subject": "ann", "filter": {"tags": ["a"]}}).json()["id"]
    received_at = (datetime.now(UTC) - timedelta(days=3)).replace(microsecond=0)
    made = {"subject": "ann", "kind": "gdpr", "grace_days": 7, "received_at": received_at.isoformat()}
    erasure_id = api.post(ERASURES, json=made).json()["id"]
    assert api.post(f"/v1/privacy/requests/{erasure_id}/extend", json={"reason": "many requests"}).is_success
    rights_overview.start_now(api.tenant.tenant_id, UUID(erasure_id))
    worked(api.service, UNFINISHED)
    text = read_page(api, erasure_id)
    day = f"{received_at.day} {received_at:%B %Y}"
    assert f"On {day}, the erasure of all data about one person was requested under the General Data" in text
    assert "The request was entered in this service on" in text
    assert f"Request received {day}" in text
    assert "Reason stated for the extension: many requests" in text
    assert "Erasing finished, except for data under legal hold" in text
    author = f"with the API key {api.tenant.key_id}"
    for written, place in (("extending the deadline", "in the request log"), (f"legal hold {hold}", "with the record")):
        assert re.search(rf"The reason for {written}, written on [\w ]+ {author}: retained {place}", text)
    assert "The operator stated no legal ground." in text
    assert "Backups of the key store" in text
    assert "a lawsuit" not in text


def test_the_report_states_the_digest_of_the_name_in_each_list(api: Api) -> None:
    """Also while a hold delays the erasure, and none of the audit log if the erasure names no person."""
    ids = api.remember({"text": "kept", "subject": "ann"}, {"text": "gone", "subject": "ann", "thread": "t"})
    hold = api.post(HOLDS, json={"reason": "a lawsuit", "memory_ids": ids[:1]}).json()["id"]
    erasure_id, path = erase(api), "/v1/privacy/audit"
    logged = api.get(path, params={"target": erasure_id, "action": "erasure_requested"}).json()["entries"][0]["subject"]
    for status in ("held", "verified"):
        report = api.get(f"{ERASURES}/{erasure_id}/report").json()
        assert (report["status"], report["audit_digest"]) == (status, logged)
        text = read_page(api, erasure_id)
        assert f"Keyed digest of the person's name or ID in the audit log (HMAC-SHA-256) {logged}" in text
        listed = report["pseudonyms"]["subject"]
        assert f"Keyed digest of the person's name or ID in the list of erasures (HMAC-SHA-256) {listed}" in text
        assert "The two digests of the person's name or ID differ, because" in text
        api.post(f"{HOLDS}/{hold}/release")
        worked(api.service, UNFINISHED)
    assert "Appendix E contains both digests." in read_page(api, erasure_id)
    thread = erase(api, subject=None, thread="t")
    assert api.get(f"{ERASURES}/{thread}/report").json()["audit_digest"] is None
    text = read_page(api, thread)
    assert "Appendix E contains the keyed digest of that name or ID in the list of erasures." in text
    assert "ebbing audit" not in text


def test_the_report_separates_the_recording_of_the_request_from_the_entry_of_the_erasure(api: Api) -> None:
    request = api.post("/v1/privacy/requests", json={"nature": "erasure", "law": "gdpr"}).json()["id"]
    api.service.rows("UPDATE privacy_requests SET received_at = received_at - interval '3 days'")
    erasure_id = erase(api, kind="gdpr", request_id=request)
    report = api.get(f"{ERASURES}/{erasure_id}/report").json()
    clocks = report["clocks"]
    assert clocks["received_at"] < clocks["recorded_at"] < clocks["requested_at"]
    assert (report["recorded_by"], report["requested_by"]) == (api.tenant.key_id, api.tenant.key_id)
    text = read_page(api, erasure_id)
    assert "The request was recorded in this service on" in text
    assert "The erasure was entered on" in text
    assert "Request recorded in this service" in text
    assert f"Operator or ID of the API key that recorded the request {api.tenant.key_id}" in text
    alone = erase(api)
    assert api.get(f"{ERASURES}/{alone}/report").json()["clocks"]["recorded_at"] is None
    assert "recorded in this service" not in read_page(api, alone)
