"""What a conversation brings to mind: few memories, or none, as a text to be put before a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import numpy as np

from app.domain import tokens
from app.domain.policy import Policy
from app.domain.recall.context import context, unsaid
from app.domain.recall.relevance import relevance
from app.domain.recall.request import Recalled, RecallRequest, emphasis
from app.domain.retrieval.request import RESULTS_MAX, SearchResult
from app.services import search
from app.store import database, reviews
from app.store import recall as store
from app.store.reviews import Reviewed

POOL: Final = 40
"""How many of a search's best results are judged."""


@dataclass(frozen=True, slots=True)
class Brought:
    """What has come up.

    Attributes:
        memories: The foremost first.
        context: Those that fit its budget, as one text; empty where none does.
        ids: Of the memories in the context, the foremost first.
        tokens: Of the context, estimated from above.
    """

    memories: list[Recalled]
    context: str
    ids: list[UUID]
    tokens: int


_NOTHING: Final = Brought([], "", [], 0)


def recall(tenant_id: UUID, request: RecallRequest, policy: Policy | None = None) -> Brought:
    """The memories worth bringing up in a conversation; nothing counts as used by that.

    Those of more relevance than the policy asks for, by relevance, which is boosted for the order where a memory is due
    for review. What the conversation says already isn't brought up.

    Args:
        tenant_id: Whose memories.
        request: The conversation.
        policy: The tenant's where none is given.
    """
    window = request.window()
    if not window:
        return _NOTHING
    wanted = request.search(window, RESULTS_MAX)
    gathered = search.gather(tenant_id, wanted, policy, emphasis(window))
    policy = gathered.policy
    ranked, _ = search.ranked(tenant_id, gathered, wanted)
    found = _unsaid(ranked, request)[:POOL]
    if not found:
        return _NOTHING
    ids = [result.id for result in found]
    lexemes = sorted({term.lexeme for term in gathered.asked if term.documents})
    with database.tenant(tenant_id) as tx:
        evidence = store.evidence(tx, tenant_id, ids, lexemes, gathered.probe)
        reviewed = reviews.read(tx, tenant_id, ids)
        now = database.now(tx)
    judged = relevance(window, gathered.asked, gathered.total, evidence, policy.ranking.context)
    due = np.array([_is_due(result, reviewed.get(result.id), policy, now) for result in found])
    order = np.argsort(-judged * np.where(due, policy.recall.review_boost, 1.0), kind="stable")
    above = [place for place in order.tolist() if judged[place] > policy.recall.relevance_above]
    memories = [
        _recalled(found[place], float(judged[place]), due=bool(due[place]))
        for place in above[: min(request.limit or policy.recall.most, policy.recall.most)]
    ]
    text, within = context(memories, request.token_budget or policy.recall.token_budget, policy.time_zone)
    return Brought(memories, text, [memory.id for memory in within], tokens.count(text))


def _unsaid(found: Sequence[SearchResult], request: RecallRequest) -> list[SearchResult]:
    """Without what the conversation says already."""
    fresh = unsaid([result.text for result in found], request.lines)
    return [result for result, is_fresh in zip(found, fresh, strict=True) if is_fresh]


def _is_due(result: SearchResult, reviewed: Reviewed | None, policy: Policy, now: datetime) -> bool:
    """Whether a memory is due for review, as the queue of reviews has it."""
    first = timedelta(days=policy.review.first_interval_days)
    return (reviewed.due_at if reviewed else result.created_at + first) <= now


def _recalled(result: SearchResult, judged: float, *, due: bool) -> Recalled:
    return Recalled(
        id=result.id,
        text=result.text,
        relevance=judged,
        strength=result.strength,
        due_for_review=due,
        tier=result.tier,
        subject=result.subject,
        thread=result.thread,
        speaker=result.speaker,
        external_id=result.external_id,
        kind=result.kind,
        tags=result.tags,
        occurred_at=result.occurred_at,
        created_at=result.created_at,
        role=result.role,
    )
