"""Every page of the dashboard renders hostile texts harmlessly, wherever a caller or an operator can write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from uuid import uuid4

from app.clients.llm.responses import Usage
from app.domain.privacy.legal_hold import Scope
from app.domain.privacy.requests import Extension, NewRequest
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.privacy import legal_holds, request_log
from app.services.security import operator_log
from app.services.tenants import budget, tenants
from tests.api.caller import Api
from tests.dashboard.odd import EVIL, RICH
from tests.dashboard.visitor import Visitor

Visit = Callable[..., Visitor]
PAGES_MIN = 35
PAGES_MAX = 120
EVIL_NAME = "\u202e<script>alert(7)</script>\" onclick='alert(8)'"


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


def test_no_page_runs_or_shows_as_markup_what_a_caller_has_written(api: Api, visit: Visit) -> None:
    fill(api)
    visitor = visit("read", "ingest", "maintain", "privacy", "admin")
    waiting = ["/ops/", "/ops/search?q=tea", "/ops/runbook", f"/ops/search?subject={RICH['subject']}"]
    seen: dict[str, str] = {}
    turned: list[tuple[str, str]] = []
    while waiting and len(seen) < PAGES_MAX:
        path = waiting.pop(0)
        answer = visitor.get(path.removeprefix("/ops"))
        seen[path] = answer.headers.get("content-type", "")
        assert answer.status_code < 500, path
        if answer.status_code != 200 or not seen[path].startswith("text/html"):
            continue
        policy = answer.headers["content-security-policy"]
        assert "unsafe" not in policy, path
        assert "<style" not in answer.text or "style-src 'sha256-" in policy, path
        page = _Page()
        page.feed(answer.text)
        page.close()
        turned += [(path, text) for text in page.shown if re.search("[\u202a-\u202e\u2066-\u2069\u0000-\u0008]", text)]
        waiting += sorted(page.addresses - seen.keys() - set(waiting))
    assert not turned, "characters that change the direction of the text around them"
    pages = [path for path, kind in seen.items() if kind.startswith("text/html")]
    assert len(pages) >= PAGES_MIN, pages
