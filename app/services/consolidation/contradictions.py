"""Ask a model each night which earlier memories the new ones contradict, and record its answers as proposals.

Without a model nothing is proposed. A failing, wrong or too expensive model can only miss or add proposals and never
loses a memory: its answer can only name memories from the same question, and each pair takes effect only when a person
or the policy approves it.
"""

from __future__ import annotations

import time
from collections import Counter
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import numpy as np
import structlog

from app import failpoints
from app.clients.llm.model_clients import model_clients
from app.clients.llm.resilience import ProviderFailed
from app.domain.consolidation import contradiction_prompt
from app.domain.consolidation.contradiction_prompt import ContradictionQuestion
from app.domain.consolidation.supersession import SupersessionPair
from app.domain.ingest.memory import KINDS
from app.domain.jobs import Step
from app.domain.policy.policy import Policy
from app.domain.tiers import tier_decision
from app.services.consolidation import supersession
from app.services.strength import current_policy
from app.services.tenants import budget
from app.services.transient_errors import OverBudget
from app.settings import settings
from app.store.consolidation import contradictions
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.tiers import protections

SLICE_ROWS: Final = contradiction_prompt.QUESTIONS_MAX
"""Maximum number of new memories per slice: usually one model call, whose pairs are saved before the next call."""
BACK: Final = timedelta(days=7)
"""Maximum age of the new memories that a run examines, on the first run and after an interruption."""
MARGIN: Final = timedelta(minutes=1)
"""Allowed difference between the clocks of ids and of acceptance times."""

OVER_BUDGET: Final = "the budget is used up: the next nightly run continues"
ILL: Final = "the model provider is failing: the next nightly run continues"

log = structlog.get_logger(__name__)


def run_slice(tenant_id: UUID, as_of: datetime, state: dict[str, Any], until: float) -> Step:
    """Ask about memories accepted by `as_of`.

    The first slice also resolves waiting `supersedes` names whose memory is now stored.

    Args:
        as_of: The time of the nightly run.
        state: State returned by the previous slice; empty at first.
        until: Deadline on the monotonic clock; at least one slice is always done.
    """
    processed = 0 if state else supersession.resolve_statements(tenant_id)
    policy = current_policy.read(tenant_id)
    remaining = policy.supersession.asked_a_night - state.get("asked", 0)
    if not settings().has_provider or remaining <= 0:
        return Step(processed, state, finished=True)
    after = UUID(state["after"]) if state else _first_id(tenant_id, as_of)
    counts, question_count = Counter[str](), state.get("asked", 0)
    while True:
        questions, last = _questions(
            tenant_id, after, as_of, min(SLICE_ROWS, policy.supersession.asked_a_night - question_count)
        )
        try:
            pairs, unanswered = _ask(tenant_id, questions)
        except (OverBudget, ProviderFailed) as failure:
            note = OVER_BUDGET if isinstance(failure, OverBudget) else ILL
            log.warning("contradictions_put_off", tenant=str(tenant_id), reason=str(failure) or "over_budget")
            return Step(processed, _state(after, question_count), finished=True, counts=dict(counts), notes=(note,))
        counts += Counter(
            proposed=_propose(tenant_id, pairs, policy, last[1] if last else as_of), unanswered=unanswered
        )
        question_count, processed = question_count + len(questions), processed + len(questions)
        finished = last is None or question_count >= policy.supersession.asked_a_night
        after = last[0] if last else after
        if finished or time.monotonic() >= until:
            return Step(processed, _state(after, question_count), finished=finished, counts=dict(counts))


def _state(after: UUID, asked: int) -> dict[str, Any]:
    return {"after": str(after), "asked": asked}


def _first_id(tenant_id: UUID, as_of: datetime) -> UUID:
    """Return an id lower than the ids of all memories to be examined."""
    with database.tenant(tenant_id) as tx:
        watermark = contradictions.read_watermark(tx, tenant_id)
    since = as_of - BACK if watermark is None else max(watermark - MARGIN, as_of - BACK)
    return UUID(bytes=int(since.timestamp() * 1000).to_bytes(6, "big") + bytes(10))


def _questions(
    tenant_id: UUID, after: UUID, as_of: datetime, limit: int
) -> tuple[list[ContradictionQuestion], tuple[UUID, datetime] | None]:
    """Return the questions about the next new memories, and the last of these memories (None if there are none)."""
    with database.tenant(tenant_id) as tx:
        new_memories = contradictions.list_new(tx, tenant_id, after, as_of, limit)
        spaces = embedding_spaces.read_tenant_spaces(tx, tenant_id)
        if not new_memories or spaces is None:
            return [], new_memories[-1] if new_memories else None
        ids = [memory_id for memory_id, _ in new_memories]
        return contradictions.find_questions(tx, tenant_id, spaces.searched.space_id, ids), new_memories[-1]


def _ask(tenant_id: UUID, questions: list[ContradictionQuestion]) -> tuple[list[SupersessionPair], int]:
    """Return the contradicting pairs that a model reports, and the number of questions without a valid answer.

    Raises:
        OverBudget: The tenant has reached its daily budget.
        ProviderFailed: The provider as a whole failed.
    """
    pairs: list[SupersessionPair] = []
    unanswered = 0
    for batch in contradiction_prompt.split_batches(questions, settings().score_batch_tokens):
        model = model_clients.contradiction_detector
        try:
            with budget.book_usage(tenant_id, "contradict", model.model, len(batch)) as usage:
                pairs += model.ask(contradiction_prompt.prompt(batch), usage)
        except ProviderFailed as failure:
            if not failure.treatment.halve:
                raise
            unanswered += len(batch)
            log.warning(
                "contradictions_unanswered", tenant=str(tenant_id), memories=len(batch), reason=failure.reason.value
            )
    return pairs, unanswered


def _propose(tenant_id: UUID, pairs: list[SupersessionPair], policy: Policy, accepted_until: datetime) -> int:
    """Record the pairs found and advance the watermark; return the number of new pairs."""
    with database.tenant(tenant_id) as tx:
        approved = _unprotected(tx, tenant_id, pairs, policy) if pairs and policy.supersession.approve else []
        contradictions.move_watermark(tx, tenant_id, accepted_until)
        new = supersession.propose_pairs(tx, tenant_id, pairs, approved) if pairs else 0
        failpoints.trigger("contradictions.before_commit")
    return new


def _unprotected(
    tx: database.Transaction, tenant_id: UUID, pairs: list[SupersessionPair], policy: Policy
) -> list[SupersessionPair]:
    """Return the pairs whose older memory is protected neither by a hold nor by kind, marks or promotion."""
    ids = sorted({pair.superseded_id for pair in pairs})
    tier_facts = protections.read(tx, tenant_id, ids, policy.rules)
    kinds = [KINDS.index(kind) for kind in policy.protection.never_forget_kinds]
    protected = tier_facts.is_held | tier_facts.is_marked | np.isin(tier_facts.kinds, kinds)
    protected |= tier_decision.keeps_as_promoted(policy.rules, tier_facts)
    unprotected_ids = {memory_id for memory_id, is_protected in zip(ids, protected, strict=True) if not is_protected}
    return [pair for pair in pairs if pair.superseded_id in unprotected_ids]
