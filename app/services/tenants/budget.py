"""Budgets: track what models have cost a tenant today, and decide whether more may be spent.

A limit can be exceeded slightly. Models are called only while the state isn't hard, and every call is counted. The
excess is therefore limited to the calls in flight when the limit is reached (a process makes up to `LLM_CONCURRENCY`
calls at once and checks the state before each batch) and the calls that other processes start within `FRESH_SECONDS`,
before they notice. Cost limits only apply to models with a price; `remarks` names the others.
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
from app.domain.policy.budget import Limits, Spent, Standing, State
from app.errors import FieldError, Invalid, NotFound
from app.services.passing import OverBudget
from app.settings import Settings, settings
from app.store.core import database
from app.store.tenants import policies, tenants
from app.store.tenants import usage as rows
from app.store.tenants.usage import Row

__all__ = [
    "Purpose",
    "Report",
    "State",
    "book",
    "check",
    "failed",
    "models",
    "operators_limits",
    "remarks",
    "report",
    "spend",
    "state",
]

Purpose = Literal["score", "embed", "query", "rerank", "summarise", "self_test", "contradict"]

FRESH_SECONDS: Final = 1.0
"""How long a process relies on cached figures; its own spending is added immediately."""
TENANTS_MAX: Final = 10_000
"""Maximum number of tenants whose spending a process caches."""
NOTED_TOKENS_MAX: Final = 10**12
"""Maximum number of tokens booked by one `spend`; larger numbers are errors of the provider."""
REPORT_DAYS: Final = 30
REPORT_DAYS_MAX: Final = 366

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Held:
    """A tenant's cached spending: the figures last read, plus this process's spending since then."""

    read_at: float
    day: date | None
    own: Spent
    limits: Limits


@dataclass
class _Memo:
    """This process's cached figures, and the budget states that it has already logged."""

    lock: Lock = field(default_factory=Lock)
    own: dict[UUID, _Held] = field(default_factory=dict)
    total: Spent = field(default_factory=Spent)
    total_read_at: float = -FRESH_SECONDS
    said: set[tuple[date, UUID, State]] = field(default_factory=set)


_memo = _Memo()


@dataclass(frozen=True)
class Report:
    """A tenant's model costs.

    Attributes:
        rows: Usage on the days of the report.
        standing: Today's spending and limits, including those over all tenants.
        state: Budget state according to all limits.
        own_state: Budget state according to the tenant's own limits.
    """

    rows: list[Row]
    standing: Standing
    state: State
    own_state: State


def state(tenant_id: UUID) -> State:
    """Return a tenant's budget state, at most `FRESH_SECONDS` old; models may be called unless it is hard."""
    held = _memo.own.get(tenant_id)
    if held is None or time.monotonic() - held.read_at >= FRESH_SECONDS:
        held = _read(tenant_id)
    return _judge(tenant_id, held)


def spend(
    tenant_id: UUID, purpose: Purpose, model: str, usage: Usage, *, memories: int = 0, cache_hits: int = 0
) -> None:
    """Book the cost of calls, in a separate transaction.

    Args:
        model: The provider's model name, which determines the price.
        memories: Memories rated, embedded, reranked or summarised.
        cache_hits: Memories that reused an equal memory's result without a call.
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
    cost = budget.cost(usage, price)
    with database.shared() as tx:
        row = rows.add(tx, tenant_id, purpose=purpose, host=config.provider_host, model=model, counts=counts, cost=cost)
        if row.cost is None and price is not None and (whole := budget.cost(row, price)) is not None:
            rows.set_cost(tx, tenant_id, row, whole)  # the model's price was added during the day
    tokens = usage.input_tokens + usage.output_tokens
    _add(tenant_id, Spent(tokens, cost or 0.0, tokens if cost is None else 0))


@contextmanager
def book(tenant_id: UUID, purpose: Purpose, model: str | None, memories: int = 0) -> Iterator[Callable[[Usage], None]]:
    """Book the usage reported to the yielded function, including calls that preceded a failed one.

    Args:
        model: The model that determines the price; None is free and needs no budget.
        memories: Number of memories processed.

    Raises:
        OverBudget: The tenant's budget for today is spent.
    """
    if model is not None and state(tenant_id) is State.HARD:
        failed(purpose, over_budget=True)
        raise OverBudget
    spent: list[Usage] = []
    try:
        yield spent.append
    except ProviderFailed:
        if model is not None:
            failed(purpose)
        raise
    finally:
        if model is not None and spent:
            spend(tenant_id, purpose, model, sum(spent, Usage()), memories=memories)


def failed(purpose: Purpose, *, over_budget: bool = False) -> None:
    """Count a model request that failed after all retries, or wasn't made for lack of budget."""
    metrics.count("llm_requests", purpose=purpose, outcome="over_budget" if over_budget else "failed")


