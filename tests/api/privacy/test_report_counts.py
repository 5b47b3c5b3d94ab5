"""The numbers of an erasure report agree with each other, or the report says why they differ."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from app import failpoints
from app.domain.privacy.documents.report_page import render_report
from app.services.erasure.report import read_report
from app.services.privacy import rights_overview
from app.services.security import operator_log
from tests.api.caller import Api
from tests.api.privacy.test_erasure_passes import ERASURES, cool, place_hold, release_hold, request_erasure
from tests.api.privacy.test_report_letter import read_page, visible
from tests.services.cold_due import LONG
from tests.services.due_deletions import UNFINISHED, worked


def remember(api: Api, count: int, text: str = "otter") -> list[str]:
    return api.remember(*({"text": f"{text} {n}", "subject": "ann"} for n in range(count)))


def report_with(api: Api, erasure_id: str, **changes: Any) -> str:
    """Return the text of the page of a report with some of its values changed."""
    return visible(render_report({**read_report(api.tenant.tenant_id, UUID(erasure_id)), **changes}))


def read_counts(api: Api, erasure_id: str) -> dict[str, int]:
    counts: dict[str, int] = api.get(f"{ERASURES}/{erasure_id}/report").json()["counts"]
    return counts


def test_the_first_page_states_the_numbers_of_each_section(api: Api) -> None:
    ids = remember(api, 5)
    hold = place_hold(api, *ids[:2])
    erasure_id = request_erasure(api)
    assert read_counts(api, erasure_id) == {
        "in_scope": 5,
        "erased": 3,
        "held": 2,
        "left": 0,
        "anonymised": 0,
        "systems": 0,
    }
    text = read_page(api, erasure_id)
    before, after = text.split("1. The request")
    assert "5 memories were in scope: 3 erased, 2 retained under legal hold. " in before
    assert before.endswith("Appendix F explains the terms of this report. ")
    assert "5 memories in scope were found and hidden" in after
    assert "3 memories were erased" in after
    assert "except 2 memories under legal hold" in after
    assert "The table doesn't count 2 memories that were under legal hold when erasing started." in after
    release_hold(api, hold)
    text = read_page(api, erasure_id)
    assert "5 memories were in scope: 5 erased, 0 retained under legal hold. " in text
    assert "The table doesn't count" not in text


def test_a_memory_under_two_holds_explains_the_sums_of_the_holds(api: Api) -> None:
    ids = remember(api, 3)
    place_hold(api, ids[0])
    place_hold(api, ids[0])
    text = read_page(api, request_erasure(api))
    assert "3 memories were in scope: 2 erased, 1 retained under legal hold" in text
    assert "A memory under several legal holds is counted for each of them. In all, 1 memory is retained" in text
    assert text.count("A memory under several legal holds is counted for each of them.") == 2


def test_a_hold_placed_during_a_pass_has_a_column_of_retained_entries(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = remember(api, 5)
    placed: list[str] = []

    def place_when_planned(name: str, *_: object) -> None:
        if name == "erasing.letters" and not placed:
            placed.append(place_hold(api, ids[0]))

    with monkeypatch.context() as patched:
        patched.setattr(failpoints, "trigger", place_when_planned)
        erasure_id = request_erasure(api)
    text = read_page(api, erasure_id)
    assert "5 memories were in scope: 4 erased, 1 retained under legal hold" in text
    assert "System Method Found Removed Retained Still to be erased" in text
    assert "table memories deleted 5 4 1 0" in text
    assert "The table doesn't count" not in text
    [row] = [row for row in read_report(api.tenant.tenant_id, UUID(erasure_id))["stores"] if row["code"] == "memories"]
    assert (row["found"], row["removed"], row["retained"], row["left"]) == (5, 4, 1, 0)


def test_a_key_that_held_data_needs_is_retained_in_words(api: Api) -> None:
    ids = remember(api, 2, LONG)
    cool(api, *ids)
    hold = place_hold(api, ids[0])
    erasure_id = request_erasure(api)
    text = read_page(api, erasure_id)
    assert "1 encryption key of this person: retained (section 4)" in text
    assert "It is retained, because records that have not been erased still need it" in text
    assert "1 memory under legal hold (section 4). This person's encryption key is retained (section 4)." in text
    assert "the person's encryption key destroyed 1 0 1 0" in text
    release_hold(api, hold)
    text = read_page(api, erasure_id)
    assert "1 encryption key of this person: destroyed" in text
    assert "is retained, because" not in text


def test_systems_without_data_are_listed_instead_of_rows_of_zeros(api: Api) -> None:
    remember(api, 1)
    page = api.get(f"{ERASURES}/{request_erasure(api)}/report?format=html").text
    assert "<td>the person&#x27;s encryption key</td>" not in page
    assert "<li>the person&#x27;s encryption key</li>" in page
    assert not re.search(r'(<td class="number">0</td>){3}', page)


def test_a_scope_that_grew_or_shrank_says_why(api: Api) -> None:
    remember(api, 2)
    erasure_id = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr", "grace_days": 1}).json()["erasure_id"]
    remember(api, 1, "late heron")
    api.service.rows("UPDATE erasures SET erase_after = now()")
    worked(api.service, UNFINISHED)
    text = read_page(api, erasure_id)
    assert "3 memories were in scope: 3 erased" in text
    assert "2 memories in scope were found and hidden" in text
    assert "rose by 1 to 3, because the erasure also covers data received after the request." in text
    assert "the number of memories in scope fell by 4 to 3: summaries" in report_with(api, erasure_id, hidden=7)
    assert "the number of memories in scope" not in report_with(api, erasure_id, hidden=3)


def test_memories_that_another_erasure_deleted_are_named_beside_the_table(api: Api) -> None:
    remember(api, 2)
    erasure_id = request_erasure(api)
    assert "1 of the erased memories had already been deleted" in report_with(api, erasure_id, memories=3)
    assert "had already been deleted from the tables" not in read_page(api, erasure_id)


def test_the_key_that_ended_the_grace_period_is_named(api: Api) -> None:
    remember(api, 1)
    tenant_id = api.tenant.tenant_id
    erasure_id = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr"}).json()["erasure_id"]
    operator_log.record_action(tenant_id, "anotherkey", "finish_erasure", str(UUID(int=7)), "another erasure")
    operator_log.record_action(tenant_id, "akey", "finish_erasure", erasure_id, "the person asked for it")
    rights_overview.start_now(tenant_id, UUID(erasure_id))
    operator_log.record_action(tenant_id, "laterkey", "finish_erasure", erasure_id, "continue")
    worked(api.service, UNFINISHED)
    found = api.get(f"{ERASURES}/{erasure_id}/report").json()
    assert found["grace_ended"] == {"at": found["clocks"]["grace_until"], "by": "akey"}
    text = read_page(api, erasure_id)
    assert "The grace period was ended early, on" in text
    assert "with the API key akey." in text
    assert "ID of the API key that ended the grace period akey" in text


@pytest.mark.parametrize(("days", "said"), [(0, "entered without a grace period"), (2, "its grace period ended on")])
def test_a_grace_period_that_nobody_ended_names_no_key(api: Api, days: int, said: str) -> None:
    remember(api, 1)
    erasure_id = api.post(ERASURES, json={"subject": "ann", "kind": "gdpr", "grace_days": days}).json()["erasure_id"]
    api.service.rows("UPDATE erasures SET requested_at = requested_at - %s, erase_after = now()", timedelta(days=days))
    api.service.rows("UPDATE jobs SET claimed_until = now(), not_before = NULL")
    worked(api.service, UNFINISHED)
    assert api.get(f"{ERASURES}/{erasure_id}/report").json()["grace_ended"] is None
    text = read_page(api, erasure_id)
    assert said in text
    assert "ended early" not in text


def test_each_record_of_an_erasure_has_one_retention_period(api: Api) -> None:
    [one, _] = remember(api, 2)
    erasure_id = request_erasure(api)
    kept = {row["code"]: row["until"] for row in api.get(f"{ERASURES}/{erasure_id}/report").json()["kept"]}
    assert (kept["audit"], kept["case"], kept["request_log"]) == (
        "the installation is deleted; the key of the digests is destroyed with the tenant",
        "the tenant is deleted",
        "24 months after the answer",
    )
    text = read_page(api, erasure_id)
    assert text.count("24 months") == 1
    assert "The request log, which is separate from the audit log, has its own entry for this request" in text
    assert one not in text


def test_a_deletion_of_one_memory_has_no_entry_in_the_request_log(api: Api) -> None:
    [one] = remember(api, 1)
    erasure_id = api.delete(f"/v1/memories/{one}").json()["erasure_id"]
    api.service.rows("UPDATE erasures SET erase_after = now()")
    rights_overview.start_now(api.tenant.tenant_id, UUID(erasure_id))
    worked(api.service, UNFINISHED)
    report = api.get(f"{ERASURES}/{erasure_id}/report").json()
    assert "request_log" not in {row["code"] for row in report["kept"]}
    assert "1 memory was in scope: 1 erased" in read_page(api, erasure_id)


def test_the_audit_log_contains_the_ids_that_the_report_names(api: Api) -> None:
    """The text names ids in clear and digests: the entries about the erasure contain exactly these."""
    ids = remember(api, 2)
    hold = place_hold(api, ids[0])
    erasure_id = request_erasure(api)
    release_hold(api, hold)
    entries = api.get("/v1/privacy/audit?limit=100").json()["entries"]
    about = [entry for entry in entries if erasure_id in entry["details"].values() or hold in entry["details"].values()]
    assert {entry["action"] for entry in about} >= {
        "erasure_requested",
        "hold_placed",
        "hold_released",
        "erasure_verified",
    }
    assert not any(memory_id in str(about) for memory_id in ids)
    assert "ann" not in str(about)
    text = read_page(api, erasure_id)
    assert (
        "the IDs of this request, of legal holds, of operators and of API keys, digests of the IDs of memories" in text
    )
    assert "Erasure ID" not in text


def test_a_report_of_the_version_before_has_one_period_for_each_record(api: Api) -> None:
    """Earlier versions described the entry in the request log together with the dates of the erasure."""
    remember(api, 1)
    erasure_id = request_erasure(api)
    api.service.rows(
        "UPDATE erasures SET report = jsonb_set(report, '{kept}', ("
        "SELECT jsonb_agg(row || CASE row->>'code' WHEN 'case' THEN jsonb_build_object('until', %s::text) "
        "ELSE '{}' END) FROM jsonb_array_elements(report->'kept') AS row))",
        "the tenant is deleted; the entry in the request log, 24 months after the answer",
    )
    kept = {row["code"]: row["until"] for row in api.get(f"{ERASURES}/{erasure_id}/report").json()["kept"]}
    assert (kept["case"], kept["request_log"]) == ("the tenant is deleted", "24 months after the answer")


@pytest.mark.parametrize(("law", "cited"), [("gdpr", "(GDPR Art. 19)"), ("ccpa", "(11 CCR § 7022)"), ("user", "")])
def test_the_duty_to_notify_recipients_cites_the_law_of_the_request(api: Api, law: str, cited: str) -> None:
    remember(api, 1)
    api.service.rows(
        "INSERT INTO usage (tenant_id, day, purpose, host, model, calls) VALUES (%s, current_date, %s, %s, %s, 3)",
        *(api.tenant.tenant_id, "score", "api.example", "m"),
    )
    erasure_id = api.post(ERASURES, json={"subject": "ann", "kind": law, "grace_days": 0}).json()["erasure_id"]
    worked(api.service, UNFINISHED)
    text = read_page(api, erasure_id)
    assert f"responsible for notifying the recipients{cited and f' {cited}'}. This report doesn't record" in text
    assert ("GDPR Art. 19" in text, "7022" in text) == (law == "gdpr", law == "ccpa")
