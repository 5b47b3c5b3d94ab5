"""Let a model rate the memories that only the rules have scored so far; the least certain scores come first.

If no rating is available, because the provider fails, the budget is used up or every answer about a memory is unusable,
the rule-based score remains in force.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

import structlog

from app import failpoints, metrics, queues
from app.clients.llm.model_clients import model_clients
from app.clients.llm.resilience import ProviderFailed, Verdict
from app.domain.changes.types import SCORED
from app.domain.policy.policy import Policy
from app.domain.salience.llm_scoring import Score
from app.domain.salience.rating_batches import UnscoredText, digest_text
from app.domain.strength.profile_hints import RatedContent, content_rule
from app.domain.text.words import format_line
from app.domain.turns import TURN_SECONDS
from app.errors import ProfileMissing
from app.services.enrichment import rating_log
from app.services.enrichment.stage_runner import KILLED
from app.services.jobs import lease
from app.services.jobs.lease import LEASE_SECONDS
from app.services.storage.memory_write import memory_write
from app.services.strength import current_policy
from app.services.tenants import budget
from app.services.transient_errors import is_transient
from app.settings import settings
from app.store.core import database
from app.store.enrichment import cues, profile_hints, rating_queue, rating_turns, scores
from app.store.enrichment.rating_queue import Unrated
from app.store.enrichment.rating_turns import RatingTurn
from app.store.enrichment.scores import Assessment
from app.store.enrichment.work_queue import NIL
from app.store.ingest import dead_letters
from app.store.tenants import policies

if TYPE_CHECKING:
    from app.clients.llm.salience_scorer import Gathered, Scorer

RETRY_SECONDS: Final = 5.0
"""Delay of a tenant's ratings after a failure of the provider, whose circuit breaker pauses all tenants' ratings."""
PUT_OFF_SECONDS: Final = 45.0
"""Maximum delay of a tenant's ratings, so that they resume within a minute after the cause is gone."""
PROBE_MEMORIES: Final = 2
"""Number of memories in a turn that probes a failing provider, which still counts as failing if no answer is usable."""

log = structlog.get_logger(__name__)

# Tenant of the last turn in this process; the next slice starts after it.
_last_turn: dict[str, UUID] = {}
# Consecutive turns per tenant in which every answer was unusable.
_senseless: Counter[UUID] = Counter()


@dataclass(frozen=True, slots=True)
class _TurnResult:
    """Result of one turn: the number of memories rated, and `is_ill` if the provider is failing."""

    rated: int = 0
    is_ill: bool = False


@dataclass(frozen=True, slots=True)
class _SharedText:
    """Memories with the same text and context, which the model rates once, under the first memory's id."""

    digest: bytes
    shown: UnscoredText
    memories: list[Unrated]

    @property
    def name(self) -> UUID:
        """Id under which the text is rated."""
        return self.shown.memory_id


def rate_memories() -> int:
    """Rate memories that only the rules have scored, for one slice; return the number of memories rated."""
    queues.clear_nudge(queues.RATE_MEMORIES)
    if not settings().has_provider:
        return 0
    scorer = model_clients.salience_scorer
    started_at = time.monotonic()
    rated = 0
    while not scorer.is_resting and (turn := _claim()) is not None:
        _last_turn[rating_queue.STAGE] = turn.tenant_id
        with lease.renewed(
            partial(rating_turns.renew, turn=turn, lease_seconds=LEASE_SECONDS), tenant=str(turn.tenant_id)
        ):
            result = _process_turn(turn, scorer)
        rated += result.rated
        if result.is_ill:
            break
        if time.monotonic() - started_at >= settings().slice_seconds:
            queues.nudge(queues.RATE_MEMORIES)
            break
    return rated


def _claim() -> RatingTurn | None:
    with database.shared() as tx:
        return rating_turns.claim(
            tx, claim_id=uuid4(), after=_last_turn.get(rating_queue.STAGE, NIL), lease_seconds=LEASE_SECONDS
        )


