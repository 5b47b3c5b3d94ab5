"""Budgets: track the cost of a tenant's model calls today, and decide whether further calls are allowed.

A limit can be exceeded slightly. Models are called only until the budget state is `HARD` (a limit is reached), and
every call is counted. The excess is therefore limited to the calls in flight when the limit is reached (a process makes
up to `EBBING_LLM_CONCURRENCY` calls at once and checks the state before each batch) and the calls that other processes
start within `FRESH_SECONDS`, before they re-read the spending. Cost limits only apply to models with a price;
`list_warnings` reports models without one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from threading import Lock
from typing import Final, Literal
from uuid import UUID

import structlog

from app import metrics
from app.clients.llm.resilience import ProviderFailed
from app.clients.llm.responses import Usage
from app.domain.policy import budget
from app.domain.policy.budget import BudgetState, BudgetStatus, DaySpending, Limits
from app.errors import FieldError, Invalid, NotFound
from app.services.transient_errors import OverBudget
from app.settings import Settings, settings
from app.store.core import database
from app.store.tenants import model_usage, policies, tenants
from app.store.tenants.model_usage import UsageRow

__all__ = [
    "BudgetState",
    "CostReport",
    "Purpose",
    "book_usage",
    "budget_state",
    "count_failure",
    "list_models",
    "list_warnings",
    "log_warnings",
    "report_costs",
    "settings_limits",
    "spend_tokens",
]

Purpose = Literal["score", "embed", "query", "rerank", "summarise", "self_test", "contradict"]

FRESH_SECONDS: Final = 1.0
"""Maximum age of the spending that a process caches; its own spending is added immediately."""
TENANTS_MAX: Final = 10_000
"""Maximum number of tenants whose spending a process caches."""
NOTED_TOKENS_MAX: Final = 10**12
"""Maximum number of tokens recorded per call of `spend_tokens`; larger numbers are provider errors and are clamped."""
REPORT_DAYS: Final = 30
REPORT_DAYS_MAX: Final = 366

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _CachedSpending:
    """A tenant's cached spending: the spending last read, plus this process's spending since then."""

    read_at: float
    day: date | None
    own: DaySpending
    limits: Limits


@dataclass
class _BudgetCache:
    """This process's cached spending by tenant and in total, and the budget states already logged (`said`)."""

    lock: Lock = field(default_factory=Lock)
    own: dict[UUID, _CachedSpending] = field(default_factory=dict)
    total: DaySpending = field(default_factory=DaySpending)
    total_read_at: float = -FRESH_SECONDS
    said: set[tuple[date, UUID, BudgetState]] = field(default_factory=set)


_memo = _BudgetCache()


@dataclass(frozen=True)
class CostReport:
    """A tenant's model costs.

    Attributes:
        rows: Usage on the days of the report.
        standing: Today's spending and limits, including those over all tenants.
        state: Budget state according to all limits.
        own_state: Budget state according to the tenant's own limits.
    """

    rows: list[UsageRow]
    standing: BudgetStatus
    state: BudgetState
    own_state: BudgetState


def budget_state(tenant_id: UUID) -> BudgetState:
    """Return a tenant's budget state, at most `FRESH_SECONDS` old; models may be called unless the state is `HARD`."""
    cached = _memo.own.get(tenant_id)
    if cached is None or time.monotonic() - cached.read_at >= FRESH_SECONDS:
        cached = _read(tenant_id)
    return _judge_state(tenant_id, cached)


