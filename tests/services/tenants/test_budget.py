"""Budgets: spending is recorded, limits take effect in time, and searches are unaffected."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from uuid import uuid4

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from app import metrics
from app.clients.llm.resilience import ProviderFailed, Reason
from app.clients.llm.responses import Usage
from app.domain.policy.budget import DaySpending
from app.domain.policy.policy import Budget, Policy
from app.errors import Invalid, NotFound
from app.services.tenants import budget
from app.services.tenants.budget import BudgetState, CostReport, budget_state, report_costs, spend_tokens
from app.services.transient_errors import OverBudget
from app.settings import OPENAI_URL, Settings, settings
from app.store.core import database
from app.store.tenants import model_usage
from tests.service import Service, Tenant, forget
from tests.statements import watched

pytestmark = pytest.mark.usefixtures("whole_day")

PRICES = json.dumps({"m": {"input": 2, "cached": 1, "output": 4}, "free": {"input": 0}})
CALL = Usage(calls=1, input_tokens=1000, cached_tokens=400, output_tokens=100)
CALL_COST = (600 * 2 + 400 * 1 + 100 * 4) / 1e6


def utc_date() -> date:
    """Return the date in UTC now: a run of all tests may go past midnight."""
    return datetime.now(UTC).date()


@pytest.fixture
def tenant(service: Service) -> Tenant:
    service.configure(prices=PRICES)
    return service.tenant()


@pytest.fixture
def unheld(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the cache of budget states."""
    monkeypatch.setattr(budget, "FRESH_SECONDS", 0.0)


def spent(found: CostReport) -> DaySpending:
    return found.standing.own


def test_calls_of_a_day_are_one_row_for_each_purpose_and_model(tenant: Tenant) -> None:
    for _ in range(2):
        spend_tokens(tenant.tenant_id, "score", "m", CALL, memories=7, cache_hits=3)
    spend_tokens(tenant.tenant_id, "query", "m", Usage(1, 10))
    spend_tokens(tenant.tenant_id, "score", "free", CALL)
    found = report_costs(tenant.tenant_id)
    shown = [(row.purpose, row.model, row.calls, row.memories, row.cache_hits, row.cost) for row in found.rows]
    assert shown == [
        ("query", "m", 1, 0, 0, pytest.approx(20 / 1e6)),
        ("score", "free", 1, 0, 0, 0),
        ("score", "m", 2, 14, 6, pytest.approx(2 * CALL_COST)),
    ]
    last = found.rows[-1]
    assert (last.day, last.input_tokens, last.cached_tokens, last.output_tokens) == (utc_date(), 2000, 800, 200)
    assert spent(found).tokens == 3310


def test_nothing_is_no_row(tenant: Tenant) -> None:
    spend_tokens(tenant.tenant_id, "score", "m", Usage())
    assert report_costs(tenant.tenant_id).rows == []


def test_calls_of_many_workers_are_all_counted(tenant: Tenant) -> None:
    with ThreadPoolExecutor(8) as pool:
        for _ in range(40):
            pool.submit(spend_tokens, tenant.tenant_id, "embed", "m", CALL)
    [row] = report_costs(tenant.tenant_id).rows
    assert row.calls == 40
    assert row.cost == pytest.approx(40 * CALL_COST)


def test_work_is_counted_for_metrics(tenant: Tenant) -> None:
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    held = metrics.read_worker_metrics()
    assert held.value("llm_requests", ("score", "answered")) == 1
    assert [held.value("llm_tokens", (direction,)) for direction in ("input", "output")] == [1000, 100]


def test_requests_that_came_to_nothing_are_counted_by_why(tenant: Tenant, service: Service) -> None:
    with pytest.raises(ProviderFailed), budget.book_usage(tenant.tenant_id, "embed", "m"):
        raise ProviderFailed(Reason.TIMEOUT)
    service.configure(budget_tokens=0)
    with pytest.raises(OverBudget), budget.book_usage(service.tenant().tenant_id, "rerank", "m"):
        raise AssertionError
    held = metrics.read_worker_metrics()
    assert held.value("llm_requests", ("embed", "failed")) == 1
    assert held.value("llm_requests", ("rerank", "over_budget")) == 1


