"""Rerank the best results of a search with the operator's reranker, if the policy or the request asks for it.

The call has a short timeout, is limited by the tenant's budget, and is made outside transactions. After any failure,
the results remain in the order of the search.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final
from uuid import UUID

import structlog

from app import metrics
from app.clients.llm import provider_health
from app.clients.llm.model_clients import model_clients
from app.clients.llm.reranker import Reranker
from app.clients.llm.resilience import ProviderFailed, Reason
from app.domain.search.request import SearchResult
from app.domain.search.reranking import SCORE_MAX, apply_scores, reranked_text
from app.errors import Misconfigured
from app.services.tenants import budget
from app.services.transient_errors import OverBudget
from app.settings import settings

LEAST: Final = 2
"""Fewest results worth reranking."""

log = structlog.get_logger(__name__)


def check_reranker() -> None:
    """Load the configured reranker, so that the first search doesn't wait for it to load.

    Raises:
        Misconfigured: The reranker can't be loaded. The error, with its remedy, is also logged.
    """
    try:
        _ = model_clients.reranker
    except Misconfigured as error:
        log.critical("misconfigured", what=str(error))
        raise


def rerank_results(
    tenant_id: UUID, query: str, ranked: list[SearchResult], best: int
) -> tuple[list[SearchResult], bool]:
    """Rerank the best results; return all results and whether reranking succeeded.

    Args:
        tenant_id: The tenant charged for the call.
        ranked: Results, best first.
        best: Number of top results to rerank, at least 0; the other results stay below them in their order.
    """
    head = ranked[:best]
    if len(head) < LEAST or not query.strip() or (model := model_clients.reranker) is None:
        return ranked, False
    try:
        scores = _score_texts(tenant_id, model, query, [reranked_text(result) for result in head])
    except OverBudget:
        outcome, reason = "over_budget", "over_budget"
    except ProviderFailed as failure:
        outcome, reason = "failed", str(failure)
    else:
        metrics.RERANKS.labels(outcome="reranked").inc()
        return apply_scores(head, scores, model.model) + ranked[best:], True
    metrics.RERANKS.labels(outcome=outcome).inc()
    log.warning("not_reranked", reason=reason, model=model.model, tenant=str(tenant_id))
    return ranked, False


def _score_texts(tenant_id: UUID, model: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """Return the reranker's score for each text.

    Raises:
        OverBudget: The reranker costs money and the tenant's budget for today is spent.
        ProviderFailed: The reranker failed or timed out, or the circuit breaker is open.
    """

    def ask() -> list[float]:
        with budget.book_usage(tenant_id, "rerank", model.priced_as, len(texts)) as spent:
            return [float(score) for score in model.scores(query, texts, spent)]

    target = provider_health.rerank_target(settings())
    try:
        scores = _check_scores(model_clients.rerank_breaker.run(lambda: _await_scores(ask)), len(texts))
    except ProviderFailed as failure:
        provider_health.record(target, failure, model_clients.rerank_breaker.open_seconds)
        raise
    provider_health.record(target, None)
    return scores


def _check_scores(scores: list[float], count: int) -> list[float]:
    if len(scores) != count:
        raise ProviderFailed(Reason.GARBAGE, "wrong count")
    if not all(-SCORE_MAX <= score <= SCORE_MAX for score in scores):  # false for NaN too
        raise ProviderFailed(Reason.GARBAGE, "not finite")
    return scores


def _await_scores(ask: Callable[[], list[float]]) -> list[float]:
    """Return the result of `ask` within the timeout.

    After a timeout, `ask` keeps running in its thread and records its cost when it ends.

    Raises:
        OverBudget: Raised by `ask`.
        ProviderFailed: `ask` timed out or failed. The original message is dropped, because it may quote a memory.
    """
    future = model_clients.rerank_pool.submit(ask)
    try:
        return future.result(settings().rerank_timeout_seconds)
    except (OverBudget, ProviderFailed):
        raise
    except TimeoutError:
        future.cancel()
        failure = ProviderFailed(Reason.TIMEOUT)
    except Exception as error:  # noqa: BLE001 - a third-party reranker may raise anything; only the type is logged
        failure = ProviderFailed(Reason.GARBAGE, type(error).__name__)
    raise failure
