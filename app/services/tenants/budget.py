"""Budgets: what models have cost a tenant today, and whether more may be spent.

How far a limit may be exceeded: calls are only asked for while the state isn't hard, and all are counted. So what
goes beyond is what was under way when the limit was reached (a process has `LLM_CONCURRENCY` calls at once, and
asks for the state before each batch), and what other processes begin in the `FRESH_SECONDS` until they hear of it.
A limit of money holds for models that have a price; `remarks` names those that haven't.
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
from app.clients.llm.answers import Usage
from app.clients.llm.resilience import ProviderFailed
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
    "check",
    "failed",
    "models",
    "on_account",
    "operators_limits",
    "remarks",
    "report",
    "spend",
    "state",
]

Purpose = Literal["score", "embed", "query", "rerank", "summarise", "self_test", "contradict"]

FRESH_SECONDS: Final = 1.0
"""How long a process trusts what it has read; its own spending it adds at once."""
TENANTS_MAX: Final = 10_000
"""Tenants that a process holds the standing of."""
NOTED_TOKENS_MAX: Final = 10**12
"""Tokens of one `spend`; a provider that says more errs."""
REPORT_DAYS: Final = 30
REPORT_DAYS_MAX: Final = 366

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Held:
    """What a tenant had spent when it was last read, and since in this process."""

    read_at: float
    day: date | None
    own: Spent
    limits: Limits


@dataclass
class _Memo:
    """What this process knows and has said."""

    lock: Lock = field(default_factory=Lock)
    own: dict[UUID, _Held] = field(default_factory=dict)
    total: Spent = field(default_factory=Spent)
    total_read_at: float = -FRESH_SECONDS
    said: set[tuple[date, UUID, State]] = field(default_factory=set)


_memo = _Memo()


@dataclass(frozen=True)
class Report:
    """What models have cost a tenant.

    Attributes:
        rows: Of the days asked for.
        standing: Today's spending and limits, all tenants' too.
        state: How much is left, by all limits.
        own_state: The same by the tenant's own limits.
    """

    rows: list[Row]
    standing: Standing
    state: State
    own_state: State


def state(tenant_id: UUID) -> State:
    """Whether models may be asked for this tenant now; read anew at most every `FRESH_SECONDS`."""
    held = _memo.own.get(tenant_id)
    if held is None or time.monotonic() - held.read_at >= FRESH_SECONDS:
        held = _read(tenant_id)
    return _judge(tenant_id, held)


def spend(
    tenant_id: UUID, purpose: Purpose, model: str, usage: Usage, *, memories: int = 0, cache_hits: int = 0
) -> None:
    """Note what calls have cost, in a transaction of its own.

    Args:
        model: Its name at the provider, by which it has its price.
        memories: Memories that were rated, embedded, looked at again or summed up.
        cache_hits: Memories that needn't be asked about.
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
            rows.set_cost(tx, tenant_id, row, whole)  # the model was given its price in the course of the day
    tokens = usage.input_tokens + usage.output_tokens
    _add(tenant_id, Spent(tokens, cost or 0.0, tokens if cost is None else 0))


@contextmanager
def on_account(
    tenant_id: UUID, purpose: Purpose, model: str | None, memories: int = 0
) -> Iterator[Callable[[Usage], None]]:
    """Note what is spent meanwhile, by calling what this gives; calls before one that fails were paid for too.

    Args:
        model: By which it has its price; None costs nothing, and needs no budget.
        memories: Memories that it is spent on.

    Raises:
        OverBudget: The tenant may spend no more today.
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
    """Count a request to a model that came to nothing: after all tries, or for want of budget."""
    metrics.count("llm_requests", purpose=purpose, outcome="over_budget" if over_budget else "failed")


def report(tenant_id: UUID, first: date | None = None, last: date | None = None) -> Report:
    """What models have cost a tenant from one day to another, both in UTC and included; today's state and limits.

    Args:
        first: 29 days before `last` where it isn't given.
        last: Today where it isn't given.

    Raises:
        Invalid: The days are in the wrong order, or too many.
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
    """What the settings want and can't have: limits of money on models without a price."""
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
    """Say at start-up what `remarks` finds."""
    for remark in remarks(settings()):
        log.warning("budget_unheld", remark=remark)


def models(config: Settings) -> list[str]:
    """The models that a provider is asked for."""
    asked = [
        config.salience_model,
        config.summarising_model,
        *([config.embedder_model] if config.embedder == "openai" else []),
        *([config.rerank_model] if config.reranker == "llm" else []),
    ]
    return list(dict.fromkeys(asked))


def operators_limits(config: Settings) -> Limits:
    """The limits that the settings give, before a tenant's own."""
    return Limits(config.budget_tokens, config.budget_cost, config.budget_total_tokens, config.budget_total_cost)


def _summable(usage: Usage) -> Usage:
    """What a provider says, as far as rows can hold its sums: no more cached than sent, and no number without end."""
    sent = min(usage.input_tokens, NOTED_TOKENS_MAX)
    return Usage(usage.calls, sent, min(usage.cached_tokens, sent), min(usage.output_tokens, NOTED_TOKENS_MAX))


def _limits(tx: database.Transaction, tenant_id: UUID) -> Limits:
    own = policies.current(tx, tenant_id).budget
    return operators_limits(settings()).within(own.tokens, own.cost)


def _read(tenant_id: UUID) -> _Held:
    """Ask the database; for the sum over all tenants at most as often as for one of them."""
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
    """Add to what is held, so that this process needn't read what it has spent itself."""
    with _memo.lock:
        _memo.total += spent
        held = _memo.own.get(tenant_id)
        if held is not None:
            held = _memo.own[tenant_id] = replace(held, own=held.own + spent)
    if held is not None:
        _judge(tenant_id, held)


def _judge(tenant_id: UUID, held: _Held) -> State:
    """The state by what is held; said and counted once a tenant and day where it isn't well."""
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
    """The days of a report."""
    last = last or today
    if first is None:
        first = date.fromordinal(max(last.toordinal() - REPORT_DAYS + 1, 1))
    if first > last:
        raise Invalid(errors=[FieldError("from", "must not be after `to`", first.isoformat(), last.isoformat())])
    days = (last - first) // timedelta(days=1) + 1
    if days > REPORT_DAYS_MAX:
        raise Invalid(errors=[FieldError("from", "must not be so many days before `to`", days, REPORT_DAYS_MAX)])
    return first, last
