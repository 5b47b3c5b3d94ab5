"""Summaries of memories that belong together: by a model where one is to be had, else of their own sentences.

A model's word is checked before it counts. A provider that is ill, lies, refuses or costs too much costs the better
wording, never a summary.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING
from uuid import UUID

import structlog

from app import metrics
from app.clients.llm.resilience import ProviderFailed
from app.domain.consolidation.checking import FAULTS
from app.domain.consolidation.extracting import extract
from app.domain.consolidation.parameters import Level
from app.domain.consolidation.prompting import input_tokens
from app.domain.consolidation.records import Form, Source, Summary
from app.services.passing import OverBudget
from app.services.tenants import budget
from app.settings import settings

if TYPE_CHECKING:
    from app.clients.llm.summariser import Summariser

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A summary to be made.

    Attributes:
        sources: Of what; one or more.
        form: What it is to be.
        level: How much shorter.
    """

    sources: Sequence[Source]
    form: Form
    level: Level


def summarise(tenant_id: UUID, sources: Sequence[Source], form: Form, level: Level) -> Summary:
    """A summary of the sources. To be called outside of transactions: a model may take its time.

    Args:
        tenant_id: On whose account.
        sources: One or more.
    """
    return summarise_all(tenant_id, [Wanted(sources, form, level)], settings().slice_seconds)[0]


def summarise_all(tenant_id: UUID, wanted: Sequence[Wanted], seconds: float) -> list[Summary]:
    """A summary for each, in the order given; a model is asked about several at once.

    Raises nothing for a provider that fails. To be called outside of transactions.

    Args:
        tenant_id: On whose account.
        wanted: Any number.
        seconds: After these no further call is begun than the first of each thread; nor after the provider fell ill,
            or the budget was spent. What is left is made of its own sentences.
    """
    extracts = [extract(each.sources, each.form, each.level) for each in wanted]
    if not wanted or not settings().has_provider or _summariser().is_resting:
        return extracts
    work = _Work(tenant_id, time.monotonic() + seconds)
    pool = ThreadPoolExecutor(settings().llm_concurrency, thread_name_prefix="summarise")
    try:
        summaries = list(pool.map(work.summary, count(), wanted, extracts))
    finally:
        # All is done here, unless the process was told to stop: then it doesn't wait for what a model may say.
        pool.shutdown(wait=False, cancel_futures=True)
    work.say(summaries)
    return summaries


@lru_cache(maxsize=1)
def _summariser() -> Summariser:
    """The process's summariser, with its connections and its memory of the provider's health."""
    from app.clients.llm.summariser import Summariser  # noqa: PLC0415 - half a second and 40 MB that others spare

    return Summariser.from_settings(settings())


class _Work:
    """One call of `summarise_all`: until when a model is asked, and why it wasn't heard."""

    def __init__(self, tenant_id: UUID, until: float) -> None:
        self._tenant_id = tenant_id
        self._until = until
        self._is_over = threading.Event()
        self._reasons: list[str] = []

    def summary(self, place: int, wanted: Wanted, extracted: Summary) -> Summary:
        """The model's summary, else the one of the sources' sentences."""
        config = settings()
        if input_tokens(wanted.sources) > config.summary_tokens:
            return self._without("too large", extracted)
        if self._is_over.is_set() or (place >= config.llm_concurrency and not self._has_time()):
            return self._without("no time", extracted)
        try:
            return self._asked(wanted, extracted)
        except OverBudget:
            self._is_over.set()
            return self._without("over_budget", extracted)
        except ProviderFailed as failure:
            if not failure.treatment.halve:  # the provider itself is ill: none of the memories can be the cause
                self._is_over.set()
            return self._without(str(failure), extracted)

    def say(self, summaries: Sequence[Summary]) -> None:
        """Count and log what became of all."""
        metrics.count("summaries_by_model", sum(summary.method == "llm" for summary in summaries))
        metrics.count("summaries_without_model", len(self._reasons))
        for reason, groups in Counter(self._reasons).items():
            log.warning("not_summarised", tenant=str(self._tenant_id), groups=groups, reason=reason)

    def _asked(self, wanted: Wanted, extracted: Summary) -> Summary:
        """The model's summary, at the second try where the first answer isn't believed."""
        try:
            return self._once(wanted, extracted)
        except ProviderFailed as failure:
            fault = failure.detail
            if fault not in FAULTS or self._is_over.is_set() or not self._has_time():
                raise
        return self._once(wanted, extracted, fault)

    def _once(self, wanted: Wanted, extracted: Summary, fault: str | None = None) -> Summary:
        summariser = _summariser()
        memories = 0 if fault else len(wanted.sources)
        with budget.on_account(self._tenant_id, "summarise", summariser.model, memories) as spent:
            return summariser.summary(wanted.sources, wanted.form, wanted.level, extracted, spent, fault)

    def _has_time(self) -> bool:
        return time.monotonic() < self._until

    def _without(self, reason: str, extracted: Summary) -> Summary:
        self._reasons.append(reason)
        return extracted