def _process_turn(turn: RatingTurn, scorer: Scorer) -> _TurnResult:
    """Rate one batch of a tenant's memories, and release or finish the turn."""
    texts: list[_SharedText] = []
    try:
        if budget.budget_state(turn.tenant_id) is budget.BudgetState.HARD:
            budget.count_failure("score", over_budget=True)
            _count_delivery("put_off")
            _release_turn(turn, PUT_OFF_SECONDS)
            return _TurnResult()
        policy = current_policy.read(turn.tenant_id)
        _ = policy.model  # raises ProfileMissing: ratings can't be written without the profile
        version = scorer.version(cues=policy.recall.cues)
        is_probe = scorer.is_recovering or _senseless[turn.tenant_id] > 0
        texts, earlier_ratings = _claim_texts(turn.tenant_id, version, is_probe=is_probe)
        if not texts:
            with database.shared() as tx:
                rating_turns.finish_turn(tx, turn)
            return _TurnResult()
        if texts[0].memories[0].asks > settings().deliveries_max:
            _stop_rating(turn, texts[0].memories[0], version)
            return _TurnResult()
        return _rate_texts(turn, scorer, policy, texts, earlier_ratings)
    except ProfileMissing:
        log.warning("dynamics_missing", stage=rating_queue.STAGE, tenant=str(turn.tenant_id))
        _release_turn(turn, PUT_OFF_SECONDS)
        return _TurnResult()
    except Exception as error:
        claimed = [memory for text in texts for memory in text.memories]
        if is_transient(error):
            with database.tenant(turn.tenant_id) as tx:
                rating_queue.uncount_attempts(tx, turn.tenant_id, claimed)
                rating_turns.release(tx, turn, RETRY_SECONDS)
            _count_delivery("put_off")
            raise
        _count_delivery("failed")
        # The attempt stays counted, so each of these memories is rated alone from now on.
        log.warning(
            "rating_failed",
            tenant=str(turn.tenant_id),
            memories=len(claimed),
            error=type(error).__name__,
            exc_info=error,
        )
        _release_turn(turn, RETRY_SECONDS)
        return _TurnResult()


def _claim_texts(tenant_id: UUID, version: str, *, is_probe: bool) -> tuple[list[_SharedText], dict[bytes, Score]]:
    """Claim memories to rate, grouped by the text and context shown to the model, and look up their earlier ratings."""
    config = settings()
    limit = PROBE_MEMORIES if is_probe else config.llm_concurrency * config.score_batch_memories
    texts: dict[bytes, _SharedText] = {}
    with database.tenant(tenant_id) as tx:
        for memory in rating_queue.claim(tx, tenant_id, version, limit):
            line = format_line(memory.text, memory.speaker)
            shown = UnscoredText(memory.memory_id, line, memory.conversation, memory.seq, memory.around)
            key = digest_text(shown)
            texts.setdefault(key, _SharedText(key, shown, [])).memories.append(memory)
        return list(texts.values()), rating_queue.find_ratings(tx, tenant_id, version, list(texts)) if texts else {}


def _rate_texts(
    turn: RatingTurn, scorer: Scorer, policy: Policy, texts: Sequence[_SharedText], known: Mapping[bytes, Score]
) -> _TurnResult:
    """Rate the texts that have no earlier rating, and write all results."""
    config, tenant_id, version = settings(), turn.tenant_id, scorer.version(cues=policy.recall.cues)
    new_texts = [text.shown for text in texts if text.digest not in known]
    failpoints.trigger("rate.before", str(tenant_id))
    # While other tenants wait, a turn is one call per thread; what it doesn't rate waits for the tenant's next turn.
    seconds = TURN_SECONDS if turn.are_several else config.slice_seconds
    gathered = scorer.gather(new_texts, threads=config.llm_concurrency, seconds=seconds, cues=policy.recall.cues)
    delay_seconds = _delay_seconds(tenant_id, gathered)
    failpoints.trigger("rate.before_write")
    rated: list[Assessment] = []
    failed: list[tuple[Unrated, ProviderFailed]] = []
    spared: list[Unrated] = []
    for text in texts:
        score = known.get(text.digest) or gathered.scores.get(text.name)
        if score is not None:
            rated += (_assessment(memory, text.digest, version, score) for memory in text.memories)
        elif text.name in gathered.failed:
            failed += ((memory, gathered.failed[text.name]) for memory in text.memories)
        elif text.name in gathered.spared:
            spared += text.memories
    cached = len(rated) - len(gathered.scores)
    if gathered.illness is not None:
        budget.count_failure("score")
    if gathered.usage.calls or cached:  # recorded before writing, since the calls cost money even if writing fails
        budget.spend_tokens(
            tenant_id, "score", config.salience_model, gathered.usage, memories=len(gathered.scores), cache_hits=cached
        )
    with memory_write(tenant_id, "state") as write:
        tx = write.tx
        with write.update([each.memory_id for each in rated]):
            rated_ids = scores.write(tx, tenant_id, scores.LLM, rated)
            write.report(SCORED, rated_ids)
            cues.write(tx, tenant_id, rated, policy.language)
            _reapply_rule(tx, tenant_id, rated)
        excluded = rating_queue.exclude(tx, tenant_id, [memory for memory, _ in failed], version) if failed else set()
        if spared:
            rating_queue.uncount_attempts(tx, tenant_id, spared)
        lost = [
            (memory, failure)
            for memory, failure in failed
            if failure.treatment.verdict is Verdict.DEAD_LETTER and memory.memory_id in excluded
        ]
        for memory, failure in lost:
            _set_aside(tx, tenant_id, memory, failure.reason.value, memory.asks)
        rating_turns.release(tx, turn, delay_seconds)
    rating_log.log_turn(tenant_id, config.salience_model, gathered, [failure for _, failure in failed], len(spared))
    metrics.count("rated_memories", len(rated_ids))
    metrics.count("rating_cache_hits", cached)
    metrics.count("rating_cues", sum(len(score.cues) for score in gathered.scores.values()))
    metrics.count("rating_cues_dropped", sum(score.cues_dropped for score in gathered.scores.values()))
    metrics.count("rating_failures", len(failed) + (len(spared) if gathered.illness else 0))
    metrics.count("dead_letters", len(lost))
    _count_delivery("put_off" if gathered.illness else "done")
    _count_delivery("dead", len(lost))
    return _TurnResult(len(rated_ids), is_ill=gathered.illness is not None)


