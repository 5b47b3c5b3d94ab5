"""Recall the memories (often none) that are relevant to a conversation, and format them as context for a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final
from uuid import UUID

import numpy as np
from msgspec import structs

from app.domain.policy.policy import Policy
from app.domain.recall.context import build_context, find_distinct
from app.domain.recall.focus import find_focus, needs_context, stands_alone
from app.domain.recall.request import Recalled, RecallRequest
from app.domain.recall.threshold import USUAL, Threshold, best_threshold, raise_threshold, relevance_threshold
from app.domain.search.request import SearchResult
from app.domain.text import tokens
from app.domain.text.highlight import find_highlights, join_excerpt
from app.services.recall.judgement import POOL, JudgedWindow, judge_window
from app.services.search.rerank import rerank_results

RERANKED_MIN: Final = 20
"""Minimum number of best memories to rerank; it replaces a lower `ranking.rerank` of the policy, except 0."""
SHOWN_WINDOWS: Final = 2
"""Maximum number of excerpts of a long memory's text in the context."""


@dataclass(frozen=True, slots=True)
class RecalledContext:
    """The outcome of a recall.

    Attributes:
        memories: The recalled memories, best first.
        context: The memories that fit the token budget, as one text; empty if none fits.
        ids: Ids of the memories in the context, best first.
        tokens: Upper estimate of the number of tokens in the context.
        thresholds: The relevance that memories had to exceed, by name: `least` or a field of the policy. For
            `recall.relevance_above`, this is the policy's value; the best memory's relevance may raise the actual one.
    """

    memories: list[Recalled]
    context: str
    ids: list[UUID]
    tokens: int
    thresholds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Pick:
    """A candidate whose relevance to a window of messages exceeds a threshold."""

    window: JudgedWindow
    place: int
    passed: Threshold

    @property
    def result(self) -> SearchResult:
        """The candidate as a search result."""
        return self.window.candidates[self.place]

    @property
    def relevance(self) -> float:
        """The candidate's relevance in this window."""
        return float(self.window.relevance[self.place])

    @property
    def boosted(self) -> float:
        """The relevance by which the candidate is ordered: higher if it is due for review."""
        return self.relevance * self._boost

    @property
    def importance(self) -> float:
        """The importance by which the candidate is ordered if the policy says so: higher if it is due for review."""
        return float(self.window.importance[self.place]) * self._boost

    @property
    def _boost(self) -> float:
        return self.window.policy.recall.review_boost if self.window.due[self.place] else 1.0


_NOTHING: Final = RecalledContext([], "", [], 0, {})


def recall_memories(tenant_id: UUID, request: RecallRequest, policy: Policy | None = None) -> RecalledContext:
    """Return the memories relevant to a conversation; a recall doesn't count as a use.

    A memory is relevant if its relevance exceeds the threshold of the request or the policy. The policy orders
    the memories by relevance or by importance in the conversation's context; memories due for review rank higher. If
    the order is by relevance and the policy enables the operator's reranker, the reranker then reorders the best ones.
    Memories that the conversation already contains are left out, and only one of several equal texts is returned.

    Args:
        policy: The tenant's policy; None to read the current one.
    """
    turns = request.turns()
    if not turns:
        return _NOTHING
    focus = find_focus(turns)
    windows = [judge_window(tenant_id, request, focus, policy)]
    policy, form = windows[0].policy, windows[0].form
    if len(focus) > 1 and stands_alone(focus[0], form):
        windows.append(judge_window(tenant_id, request, focus[:1], policy))
    thresholds: dict[str, float] = {}
    picks = [
        pick for window in windows for pick in _pick_relevant(window, request, thresholds, is_whole=len(turns) == 1)
    ]
    # Judge all messages, too, if the focus refers to earlier ones and either no memory was picked or `least` is set.
    if len(focus) < len(turns) and (not picks or request.least is not None) and needs_context(focus, form):
        windows.append(judge_window(tenant_id, request, turns, policy))
        picks += _pick_relevant(windows[-1], request, thresholds, is_whole=False)
    return _build_answer(tenant_id, request, windows, picks, thresholds)


