"""The costs page: figures, charts, and who may see which tenant's costs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta

import pytest

from app.clients.llm.responses import Usage
from app.domain.policy.policy import Budget, Policy
from app.services.tenants import budget, usage_report
from app.store.core import database
from app.store.tenants import policies
from tests.api.caller import Api
from tests.dashboard.visitor import Visitor, cookie_of, said

pytestmark = pytest.mark.usefixtures("whole_day")

Visit = Callable[..., Visitor]

CALL = Usage(calls=1, input_tokens=1000, cached_tokens=400, output_tokens=100)


@pytest.fixture(autouse=True)
def priced(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "FRESH_SECONDS", 0.0)
    api.service.configure(prices=json.dumps({"m": {"input": 2000, "output": 4000}}))


def test_nothing_spent_is_said_so(visit: Visit) -> None:
    text = said(visit("read", "maintain").page("/money"))
    assert "No billed model calls. Overview shows failed calls." in text
    assert "no budget set" in text
    assert "within the budget" not in text


def test_calls_tokens_cost_and_cache_hits(api: Api, visit: Visit) -> None:
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", CALL, memories=3, cache_hits=7)
    budget.spend_tokens(api.tenant.tenant_id, "summarise", "m", CALL)
    html = visit("maintain").page("/money")
    text = said(html)
    assert "Calls 2 Input tokens 2,000 800 cached Output tokens 200 Cost 4.80 Cache hits 7" in text
    assert re.search(r"score m \S+ 1 1,000 100 3 7 2\.40", text)
    assert re.search(r"summarise m \S+ 1 1,000 100 0 0 2\.40", text)
    today = usage_report.report_usage(api.tenant.tenant_id).days[-1][0]
    assert f"<title>{today:%m-%d} input: 2,000</title>" in html
    assert f"<title>{today:%m-%d} cost: 4.8</title>" in html
    assert html.count('<svg class="chart"') == 3


def test_a_model_without_a_price_makes_the_cost_unknown(api: Api, visit: Visit) -> None:
    budget.spend_tokens(api.tenant.tenant_id, "score", "dear", CALL)
    text = said(visit("maintain").page("/money"))
    assert "Cost unknown at least one model has no price" in text
    assert "Cost, this tenant unknown (no limit set)" in text


def test_every_day_of_thirty_has_its_place(api: Api) -> None:
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", CALL)
    api.service.rows("UPDATE usage SET day = day - 29")
    budget.spend_tokens(api.tenant.tenant_id, "embed", "m", CALL)
    api.service.rows("INSERT INTO usage (tenant_id, day, purpose, host, model, calls) VALUES "
                     "(%s, current_date - 30, 'query', 'h', 'm', 5)", api.tenant.tenant_id)  # fmt: skip
    found = usage_report.report_usage(api.tenant.tenant_id)
    assert [(later[0] - day[0]) for day, later in zip(found.days, found.days[1:], strict=False)] == [
        timedelta(days=1)
    ] * 29
    assert [sum_.calls for _, sum_ in found.days] == [1, *[0] * 28, 1]
    assert found.whole.calls == 2


@pytest.mark.parametrize(
    ("limit", "said_so"), [(5000, "within"), (1300, "close to the limit"), (1000, "limit reached")]
)
def test_the_budget_and_what_is_left(api: Api, visit: Visit, limit: int, said_so: str) -> None:
    with database.tenant(api.tenant.tenant_id) as tx:
        policies.add(tx, api.tenant.tenant_id, 2, Policy(budget=Budget(tokens=limit)))
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", CALL)
    text = said(visit("maintain").page("/money"))
    assert f"Today, this tenant {said_so}" in text
    assert f"Tokens left, this tenant {max(limit - 1100, 0):,}" in text


def test_what_all_have_spent_is_an_admins_to_know(api: Api, visit: Visit) -> None:
    other = api.service.tenant()
    api.service.configure(budget_total_tokens=10_000)
    budget.spend_tokens(other.tenant_id, "score", "m", CALL)
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", CALL)
    admin = visit("admin").page("/money?every=true")
    assert "Calls 2" in said(admin)
    assert "Tokens left, all tenants 7,800 of 10,000" in said(admin)
    assert "Calls 1" in said(visit("admin").page("/money"))
    for path in ("/money", "/money?every=true"):
        text = said(visit("maintain").page(path))
        assert "Calls 1" in text
        assert "all tenants" not in text


def test_under_all_tenants_no_figure_is_of_one_tenant(api: Api, visit: Visit) -> None:
    other = api.service.tenant()
    with database.tenant(api.tenant.tenant_id) as tx:
        policies.add(tx, api.tenant.tenant_id, 2, Policy(budget=Budget(tokens=1000)))
    budget.spend_tokens(other.tenant_id, "score", "m", CALL)
    budget.spend_tokens(api.tenant.tenant_id, "score", "m", CALL)
    visitor = visit("admin")
    every = said(visitor.page("/money?every=true"))
    assert "Today, all tenants no budget set" in every
    assert "Tokens used, all tenants 2,200 (no limit set) Cost, all tenants 4.80 (no limit set)" in every
    assert every.count("this tenant") == 1, "only the link to this tenant's costs"
    own = said(visitor.page("/money"))
    assert "Today, this tenant limit reached" in own
    assert "Tokens used, this tenant 1,100 of 1,000 Tokens left, this tenant 0" in own


def test_an_admin_sees_the_tenant_that_was_chosen(api: Api, visit: Visit) -> None:
    other = api.service.tenant()
    budget.spend_tokens(other.tenant_id, "score", "m", CALL)
    admin = visit("admin")
    admin.cookie = cookie_of(admin.send("/tenant", {"tenant": str(other.tenant_id)}))
    assert "Calls 1" in said(admin.page("/money"))


def test_who_only_reads_sees_no_money(visit: Visit) -> None:
    assert visit("read", "privacy").get("/money").status_code == 403