# --- Unknown costs ---


def test_a_model_without_a_price_makes_the_days_cost_unknown(tenant: Tenant) -> None:
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    spend_tokens(tenant.tenant_id, "score", "other", CALL)
    found = report_costs(tenant.tenant_id)
    assert [(row.model, row.cost) for row in found.rows] == [("m", pytest.approx(CALL_COST)), ("other", None)]
    assert (spent(found).known_cost, spent(found).unpriced_tokens) == (None, 1100)
    assert spent(found).cost == pytest.approx(CALL_COST)


def test_a_row_that_is_known_in_part_looks_like_no_cost(service: Service, tenant: Tenant) -> None:
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    service.configure(prices="{}")
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    [row] = report_costs(tenant.tenant_id).rows
    assert row.cost is None


def test_a_price_that_comes_late_is_for_the_whole_day(service: Service, tenant: Tenant) -> None:
    spend_tokens(tenant.tenant_id, "score", "late", CALL)
    service.configure(prices='{"late": {"input": 1, "output": 1}}')
    spend_tokens(tenant.tenant_id, "score", "late", CALL)
    [row] = report_costs(tenant.tenant_id).rows
    assert row.cost == pytest.approx(2 * 1100 / 1e6)


def test_hits_of_the_cache_cost_nothing_even_without_a_price(tenant: Tenant) -> None:
    spend_tokens(tenant.tenant_id, "score", "other", Usage(), cache_hits=5)
    [row] = report_costs(tenant.tenant_id).rows
    assert (row.cache_hits, row.cost) == (5, 0)


def test_more_cached_than_sent_is_taken_for_all(tenant: Tenant) -> None:
    spend_tokens(tenant.tenant_id, "score", "m", Usage(1, 10, 50, 0))
    [row] = report_costs(tenant.tenant_id).rows
    assert row.cached_tokens == 10
    assert row.cost == pytest.approx(10 / 1e6)


def test_a_provider_that_counts_without_end_breaks_nothing(tenant: Tenant) -> None:
    for _ in range(2):
        spend_tokens(tenant.tenant_id, "score", "m", Usage(1, 10**30, 10**30, 10**30))
    [row] = report_costs(tenant.tenant_id).rows
    assert (row.calls, row.input_tokens) == (2, 2 * 10**12)


# --- Limits ---


def test_without_limits_models_may_be_asked(tenant: Tenant) -> None:
    spend_tokens(tenant.tenant_id, "score", "m", Usage(1, 10**12))
    assert budget_state(tenant.tenant_id) is BudgetState.OK


@pytest.mark.parametrize("limit", [{"budget_tokens": 2200}, {"budget_cost": 2 * CALL_COST}], ids=["tokens", "cost"])
def test_a_tenant_is_stopped_at_its_limit_and_others_are_not(
    service: Service, tenant: Tenant, limit: dict[str, float]
) -> None:
    service.configure(**limit)
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    assert budget_state(tenant.tenant_id) is BudgetState.OK
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    assert budget_state(tenant.tenant_id) is BudgetState.HARD
    assert budget_state(service.tenant().tenant_id) is BudgetState.OK


def test_what_all_spend_together_stops_everybody(service: Service, tenant: Tenant) -> None:
    service.configure(budget_total_tokens=2200, budget_soft_share=0.5)
    other = service.tenant()
    assert budget_state(other.tenant_id) is BudgetState.OK
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    assert budget_state(other.tenant_id) is BudgetState.SOFT
    spend_tokens(tenant.tenant_id, "embed", "m", CALL)
    assert (budget_state(other.tenant_id), budget_state(tenant.tenant_id)) == (BudgetState.HARD, BudgetState.HARD)


def test_a_tenants_own_limit_counts_where_it_is_smaller(service: Service, unheld: None) -> None:
    service.configure(budget_tokens=1000)
    careful, bold = (service.tenant(Policy(budget=Budget(tokens=tokens))) for tokens in (100, 10**9))
    for tenant in (careful, bold):
        spend_tokens(tenant.tenant_id, "score", "m", Usage(1, 100))
    assert (budget_state(careful.tenant_id), budget_state(bold.tenant_id)) == (BudgetState.HARD, BudgetState.OK)
    spend_tokens(bold.tenant_id, "score", "m", Usage(1, 900))
    assert budget_state(bold.tenant_id) is BudgetState.HARD


