"""Rate memories with a model that only the rules have scored, least certain first.

If no rating is available, because the provider fails, the budget is spent or every answer about a memory is unusable,
the rule-based score remains in force.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

import structlog

from app import failpoints, metrics, queues
from app.clients.llm.model_clients import model_clients
from app.clients.llm.resilience import ProviderFailed, Reason, Verdict
from app.domain.policy.policy import Policy
from app.domain.salience.scoring import SETTLE_SECONDS, Score, Unscored, digest
from app.domain.strength.suggestions import Content, rule
from app.domain.text.wording import spoken
from app.errors import ProfileMissing
from app.services.enrichment.enrichment import KILLED
from app.services.passing import is_passing
from app.services.storage.memory_write import memory_write
from app.services.strength import policies
from app.services.tenants import budget
from app.settings import settings
from app.store.core import database
from app.store.enrichment import cues, rating_turns, ratings, scores, suggestions
from app.store.enrichment.rating_turns import Turn
from app.store.enrichment.ratings import Unrated
from app.store.enrichment.scores import Assessment
from app.store.enrichment.work import NIL
from app.store.ingest import dead_letters
from app.store.tenants import policies as rows

if TYPE_CHECKING:
    from app.clients.llm.salience_scorer import Gathered, Scorer

RETRY_SECONDS: Final = 5.0
"""Minimum delay of a tenant's ratings after a provider failure."""
PUT_OFF_SECONDS: Final = 600.0
"""Maximum delay, also used where a retry alone won't help: invalid key, exhausted quota, spent budget."""

log = structlog.get_logger(__name__)

# Tenant of the last turn in this process; the next slice starts after it.
_last_turn: dict[str, UUID] = {}
# Consecutive turns per tenant in which every answer was unusable.
_senseless: Counter[UUID] = Counter()


@dataclass(frozen=True, slots=True)
class _Passed:
    """Result of one turn: number of memories rated, and whether the provider is failing."""

    rated: int = 0
    is_ill: bool = False


@dataclass(frozen=True, slots=True)
class _Text:
    """Memories that look identical to the model, and are rated once, under the first one's id."""

    digest: bytes
    shown: str
    memories: list[Unrated]

    @property
    def name(self) -> UUID:
        """Id under which the text is rated."""
        return self.memories[0].memory_id


def rate() -> int:
    """Rate memories that only the rules have scored, for one slice; return the number rated."""
    if not settings().has_provider:
        return 0
    queues.nudged(queues.RATE_MEMORIES)
    scorer = model_clients.salience_scorer
    began = time.monotonic()
    rated = 0
    while not scorer.is_resting and (turn := _claim()) is not None:
        _last_turn[ratings.STAGE] = turn.tenant_id
        passed = _see_to(turn, scorer)
        rated += passed.rated
        if passed.is_ill:
            break
        if time.monotonic() - began >= settings().slice_seconds:
            queues.nudge(queues.RATE_MEMORIES)
            break
    return rated


def _claim() -> Turn | None:
    with database.shared() as tx:
        return rating_turns.claim(
            tx, claim_id=uuid4(), after=_last_turn.get(ratings.STAGE, NIL), lease_seconds=_lease_seconds()
        )


def _lease_seconds() -> float:
    """Return a turn's lease: a slice to start batches, time to settle them, and a last call that waits for a slot."""
    config = settings()
    return config.slice_seconds + SETTLE_SECONDS + 2 * config.llm_timeout_seconds + config.lease_seconds


