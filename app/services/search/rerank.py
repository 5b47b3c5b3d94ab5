"""A second look at the best results of a search, by the operator's reranker, where the policy or the search wants it.

It has little time, costs within the tenant's budget alone, and is asked outside of transactions. Whatever goes wrong,
the results stay as the search has ranked them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Final
from uuid import UUID

import structlog

from app import metrics
from app.clients.llm.reranker import Reranker, reranker
from app.clients.llm.resilience import Breaker, ProviderFailed, Reason
from app.domain.search.request import SearchResult
from app.domain.search.reranking import SCORE_MAX, lifted, text_of
from app.errors import Misconfigured
from app.services.passing import OverBudget
from app.services.tenants import budget
from app.settings import settings

LEAST: Final = 2
"""Results below this have one order alone."""

log = structlog.get_logger(__name__)


def check() -> None:
    """Load the reranker that the settings name, so that the first search needn't wait for it.

    Raises:
        Misconfigured: It can't be had; also in the log, with the way out.
    """
    try:
        reranker()
    except Misconfigured as error:
        log.critical("misconfigured", what=str(error))
        raise


def rerank(tenant_id: UUID, query: str, ranked: list[SearchResult], best: int) -> tuple[list[SearchResult], bool]:
    """The results, the best of them in the order that the reranker gives them, and whether it has.

    Args:
        tenant_id: On whose account.
        query: What was searched for.
        ranked: Best first.
        best: How many of them are looked at again, 0 or more; the others stay behind them.
    """
    head = ranked[:best]
    if len(head) < LEAST or not query.strip() or (model := reranker()) is None:
        return ranked, False
    try:
        scores = _scores(tenant_id, model, query, [text_of(result) for result in head])
    except OverBudget:
        outcome, reason = "over_budget", "over_budget"
    except ProviderFailed as failure:
        outcome, reason = "failed", str(failure)
    else:
        metrics.RERANKS.labels(outcome="reranked").inc()
        return lifted(head, scores, model.model) + ranked[best:], True
    metrics.RERANKS.labels(outcome=outcome).inc()
    log.warning("not_reranked", reason=reason, model=model.model, tenant=str(tenant_id))
    return ranked, False


def _scores(tenant_id: UUID, model: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """A score for each text.

    Raises:
        OverBudget: The tenant may spend no more today, and the model costs something.
        ProviderFailed: There are none, or not in time; or there were none the last few times.
    """

    def ask() -> list[float]:
        with budget.on_account(tenant_id, "rerank", model.priced_as, len(texts)) as spent:
            return [float(score) for score in model.scores(query, texts, spent)]

    scores = _breaker().run(lambda: _in_time(ask))
    if len(scores) != len(texts):
        raise ProviderFailed(Reason.GARBAGE, "wrong count")
    if not all(-SCORE_MAX <= score <= SCORE_MAX for score in scores):  # false for NaN too
        raise ProviderFailed(Reason.GARBAGE, "not finite")
    return scores


def _in_time(ask: Callable[[], list[float]]) -> list[float]:
    """What `ask` returns. Not in time it is left to itself, and books what it has cost when it ends.

    Raises:
        OverBudget: As `ask` raises it.
        ProviderFailed: It took too long, or failed in whatever way: the message of a failure may quote a memory.
    """
    asked = _pool().submit(ask)
    try:
        return asked.result(settings().rerank_timeout_seconds)
    except (OverBudget, ProviderFailed):
        raise
    except TimeoutError:
        asked.cancel()
        failure = ProviderFailed(Reason.TIMEOUT)
    except Exception as error:  # noqa: BLE001 - a reranker from outside may raise anything; it is logged by its name
        failure = ProviderFailed(Reason.GARBAGE, type(error).__name__)
    raise failure


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(settings().llm_concurrency, thread_name_prefix="rerank")


@lru_cache(maxsize=1)
def _breaker() -> Breaker:
    return Breaker(settings().llm_breaker_failures, settings().llm_breaker_seconds)
