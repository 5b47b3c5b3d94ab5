"""Generate questions about memories for self-tests: by a model if available and suitable, otherwise by a rule."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

import structlog

from app.clients.embedding.static_embedder import word_vectors
from app.clients.llm.resilience import ProviderFailed
from app.domain.evaluation import other_words, questions
from app.domain.policy.policy import Policy
from app.domain.text.wording import content_words
from app.services.passing import OverBudget
from app.services.tenants import budget
from app.settings import settings
from app.store.core import database
from app.store.enrichment import words

if TYPE_CHECKING:
    from app.clients.llm.llm_questions import Questioner

log = structlog.get_logger(__name__)


class Question(NamedTuple):
    """A question's text, and whether a model wrote it."""

    text: str
    by_model: bool


def about(tenant_id: UUID, texts: Mapping[UUID, str], policy: Policy) -> dict[UUID, Question]:
    """Return a question about each text with enough words for one, by memory; all texts share one model call."""
    texts = {memory_id: text for memory_id, text in texts.items() if questions.can_be_asked(text)}
    if not texts:
        return {}
    by_model = _by_model(tenant_id, texts) if policy.self_tests.by_model and settings().has_provider else {}
    documents = _documents(tenant_id, [text for key, text in texts.items() if key not in by_model], policy.language)
    return {
        memory_id: Question(by_model[memory_id], by_model=True)
        if memory_id in by_model
        else Question(questions.by_rule(text, documents), by_model=False)
        for memory_id, text in texts.items()
    }


def in_other_words(tenant_id: UUID, texts: Mapping[UUID, str], policy: Policy) -> dict[UUID, Question]:
    """Return a paraphrased question about each text with enough words for one, by memory.

    A model's question is used if a provider is configured and the question fits; otherwise a rule generates one. The
    rule gives the same text the same question.
    """
    texts = {memory_id: text for memory_id, text in texts.items() if questions.can_be_asked(text)}
    if not texts:
        return {}
    by_model = _by_model(tenant_id, texts) if policy.self_tests.by_model and settings().has_provider else {}
    others = {key: text for key, text in texts.items() if key not in by_model}
    documents = _documents(tenant_id, list(others.values()), policy.language)
    spellings = list(dict.fromkeys(word for text in others.values() for word in other_words.exchangeable(text)))
    near = word_vectors().nearest(spellings, other_words.NEAR_MIN, other_words.NEAR_WORDS)
    return {
        memory_id: Question(by_model[memory_id], by_model=True)
        if memory_id in by_model
        else Question(other_words.ask_in_other_words(text, documents, near), by_model=False)
        for memory_id, text in texts.items()
    }


def _by_model(tenant_id: UUID, texts: Mapping[UUID, str]) -> dict[UUID, str]:
    """Return the model's suitable questions; empty if it doesn't answer in time or the daily budget is spent."""
    model = _questioner()
    try:
        with budget.book(tenant_id, "self_test", model.model, len(texts)) as spent:
            found = dict(zip(texts, model.questions(list(texts.values()), spent), strict=True))
    except OverBudget:
        reason = "over_budget"
    except ProviderFailed as failure:
        reason = str(failure)
    else:
        return {
            memory_id: question
            for memory_id, question in found.items()
            if questions.fits(question, texts[memory_id], [each for key, each in texts.items() if key != memory_id])
        }
    log.warning("questions_by_rule", reason=reason, model=model.model, tenant=str(tenant_id))
    return {}


@lru_cache(maxsize=1)
def _questioner() -> Questioner:
    """Return the process's client, which holds its connections and the provider's health state."""
    from app.clients.llm.llm_questions import Questioner  # noqa: PLC0415 - saves workers without a model 40 MB

    return Questioner.from_settings(settings())


def _documents(tenant_id: UUID, texts: list[str], language: str) -> dict[str, int]:
    """Count the tenant's memories that contain each word of the texts."""
    spellings = list(dict.fromkeys(word for text in texts for word in content_words(text)))
    with database.tenant(tenant_id) as tx:
        terms, _ = words.terms(tx, tenant_id, "", spellings, language)
    found: dict[str, int] = {}
    for term in terms:
        if term.spelling is not None:
            found[term.spelling] = max(term.documents, found.get(term.spelling, 0))
    return found