def spend_tokens(
    tenant_id: UUID, purpose: Purpose, model: str, usage: Usage, *, memories: int = 0, cache_hits: int = 0
) -> None:
    """Record the tokens and the cost of model calls, in a separate transaction.

    Args:
        model: The provider's model name, which determines the price.
        memories: Number of memories rated, embedded, reranked or summarised.
        cache_hits: Number of memories that reused an identical memory's result, without a call.
    """
    usage = _summable(usage)
    counts = {
        "calls": usage.calls,
        "input_tokens": usage.input_tokens,
        "cached_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
        "memories": memories,
        "cache_hits": cache_hits,
    }
    if not any(counts.values()):
        return
    metrics.count("llm_requests", usage.calls, purpose=purpose, outcome="answered")
    for direction in ("input", "output"):
        metrics.count("llm_tokens", counts[f"{direction}_tokens"], direction=direction)
    config = settings()
    price = config.prices.get(model)
    cost = budget.token_cost(usage, price)
    with database.shared() as tx:
        row = model_usage.add(
            tx, tenant_id, purpose=purpose, host=config.provider_host, model=model, counts=counts, cost=cost
        )
        if row.cost is None and price is not None and (whole := budget.token_cost(row, price)) is not None:
            model_usage.set_cost(tx, tenant_id, row, whole)  # the model's price was added during the day
    tokens = usage.input_tokens + usage.output_tokens
    _add(tenant_id, DaySpending(tokens, cost or 0.0, tokens if cost is None else 0))


@contextmanager
def book_usage(
    tenant_id: UUID, purpose: Purpose, model: str | None, memories: int = 0
) -> Iterator[Callable[[Usage], None]]:
    """Record the usage passed to the yielded function on leaving the block, even if a later call in the block fails.

    Args:
        model: The model that determines the price; None for a free local model, which no budget limits.
        memories: Number of memories processed.

    Raises:
        OverBudget: The tenant's budget for today is used up.
    """
    if model is not None and budget_state(tenant_id) is BudgetState.HARD:
        count_failure(purpose, over_budget=True)
        raise OverBudget
    spent: list[Usage] = []
    try:
        yield spent.append
    except ProviderFailed:
        if model is not None:
            count_failure(purpose)
        raise
    finally:
        if model is not None and spent:
            spend_tokens(tenant_id, purpose, model, sum(spent, Usage()), memories=memories)


def count_failure(purpose: Purpose, *, over_budget: bool = False) -> None:
    """Count a model request that failed after all retries, or was skipped because the budget is used up."""
    metrics.count("llm_requests", purpose=purpose, outcome="over_budget" if over_budget else "failed")


def report_costs(tenant_id: UUID, first: date | None = None, last: date | None = None) -> CostReport:
    """Return a tenant's model costs between two days (UTC, inclusive), with today's state and limits.

    Args:
        first: Default: 29 days before `last`.
        last: Default: today.

    Raises:
        Invalid: The days are in the wrong order, or too far apart.
        NotFound: There is no such tenant.
    """
    with database.tenant(tenant_id) as tx:
        if tenants.get(tx, tenant_id) is None:
            raise NotFound("Tenant not found")
        limits = _limits(tx, tenant_id)
        today, own, total = model_usage.read_today(tx, tenant_id, total=limits.has_total)
        rows = model_usage.list_between(tx, tenant_id, *_days(today, first, last))
    status = BudgetStatus(own, total, limits)
    share = settings().budget_soft_share
    return CostReport(
        rows,
        status,
        budget.budget_state(status, share),
        budget.budget_state(budget.without_total(status), share),
    )


def list_warnings(config: Settings) -> list[str]:
    """Return warnings for cost limits that can't be enforced, because a model has no price."""
    limits = {"EBBING_BUDGET_COST": config.budget_cost, "EBBING_BUDGET_TOTAL_COST": config.budget_total_cost}
    names = [name for name, limit in limits.items() if limit is not None]
    if not config.has_provider or not names:
        return []
    return [
        f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} set but {model} has no price in "
        "EBBING_PRICES: its cost is unknown and isn't limited. Add its price there."
        for model in list_models(config)
        if model not in config.prices
    ]


def log_warnings() -> None:
    """Log the warnings of `list_warnings` at start-up."""
    for warning in list_warnings(settings()):
        log.warning("budget_unheld", remark=warning)


