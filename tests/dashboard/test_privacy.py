"""The page of privacy requests: days left, urgency, decisions, and requests recorded by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.domain.privacy.requests import NewRequest, PrivacyRequest
from app.services.privacy import request_log, rights_overview
from app.services.security import operator_log
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, said

Visit = Callable[..., Visitor]


def entered(api: Api, days_ago: float, **given: str) -> PrivacyRequest:
    """Record a request received this many days ago."""
    received = datetime.now(UTC) - timedelta(days=days_ago)
    new = NewRequest(**{"nature": "correction", "law": "gdpr", **given}, received_at=received)  # type: ignore[arg-type]
    return request_log.create(api.tenant.tenant_id, new)


def stored_request(api: Api, request: PrivacyRequest) -> PrivacyRequest:
    every = request_log.list_requests(api.tenant.tenant_id, None, 100, is_open=False)
    return next(each for each in every if each.request_id == request.request_id)


def test_the_worst_comes_first_with_its_days(api: Api, visit: Visit) -> None:
    entered(api, 3)
    entered(api, 40, nature="objection")
    entered(api, 13.5, nature="restriction", law="ccpa")
    text = said(visit().page("/privacy"))
    assert text.index("objection") < text.index("restriction") < text.index("correction")
    assert re.search(r"\d+ days overdue objection · GDPR Answer by", text)
    assert "Confirm receipt by" in text


@pytest.mark.parametrize(("days_ago", "kind"), [(1, "well"), (26, "attention"), (40, "trouble")])
def test_urgency_has_its_colour(api: Api, visit: Visit, days_ago: int, kind: str) -> None:
    entered(api, days_ago)
    [found] = re.findall(r'class="badge (\w+)">[\d.]+ days', visit().page("/privacy"))
    assert found == kind


def test_the_one_due_first_is_shown_however_many_are_open(api: Api, visit: Visit) -> None:
    worst = entered(api, 60)
    rows = rights_overview.REQUESTS_MAX + 5
    api.service.rows(
        "INSERT INTO privacy_requests (tenant_id, request_id, nature, law, manner, received_at, due_at) "
        "SELECT %s, gen_random_uuid(), 'access', 'gdpr', 'mail', now(), now() + interval '30 days' "
        "FROM generate_series(1, %s)",
        api.tenant.tenant_id,
        rows,
    )
    html = visit().page("/privacy")
    assert str(worst.request_id) in html
    assert "There are more open requests" in html


@pytest.mark.parametrize(
    ("act", "form", "answer", "word"),
    [
        ("confirm", {}, None, "confirmed"),
        ("complete", {}, "done", "completed"),
        ("deny", {"basis": "GDPR Art. 17(3)(b)"}, "denied", "denied"),
    ],
)
def test_a_request_is_confirmed_and_answered(
    api: Api, visit: Visit, act: str, form: dict[str, str], answer: str | None, word: str
) -> None:
    new = entered(api, 1, law="ccpa")
    visitor = visit()
    assert visitor.act(f"/privacy/requests/{new.request_id}/{act}", form) == f"/privacy?done={word}"
    after = stored_request(api, new)
    assert after.answer == answer
    assert (after.confirmed_at is not None) == (act == "confirm")
    assert after.basis == form.get("basis")
    [done] = operator_log.list_actions(api.tenant.tenant_id)
    assert (done.act, done.target) == (f"{act}_request", str(new.request_id))
    assert ("No open requests" in visitor.page("/privacy")) == (answer is not None)


def test_a_denial_needs_its_basis(api: Api, visit: Visit) -> None:
    new = entered(api, 1)
    answer = visit().send(f"/privacy/requests/{new.request_id}/deny", {"basis": ""})
    assert answer.status_code == 422
    assert "basis" in said(answer.text)
    assert stored_request(api, new).answer is None
    assert not operator_log.list_actions(api.tenant.tenant_id)


def test_one_that_came_by_mail_is_entered_with_its_day(api: Api, visit: Visit) -> None:
    day = (datetime.now(UTC) - timedelta(days=4)).date()
    form = {"nature": "objection", "law": "gdpr", "manner": "letter", "received": day.isoformat()}
    assert visit().act("/privacy/requests", form) == "/privacy?done=entered"
    [new] = request_log.list_requests(api.tenant.tenant_id, None, 10, is_open=True)
    assert (new.nature, new.manner, new.received_at.date()) == ("objection", "letter", day)
    assert visit().send("/privacy/requests", {**form, "nature": "revenge"}).status_code == 422


def test_the_summary_and_the_categories(api: Api, visit: Visit) -> None:
    for days in (2, 4):
        new = entered(api, days)
        request_log.answer_request(api.tenant.tenant_id, new.request_id, "done", None, "k")
    text = said(visit().page("/privacy"))
    assert "correction GDPR 2 0 2 0 0 0 0 3 3" in text
    assert "Personal data (pii) 30 days" in text
    assert "Passwords and keys (credentials) 30 days if the privacy risk exceeds 0.7" in text
    assert "Health no limit" in text
    api.remember({"text": "My IBAN is DE89 3704 0044 0532 0130 00", "categories": ["financial"]})
    counted = said(visit().page("/privacy/categories"))
    assert re.search(r"Finances \(financial\) 90 days 1 ", counted)


def test_every_request_is_listed_by_cursor(api: Api, visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.dashboard.pages.privacy.PAGE", 2)
    for days in (1, 2, 3):
        entered(api, days)
    visitor = visit()
    html = visitor.page("/privacy/log")
    older = re.search(r'href="/ops(/privacy/log\?cursor=[^"]+)"', html)
    assert older
    assert html.count("correction") == 2
    assert visitor.page(older[1]).count("correction") == 1


@pytest.mark.parametrize("path", ["", "/log", "/categories", "/subjects", "/erasures", "/exports", "/holds"])
def test_people_are_for_keys_of_the_scope_alone(visit: Visit, path: str) -> None:
    assert visit("read", "maintain").get(f"/privacy{path}").status_code == 403
    assert visit("read", "privacy").get(f"/privacy{path}").status_code == 200


def test_nothing_is_entered_by_who_may_not(api: Api, visit: Visit) -> None:
    new = entered(api, 1)
    assert visit("read", "maintain").send(f"/privacy/requests/{new.request_id}/complete").status_code == 403
    assert visit().send(f"/privacy/requests/{UUID(int=1)}/complete").status_code == 404
    assert visit().send("/privacy/requests/nonsense/complete").status_code == 404
    assert stored_request(api, new).answer is None
