"""Every page of the dashboard renders hostile texts harmlessly, wherever a caller or an operator can write them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from uuid import UUID, uuid4

from app.clients.llm.responses import Usage
from app.domain.ingest.quarantine import NewQuarantine
from app.domain.policy import api_keys
from app.domain.privacy.legal_hold import HoldCorrection, Scope
from app.domain.privacy.requests import Extension, NewRequest
from app.domain.webhooks.endpoint import NewWebhook
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.jobs import runner
from app.services.privacy import legal_holds, quarantines, request_log
from app.services.security import operator_log
from app.services.tenants import budget, tenants
from app.services.webhooks import webhooks
from tests.api.caller import Api
from tests.dashboard.odd import EVIL, RICH
from tests.dashboard.visitor import Visitor

Visit = Callable[..., Visitor]
PAGES_MIN = 35
PAGES_MAX = 120
EVIL_NAME = "\u202e<script>alert(7)</script>\" onclick='alert(8)'"
SHOWN = {
    "webhook's URL": 'http://127.0.0.1:9/hook?"><script>alert(10)</script>',
    "webhook's description": "a webhook's",
    "reason before a hold's correction": "an old reason",
    "reason after a hold's correction": "a new reason",
    "imported text": "an imported text",
    "imported subject": "an imported subject",
    "quarantine": "put in quarantine",
    "name of the key in quarantine": "a key in quarantine",
}
"""Texts that must be on some page, by where `fill` writes them."""
FORMS = (
    ("/search", {"query": "tea", "tier_active": "on", "limit": "100"}),
    ("/privacy/subjects", {"subject": EVIL_NAME}),
    ("/privacy/subjects", {"subject": RICH["subject"]}),
    ("/audit/entries", {"subject": EVIL_NAME}),
)
"""Forms whose answers are pages, which no link leads to."""


class _Page(HTMLParser):
    """Parser that checks elements and attributes, and collects the addresses of pages."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.shown: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in {"img", "embed", "iframe", "object", "base", "b", "u", "i"}, tag
        named = dict(attrs)
        assert len(named) == len(attrs), "an attribute twice"
        assert not [name for name in named if name.startswith("on") or name == "style"]
        for name in ("href", "src", "action", "formaction", "data"):
            value = named.get(name)
            if value is not None:
                assert value.startswith(("/ops", "/docs", "#", "?", "https://github.com/")), value
        if tag not in {"input", "option"}:  # values that a form sends back unchanged
            self.shown += [value or "" for value in named.values()]
        if tag == "script":
            assert (named.get("src") or "").startswith("/ops/static/"), "a script of a caller"
        if tag == "a" and (named.get("href") or "").startswith("/ops"):
            self.addresses.add(unescape(named["href"] or "").partition("#")[0])

    def handle_data(self, data: str) -> None:
        self.shown.append(data)


def fill(api: Api) -> None:
    """Write hostile texts into everything that a page of the dashboard shows."""
    tenant_id = api.tenant.tenant_id
    service = api.service
    ids = service.send(
        tenant_id, RICH, {**RICH, "external_id": "2", "text": f"{EVIL} again"}, {**RICH, "subject": EVIL_NAME}
    )
    service.send(tenant_id, "plain")
    service.work()
    link = {"from": str(ids[0]), "to": str(ids[1]), "kind": "related"}
    assert api.post("/v1/links", json=link).is_success
    request = request_log.create(
        tenant_id, NewRequest("access", "gdpr", controller=EVIL_NAME, case_reference=EVIL_NAME)
    )
    request_log.extend(tenant_id, request.request_id, Extension(EVIL_NAME), "key")
    request_log.answer_request(tenant_id, request.request_id, "denied", EVIL_NAME, "key")
    hold = legal_holds.place_hold(tenant_id, Scope(thread=RICH["thread"]), "a case", "key")
    api.service.rows(
        "UPDATE holds SET reason = %s", EVIL_NAME
    )  # the reason names a subject, as earlier versions allowed
    legal_holds.place_hold(tenant_id, Scope(tags=RICH["tags"]), EVIL_NAME, "key")
    legal_holds.release_hold(tenant_id, hold.hold_id, "key")
    options = ErasureOptions(Scope(subject=EVIL_NAME), "gdpr", 7, "a reason", EVIL, EVIL, EVIL)
    requests.request(tenant_id, options, "key")
    for subject in (RICH["subject"], "javascript:alert(9)"):
        asked = {"subject": subject, "kind": "access", "law": "user", "reason": "a reason"}
        assert api.post("/v1/privacy/exports", json=asked).is_success
    operator_log.record_action(tenant_id, "key", "run", "night", EVIL_NAME)
    tenants.issue_key(tenant_id, EVIL_NAME, ("read",))
    tenants.create(EVIL_NAME)
    budget.spend_tokens(tenant_id, "score", EVIL_NAME, Usage(1, 1, 1), memories=1)
    service.rows(
        "INSERT INTO dead_letters (tenant_id, letter_id, stage, reason, attempts, discarded_at, discard_reason) "
        "VALUES (%s, %s, 'embed', %s, 1, NULL, NULL), (%s, %s, 'drain', 'x', 1, now(), %s)",
        *(tenant_id, uuid4(), EVIL_NAME, tenant_id, uuid4(), EVIL_NAME),
    )
    fill_webhook(api)
    corrected = legal_holds.place_hold(tenant_id, Scope(thread="t1"), f"{EVIL_NAME} an old reason", "key")
    correction = HoldCorrection("legal_claims", f"{EVIL_NAME} a new reason")
    legal_holds.correct_hold(tenant_id, corrected.hold_id, correction, "key")
    fill_import(api)
    fill_quarantine(api)


