"""Access control and form protection (checks C18 to C20 of the security review)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from app.clients.redis import stream
from app.dashboard import application, sessions
from app.domain.policy.api_keys import SCOPES
from app.services.jobs import schedule
from app.services.security import operator_log
from app.services.tenants import tenants
from app.store.core import database
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, cookie_of, log_in, said

Visit = Callable[..., Visitor]
UNKNOWN = "00000000-0000-0000-0000-000000000001"
VALID_FORM = {
    "basis": "no such data is stored",
    "decision": "keep",
    "extension_reason": "many requests",
    "ground": "expression",
    "method": "account",
    "months": "1",
    "number": "1",
    "notified": "2026-01-05",
    "sent": "2026-01-05",
    "status": "paused",
}
"""Fields that the actions in `NAMING` require, so that none is refused because of its form."""


def routes() -> Iterator[tuple[str, str]]:
    for context in iter_route_contexts(made().routes):
        for method in context.methods or ():
            if context.path is not None and method != "HEAD":
                yield method, re.sub(r"{\w+(:\w+)?}", UNKNOWN, context.path)


def made() -> FastAPI:
    return application.build()


OPEN = {"/log-in", "/log-in/oidc", "/log-in/oidc/callback", "/runbook"}
NAMING = sorted({path for method, path in routes() if method == "POST" and UNKNOWN in path})
"""Routes of actions on an object that the path names."""
GUARDED = sorted({route for route in routes() if route[1] not in OPEN and not route[1].startswith("/static")})


def test_without_a_session_everything_leads_to_the_log_in(api: Api) -> None:
    for method, path in GUARDED:
        answer = api.request(method, f"/ops{path}", key=None, headers={"origin": "http://test"}, data={})
        assert (answer.status_code, answer.headers.get("location")) == (303, "/ops/log-in"), (method, path)


def test_a_form_from_elsewhere_is_refused(api: Api, visit: Visit) -> None:
    visitor = visit(*("read", "ingest", "maintain", "privacy", "admin"))
    for path in (path for method, path in GUARDED if method == "POST"):
        for form, headers in (
            ({"token": ""}, {}),
            ({"token": "0" * 64}, {}),
            ({}, {"origin": "https://elsewhere.example"}),
            ({}, {"origin": "null"}),
        ):
            assert visitor.send(path, form, **headers).status_code == 403, (path, form, headers)
        assert not operator_log.list_actions(api.tenant.tenant_id), path


def test_a_form_from_elsewhere_is_told_so_and_not_that_a_scope_is_missing(api: Api, visit: Visit) -> None:
    visitor = visit("admin")
    for form, headers, reason in (
        ({}, {"origin": "https://elsewhere.example"}, "the form was sent from another site"),
        ({"token": "0" * 64}, {}, "the form belongs to a session that has ended"),
    ):
        text = said(visitor.send("/tenant", form, **headers).text)
        assert "The form wasn't accepted" in text, reason
        assert f"Nothing was changed: {reason}" in text
        assert "scope" not in text
    missing = said(visit("read").get("/privacy").text)
    assert "The API key lacks the required scope" in missing


def test_nothing_but_forms_changes_anything() -> None:
    methods: dict[str, set[str]] = {}
    for method, path in routes():
        methods.setdefault(path, set()).add(method)
    assert {method for found in methods.values() for method in found} == {"GET", "POST"}


def test_the_cookie_is_kept_from_scripts_and_other_sites(api: Api) -> None:
    answer = log_in(api, api.tenant.key)
    words = {word.strip().lower() for word in answer.headers["set-cookie"].split(";")[1:]}
    assert {"httponly", "secure", "samesite=strict", "path=/"} <= words
    assert api.tenant.key not in answer.headers["set-cookie"]


@pytest.mark.parametrize("change", ["", "x", "A" * 200])
def test_a_cookie_that_was_changed_is_none(api: Api, visit: Visit, change: str) -> None:
    visitor = visit()
    first = "y" if visitor.cookie.startswith(change) else change
    visitor.cookie = first + visitor.cookie[1:] if change else visitor.cookie[:-4]
    assert visitor.get("/").status_code == 303


def test_a_session_ends_by_its_age_and_with_its_key(api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = visit()
    monkeypatch.setattr(sessions, "SESSION_SECONDS", 0)
    assert visitor.get("/").status_code == 303
    monkeypatch.undo()
    assert visitor.get("/").status_code == 200
    api.service.configure(key_cache_seconds=0)
    for key in tenants.list_keys(api.tenant.tenant_id):
        tenants.revoke_key(key.key_id)
    assert visitor.get("/").status_code == 303


def test_a_key_that_may_only_send_stays_out(api: Api) -> None:
    assert log_in(api, tenants.issue_key(api.tenant.tenant_id, "sender", ("ingest",))).status_code == 403


def test_who_may_only_look_sees_no_buttons(api: Api, visit: Visit) -> None:
    api.tenant  # noqa: B018 - creates the tenant before the tick
    schedule.insert_due_runs(schedule.DEFAULT_SCHEDULE)
    assert "<details" in visit("maintain").page("/")
    html = visit("read").page("/")
    assert "<details" not in html
    assert set(re.findall(r'<form[^>]* action="([^"]+)"', html)) == {"/ops/log-out"}


def test_every_page_has_a_strict_policy(visit: Visit) -> None:
    answer = visit().get("/")
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["cache-control"] == "no-store"
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", answer.text)


def test_acting_asks_for_a_reason_and_writes_it_down(api: Api, visit: Visit) -> None:
    visitor = visit()
    api.tenant  # noqa: B018 - as above
    schedule.insert_due_runs(schedule.DEFAULT_SCHEDULE)
    assert visit().send("/log-out", {"reason": ""}).status_code == 303
    answer = visitor.send("/schedule/night/pause", {"reason": " "})
    assert answer.status_code == 422
    assert "reason" in said(answer.text)
    assert visitor.act("/schedule/night/pause", {"reason": "the disk is being moved"}) == "/?done=paused"
    [act] = operator_log.list_actions(api.tenant.tenant_id)
    assert (act.act, act.target, act.reason) == ("pause", "night", "the disk is being moved")
    html = visitor.page("/?done=paused")
    assert "the disk is being moved" in said(html)
    assert "Paused" in said(html)
    entries = api.service.rows("SELECT details::text FROM audit WHERE action = 'operator_acted'")
    assert str(act.act_id) in str(entries)
    assert "disk" not in str(entries)


def test_an_action_on_an_object_that_does_not_exist_enters_no_log(api: Api, visit: Visit) -> None:
    visitor = visit(*SCOPES)
    about_request = {"subject": "ann", "request_id": UNKNOWN}
    posts = [(path, VALID_FORM) for path in NAMING]
    posts += [("/privacy/erasures", about_request), ("/privacy/exports", about_request)]
    assert len(posts) > 25
    before = api.service.rows("SELECT action, details::text FROM audit")
    for path, form in posts:
        answer = visitor.send(path, form)
        assert answer.status_code == 404, (path, said(answer.text))
        assert not operator_log.list_actions(api.tenant.tenant_id), path
        assert api.service.rows("SELECT action, details::text FROM audit") == before, path


def test_an_admin_sees_another_tenant_and_nobody_else_does(api: Api, visit: Visit) -> None:
    other = api.service.tenant()
    admin = visit("admin", "maintain")
    answer = admin.send("/tenant", {"tenant": str(other.tenant_id)})
    admin.cookie = cookie_of(answer)
    assert str(other.tenant_id) in admin.page("/")
    assert visit().send("/tenant", {"tenant": str(other.tenant_id)}).status_code == 403


def test_unknown_pages_and_ids_are_told_as_pages(visit: Visit) -> None:
    visitor: Any = visit()
    for path in ("/nowhere", "/static/nothing.css", "/static/..%2Fpages.py"):
        answer = visitor.get(path)
        assert answer.status_code == 404
        assert "text/html" in answer.headers["content-type"]


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/nothing", 404, "Page not found"),
        ("/privacy/requests", 405, "No page at this address"),
        ("/schedule/night/run", 405, "only accepts submitted forms"),
        ("/letters?queued=-1", 422, "Invalid request"),
        ("/tenants", 403, "requires a key with the scope admin"),
    ],
)
def test_an_error_page_keeps_the_menu(visit: Visit, path: str, status: int, words: str) -> None:
    answer = visit().get(path)
    assert answer.status_code == status
    assert words in said(answer.text)
    assert all(f'href="/ops{place}"' in answer.text for place in ("/", "/letters", "/audit"))
    assert ("allow" in answer.headers) == (status == 405)


def test_without_a_session_an_error_page_has_no_menu(api: Api) -> None:
    answer = api.get("/ops/nothing", key=None)
    assert answer.status_code == 404
    assert "/ops/letters" not in answer.text


def test_the_runbook_is_readable_without_a_session_and_without_stores(api: Api, visit: Visit) -> None:
    visitor = visit()
    words = said(visitor.page("/runbook"))
    assert "Find a stuck lane" in words
    assert "Log out" in words
    api.service.configure(
        database_url="postgresql://nobody@127.0.0.1:1/nothing", redis_url="redis://127.0.0.1:1/0", key_cache_seconds=0
    )
    database.close()
    stream.close()
    try:
        for headers in ({"cookie": f"{sessions.COOKIE}={visitor.cookie}"}, {}):
            answer = api.get("/ops/runbook", key=None, headers=headers)
            assert answer.status_code == 200
            assert "Find a stuck lane" in said(answer.text)
    finally:
        api.service.configure(database_url=api.service.database_url, redis_url=api.service.redis_url)
        database.close()
        stream.close()


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        ("compose", "docker compose exec -e EBBING_API_KEY api ebbing doctor"),
        ("kubernetes", "kubectl --namespace ebbing exec deploy/api"),
        ("run", "before you run the commands below"),
        ("processes", ""),
    ],
)
def test_the_runbook_says_where_its_commands_run(api: Api, kind: str, note: str) -> None:
    api.service.configure(installation=kind)
    html = api.get("/ops/runbook", key=None).text
    assert ('class="note"' in html) == bool(note)
    assert note in said(html)
    assert not re.search(r"<script(?![^>]* src=)|<style| style=| on\w+=", html)
