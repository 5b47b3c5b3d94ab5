"""Requests that are recorded when they are received and carried out later by an erasure or an export."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from app.domain.privacy.case_details import NAMED
from app.domain.privacy.export import NewExport
from app.domain.privacy.legal_deadlines import Law, add_month
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.requests import Extension, IdentityCheck, Nature, NewRequest, PrivacyRequest
from app.errors import Conflict, Invalid
from app.services.erasure import requests
from app.services.erasure.report import read_report
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import export_requests, request_log
from app.store.core import database
from tests.services.due_deletions import worked
from tests.services.export_store import Vault, vault

__all__ = ["vault"]

MONDAY = datetime.now(UTC) - timedelta(days=20)
ANN = Scope(subject="ann")


def record(vault: Vault, nature: Nature = "erasure", law: Law = "gdpr", **more: str) -> PrivacyRequest:
    vault.remember({"text": "x", "subject": "ann"})
    return request_log.create(vault.tenant_id, NewRequest(nature, law, "letter", MONDAY, **more))


def entries(vault: Vault) -> list[PrivacyRequest]:
    return list(request_log.list_requests(vault.tenant_id, None, 100, is_open=False))


def faults(refused: pytest.ExceptionInfo[Invalid]) -> list[str]:
    return [each.field for each in refused.value.errors]


def end_of(moment: datetime) -> datetime:
    """Return the last second of the moment's day, in UTC."""
    return moment.replace(hour=23, minute=59, second=59, microsecond=0)


def test_deadlines_count_from_the_receipt_and_the_grace_period_from_the_entry(vault: Vault) -> None:
    new = requests.request(vault.tenant_id, ErasureOptions(ANN, "gdpr", 3, received_at=MONDAY), "key")
    assert (new.due_at, new.arrived_at) == (end_of(add_month(MONDAY)), MONDAY)
    assert new.erase_after == new.requested_at + timedelta(days=3)
    [entry] = entries(vault)
    assert (entry.request_id, entry.received_at, entry.due_at) == (new.erasure_id, MONDAY, new.due_at)
    export = export_requests.request_export(vault.tenant_id, NewExport("ann", law="ccpa", received_at=MONDAY), "key")
    entry = request_log.get(vault.tenant_id, export.export_id)
    assert (entry.received_at, entry.due_at) == (MONDAY, end_of(MONDAY + timedelta(days=45)))


def test_a_receipt_that_leaves_no_time_shortens_the_grace_period(vault: Vault) -> None:
    late = datetime.now(UTC) - timedelta(days=29)
    new, *_ = requests.preview(vault.tenant_id, ErasureOptions(ANN, "gdpr", received_at=late))
    assert new.erase_after == new.requested_at


def test_a_receipt_in_the_future_is_refused(vault: Vault) -> None:
    future = datetime.now(UTC) + timedelta(days=1)
    with pytest.raises(Invalid) as refused:
        requests.request(vault.tenant_id, ErasureOptions(ANN, "gdpr", received_at=future), "key")
    assert faults(refused) == ["received_at"]
    with pytest.raises(Invalid) as refused:
        export_requests.request_export(vault.tenant_id, NewExport("ann", received_at=future), "key")
    assert faults(refused) == ["received_at"]
    assert entries(vault) == []


def test_an_erasure_carries_out_a_recorded_request_from_its_receipt_to_its_answer(vault: Vault) -> None:
    recorded = record(vault, controller="Example Ltd", case_reference="DSR-17")
    request_log.check_identity(vault.tenant_id, recorded.request_id, IdentityCheck("document"), "key")
    request_log.extend(vault.tenant_id, recorded.request_id, Extension("many requests", 2), "key")
    asked = ErasureOptions(ANN, grace_days=0, legal_basis="b", request_id=recorded.request_id)
    new = requests.request(vault.tenant_id, asked, "key")
    assert (new.erasure_id, new.kind, new.due_at) == (recorded.request_id, "gdpr", end_of(add_month(MONDAY, 3)))
    assert (new.controller, new.case_reference) == ("Example Ltd", "DSR-17")
    worked(vault.service)
    [entry] = entries(vault)
    assert (entry.answer, entry.manner, entry.received_at) == ("done", "letter", MONDAY)
    assert (entry.identity_method, entry.first_due_at) == ("document", end_of(add_month(MONDAY)))
    report = read_report(vault.tenant_id, recorded.request_id)
    assert report["clocks"]["received_at"] == MONDAY
    assert report["identity"]["method"] == "document"
    assert report["extension"]["recorded_by"] == "key"


def test_an_export_carries_out_a_recorded_request_and_completes_it(vault: Vault) -> None:
    recorded = record(vault, "portable", "ccpa")
    made = export_requests.request_export(vault.tenant_id, NewExport("ann", request_id=recorded.request_id), "key")
    assert (made.export_id, made.kind, made.law) == (recorded.request_id, "portable", "ccpa")
    with pytest.raises(Conflict, match="already has its export"):
        export_requests.request_export(vault.tenant_id, NewExport("ann", request_id=recorded.request_id), "key")
    worked(vault.service)
    [entry] = entries(vault)
    assert (entry.request_id, entry.answer, entry.manner) == (recorded.request_id, "done", "letter")
    assert export_requests.get(vault.tenant_id, recorded.request_id).status == "ready"


