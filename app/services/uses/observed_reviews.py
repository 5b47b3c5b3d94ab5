"""Under `mnemex`, an observed use of a memory counts as a review of it (seed 001, automatic reinforcement)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np

from app.domain.dynamics.mnemex import Mnemex
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.dynamics.timeline import Era
from app.domain.strength import importance, review
from app.store.core import database
from app.store.strength import reviews
from app.store.strength.reviews import ObservedReview
from app.store.strength.states import StoredStates


def count_reviews(
    tx: database.Transaction,
    tenant_id: UUID,
    era: Era,
    before: StoredStates,
    observed: Mapping[int, list[float]],
    now: float,
) -> None:
    """Count observed uses as reviews, if the model in force is `mnemex`; the caller has locked the states.

    If a review was due, the interval grows once, however many uses were observed. Otherwise it stays unchanged. The
    next review is due one interval after the last observed use. A flag of a failed review or self-test stays.

    Args:
        era: The policy and the model in force.
        before: The memories' states before the uses.
        observed: Times of the observed uses that counted, in seconds since 1970, by row of `before`.
        now: Seconds since 1970.
    """
    if not observed or not isinstance(era.dynamics, Mnemex):
        return
    rows = np.array(sorted(observed), np.intp)
    held, rules = before.only(rows), era.policy.review
    known = reviews.read(tx, tenant_id, held.ids)
    last = np.array([max(observed[row]) for row in rows.tolist()])
    first_due_at = held.state.created_at + rules.first_interval_days * DAY_SECONDS
    due_at = np.array(
        [
            known[memory_id].due_at.timestamp() if memory_id in known else first
            for memory_id, first in zip(held.ids, first_due_at.tolist(), strict=True)
        ]
    )
    intervals = np.array(
        [known[each].interval_days if each in known else rules.first_interval_days for each in held.ids]
    )
    weights = importance.importance(era.policy.importance, held.state, now)
    next_days = np.where(due_at <= last, review.next_interval_days(rules, intervals, weights), intervals)
    entries = [
        ObservedReview(memory_id, moment + timedelta(days=days), days, moment, len(observed[row]))
        for memory_id, row, moment, days in zip(
            held.ids,
            rows.tolist(),
            [datetime.fromtimestamp(at, UTC) for at in last.tolist()],
            np.maximum(next_days, rules.first_interval_days).tolist(),
            strict=True,
        )
    ]
    reviews.add_observed(tx, tenant_id, entries)