def _see_to(turn: Turn, scorer: Scorer) -> _Passed:
    """Rate one batch of a tenant's memories, and release or finish the turn."""
    texts: list[_Text] = []
    try:
        if budget.state(turn.tenant_id) is budget.State.HARD:
            budget.failed("score", over_budget=True)
            _delivered("put_off")
            _give_back(turn, min(PUT_OFF_SECONDS, _seconds_to_midnight()))
            return _Passed()
        policy = policies.current(turn.tenant_id)
        _ = policy.model  # raises ProfileMissing: ratings can't be written without the profile
        version = scorer.version(cues=policy.recall.cues)
        texts, known = _take(turn.tenant_id, version)
        if not texts:
            with database.shared() as tx:
                rating_turns.finish(tx, turn)
            return _Passed()
        if texts[0].memories[0].asks > settings().deliveries_max:
            _give_up(turn, texts[0].memories[0], version)
            return _Passed()
        return _rate(turn, scorer, policy, texts, known)
    except ProfileMissing:
        log.warning("dynamics_missing", stage=ratings.STAGE, tenant=str(turn.tenant_id))
        _give_back(turn, PUT_OFF_SECONDS)
        return _Passed()
    except Exception as error:
        taken = [memory for text in texts for memory in text.memories]
        if is_passing(error):
            with database.tenant(turn.tenant_id) as tx:
                ratings.forgive(tx, turn.tenant_id, taken)
                rating_turns.give_back(tx, turn, RETRY_SECONDS)
            _delivered("put_off")
            raise
        _delivered("failed")
        # The attempt stays counted, so each of these memories is rated alone from now on.
        log.warning(
            "rating_failed",
            tenant=str(turn.tenant_id),
            memories=len(taken),
            error=type(error).__name__,
            exc_info=error,
        )
        _give_back(turn, RETRY_SECONDS)
        return _Passed()


def _take(tenant_id: UUID, version: str) -> tuple[list[_Text], dict[bytes, Score]]:
    """Claim memories to rate, grouped by the text shown to the model, and look up earlier ratings of these texts."""
    config = settings()
    texts: dict[bytes, _Text] = {}
    with database.tenant(tenant_id) as tx:
        for memory in ratings.claim(tx, tenant_id, version, config.llm_concurrency * config.score_batch_memories):
            shown = spoken(memory.text, memory.speaker)
            key = digest(Unscored(memory.memory_id, shown))
            texts.setdefault(key, _Text(key, shown, [])).memories.append(memory)
        return list(texts.values()), ratings.known(tx, tenant_id, version, list(texts)) if texts else {}


def _rate(turn: Turn, scorer: Scorer, policy: Policy, texts: Sequence[_Text], known: Mapping[bytes, Score]) -> _Passed:
    """Rate the texts that have no earlier rating, and write all results."""
    config, tenant_id, version = settings(), turn.tenant_id, scorer.version(cues=policy.recall.cues)
    asked = [Unscored(text.name, text.shown) for text in texts if text.digest not in known]
    failpoints.reach("rate.before", str(tenant_id))
    found = scorer.gather(asked, threads=config.llm_concurrency, seconds=config.slice_seconds, cues=policy.recall.cues)
    delay_seconds = _delay_seconds(tenant_id, found)
    failpoints.reach("rate.before_write")
    rated: list[Assessment] = []
    failed: list[tuple[Unrated, ProviderFailed]] = []
    spared: list[Unrated] = []
    for text in texts:
        score = known.get(text.digest) or found.scores.get(text.name)
        if score is not None:
            rated += (_assessment(memory, text.digest, version, score) for memory in text.memories)
        elif text.name in found.failed:
            failed += ((memory, found.failed[text.name]) for memory in text.memories)
        elif text.name in found.spared:
            spared += text.memories
    hits = len(rated) - len(found.scores)
    if found.illness is not None:
        budget.failed("score")
    if found.usage.calls or hits:  # booked first: the cost is due even if writing fails
        budget.spend(
            tenant_id, "score", config.salience_model, found.usage, memories=len(found.scores), cache_hits=hits
        )
    with memory_write(tenant_id, "state") as write:
        tx = write.tx
        with write.update([each.memory_id for each in rated]):
            written = scores.write(tx, tenant_id, scores.LLM, rated)
            cues.write(tx, tenant_id, rated, policy.language)
            _suggest(tx, tenant_id, rated)
        if failed:
            ratings.refuse(tx, tenant_id, [memory for memory, _ in failed], version)
        if spared:
            ratings.forgive(tx, tenant_id, spared)
        lost = [each for each in failed if each[1].treatment.verdict is Verdict.DEAD_LETTER]
        for memory, failure in lost:
            _set_aside(tx, tenant_id, memory, failure.reason.value, memory.asks)
        rating_turns.give_back(tx, turn, delay_seconds)
    _say(tenant_id, failed, spared, found.illness)
    metrics.count("rated_memories", written)
    metrics.count("rating_cache_hits", hits)
    metrics.count("rating_cues", sum(len(score.cues) for score in found.scores.values()))
    metrics.count("rating_cues_dropped", sum(score.cues_dropped for score in found.scores.values()))
    metrics.count("rating_failures", len(failed) + (len(spared) if found.illness else 0))
    metrics.count("dead_letters", len(lost))
    _delivered("put_off" if found.illness else "done")
    _delivered("dead", len(lost))
    return _Passed(written, is_ill=found.illness is not None)


