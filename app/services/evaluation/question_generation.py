"""Generate questions about memories for self-tests: by a model if its question is usable, otherwise by a rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

import structlog

from app.clients.embedding.static_embedder import word_vectors
from app.clients.llm.model_clients import model_clients
from app.clients.llm.resilience import ProviderFailed
from app.domain.evaluation import paraphrased_questions, question_generation
from app.domain.policy.policy import Policy
from app.domain.text.words import content_words
from app.services.tenants import budget
from app.services.transient_errors import OverBudget
from app.settings import settings
from app.store.core import database
from app.store.enrichment import word_index

Rule = Callable[[Sequence[str], Mapping[str, int]], list[str]]

log = structlog.get_logger(__name__)


class GeneratedQuestion(NamedTuple):
    """A question's text; `by_model` if a model wrote it."""

    text: str
    by_model: bool


def generate_questions(tenant_id: UUID, texts: Mapping[UUID, str], policy: Policy) -> dict[UUID, GeneratedQuestion]:
    """Return a question for each text that has enough words, by memory id; one model call serves all texts."""
    return _write(tenant_id, texts, policy, _by_rule)


def paraphrase_questions(tenant_id: UUID, texts: Mapping[UUID, str], policy: Policy) -> dict[UUID, GeneratedQuestion]:
    """Return a paraphrased question for each text that has enough words, by memory id.

    A model's question is used if the policy and the settings allow it and the question is suitable; otherwise a rule
    generates the question, always the same one for the same text.
    """
    return _write(tenant_id, texts, policy, _in_other_words_by_rule)


def _write(tenant_id: UUID, texts: Mapping[UUID, str], policy: Policy, rule: Rule) -> dict[UUID, GeneratedQuestion]:
    texts = {memory_id: text for memory_id, text in texts.items() if question_generation.can_be_asked(text)}
    if not texts:
        return {}
    by_model = _by_model(tenant_id, texts) if policy.self_tests.by_model and settings().has_provider else {}
    others = [text for memory_id, text in texts.items() if memory_id not in by_model]
    by_rule = iter(rule(others, _documents(tenant_id, others, policy.language)))
    return {
        memory_id: GeneratedQuestion(by_model[memory_id], by_model=True)
        if memory_id in by_model
        else GeneratedQuestion(next(by_rule), by_model=False)
        for memory_id in texts
    }


def _by_rule(texts: Sequence[str], documents: Mapping[str, int]) -> list[str]:
    return [question_generation.ask_by_rule(text, documents) for text in texts]


def _in_other_words_by_rule(texts: Sequence[str], documents: Mapping[str, int]) -> list[str]:
    spellings = list(dict.fromkeys(word for text in texts for word in paraphrased_questions.list_replaceable(text)))
    neighbours = word_vectors().nearest(spellings, paraphrased_questions.NEAR_MIN, paraphrased_questions.NEAR_WORDS)
    return [paraphrased_questions.paraphrase_question(text, documents, neighbours) for text in texts]


def _by_model(tenant_id: UUID, texts: Mapping[UUID, str]) -> dict[UUID, str]:
    """Return the model's suitable questions by memory id; empty if the model fails or the daily budget is used up."""
    model = model_clients.question_writer
    try:
        with budget.book_usage(tenant_id, "self_test", model.model, len(texts)) as usage:
            questions = dict(
                zip(texts, model.ask(question_generation.prompt(list(texts.values())), usage), strict=True)
            )
    except OverBudget:
        reason = "over_budget"
    except ProviderFailed as failure:
        reason = str(failure)
    else:
        return {
            memory_id: question
            for memory_id, question in questions.items()
            if question_generation.is_usable(
                question, texts[memory_id], [other_text for key, other_text in texts.items() if key != memory_id]
            )
        }
    log.warning("questions_by_rule", reason=reason, model=model.model, tenant=str(tenant_id))
    return {}


def _documents(tenant_id: UUID, texts: list[str], language: str) -> dict[str, int]:
    """Return, for each word of the texts, the number of the tenant's memories that contain it."""
    spellings = list(dict.fromkeys(word for text in texts for word in content_words(text)))
    with database.tenant(tenant_id) as tx:
        terms, _ = word_index.count_terms(tx, tenant_id, "", spellings, language)
    documents: dict[str, int] = {}
    for term in terms:
        if term.spelling is not None:
            documents[term.spelling] = max(term.documents, documents.get(term.spelling, 0))
    return documents
