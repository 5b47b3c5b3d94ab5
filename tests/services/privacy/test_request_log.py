"""The log of privacy requests: recorded and answered automatically, counted, and retained for 24 months."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.requests import NewRequest, RequestStatistics
from app.errors import Conflict, Invalid, NotFound
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import export_requests, request_log
from tests.service import Service
from tests.services.due_deletions import worked
from tests.services.export_store import Vault, vault

__all__ = ["vault"]

FAR = datetime(2100, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def logged(vault: Vault) -> dict[UUID, Any]:
    return {each.request_id: each for each in request_log.list_requests(vault.tenant_id, None, 100, is_open=False)}


def tallies(vault: Vault) -> list[RequestStatistics]:
    return request_log.summarise_requests(vault.tenant_id, LONG_AGO, FAR).tallies


@pytest.mark.acceptance(19)
def test_erasures_and_exports_are_entered_and_answered_by_themselves(vault: Vault) -> None:
    vault.remember({"text": "x", "subject": "ann"})
    export = vault.made("portable")
    asked = [
        requests.request(vault.tenant_id, ErasureOptions(Scope(subject=name), "ccpa", 0), "key")
        for name in ("ann", "bob")
    ]
    requests.cancel(vault.tenant_id, asked[1].erasure_id, "key")
    found = logged(vault)
    assert {(each.nature, each.law, each.answer) for each in found.values()} == {
        ("portable", "gdpr", "done"),
        ("erasure", "ccpa", None),
        ("erasure", "ccpa", "cancelled"),
    }
    assert found[export.export_id].confirm_by is None
    waiting = found[asked[0].erasure_id]
    assert waiting.due_at == asked[0].due_at
    assert waiting.confirm_by >= waiting.received_at + timedelta(days=12)  # ten business days, starting on a Sunday
    worked(vault.service)
    assert logged(vault)[waiting.request_id].answer == "done"


@pytest.mark.acceptance(19)
def test_a_denial_keeps_its_basis_and_answers_once(vault: Vault) -> None:
    made = request_log.create(vault.tenant_id, NewRequest("correction", "gdpr", "letter"))
    denied = request_log.answer_request(vault.tenant_id, made.request_id, "denied", "GDPR Art. 12(5)", "key")
    assert (denied.answer, denied.basis) == ("denied", "GDPR Art. 12(5)")
    with pytest.raises(Conflict, match="denied"):
        request_log.answer_request(vault.tenant_id, made.request_id, "done", None, "key")
    erasure = requests.request(vault.tenant_id, ErasureOptions(Scope(subject="ann")), "key")
    with pytest.raises(Conflict, match="erasure answers this request"):
        request_log.answer_request(vault.tenant_id, erasure.erasure_id, "denied", "x", "key")
    details = str(vault.service.rows("SELECT details::text FROM audit WHERE action = 'request_answered'"))
    assert "denied" in details
    assert "Art." not in details


@pytest.mark.acceptance(19)
def test_counts_and_median_days_come_from_one_view(vault: Vault) -> None:
    now = datetime.now(UTC)
    for days, took in ((50, 1), (50, 2), (50, 48), (60, None)):
        made = request_log.create(vault.tenant_id, NewRequest("access", "ccpa", "mail", now - timedelta(days=days)))
        if took is not None:
            request_log.answer_request(vault.tenant_id, made.request_id, "done", None, "key")
            vault.service.rows("UPDATE privacy_requests SET answered_at = received_at + make_interval(days => %s), "
                               "confirmed_at = received_at + make_interval(days => %s) WHERE request_id = %s",
                               took, took, made.request_id)  # fmt: skip
    [tally] = tallies(vault)
    assert (tally.received, tally.done, tally.open) == (4, 3, 1)
    assert (tally.late, tally.confirmed_late) == (2, 2)  # answered after 48 of 45 days, and unanswered after 60
    assert tally.median_days == pytest.approx(2)
    assert tally.mean_days == pytest.approx(17)
    vault.service.rows("UPDATE privacy_requests SET answer = 'cancelled' WHERE answered_at < received_at + '2 days'")
    [tally] = tallies(vault)
    assert tally.cancelled == 1
    assert tally.median_days == pytest.approx(25)
    assert tally.mean_days == pytest.approx(25)
    assert request_log.summarise_requests(vault.tenant_id, now - timedelta(days=55), now).tallies[0].received == 3


def test_a_confirmation_counts_the_first_time(vault: Vault) -> None:
    made = request_log.create(vault.tenant_id, NewRequest("access", "ccpa"))
    first = request_log.confirm_receipt(vault.tenant_id, made.request_id)
    again = request_log.confirm_receipt(vault.tenant_id, made.request_id)
    assert first.confirmed_at == again.confirmed_at is not None
    with pytest.raises(NotFound):
        request_log.confirm_receipt(vault.service.tenant().tenant_id, made.request_id)


def test_the_receipt_of_an_answered_request_can_t_be_confirmed(vault: Vault) -> None:
    made = request_log.create(vault.tenant_id, NewRequest("correction", "ccpa"))
    request_log.answer_request(vault.tenant_id, made.request_id, "done", None, "key")
    with pytest.raises(Conflict, match="already answered: done"):
        request_log.confirm_receipt(vault.tenant_id, made.request_id)
    assert request_log.get(vault.tenant_id, made.request_id).confirmed_at is None


@pytest.mark.acceptance(19)
def test_what_was_answered_24_months_ago_is_deleted_by_night(vault: Vault) -> None:
    kept, gone, waits = (request_log.create(vault.tenant_id, NewRequest("access")).request_id for _ in range(3))
    for request_id, months in ((kept, 23), (gone, 25)):
        request_log.answer_request(vault.tenant_id, request_id, "done", None, "key")
        vault.service.rows("UPDATE privacy_requests SET received_at = now() - make_interval(months => %s), "
                           "answered_at = now() - make_interval(months => %s) WHERE request_id = %s",
                           months + 1, months, request_id)  # fmt: skip
    state: dict[str, Any] = {}
    for _ in range(5):
        step = export_requests.run_slice(vault.tenant_id, datetime.now(UTC), state, 0)
        state = step.state
        if step.finished:
            break
    assert set(logged(vault)) == {kept, waits}


def test_the_log_says_nothing_of_anybody(vault: Vault) -> None:
    vault.remember({"text": "x", "subject": "w0person"})
    vault.made(subject="w0person")
    requests.request(vault.tenant_id, ErasureOptions(Scope(subject="w0person")), "key")
    assert "w0person" not in str(vault.service.rows("SELECT to_json(privacy_requests)::text FROM privacy_requests"))


def test_what_comes_tomorrow_isnt_entered(service: Service) -> None:
    with pytest.raises(Invalid):
        request_log.create(
            service.tenant().tenant_id, NewRequest("access", received_at=datetime.now(UTC) + timedelta(days=1))
        )


def test_categories_are_counted_as_given_or_inferred(vault: Vault) -> None:
    vault.remember(
        {"text": "x", "categories": ["health", "work"]}, {"text": "y", "categories": ["work"]}, {"text": "z"}
    )
    assert request_log.summarise_requests(vault.tenant_id, LONG_AGO, FAR).categories == {"work": 2, "health": 1}


def test_categories_inferred_from_a_former_text_are_not_counted(vault: Vault) -> None:
    vault.remember({"text": "I have asthma"}, {"text": "I was promoted"})
    for text, category in (("I have asthma", "health"), ("I was promoted", "work")):
        vault.service.rows(
            "UPDATE scores SET inferred_categories = ARRAY[%s] "
            "WHERE memory_id = (SELECT memory_id FROM memories WHERE text = %s)",
            category,
            text,
        )
    assert request_log.summarise_requests(vault.tenant_id, LONG_AGO, FAR).categories == {"health": 1, "work": 1}
    vault.service.rows("UPDATE memories SET text_version = text_version + 1 WHERE text = 'I have asthma'")
    assert request_log.summarise_requests(vault.tenant_id, LONG_AGO, FAR).categories == {"work": 1}


def test_a_summary_counts_the_categories_that_it_leaves_out(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.remember({"text": "x", "categories": ["a", "b", "c"]}, {"text": "y", "categories": ["b"]})
    monkeypatch.setattr(request_log, "CATEGORIES_MAX", 2)
    found = request_log.summarise_requests(vault.tenant_id, LONG_AGO, FAR)
    assert (found.categories, found.categories_left_out) == ({"b": 2, "a": 1}, 1)
