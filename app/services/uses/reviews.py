"""Schedule spaced reviews of memories and record their results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from msgspec import structs

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS, Event
from app.domain.dynamics.timeline import Era, Timeline
from app.domain.policy.policy import Policy
from app.domain.search.request import SearchResult
from app.domain.strength import review
from app.domain.tiers.decay_tier import CurrentStrength
from app.errors import Conflict
from app.services.storage import lookup
from app.services.storage.memory_write import MemoryWrite, memory_write
from app.services.strength import memory_strength, promotion
from app.services.tiers import reactivation
from app.store.core import database
from app.store.core.binary_arrays import decode_uuids
from app.store.memories import aliases, history
from app.store.memories.history import EventChange, EventKind
from app.store.strength import reviews, states
from app.store.strength.reviews import DueReviews, FlaggedMemory, ReviewSchedule, ReviewText
from app.store.strength.states import StoredStates

SLICE_ROWS: Final = 100_000

By = Literal["due", "danger", "flagged"]
Result = Literal["passed", "failed"]


class ReviewEntry(NamedTuple):
    """A memory to review, with the values that selected it.

    Attributes:
        urgency: 0.6 · importance + 0.4 · days overdue; the policy can change both weights.
        priority: Closeness to the middle of the danger zone, 0 to 1.
        overdue_days: Days since `due_at`; negative if the review isn't due yet.
        reviewed: The stored schedule; None before the first review.
    """

    memory_id: UUID
    described: ReviewText
    strength: float
    importance: float
    urgency: float
    priority: float
    due_at: datetime
    overdue_days: float
    interval_days: float
    reviewed: ReviewSchedule | None


@dataclass(frozen=True, slots=True)
class ReviewSession:
    """The memories to review now, in order; `total` also counts memories beyond the session's limit."""

    entries: list[ReviewEntry]
    total: int


@dataclass(frozen=True, slots=True)
class ReviewOutcome:
    """The effect of a review.

    Attributes:
        before: Strength before the review, 0 to 1.
        after: Strength after the review, 0 to 1.
        importance: The importance from which the interval was computed.
        changed: False if this review was already recorded.
    """

    memory_id: UUID
    before: float
    after: float
    importance: float
    reviewed: ReviewSchedule
    changed: bool


def build_session(
    tenant_id: UUID,
    *,
    by: By = "due",
    subject: str | None = None,
    thread: str | None = None,
    limit: int | None = None,
) -> ReviewSession:
    """Return the memories to review now.

    Args:
        by: `due` selects memories whose interval has ended, by urgency; `danger` selects memories about to be
            forgotten, by priority; `flagged` selects memories whose last review, or a self-test since then, has failed,
            even if they aren't due, by urgency.
        limit: Maximum number of memories, capped by the policy's session size.
    """
    with database.tenant(tenant_id) as tx:
        now = database.now(tx).timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        era = times.at(now)
        policy = era.policy.review
        listed = reviews.list_due(
            tx,
            tenant_id,
            until=now if by == "due" else math.inf,
            first_interval_days=policy.first_interval_days,
            subject=subject,
            thread=thread,
            flagged=by == "flagged",
        )
        overdue_days = (now - listed.due_at) / DAY_SECONDS
        preselected = review.preselect_queue(policy, overdue_days) if by == "due" else np.arange(len(overdue_days))
        values = _numbers(tx, tenant_id, listed.only(preselected), times, now)
        if by == "due":
            order, total = review.review_queue(policy, values.seen.importance, values.overdue_days), len(overdue_days)
        elif by == "flagged":
            urgency = review.urgency(policy, values.seen.importance, values.overdue_days)
            order, total = np.argsort(-urgency, kind="stable")[: policy.session_limit], len(overdue_days)
        else:
            order = np.argsort(-values.priority, kind="stable")
            total = int(np.count_nonzero(values.priority))
            order = order[: min(total, policy.session_limit)]
        return ReviewSession(_entries(tx, tenant_id, values, order[:limit], era), total)


