"""Find and judge the memories that may be relevant to some messages of a conversation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

import numpy as np
from msgspec import structs

from app.clients.embedding.embedder import USUAL_COSINES
from app.domain.dynamics.ops import Floats
from app.domain.ingest.roles import speaker_name
from app.domain.ingest.sources import SOURCES, Source
from app.domain.policy.policy import Policy
from app.domain.recall import bridges, gate, worth
from app.domain.recall.context import find_unsaid
from app.domain.recall.conversation_features import ConversationFeatures, find_names, read_form
from app.domain.recall.knowledge import knowledge
from app.domain.recall.relevance import (
    BACKGROUND_MIN,
    Flags,
    StoredEvidence,
    WeighedWord,
    closeness,
    cue_values,
    decay_by_age,
    fill_background,
    rarity,
    shared_words,
    weigh_words,
)
from app.domain.recall.request import RecallRequest, WindowMessage, emphasis, spoken_by_user
from app.domain.search.correction_order import CorrectionPair
from app.domain.search.request import RESULTS_MAX, SearchRequest, SearchResult
from app.domain.text.inflection import irregular_forms
from app.services.recall import kinship
from app.services.search import candidate_strength, search
from app.services.search.result_explanation import explain_importances
from app.store.core import database
from app.store.embedding import embedding_spaces
from app.store.enrichment import cues, reminders
from app.store.enrichment.reminders import FlagHolders
from app.store.enrichment.work_queue import NIL
from app.store.search import neighbours, recall_evidence
from app.store.strength import reviews
from app.store.strength.reviews import ReviewSchedule

POOL: Final = 40
"""Number of top search results to judge, and maximum number of memories added because they have reminders or cues."""
NAMES_CHARACTERS: Final = 2_000
"""Number of characters at the start of a candidate's text that are searched for names."""


@dataclass(frozen=True, slots=True)
class JudgedCandidates:
    """The candidates' relevance and its components; all arrays are in candidate order.

    Attributes:
        relevance: `openness` × `worths`, 0 to 1.
        openness: The gate's openness: how much the conversation asks for memories, 0 to 1.
        gate: The features from which `openness` is computed.
        worths: The worth of each candidate, 0 to 1.
        features: The features from which `worths` are computed.
        knowledge: For each candidate, the factor (included in `worths`) by which the form of its text reduces the
            worth; see `knowledge.knowledge`.
    """

    relevance: Floats
    openness: float
    gate: Mapping[str, float]
    worths: Floats
    features: worth.WorthFeatures
    knowledge: Floats


@dataclass(frozen=True, slots=True)
class JudgedWindow:
    """The candidates for some messages of a conversation, judged; all arrays are in candidate order.

    Attributes:
        query: The messages as a search query.
        relevance: The relevance of the candidates, raised for corrections.
        words: The content words of the messages.
        importance: Importance with these messages as its context, 0 to 1, raised for corrections; 0 if not needed.
        importances: Importance before corrections, and its four factors, by id; empty if not needed.
        due: True for candidates that are due for review.
        is_single: True if there is only one message.
    """

    policy: Policy
    query: str
    candidates: Sequence[SearchResult]
    relevance: Floats
    judged: JudgedCandidates
    form: ConversationFeatures
    words: Sequence[WeighedWord]
    importance: Floats
    importances: Mapping[UUID, dict[str, float]]
    due: Flags
    is_single: bool


def _restrict_sources(request: SearchRequest, allowed: Sequence[Source]) -> SearchRequest:
    """Restrict a request to the allowed sources; if none of its sources is allowed, return one that finds nothing."""
    sources = tuple(source for source in request.sources or allowed if source in allowed)
    return structs.replace(request, sources=sources, ids=None if sources else (NIL,))