def fill_webhook(api: Api) -> None:
    """Create a webhook with a delivery."""
    api.service.configure(webhook_hosts="127.0.0.1")
    given = NewWebhook(SHOWN["webhook's URL"], description=f"{EVIL_NAME} a webhook's")
    webhook_id = webhooks.create(api.tenant.tenant_id, given, "key").webhook.webhook_id
    webhooks.test(api.tenant.tenant_id, webhook_id)


def fill_import(api: Api) -> None:
    """Import a memory, and a record that is skipped."""
    record = {**RICH, "text": f"an imported text {EVIL}", "subject": f"{EVIL_NAME} an imported subject"}
    content = b"\n".join(json.dumps(each).encode() for each in (record, {"text": 5, EVIL_NAME: EVIL_NAME}))
    started = api.post("/v1/imports", content=content, params={"format": "jsonl"})
    assert started.status_code == 202, started.text
    job_id = started.json()["job_id"]
    api.service.rows("UPDATE jobs SET claim = gen_random_uuid() WHERE job_id = %s", job_id)
    runner.run_slice(UUID(job_id))
    api.service.work()


def fill_quarantine(api: Api) -> None:
    """Put a memory in quarantine."""
    key = tenants.issue_key(api.tenant.tenant_id, f"{EVIL_NAME} a key in quarantine", ("ingest",))
    read = api_keys.parse(key)
    assert read is not None
    api.remember(RICH | {"external_id": "in quarantine"}, key=key)
    placed = quarantines.place(api.tenant.tenant_id, NewQuarantine(key_id=read.key_id, confirm=True), "key")
    assert placed.status == "placed"


def test_no_page_runs_or_shows_as_markup_what_a_caller_has_written(api: Api, visit: Visit) -> None:
    fill(api)
    visitor = visit("read", "ingest", "maintain", "privacy", "admin")
    forms = {f"form {number} of {path}": visitor.send(path, form) for number, (path, form) in enumerate(FORMS)}
    waiting = [*forms, "/ops/", "/ops/search?q=tea", "/ops/runbook", f"/ops/search?subject={RICH['subject']}"]
    seen: dict[str, str] = {}
    turned: list[tuple[str, str]] = []
    shown: list[str] = []
    while waiting and len(seen) < PAGES_MAX:
        path = waiting.pop(0)
        answer = forms.get(path) or visitor.get(path.removeprefix("/ops"))
        seen[path] = answer.headers.get("content-type", "")
        assert answer.status_code < 500, path
        if answer.status_code != 200 or not seen[path].startswith("text/html"):
            assert path not in forms, answer.text
            continue
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy, path
        assert "<style" not in answer.text or "style-src 'sha256-" in policy, path
        page = _Page()
        page.feed(answer.text)
        page.close()
        turned += [(path, text) for text in page.shown if re.search("[\u202a-\u202e\u2066-\u2069\u0000-\u0008]", text)]
        shown += page.shown
        waiting += sorted(page.addresses - seen.keys() - set(waiting))
    assert not turned, "characters that change the direction of the text around them"
    assert not [place for place, text in SHOWN.items() if not any(text in each for each in shown)], "never shown"
    pages = [path for path, kind in seen.items() if kind.startswith("text/html")]
    assert PAGES_MIN <= len(pages) < PAGES_MAX, pages
    assert any(path.startswith("/ops/memories/") for path in pages), pages