def list_flagged(tenant_id: UUID, limit: int) -> list[FlaggedMemory]:
    """Return the memories whose last review, or a self-test since then, has failed, longest due first."""
    with database.tenant(tenant_id) as tx:
        return reviews.list_flagged(tx, tenant_id, limit)


def record_review(tenant_id: UUID, memory_id: UUID, result: Result, at: datetime | None = None) -> ReviewOutcome:
    """Record the result of a review.

    A passed review counts as a use and lengthens the interval. A failed review resets the interval to the first
    interval and flags the memory. Repeating a result within the policy's refractory time counts as the same review and
    changes nothing.

    Args:
        memory_id: The memory's id or an alias of it.
        at: Time of the review, clamped to the interval from the start of the memory's decay until now; None for now.

    Raises:
        NotFound: This tenant has no such memory.
        Unavailable: The memory is still in the queue.
        Conflict: A later review with another result is already recorded.
    """
    with lookup.stored_only(tenant_id, memory_id), memory_write(tenant_id, "state") as write:
        tx = write.tx
        locked = states.lock(tx, tenant_id, [aliases.resolve_id(tx, tenant_id, memory_id)])
        if not locked.ids:
            raise lookup.Missing
        now = database.now(tx)
        seconds = now.timestamp()
        times = memory_strength.load_timeline(tx, tenant_id)
        era = times.at(seconds)
        current = memory_strength.advance_to_era(locked, times, seconds)
        strengths = memory_strength.evaluate_strength(era, current.state, seconds)
        [strength], [importance] = strengths.strength.tolist(), strengths.importance.tolist()
        schedule = reviews.read(tx, tenant_id, current.ids).get(current.ids[0])
        earliest = datetime.fromtimestamp(float(current.state.created_at[0]), UTC)
        moment = min(max(at or now, earliest), now)
        if schedule is not None and _is_known(schedule, result, moment, era.policy):
            return ReviewOutcome(current.ids[0], strength, strength, importance, schedule, changed=False)
        reviewed = _next_review(schedule, result, moment, importance, era.policy.review)
        reviews.write(tx, tenant_id, current.ids[0], reviewed)
        after = strength
        if result == "passed":
            after = _reinforce(write, current, era, moment.timestamp(), seconds)
        kind: EventKind = "review_passed" if result == "passed" else "review_failed"
        history.add(tx, tenant_id, kind, current.ids, EventChange(moment.timestamp(), strength, after, after))
        return ReviewOutcome(current.ids[0], strength, after, importance, reviewed, changed=True)


def blend_reviews(
    tenant_id: UUID,
    ranked: Sequence[SearchResult],
    policy: review.ReviewParameters,
    share: float,
    limit: int,
    *,
    least: float,
    as_of: datetime | None = None,
) -> list[SearchResult]:
    """Return the first `limit` search results, with a share of the places given to memories to review.

    A memory qualifies for a review (`for_review`) if it is relevant to the query, and either is in the danger zone or
    was reviewed before and is due again.

    Args:
        ranked: All results, best first.
        policy: The policy's review parameters.
        share: Share of the places, 0 to 1.
        least: Minimum score of a relevant result.
        as_of: Time by which a review must be due; None for now.
    """
    ids = [result.id for result in ranked]
    with database.tenant(tenant_id) as tx:
        schedules = reviews.read(tx, tenant_id, ids)
        now = as_of or database.now(tx)
    strength = np.array([result.strength for result in ranked])
    priority = review.danger_priority(policy, strength).tolist()
    candidates = [
        index
        for index, result in enumerate(ranked)
        if result.score >= least
        and (priority[index] or (result.id in schedules and schedules[result.id].due_at <= now))
    ]
    candidates.sort(key=lambda index: -priority[index])
    order = review.interleave(len(ranked), candidates, share, limit)
    return [structs.replace(ranked[index], for_review=index in candidates) for index in order]