def test_an_export_that_failed_is_replaced(vault: Vault) -> None:
    recorded = record(vault, "access")
    asked = NewExport("ann", request_id=recorded.request_id)
    export_requests.request_export(vault.tenant_id, asked, "key")
    vault.service.rows("UPDATE jobs SET status = 'failed', finished_at = now() WHERE kind = 'export'")
    export_requests.request_export(vault.tenant_id, asked, "key")
    worked(vault.service)
    assert export_requests.get(vault.tenant_id, recorded.request_id).status == "ready"
    assert [entry.answer for entry in entries(vault)] == ["done"]


def test_what_contradicts_the_recorded_request_is_refused(vault: Vault) -> None:
    recorded = record(vault)
    ours = ErasureOptions(ANN, request_id=recorded.request_id)
    for field, wrong in {
        "kind": replace(ours, law="ccpa"),
        "received_at": replace(ours, received_at=MONDAY),
        "request_id": replace(ours, request_id=vault.tenant_id),
        "legal_basis": replace(ours, legal_basis="z"),
        "grace_days": replace(ours, grace_days=30),
        "case_reference": replace(ours, case_reference="letter of Ann"),
    }.items():
        for call in (requests.preview, lambda tenant_id, asked: requests.request(tenant_id, asked, "key")):
            with pytest.raises(Invalid) as refused:
                call(vault.tenant_id, wrong)
            assert faults(refused) == [field]
    for wrong_export in (
        NewExport("ann", request_id=recorded.request_id),
        NewExport("ann", "access", request_id=record(vault, "portable").request_id),
        NewExport("ann", law="user", request_id=record(vault, "access").request_id),
    ):
        with pytest.raises(Invalid):
            export_requests.request_export(vault.tenant_id, wrong_export, "key")
    assert all(entry.answer is None for entry in entries(vault))
    requests.request(vault.tenant_id, ours, "key")
    with pytest.raises(Conflict, match=r"already has its erasure: for another name .* without `request_id`"):
        requests.request(vault.tenant_id, ours, "key")
    requests.cancel(vault.tenant_id, recorded.request_id, "key")
    with pytest.raises(Conflict, match="already answered: cancelled"):
        requests.request(vault.tenant_id, ours, "key")


def test_recorded_details_that_name_the_subject_have_to_be_replaced(vault: Vault) -> None:
    recorded = record(vault, case_reference="letter of Ann")
    with pytest.raises(Invalid) as refused:
        requests.request(vault.tenant_id, ErasureOptions(ANN, request_id=recorded.request_id), "key")
    assert [(each.field, each.message) for each in refused.value.errors] == [("case_reference", NAMED)]
    asked = ErasureOptions(ANN, request_id=recorded.request_id, case_reference="DSR-17")
    assert requests.request(vault.tenant_id, asked, "key").case_reference == "DSR-17"
    assert [entry.case_reference for entry in entries(vault)] == ["DSR-17"]


def test_the_preview_of_an_export_refuses_what_the_export_refuses(vault: Vault) -> None:
    erasure, access = record(vault), record(vault, "access")
    for given, field in (
        (NewExport("ann", request_id=erasure.request_id), "request_id"),
        (NewExport("ann", "portable", request_id=access.request_id), "kind"),
        (NewExport("ann", case_reference="case of Ann"), "case_reference"),
    ):
        with pytest.raises(Invalid) as refused:
            export_requests.preview_export(vault.tenant_id, given)
        assert faults(refused) == [field]
        with pytest.raises(Invalid) as refused:
            export_requests.request_export(vault.tenant_id, given, "key")
        assert faults(refused) == [field]
    found = export_requests.preview_export(vault.tenant_id, NewExport("ann", request_id=access.request_id))
    assert (found.kind, found.memories, found.entry) == ("access", 2, access)
    assert len(entries(vault)) == 2, "a preview records nothing"
    assert list(export_requests.list_exports(vault.tenant_id, None, 10)) == []
    request_log.answer_request(vault.tenant_id, access.request_id, "done", None, "key")
    with pytest.raises(Conflict, match="already answered: done"):
        export_requests.preview_export(vault.tenant_id, NewExport("ann", request_id=access.request_id))


def test_the_preview_of_an_export_of_a_subject_in_an_erasure_is_refused(vault: Vault) -> None:
    vault.remember({"text": "x", "subject": "ann"})
    requests.request(vault.tenant_id, ErasureOptions(ANN, grace_days=0), "key")
    with database.tenant(vault.tenant_id) as tx:
        tx.execute(text("UPDATE erasures SET status = 'running' WHERE tenant_id = :t"), {"t": vault.tenant_id})
    with pytest.raises(Conflict, match="is being erased"):
        export_requests.preview_export(vault.tenant_id, NewExport("ann"))