def report(tenant_id: UUID, first: date | None = None, last: date | None = None) -> Report:
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
            raise NotFound("there is no such tenant")
        limits = _limits(tx, tenant_id)
        today, own, total = rows.spent_today(tx, tenant_id, total=limits.has_total)
        found = rows.between(tx, tenant_id, *_days(today, first, last))
    standing = Standing(own, total, limits)
    share = settings().budget_soft_share
    return Report(found, standing, budget.state(standing, share), budget.state(budget.without_total(standing), share))


def remarks(config: Settings) -> list[str]:
    """Return warnings for cost limits that can't be enforced, because a model has no price."""
    limits = {"BUDGET_COST": config.budget_cost, "BUDGET_TOTAL_COST": config.budget_total_cost}
    wanted = [name for name, limit in limits.items() if limit is not None]
    if not config.has_provider or not wanted:
        return []
    return [
        f"{' and '.join(wanted)} {'is' if len(wanted) == 1 else 'are'} set but {model} has no price in PRICES: "
        "what it costs isn't known and not limited"
        for model in models(config)
        if model not in config.prices
    ]


def check() -> None:
    """Log the warnings of `remarks` at start-up."""
    for remark in remarks(settings()):
        log.warning("budget_unheld", remark=remark)


def models(config: Settings) -> list[str]:
    """Return the models that the provider is asked for."""
    asked = [
        config.salience_model,
        config.summarising_model,
        *([config.embedder_model] if config.embedder == "openai" else []),
        *([config.rerank_model] if config.reranker == "llm" else []),
    ]
    return list(dict.fromkeys(asked))


def operators_limits(config: Settings) -> Limits:
    """Return the limits from the settings, without a tenant's own."""
    return Limits(config.budget_tokens, config.budget_cost, config.budget_total_tokens, config.budget_total_cost)


def _summable(usage: Usage) -> Usage:
    """Clamp the usage reported by a provider to plausible numbers: cached tokens are part of the input tokens."""
    sent = min(usage.input_tokens, NOTED_TOKENS_MAX)
    return Usage(usage.calls, sent, min(usage.cached_tokens, sent), min(usage.output_tokens, NOTED_TOKENS_MAX))


def _limits(tx: database.Transaction, tenant_id: UUID) -> Limits:
    own = policies.current(tx, tenant_id).budget
    return operators_limits(settings()).within(own.tokens, own.cost)


def _read(tenant_id: UUID) -> _Held:
    """Read a tenant's spending, and the total over all tenants at most every `FRESH_SECONDS`."""
    now = time.monotonic()
    with database.tenant(tenant_id) as tx:
        limits = _limits(tx, tenant_id)
        if limits == Limits():
            held, total = _Held(now, None, Spent(), limits), None
        else:
            stale = limits.has_total and now - _memo.total_read_at >= FRESH_SECONDS
            day, own, everyones = rows.spent_today(tx, tenant_id, total=stale)
            held, total = _Held(now, day, own, limits), everyones if stale else None
    with _memo.lock:
        if len(_memo.own) >= TENANTS_MAX:
            _memo.own.clear()
        _memo.own[tenant_id] = held
        if total is not None:
            _memo.total, _memo.total_read_at = total, now
    return held


def _add(tenant_id: UUID, spent: Spent) -> None:
    """Add spending to the cached figures, so that this process needn't read its own spending."""
    with _memo.lock:
        _memo.total += spent
        held = _memo.own.get(tenant_id)
        if held is not None:
            held = _memo.own[tenant_id] = replace(held, own=held.own + spent)
    if held is not None:
        _judge(tenant_id, held)


def _judge(tenant_id: UUID, held: _Held) -> State:
    """Return the state by the cached figures. A soft or hard state is logged and counted once per tenant and day."""
    found = budget.state(Standing(held.own, _memo.total, held.limits), settings().budget_soft_share)
    if found is State.OK or held.day is None:
        return found
    with _memo.lock:
        said = (held.day, tenant_id, found) in _memo.said
        if not said:
            _memo.said = {past for past in _memo.said if past[0] == held.day} | {(held.day, tenant_id, found)}
    if not said:
        metrics.count(f"budget_{found}_reached")
        log.warning(
            "budget", state=found.value, tenant=str(tenant_id), tokens=held.own.tokens, cost=held.own.known_cost
        )
    return found


def _days(today: date, first: date | None, last: date | None) -> tuple[date, date]:
    """Return the first and last day of a report."""
    last = last or today
    if first is None:
        first = date.fromordinal(max(last.toordinal() - REPORT_DAYS + 1, 1))
    if first > last:
        raise Invalid(errors=[FieldError("from", "must not be after `to`", first.isoformat(), last.isoformat())])
    days = (last - first) // timedelta(days=1) + 1
    if days > REPORT_DAYS_MAX:
        raise Invalid(errors=[FieldError("from", "must not be so many days before `to`", days, REPORT_DAYS_MAX)])
    return first, last