def _reapply_rule(tx: database.Transaction, tenant_id: UUID, rated: Sequence[Assessment]) -> None:
    """Reapply the profile's content rule, since a rating may infer categories and change kinds."""
    by_profile = content_rule(policies.read_current(tx, tenant_id).forgetting)
    if by_profile is None:
        return
    versions = {assessment.memory_id: assessment.text_version for assessment in rated}
    memories = scores.read(tx, tenant_id, list(versions), closed=True)  # read again: the caller may have edited labels
    texts = [(memory.memory_id, versions[memory.memory_id]) for memory in memories]
    profile_hints.write(
        tx, tenant_id, texts, [by_profile(RatedContent(memory.text, memory.categories)) for memory in memories]
    )


def _assessment(memory: Unrated, text_digest: bytes, version: str, score: Score) -> Assessment:
    return Assessment(
        memory_id=memory.memory_id,
        text_version=memory.text_version,
        **score.criteria,
        uncertainty=0.0,
        inferred_kind=score.kind,
        inferred_entities=score.entities,
        inferred_topics=score.topics,
        inferred_categories=score.categories,
        inferred_cues=score.cues,
        sensitivity=score.sensitivity,
        version=version,
        digest=text_digest,
    )


def _stop_rating(turn: RatingTurn, memory: Unrated, version: str) -> None:
    """Stop rating a memory whose processing repeatedly killed workers; keep its rule-based score."""
    with database.tenant(turn.tenant_id) as tx:
        rating_turns.release(tx, turn)
        if not rating_queue.exclude(tx, turn.tenant_id, [memory], version):
            return  # the turn expired, and the worker that claimed it next set the memory aside
        _set_aside(tx, turn.tenant_id, memory, KILLED, memory.asks - 1)
    metrics.count("dead_letters")
    _count_delivery("dead")


def _count_delivery(outcome: str, times: int = 1) -> None:
    metrics.count("deliveries", times, lane=queues.SCORE, outcome=outcome)


def _set_aside(tx: database.Transaction, tenant_id: UUID, memory: Unrated, reason: str, attempts: int) -> None:
    dead_letters.add(
        tx, tenant_id, stage=rating_queue.STAGE, reason=reason, attempts=attempts, memory_ids=[memory.memory_id]
    )
    log.error("dead_letter", stage=rating_queue.STAGE, tenant=str(tenant_id), reason=reason)


_release_turn = database.in_shared(rating_turns.release)


def _delay_seconds(tenant_id: UUID, found: Gathered) -> float:
    """Return the seconds until the tenant's next turn, and count turns without a usable answer.

    The delay is 0 without a failure. It grows after unusable answers and rejected requests, for which the circuit
    breaker doesn't open. Otherwise a failing provider only delays the tenant by `RETRY_SECONDS`: the circuit breaker
    pauses all ratings, and a tenant's longer delay could last beyond that pause.
    """
    if found.scores:
        del _senseless[tenant_id]
    if found.illness is None:
        return 0.0
    if found.illness.treatment.halve:
        _senseless[tenant_id] += 1
        return float(min(RETRY_SECONDS * 2 ** min(_senseless[tenant_id], 60), PUT_OFF_SECONDS))
    return RETRY_SECONDS