def test_a_tenant_may_want_no_model_at_all(service: Service) -> None:
    assert budget_state(service.tenant(Policy(budget=Budget(tokens=0))).tenant_id) is BudgetState.HARD


def test_yesterdays_spending_is_over(service: Service, tenant: Tenant, unheld: None) -> None:
    service.configure(budget_tokens=1000, budget_total_tokens=1000)
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    assert budget_state(tenant.tenant_id) is BudgetState.HARD
    service.rows("UPDATE usage SET day = day - 1")
    assert budget_state(tenant.tenant_id) is BudgetState.OK


# --- Caching ---


def test_a_state_is_read_once_and_the_processs_own_spending_added(service: Service, tenant: Tenant) -> None:
    service.configure(budget_tokens=2200, budget_total_tokens=10**9)
    assert budget_state(tenant.tenant_id) is BudgetState.OK
    with watched("ebbing_app") as seen:
        for _ in range(5):
            assert budget_state(tenant.tenant_id) is BudgetState.OK
        assert seen == []
        spend_tokens(tenant.tenant_id, "score", "m", Usage(1, 2200))
        assert len(seen) == 1
        assert budget_state(tenant.tenant_id) is BudgetState.HARD
        assert len(seen) == 1


def test_own_and_total_are_one_query_and_the_total_isnt_summed_for_each_tenant(
    service: Service, tenant: Tenant
) -> None:
    service.configure(budget_tokens=2200, budget_total_tokens=10**9)
    other = service.tenant()
    with watched("ebbing_app") as seen:
        budget_state(tenant.tenant_id)
        assert len([statement for statement in seen if "FROM usage" in statement]) == 1
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    service.rows("UPDATE usage SET input_tokens = 10^9")  # by another process
    assert budget_state(other.tenant_id) is BudgetState.OK, "the total is cached for a second"


def test_what_another_process_spends_is_heard_of(service: Service, tenant: Tenant, unheld: None) -> None:
    service.configure(budget_tokens=2200)
    assert budget_state(tenant.tenant_id) is BudgetState.OK
    spend_tokens(tenant.tenant_id, "score", "m", CALL)
    service.rows("UPDATE usage SET input_tokens = 5000")
    assert budget_state(tenant.tenant_id) is BudgetState.HARD


def test_a_process_holds_so_many_tenants_at_most(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "TENANTS_MAX", 2)
    for _ in range(5):
        budget_state(service.tenant().tenant_id)
        assert len(budget._memo.own) <= 2


def test_the_sum_of_a_day_uses_its_index(service: Service, tenant: Tenant) -> None:
    service.rows(
        "INSERT INTO usage (tenant_id, day, purpose, host, model) "
        "SELECT gen_random_uuid(), DATE '2020-01-01' + mod(n, 500), 'score', 'h', 'm' FROM generate_series(1, 20000) n"
    )
    service.rows("ANALYZE usage")
    values = {"tenant_id": tenant.tenant_id, "total": True}
    with database.shared() as tx:
        plan = "\n".join(tx.execute(text(f"EXPLAIN {model_usage._SPENT_TODAY}"), values).scalars())
    assert "usage_day" in plan
    assert "Seq Scan" not in plan


# --- Warnings ---


def test_soft_and_hard_are_said_and_counted_once_a_tenant_and_day(
    service: Service, tenant: Tenant, unheld: None
) -> None:
    service.configure(budget_tokens=1100)
    other = service.tenant()
    with capture_logs() as logged:
        for _ in range(3):
            budget_state(tenant.tenant_id)
            budget_state(other.tenant_id)
            spend_tokens(tenant.tenant_id, "score", "m", Usage(1, 440))
        spend_tokens(other.tenant_id, "score", "m", Usage(1, 900))
        budget_state(other.tenant_id)
        budget_state(tenant.tenant_id)
    shown = [(line["state"], line["tenant"]) for line in logged if line["event"] == "budget"]
    assert shown == [
        ("soft", str(tenant.tenant_id)),
        ("hard", str(tenant.tenant_id)),
        ("soft", str(other.tenant_id)),
    ]
    assert all(line["log_level"] == "warning" for line in logged)
    counted = metrics.read_counters()
    assert (counted["budget_soft_reached"], counted["budget_hard_reached"]) == (2, 1)