class _Numbers(NamedTuple):
    ids: bytes
    seen: CurrentStrength
    priority: Floats
    due_at: Floats
    overdue_days: Floats


def _numbers(tx: database.Transaction, tenant_id: UUID, found: DueReviews, times: Timeline, now: float) -> _Numbers:
    """Return the values that decide the order, without memories that were deleted after `found` was read."""
    era = times.at(now)
    remaining, evaluated = [DueReviews(b"", np.empty(0))], [CurrentStrength(np.empty(0), np.empty(0))]
    for part in found.slices(SLICE_ROWS):
        stored = states.read_unnamed(tx, tenant_id, part.ids)
        evaluated.append(
            memory_strength.evaluate_strength(era, times.advance_to(stored.state, stored.versions, now), now)
        )
        remaining.append(part.select_ids(stored.ids))
    strengths = CurrentStrength(
        np.concatenate([item.strength for item in evaluated]),
        np.concatenate([item.importance for item in evaluated]),
    )
    due_at = np.concatenate([part.due_at for part in remaining])
    priority = review.danger_priority(era.policy.review, strengths.strength)
    return _Numbers(b"".join(part.ids for part in remaining), strengths, priority, due_at, (now - due_at) / DAY_SECONDS)


def _entries(
    tx: database.Transaction, tenant_id: UUID, numbers: _Numbers, order: npt.NDArray[np.intp], era: Era
) -> list[ReviewEntry]:
    policy = era.policy.review
    ids = decode_uuids(DueReviews(numbers.ids, numbers.due_at).only(order).ids)
    texts, schedules = reviews.read_texts(tx, tenant_id, ids), reviews.read(tx, tenant_id, ids)
    urgency = review.urgency(policy, numbers.seen.importance, numbers.overdue_days)
    return [
        ReviewEntry(
            memory_id,
            texts[memory_id],
            float(numbers.seen.strength[row]),
            float(numbers.seen.importance[row]),
            float(urgency[row]),
            float(numbers.priority[row]),
            datetime.fromtimestamp(float(numbers.due_at[row]), UTC),
            float(numbers.overdue_days[row]),
            schedules[memory_id].interval_days if memory_id in schedules else policy.first_interval_days,
            schedules.get(memory_id),
        )
        for memory_id, row in zip(ids, order, strict=True)
        if memory_id in texts
    ]


def _is_known(former: ReviewSchedule, result: Result, moment: datetime, policy: Policy) -> bool:
    """Return whether this review was already recorded.

    Raises:
        Conflict: This review is older than the last recorded review, whose result differs.
    """
    refractory = timedelta(seconds=policy.reinforcement.refractory_seconds)
    if former.review_count and former.flagged == (result == "failed") and moment - former.reviewed_at <= refractory:
        return True
    if moment < former.reviewed_at:
        raise Conflict("a later review of this memory is known, with another result")
    return False


def _next_review(
    former: ReviewSchedule | None, result: Result, moment: datetime, importance: float, policy: review.ReviewParameters
) -> ReviewSchedule:
    interval = policy.first_interval_days
    if result == "passed":
        intervals = np.array([former.interval_days if former else interval])
        [interval] = review.next_interval_days(policy, intervals, np.array([importance])).tolist()
    count = former.review_count + 1 if former else 1
    return ReviewSchedule(moment + timedelta(days=interval), interval, moment, count, result == "failed")


def _reinforce(write: MemoryWrite, held: StoredStates, era: Era, at: float, now: float) -> float:
    """Record a passed review as a use, and restore the memory if it is archived. Return the strength afterwards."""
    tx, tenant_id = write.tx, write.tenant_id
    used = replace(held, state=era.dynamics.reinforce(held.state, Event(at=at, now=now)))
    memory_strength.write_uses(tx, tenant_id, used, era, now)
    promotion.flag_promoted(tx, tenant_id, used, era, now)
    used = reactivation.restore_used(write, used, np.arange(len(used)), era, now)
    return float(era.dynamics.strength(used.state, now)[0])