def _suggest(tx: database.Transaction, tenant_id: UUID, rated: Sequence[Assessment]) -> None:
    """Reapply the profile's content rule, since a rating may infer categories and change kinds."""
    by_profile = rule(rows.current(tx, tenant_id).forgetting)
    if by_profile is None:
        return
    versions = {each.memory_id: each.text_version for each in rated}
    memories = scores.read(tx, tenant_id, list(versions), closed=True)  # read again: the caller may have edited labels
    texts = [(memory.memory_id, versions[memory.memory_id]) for memory in memories]
    suggestions.write(
        tx, tenant_id, texts, [by_profile(Content(memory.text, memory.categories)) for memory in memories]
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


def _say(
    tenant_id: UUID,
    failed: Sequence[tuple[Unrated, ProviderFailed]],
    spared: Sequence[Unrated],
    illness: ProviderFailed | None,
) -> None:
    """Log memories that weren't rated: one line for a provider failure, and one per reason specific to memories."""
    if illness is not None:
        log.warning(
            "rating_put_off",
            tenant=str(tenant_id),
            memories=len(spared),
            reason=illness.reason.value,
            status=illness.status,
            retry_after_seconds=illness.retry_after_seconds,
        )
    for reason, count in Counter(failure.reason.value for _, failure in failed).items():
        log.warning("not_rated", tenant=str(tenant_id), memories=count, reason=reason)


def _give_up(turn: Turn, memory: Unrated, version: str) -> None:
    """Stop rating a memory whose processing repeatedly killed workers; keep its rule-based score."""
    with database.tenant(turn.tenant_id) as tx:
        _set_aside(tx, turn.tenant_id, memory, KILLED, memory.asks - 1)
        ratings.refuse(tx, turn.tenant_id, [memory], version)
        rating_turns.give_back(tx, turn)
    metrics.count("dead_letters")
    _delivered("dead")


def _delivered(outcome: str, times: int = 1) -> None:
    metrics.count("deliveries", times, lane=queues.SCORE, outcome=outcome)


def _set_aside(tx: database.Transaction, tenant_id: UUID, memory: Unrated, reason: str, attempts: int) -> None:
    dead_letters.add(
        tx, tenant_id, stage=ratings.STAGE, reason=reason, attempts=attempts, memory_ids=[memory.memory_id]
    )
    log.error("dead_letter", stage=ratings.STAGE, tenant=str(tenant_id), reason=reason)


def _give_back(turn: Turn, delay_seconds: float) -> None:
    with database.shared() as tx:
        rating_turns.give_back(tx, turn, delay_seconds)


def _delay_seconds(tenant_id: UUID, found: Gathered) -> float:
    """Return the tenant's delay: the bounded `Retry-After` of a failing provider; exponential for unusable answers."""
    if found.scores:
        del _senseless[tenant_id]
    if found.illness is None:
        return 0.0
    if found.illness.reason is Reason.GARBAGE:
        _senseless[tenant_id] += 1
        return float(min(RETRY_SECONDS * 2 ** _senseless[tenant_id], PUT_OFF_SECONDS))
    if found.illness.treatment.verdict is not Verdict.RETRY:
        return PUT_OFF_SECONDS
    return min(max(found.illness.retry_after_seconds or 0.0, RETRY_SECONDS), PUT_OFF_SECONDS)


def _seconds_to_midnight() -> float:
    """Return the time until the next day in UTC."""
    now = datetime.now(UTC)
    midnight = (now + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return (midnight - now).total_seconds()
