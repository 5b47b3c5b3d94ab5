"""The audit log page: the chain's state, its entries, and manual actions."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from app.dashboard import rendering
from app.domain.privacy.audit_chain import START
from app.services.security import audit, audit_verification, operator_log
from app.store.core import database
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said

Visit = Callable[..., Visitor]


@pytest.fixture
def done(api: Api) -> None:
    for number in range(5):
        operator_log.record_action(api.tenant.tenant_id, "k", "pause", "night", f"reason <i>number {number}</i>")


def test_the_chain_holds_and_says_so(api: Api, visit: Visit, done: None) -> None:
    html = visit().page("/audit")
    assert 'badge well">intact' in html
    assert "manual action" in said(html)
    last = audit.list_entries(api.tenant.tenant_id, None, None, 1)[0].seq
    assert f"No entry is missing or altered, up to entry {last} of {last}." in said(html)
    anchor = re.search(r"<code>(\d+:[0-9a-f]{64})</code>", html)
    assert anchor
    assert audit.verify(api.tenant.tenant_id).place.seq == last


@pytest.mark.parametrize(
    ("action", "label"),
    [("key_made", "key created"), ("policy_set", "policy set"), ("fetch_export", "download export")],
)
def test_actions_have_labels(action: str, label: str) -> None:
    assert rendering.action_name(action) == label


def test_a_broken_chain_is_trouble(api: Api, visit: Visit, done: None) -> None:
    api.service.rows(
        "SET session_replication_role = replica; UPDATE audit SET actor = 'nobody' WHERE seq = 4; "
        "RESET session_replication_role"
    )
    for path in ("/audit", "/audit/chain"):
        text = said(visit().page(path))
        assert "broken Entry 4" in text


def test_the_last_stretch_alone_is_looked_at_on_the_page(
    api: Api, visit: Visit, done: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_verification, "LAST_ENTRIES", 2)
    api.service.rows(
        "SET session_replication_role = replica; UPDATE audit SET actor = 'nobody' WHERE seq = 2; "
        "RESET session_replication_role"
    )
    html = visit().page("/audit")
    assert 'badge well">intact' in html
    assert "are complete and unaltered. Earlier entries weren't checked." in said(html)
    assert "broken Entry 2" in said(visit().page("/audit/chain"))


def test_the_whole_chain_is_gone_through_some_seconds_at_a_time(
    api: Api, visit: Visit, done: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    visitor = visit()
    monkeypatch.setattr(audit_verification, "SECONDS_MAX", 0.0)
    monkeypatch.setattr("app.services.security.audit.verify.__defaults__", (START, 3, None))
    path, pages = "/audit/chain", 0
    while True:
        html = visitor.page(path)
        pages += 1
        further = re.search(r'href="/ops(/audit/chain\?after=[^"]+)"', html)
        if not further:
            break
        assert "intact so far" in html
        path = further[1].replace("%3A", ":")
    assert pages > 1
    assert 'badge well">intact' in html
    assert visitor.get("/audit/chain?after=nonsense").status_code == 422


def test_what_was_done_by_hand_is_there_in_full(visit: Visit, done: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dashboard.pages.audit.PAGE", 3)
    visitor = visit("read")
    html = visitor.page("/audit")
    assert "<i>number" not in html
    assert [n for n in range(5) if f"number {n}" in html] == [2, 3, 4]
    older = re.search(r'href="/ops(/audit\?cursor=[^"]+)"', html)
    assert older
    assert [n for n in range(5) if f"number {n}" in visitor.page(older[1])] == [0, 1]


def test_entries_are_listed_by_number(api: Api, visit: Visit, done: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dashboard.pages.audit.PAGE", 4)
    visitor = visit()
    count = audit.list_entries(api.tenant.tenant_id, None, None, 1)[0].seq
    path, seen = "/audit/entries", 0
    while path:
        html = visitor.page(path)
        seen += html.count("<tr><td")
        older = re.search(r'href="/ops(/audit/entries\?below=\d+)"', html)
        path = older[1] if older else ""
    assert seen == count


def test_the_chain_is_for_who_guards_peoples_rights(visit: Visit, done: None) -> None:
    visitor = visit("read", "maintain")
    assert "Latest entries" not in visitor.page("/audit")
    assert visitor.get("/audit/entries").status_code == 403
    assert visitor.get("/audit/chain").status_code == 403


def test_entries_about_a_person_or_an_id_are_found(api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(3):
        with database.tenant(api.tenant.tenant_id) as tx:
            details = {"hold": f"id-{number}"}
            audit.append(tx, api.tenant.tenant_id, "hold_placed", subject="Mei Chen", details=details)
    monkeypatch.setattr("app.dashboard.pages.audit.PAGE", 2)
    visitor = visit()
    html = visitor.send("/audit/entries", {"subject": "Mei Chen"}).text
    digests = audit.digest_subject(api.tenant.tenant_id, "Mei Chen")
    assert digests.audit_log
    assert f"audit log <code>{digests.audit_log}</code>; list of erasures none (no entries)." in html
    assert (html.count("<tr><td"), html.count(digests.audit_log) > 2) == (2, True)
    older = re.search(r'href="/ops(/audit/entries\?digest=[0-9a-f]{64})&amp;(below=\d+)"', html)
    assert older
    assert "Mei" not in "".join(older.groups())
    assert visitor.page("&".join(older.groups())).count("<tr><td") == 1
    found = visitor.page("/audit/entries?target=id-1")
    last = audit.list_entries(api.tenant.tenant_id, None, None, 1, target="id-1")[0]
    assert (found.count("<tr><td"), last.hash.hex() in found) == (1, True)
    assert "No entries." in visitor.send("/audit/entries", {"subject": "Liam"}).text
    for wrong in ("target=a%20b", "digest=x"):
        assert visitor.get(f"/audit/entries?{wrong}").status_code == 422