def list_models(config: Settings) -> list[str]:
    """Return the provider's models that the settings use."""
    models = [
        config.salience_model,
        config.summarising_model,
        *([config.embedder_model] if config.embedder == "openai" else []),
        *([config.rerank_model] if config.reranker == "llm" else []),
    ]
    return list(dict.fromkeys(models))


def settings_limits(config: Settings) -> Limits:
    """Return the limits from the settings, without a tenant's own."""
    return Limits(config.budget_tokens, config.budget_cost, config.budget_total_tokens, config.budget_total_cost)


def _summable(usage: Usage) -> Usage:
    """Clamp the usage reported by a provider to plausible numbers; cached tokens can't exceed the input tokens."""
    input_tokens = min(usage.input_tokens, NOTED_TOKENS_MAX)
    return Usage(
        usage.calls, input_tokens, min(usage.cached_tokens, input_tokens), min(usage.output_tokens, NOTED_TOKENS_MAX)
    )


def _limits(tx: database.Transaction, tenant_id: UUID) -> Limits:
    own = policies.read_current(tx, tenant_id).budget
    return settings_limits(settings()).lower_to(own.tokens, own.cost)


def _read(tenant_id: UUID) -> _CachedSpending:
    """Read a tenant's spending, and the total over all tenants at most every `FRESH_SECONDS`."""
    now = time.monotonic()
    with database.tenant(tenant_id) as tx:
        limits = _limits(tx, tenant_id)
        if limits == Limits():
            cached, total = _CachedSpending(now, None, DaySpending(), limits), None
        else:
            stale = limits.has_total and now - _memo.total_read_at >= FRESH_SECONDS
            day, own, total_today = model_usage.read_today(tx, tenant_id, total=stale)
            cached, total = _CachedSpending(now, day, own, limits), total_today if stale else None
    with _memo.lock:
        if len(_memo.own) >= TENANTS_MAX:
            _memo.own.clear()
        _memo.own[tenant_id] = cached
        if total is not None:
            _memo.total, _memo.total_read_at = total, now
    return cached


def _add(tenant_id: UUID, spent: DaySpending) -> None:
    """Add spending to the cached spending, so that this process needn't read its own spending back."""
    with _memo.lock:
        _memo.total += spent
        cached = _memo.own.get(tenant_id)
        if cached is not None:
            cached = _memo.own[tenant_id] = replace(cached, own=cached.own + spent)
    if cached is not None:
        _judge_state(tenant_id, cached)


def _judge_state(tenant_id: UUID, held: _CachedSpending) -> BudgetState:
    """Return the state by the cached spending. A soft or hard state is logged and counted once per tenant and day."""
    state = budget.budget_state(BudgetStatus(held.own, _memo.total, held.limits), settings().budget_soft_share)
    if state is BudgetState.OK or held.day is None:
        return state
    with _memo.lock:
        is_logged = (held.day, tenant_id, state) in _memo.said
        if not is_logged:
            _memo.said = {entry for entry in _memo.said if entry[0] == held.day} | {(held.day, tenant_id, state)}
    if not is_logged:
        metrics.count(f"budget_{state}_reached")
        log.warning(
            "budget", state=state.value, tenant=str(tenant_id), tokens=held.own.tokens, cost=held.own.known_cost
        )
    return state


def _days(today: date, first: date | None, last: date | None) -> tuple[date, date]:
    """Return the first and last day of a report."""
    last = last or today
    if first is None:
        first = date.fromordinal(max(last.toordinal() - REPORT_DAYS + 1, 1))
    if first > last:
        raise Invalid(errors=[FieldError("from", "must not be after `to`", first.isoformat(), last.isoformat())])
    days = (last - first) // timedelta(days=1) + 1
    if days > REPORT_DAYS_MAX:
        raise Invalid(errors=[FieldError("from", "begins too many days before `to`", days, REPORT_DAYS_MAX)])
    return first, last
