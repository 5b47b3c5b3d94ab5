"""Summarise groups of memories with a model if one is available, otherwise by extracting their own sentences.

A model's summary is used only if it passes the faithfulness checks. If the provider fails or refuses, or a budget,
time or size limit is reached, the extractive summary is used, so every group gets a summary.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from uuid import UUID

import structlog

from app import metrics
from app.clients.llm.model_clients import model_clients
from app.clients.llm.resilience import ProviderFailed
from app.domain.consolidation.extractive_summary import extract_summary
from app.domain.consolidation.group_types import Form, Source, Summary
from app.domain.consolidation.parameters import Level
from app.domain.consolidation.prompt import input_tokens
from app.domain.consolidation.summary_checks import FAULTS, prompt
from app.services.tenants import budget
from app.services.transient_errors import OverBudget
from app.settings import settings

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A summary to write.

    Attributes:
        sources: One or more memories.
        form: Kind of summary.
        level: Compression level.
    """

    sources: Sequence[Source]
    form: Form
    level: Level


def summarise_one(tenant_id: UUID, sources: Sequence[Source], form: Form, level: Level) -> Summary:
    """Summarise the sources; call this outside of transactions, since models may be slow.

    Args:
        tenant_id: The tenant whose budget is charged.
        sources: One or more memories.
    """
    return summarise_all(tenant_id, [SummaryRequest(sources, form, level)], settings().slice_seconds)[0]


def summarise_all(tenant_id: UUID, wanted: Sequence[SummaryRequest], seconds: float) -> list[Summary]:
    """Return a summary for each group, in order, calling a model concurrently for several groups.

    Groups without a model's summary get extractive ones; provider failures raise nothing. Call this outside of
    transactions, since models may be slow.

    Args:
        tenant_id: The tenant whose budget is charged.
        seconds: Time after which no thread starts another call; each thread's first call is always made, unless the
            provider has failed or the budget is used up.
    """
    extracts = [extract_summary(request.sources, request.form, request.level) for request in wanted]
    if not wanted or not settings().has_provider or model_clients.summariser.is_resting:
        return extracts
    calls = _SummaryCalls(tenant_id, time.monotonic() + seconds)
    pool = ThreadPoolExecutor(settings().llm_concurrency, thread_name_prefix="summarise")
    try:
        summaries = list(pool.map(calls.summary, count(), wanted, extracts))
    finally:
        # All calls have returned by now unless the process is shutting down, which must not wait for a model.
        pool.shutdown(wait=False, cancel_futures=True)
    calls.log_results(summaries)
    return summaries


class _SummaryCalls:
    """State of one `summarise_all` call: the deadline, and the reasons for falling back to extractive summaries."""

    def __init__(self, tenant_id: UUID, until: float) -> None:
        self._tenant_id = tenant_id
        self._until = until
        self._stopped_by: str | None = None
        self._reasons: list[str] = []

    def summary(self, place: int, wanted: SummaryRequest, extracted: Summary) -> Summary:
        """Return the model's summary, or the extractive summary if the model can't be used."""
        config = settings()
        if input_tokens(wanted.sources) > config.summary_tokens:
            return self._fall_back("too large", extracted)
        if self._stopped_by is not None:
            return self._fall_back(self._stopped_by, extracted)
        if place >= config.llm_concurrency and not self._has_time():
            return self._fall_back("no time", extracted)
        try:
            return self._ask_model(wanted, extracted)
        except OverBudget:
            self._stopped_by = "over_budget"
            return self._fall_back("over_budget", extracted)
        except ProviderFailed as failure:
            if not failure.treatment.halve:  # the provider itself failed: further calls would fail too
                self._stopped_by = str(failure)
            return self._fall_back(str(failure), extracted)

    def log_results(self, summaries: Sequence[Summary]) -> None:
        """Count and log the results."""
        metrics.count("summaries_by_model", sum(summary.method == "llm" for summary in summaries))
        metrics.count("summaries_without_model", len(self._reasons))
        for reason, groups in Counter(self._reasons).items():
            log.warning("not_summarised", tenant=str(self._tenant_id), groups=groups, reason=reason)

    def _ask_model(self, wanted: SummaryRequest, extracted: Summary) -> Summary:
        """Return the model's summary; if the first answer fails a check, retry once with the fault in the prompt."""
        try:
            return self._call_model(wanted, extracted)
        except ProviderFailed as failure:
            fault = failure.detail
            if fault not in FAULTS or self._stopped_by is not None or not self._has_time():
                raise
        return self._call_model(wanted, extracted, fault)

    def _call_model(self, wanted: SummaryRequest, extracted: Summary, fault: str | None = None) -> Summary:
        model = model_clients.summariser
        memories = 0 if fault else len(wanted.sources)
        with budget.book_usage(self._tenant_id, "summarise", model.model, memories) as usage:
            model_request = prompt(wanted.sources, wanted.form, wanted.level, extracted, model.model, fault)
            return model.ask(model_request, usage)

    def _has_time(self) -> bool:
        return time.monotonic() < self._until

    def _fall_back(self, reason: str, extracted: Summary) -> Summary:
        self._reasons.append(reason)
        return extracted