def configured(**values: object) -> Settings:
    return Settings.model_validate({"openai_api_key": "k", "salience_model": "m", "embedding_model": "e"} | values)


def test_a_limit_of_money_on_a_model_without_a_price_is_remarked_on() -> None:
    assert budget.list_warnings(configured()) == []
    assert budget.list_warnings(configured(openai_api_key=None, budget_cost=1)) == []
    assert budget.list_warnings(configured(budget_tokens=1)) == []
    assert budget.list_warnings(configured(budget_cost=1, prices={"m": {"input": 1}})) == []
    [one] = budget.list_warnings(configured(budget_cost=1, prices={"e": {"input": 1}}))
    assert "EBBING_BUDGET_COST is set but m has no price in EBBING_PRICES" in one
    assert len(budget.list_warnings(configured(budget_total_cost=1, embedder="openai"))) == 2


def test_it_is_said_at_start_up(service: Service) -> None:
    service.configure(openai_base_url="http://127.0.0.1:9/v1", salience_model="m", budget_cost=1)
    with capture_logs() as logged:
        budget.log_warnings()
    assert [line["event"] for line in logged] == ["budget_unheld"]


# --- The host ---


def test_the_host_is_all_that_is_kept_of_an_address() -> None:
    assert configured().provider_host == configured(openai_base_url=OPENAI_URL).provider_host
    assert configured(openai_base_url="https://Models.example:8443/secret/v1").provider_host == "models.example"
    assert configured(openai_base_url="http://[::1]:11434/v1").provider_host == "::1"


# --- The report ---


def days_of(found: CostReport) -> list[date]:
    return [row.day for row in found.rows]


@pytest.fixture
def daily(service: Service, tenant: Tenant) -> Tenant:
    """Two tenants with a usage row for each of 400 days; returns the first."""
    for tenant_id in (tenant.tenant_id, service.tenant().tenant_id):
        service.rows(
            "INSERT INTO usage (tenant_id, day, purpose, host, model, calls) "
            "SELECT %s, (now() AT TIME ZONE 'UTC')::date - n, 'score', 'h', 'm', 1 FROM generate_series(0, 399) n",
            tenant_id,
        )
    return tenant


def test_a_report_is_of_the_last_30_days_or_those_asked_for(daily: Tenant) -> None:
    today = utc_date()
    assert days_of(report_costs(daily.tenant_id)) == [today - timedelta(days=29 - n) for n in range(30)]
    early = today - timedelta(days=380)
    assert days_of(report_costs(daily.tenant_id, early, early + timedelta(days=1))) == [
        early,
        early + timedelta(days=1),
    ]
    assert days_of(report_costs(daily.tenant_id, None, early)) == [early - timedelta(days=19 - n) for n in range(20)]
    assert len(report_costs(daily.tenant_id, today - timedelta(days=365)).rows) == 366
    assert report_costs(daily.tenant_id, None, date.min).rows == []


def test_too_many_days_or_none_are_refused(daily: Tenant) -> None:
    today = utc_date()
    with pytest.raises(Invalid) as raised:
        report_costs(daily.tenant_id, today - timedelta(days=366), today)
    [error] = raised.value.errors
    assert (error.field, error.value, error.limit) == ("from", 367, 366)
    with pytest.raises(Invalid) as raised:
        report_costs(daily.tenant_id, today, today - timedelta(days=1))
    assert raised.value.errors[0].field == "from"


def test_a_tenant_that_isnt_there_has_no_report(service: Service) -> None:
    with pytest.raises(NotFound):
        report_costs(uuid4())


def test_forgetting_drops_what_is_held(service: Service, tenant: Tenant) -> None:
    budget_state(tenant.tenant_id)
    forget()
    assert budget._memo.own == {}
    assert settings().prices