def judge_window(
    tenant_id: UUID, request: RecallRequest, turns: Sequence[WindowMessage], policy: Policy | None
) -> JudgedWindow:
    """Find the candidates for these messages and judge them.

    Args:
        turns: The messages that determine relevance, newest first.
    """
    window = [turn.line for turn in turns]
    search_request = request.search(window, RESULTS_MAX)
    word_decay = emphasis(window)
    gathered = search.gather_candidates(tenant_id, search_request, policy, word_decay)
    policy = gathered.policy
    if set(policy.recall.sources) != set(SOURCES):
        search_request = _restrict_sources(search_request, policy.recall.sources)
        gathered = search.gather_candidates(tenant_id, search_request, policy, word_decay)
    ranked, _ = search.rank_gathered(tenant_id, gathered, search_request)
    forms = irregular_forms(word_decay) if policy.language == "english" else {}
    words = weigh_words(window, gathered.asked, gathered.total, forms)
    lexemes = sorted({lexeme for word in words if word.is_held for lexeme in word.lexemes})
    lexeme_decay = decay_by_age(words, word_decay)
    asked_flags = bridges.split_flags(bridges.find_asked_flags(window))
    with database.tenant(tenant_id) as tx:
        flag_holders = reminders.find_holders(tx, tenant_id, asked_flags, search_request, POOL) if asked_flags else {}
        cue_holders = (
            cues.find_holders(tx, tenant_id, list(lexeme_decay), search_request, POOL) if policy.recall.cues else {}
        )
        all_holders = [*flag_holders.values(), *cue_holders.values()]
        candidates = _drop_said(_join_holders(tx, tenant_id, _drop_said(ranked, request), all_holders), request)
        ids = [result.id for result in candidates]
        evidence = recall_evidence.read_evidence(tx, tenant_id, ids, lexemes, list(cue_holders), gathered.probe)
        if len(evidence.background) < BACKGROUND_MIN and gathered.probe.space_id is not None:
            model = embedding_spaces.list_models(tx, [gathered.probe.space_id])[gathered.probe.space_id]
            if model in USUAL_COSINES:
                background = fill_background(evidence.background, USUAL_COSINES[model])
                evidence = replace(evidence, background=background)
        cosines = dict(zip(ids, evidence.cosine.tolist(), strict=True))
        needs_importance = request.explain or policy.recall.by == "importance"
        importances = explain_importances(tx, tenant_id, cosines, policy.importance) if needs_importance else {}
        reviewed = reviews.read(tx, tenant_id, ids)
        now = database.now(tx)
    user_messages = spoken_by_user(turns)
    labels = {
        label for candidate in gathered.found for label in (speaker_name(candidate.speaker), candidate.subject) if label
    }
    form = read_form(
        user_messages,
        find_names(user_messages, (candidate.text[:NAMES_CHARACTERS] for candidate in gathered.found), labels),
    )
    values = cue_values({stem: holders.memories for stem, holders in cue_holders.items()}, lexeme_decay, gathered.total)
    judged = _judge_candidates(
        form,
        words,
        evidence,
        candidates,
        _rarities(asked_flags, flag_holders, gathered.total),
        values,
        is_english=policy.language == "english",
    )
    relevance = _raise_corrections(judged.relevance, candidates, gathered.corrections)
    importance = np.array([importances[each]["in_context"] if each in importances else 0.0 for each in ids])
    importance = _raise_corrections(importance, candidates, gathered.corrections)
    due = np.array([_is_due(result, reviewed.get(result.id), policy, now) for result in candidates], np.bool_)
    return JudgedWindow(
        policy,
        search_request.query,
        candidates,
        relevance,
        judged,
        form,
        words,
        importance,
        importances,
        due,
        is_single=len(turns) == 1,
    )


