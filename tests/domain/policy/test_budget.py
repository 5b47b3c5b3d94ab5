"""Token costs, how close spending is to its limits, and the remaining budget."""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.clients.llm.responses import Usage
from app.domain.policy.budget import (
    BudgetState,
    BudgetStatus,
    DaySpending,
    Limits,
    budget_state,
    remaining,
    token_cost,
    without_total,
)
from app.settings import ModelPrice

counts = st.integers(min_value=0, max_value=10**12)
money = st.floats(min_value=0, max_value=1e6)
usages = st.builds(Usage, counts, counts, counts, counts)
prices = st.builds(ModelPrice, input=money, output=money, cached=st.none() | money)
spendings = st.builds(DaySpending, counts, money, st.integers(0, 1))
limits = st.builds(Limits, st.none() | counts, st.none() | money, st.none() | counts, st.none() | money)
standings = st.builds(BudgetStatus, spendings, spendings, limits)
shares = st.floats(min_value=0.01, max_value=1)
SEVERITY = [BudgetState.OK, BudgetState.SOFT, BudgetState.HARD]


NOTHING = DaySpending()


# --- Prices ---


def test_cached_tokens_have_their_own_price() -> None:
    price = ModelPrice(input=2, cached=0.5, output=8)
    assert token_cost(Usage(1, 1_000_000, 400_000, 250_000), price) == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 0.25 * 8)


def test_without_one_they_cost_what_others_do() -> None:
    assert token_cost(Usage(1, 1_000_000, 400_000), ModelPrice(input=2)) == pytest.approx(2)


def test_a_model_without_a_price_costs_an_unknown_sum_and_nothing_costs_nothing() -> None:
    assert token_cost(Usage(1, 1), None) is None
    assert token_cost(Usage(1, 0, 0, 1), None) is None
    assert token_cost(Usage(), None) == 0


@given(usages, prices)
def test_a_cost_is_between_the_cheapest_and_the_dearest_price(usage: Usage, price: ModelPrice) -> None:
    found = token_cost(usage, price)
    each = [price.input, price.output] + ([] if price.cached is None else [price.cached])
    millions = (usage.input_tokens + usage.output_tokens) / 1e6
    assert found is not None
    assert min(each) * millions * 0.999_999 <= found <= max(each) * millions * 1.000_001


@given(usages, usages, prices)
def test_costs_of_parts_add_up(one: Usage, other: Usage, price: ModelPrice) -> None:
    one, other = (replace(usage, cached_tokens=min(usage.cached_tokens, usage.input_tokens)) for usage in (one, other))
    parts = [token_cost(one, price), token_cost(other, price)]
    assert token_cost(one + other, price) == pytest.approx(sum(part or 0 for part in parts))


def test_a_cost_with_an_unknown_part_is_unknown() -> None:
    assert DaySpending(10, 0.5).known_cost == 0.5
    assert (DaySpending(10, 0.5) + DaySpending(3, 0, 3)).known_cost is None


# --- Limits ---


def test_the_smaller_limit_counts_and_totals_are_the_operators() -> None:
    operators = Limits(100, 1.0, 1000, 10.0)
    assert operators.lower_to(50, 2.0) == Limits(50, 1.0, 1000, 10.0)
    assert operators.lower_to(None, None) == operators
    assert Limits().lower_to(0, 0.0) == Limits(0, 0.0)


@given(limits, st.none() | counts, st.none() | money)
def test_a_tenant_never_widens_a_limit(given_limits: Limits, tokens: int | None, price: float | None) -> None:
    found = given_limits.lower_to(tokens, price)
    for wide, narrow in zip(astuple(given_limits), astuple(found), strict=True):
        assert wide is None or (narrow is not None and narrow <= wide)


# --- The state ---


@pytest.mark.parametrize(
    ("spent", "expected"),
    [
        (0, BudgetState.OK),
        (79, BudgetState.OK),
        (80, BudgetState.SOFT),
        (99, BudgetState.SOFT),
        (100, BudgetState.HARD),
        (101, BudgetState.HARD),
    ],
)
def test_soft_from_its_share_of_the_limit_and_hard_at_it(spent: int, expected: BudgetState) -> None:
    assert budget_state(BudgetStatus(DaySpending(spent), NOTHING, Limits(tokens=100)), 0.8) is expected
    assert budget_state(BudgetStatus(DaySpending(0, spent / 100), NOTHING, Limits(cost=1.0)), 0.8) is expected
    assert budget_state(BudgetStatus(NOTHING, DaySpending(spent), Limits(total_tokens=100)), 0.8) is expected
    assert budget_state(BudgetStatus(NOTHING, DaySpending(0, spent / 100), Limits(total_cost=1.0)), 0.8) is expected


@pytest.mark.parametrize("zero", [Limits(0), Limits(cost=0), Limits(total_tokens=0), Limits(total_cost=0)], ids=str)
def test_a_limit_of_0_is_hard_at_once(zero: Limits) -> None:
    assert budget_state(BudgetStatus(NOTHING, NOTHING, zero), 0.8) is BudgetState.HARD


@given(spendings, spendings, shares)
def test_without_limits_all_is_well(own: DaySpending, total: DaySpending, share: float) -> None:
    assert budget_state(BudgetStatus(own, total, Limits()), share) is BudgetState.OK


@given(standings, spendings, shares)
def test_more_spending_never_makes_it_better(before: BudgetStatus, more: DaySpending, share: float) -> None:
    after = BudgetStatus(before.own + more, before.total + more, before.limits)
    assert SEVERITY.index(budget_state(after, share)) >= SEVERITY.index(budget_state(before, share))


@given(standings, shares)
def test_a_tenants_own_state_is_never_worse(found: BudgetStatus, share: float) -> None:
    assert SEVERITY.index(budget_state(without_total(found), share)) <= SEVERITY.index(budget_state(found, share))


# --- Remaining budget ---


@given(standings)
def test_what_is_left_is_within_the_limit(found: BudgetStatus) -> None:
    for limit, rest in zip(astuple(found.limits), astuple(remaining(found)), strict=True):
        assert rest is None or 0 <= rest <= limit


@given(standings, shares)
def test_nothing_is_left_of_some_limit_exactly_when_it_is_hard(found: BudgetStatus, share: float) -> None:
    known = BudgetStatus(replace(found.own, unpriced_tokens=0), replace(found.total, unpriced_tokens=0), found.limits)
    assert (budget_state(known, share) is BudgetState.HARD) == (0 in astuple(remaining(known)))


def test_what_is_left_of_an_unknown_cost_is_unknown() -> None:
    assert remaining(BudgetStatus(DaySpending(10, 0.5, 2), NOTHING, Limits(100, 1.0))) == Limits(tokens=90)
