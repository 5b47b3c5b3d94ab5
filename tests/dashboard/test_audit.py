"""The audit log page: the chain's state, its entries, and manual actions."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from app.dashboard import rendering
from app.domain.privacy.audit_chain import START
from app.services.security import audit, audit_verification, operator_log
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