def _pick_relevant(
    window: JudgedWindow, request: RecallRequest, thresholds: dict[str, float], *, is_whole: bool
) -> list[_Pick]:
    """Return the candidates above the window's threshold, best first, and add the window's thresholds to `thresholds`.

    A question about its speaker usually has an answer among the memories. So if the window is such a question, and the
    request has only this message or no candidate is above the threshold, the first search result above a lower
    threshold is added at the end. The order of the search determines this result, because low relevances hardly tell
    candidates apart and the search uses more evidence.

    Args:
        thresholds: The thresholds of all windows so far, by name.
        is_whole: True if the request has only one message.
    """
    rules, relevance = window.policy.recall, window.relevance
    order = np.argsort(-relevance * np.where(window.due, rules.review_boost, 1.0), kind="stable").tolist()
    usual = relevance_threshold(request.least, rules, window.form, has_single_message=window.is_single)
    thresholds[usual.name] = usual.above
    if usual.name == USUAL:
        usual = Threshold(USUAL, raise_threshold(usual.above, float(relevance.max(initial=0.0))))
    picks = [_Pick(window, place, usual) for place in order if relevance[place] > usual.above]
    best = best_threshold(request.least, rules, window.form, has_single_message=window.is_single)
    if best is not None and (is_whole or not picks):
        thresholds[best.name] = best.above
        first = next((place for place in range(len(window.candidates)) if relevance[place] > best.above), None)
        if first is not None and all(first != pick.place for pick in picks):
            picks.append(_Pick(window, first, best))
    return picks


def _build_answer(
    tenant_id: UUID,
    request: RecallRequest,
    windows: Sequence[JudgedWindow],
    picks: Sequence[_Pick],
    thresholds: Mapping[str, float],
) -> RecalledContext:
    """Return the picked memories, best first, each as judged by the window in which it is most relevant."""
    policy = windows[0].policy
    best_first = sorted(picks, key=lambda pick: -pick.boosted)
    distinct = find_distinct([pick.result.text for pick in best_first])
    found = [pick for pick, is_distinct in zip(best_first, distinct, strict=True) if is_distinct]
    ordered = (
        sorted(found, key=lambda pick: -pick.importance)
        if policy.recall.by == "importance"
        else _rerank(tenant_id, windows[-1].query, found, policy)
    )
    chosen = ordered[: request.limit or policy.recall.most]
    if not chosen:
        return RecalledContext([], "", [], 0, thresholds)
    weights: dict[str, float] = {}
    for word in [word for window in reversed(windows) for word in window.words]:
        weights[word.spelling] = word.weight
    memories = [
        _recalled(
            pick.result,
            pick.relevance,
            _matching_part(pick.result.text, weights, 1),
            due=bool(pick.window.due[pick.place]),
            explain=_explained(pick) if request.explain else None,
        )
        for pick in chosen
    ]
    shown = [_matching_part(memory.text, weights, SHOWN_WINDOWS) for memory in memories]
    text, in_context = build_context(
        memories, shown, request.token_budget or policy.recall.token_budget, policy.time_zone
    )
    return RecalledContext(memories, text, [memory.id for memory in in_context], tokens.count(text), thresholds)


def _rerank(tenant_id: UUID, query: str, found: Sequence[_Pick], policy: Policy) -> list[_Pick]:
    """Return the picked memories, reordered by the reranker if it is available."""
    picks = {pick.result.id: pick for pick in found}
    # All scores are equal, so that only the reranker determines the order.
    equal_results = [structs.replace(pick.result, score=1.0) for pick in found]
    reranked = policy.ranking.rerank
    results, _ = rerank_results(
        tenant_id, query, equal_results, min(max(reranked, RERANKED_MIN), POOL) if reranked else 0
    )
    return [picks[result.id] for result in results]


def _matching_part(text: str, weights: Mapping[str, float], most: int) -> str:
    """Return the excerpts of a memory's text, at most `most`, that match the conversation best."""
    return join_excerpt(text, find_highlights(text, weights, most))


def _explained(pick: _Pick) -> dict[str, Any]:
    """Return the threshold, the factors of relevance with their features, and the importance.

    `open` says how much the conversation asks for memories; `worth` says how helpful this memory is in the
    conversation. `knowledge` is a factor of `worth`: 1 for a statement, lower for a text that contains only questions
    or small talk.
    """
    window, judged, place = pick.window, pick.window.judged, pick.place
    memory_features = {
        field.name: float(getattr(judged.features, field.name)[place]) for field in fields(judged.features)
    }
    return {
        "threshold": pick.passed._asdict(),
        "open": judged.openness,
        "worth": float(judged.worths[place]),
        "knowledge": float(judged.knowledge[place]),
        "conversation": dict(judged.gate),
        "memory": memory_features,
        "importance": window.importances.get(pick.result.id),
    }


def _recalled(
    result: SearchResult, relevance: float, shown: str, *, due: bool, explain: dict[str, Any] | None
) -> Recalled:
    fields: dict[str, Any] = {name: getattr(result, name) for name in _ALIKE}
    return Recalled(**fields | {"highlight": shown, "relevance": relevance, "due_for_review": due, "explain": explain})


_ALIKE: Final = tuple(name for name in Recalled.__struct_fields__ if name in SearchResult.__struct_fields__)
"""The fields that a recalled memory has in common with a search result."""