def _join_holders(
    tx: database.Transaction, tenant_id: UUID, ranked: Sequence[SearchResult], held: Iterable[FlagHolders]
) -> list[SearchResult]:
    """Return the best search results, then the newest memories with reminders or cues, rarest of these first."""
    best = list(ranked[:POOL])
    rarest_first = sorted(held, key=lambda holders: holders.memories)
    newest_ids = dict.fromkeys(memory_id for holders in rarest_first for memory_id in holders.newest)
    added_ids = [memory_id for memory_id in newest_ids if memory_id not in {result.id for result in best}][:POOL]
    by_id = {result.id: result for result in ranked[POOL:]}
    missing_ids = [memory_id for memory_id in added_ids if memory_id not in by_id]
    if missing_ids:
        described = neighbours.describe_memories(tx, tenant_id, missing_ids)
        existing_ids = [memory_id for memory_id in missing_ids if memory_id in described]
        places, vitals = candidate_strength.candidate_strengths(tx, tenant_id, existing_ids)
        for place, strength in zip(places, vitals.strength.tolist(), strict=True):
            by_id[existing_ids[place]] = SearchResult(**described[existing_ids[place]], score=0.0, strength=strength)
    return best + [by_id[memory_id] for memory_id in added_ids if memory_id in by_id]


def _drop_said(found: Sequence[SearchResult], request: RecallRequest) -> list[SearchResult]:
    """Return the results that the conversation doesn't contain already."""
    fresh = find_unsaid([result.text for result in found], request.lines)
    return [result for result, is_fresh in zip(found, fresh, strict=True) if is_fresh]


def _rarities(asked: Sequence[int], held: Mapping[int, FlagHolders], total: int) -> dict[int, float]:
    """Return the rarity, among all memories, of each reminder flag that the conversation asks for."""
    return {flag: rarity(held[flag].memories, total) for flag in asked}


def _judge_candidates(
    form: ConversationFeatures,
    words: Sequence[WeighedWord],
    evidence: StoredEvidence,
    found: Sequence[SearchResult],
    rarities: Mapping[int, float],
    cue_values: Floats,
    *,
    is_english: bool,
) -> JudgedCandidates:
    """Compute the relevance of each candidate: the openness of the gate times the memory's worth."""
    texts = [result.text for result in found]
    reminder_flags = evidence.reminders[:, None]
    by_user = np.array([worth.said_by_user(result.role, result.speaker) for result in found])

    def reminding(asked: Sequence[int], *, of_days: bool) -> Floats:
        flag_rarities = np.array([rarities[flag] for flag in asked])
        return worth.reminding(reminder_flags & np.array(asked, np.int64) != 0, flag_rarities, by_user, of_days=of_days)

    features = worth.WorthFeatures(
        near=shared_words(words, evidence),
        close=closeness(evidence.cosine, evidence.background),
        kin=kinship.kinship_of_texts(words, texts),
        user=by_user,
        personal=evidence.personal / 10,
        bridge=reminding([flag for flag in rarities if flag & bridges.BRIDGES_MASK], of_days=False),
        day=reminding([flag for flag in rarities if not flag & bridges.BRIDGES_MASK], of_days=True),
        cue=worth.reminding(evidence.cues.astype(float), cue_values, by_user, of_days=False),
    )
    rarest = max([word.weight for word in words if word.is_held] + cue_values.tolist(), default=0.0)
    gate_features = gate.gate_features(form, rarest, float(features.close.max(initial=0.0)))
    shares = np.array([knowledge(text) for text in texts]) if is_english else np.ones(len(texts))
    openness, worths = gate.openness(gate_features), worth.compute_worth(features) * shares
    return JudgedCandidates(openness * worths, openness, gate_features, worths, features, shares)


def _raise_corrections(values: Floats, found: Sequence[SearchResult], pairs: Sequence[CorrectionPair]) -> Floats:
    """Return relevance or importance, raised so that each correction has at least that of the memory it corrects."""
    places = {result.id: place for place, result in enumerate(found)}
    raised = values.copy()
    for pair in pairs:
        newer, older = places.get(pair.newer), places.get(pair.older)
        if newer is not None and older is not None:
            raised[newer] = max(raised[newer], raised[older])
    return raised


def _is_due(result: SearchResult, reviewed: ReviewSchedule | None, policy: Policy, now: datetime) -> bool:
    """Return whether a memory is due for review according to the review queue."""
    first = timedelta(days=policy.review.first_interval_days)
    return (reviewed.due_at if reviewed else result.created_at + first) <= now
