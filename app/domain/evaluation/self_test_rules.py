"""Rules of self-tests: their kinds, schedule, sampling seed and evaluation (seed 004 §4.3)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameter_types import STRICT

Kind = Literal["connection", "application", "other_words", "recall", "coherence", "retrieval_speed"]
"""Kinds of tests. `connection`: search finds a linked memory from another by words and links only. `application`:
search finds a memory by a question made of its own words. `other_words`: search finds it by a paraphrased question.
`recall`: recall returns it for that question. `coherence`: a summary states the key points of its sources.
`retrieval_speed`: searches are fast enough."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
ASKED: Final[tuple[Kind, ...]] = ("connection", "application", "other_words", "recall", "coherence")
"""Kinds that test individual memories; `retrieval_speed` times the searches of `application`."""
FLAGGING: Final[tuple[Kind, ...]] = ("connection", "application", "coherence")
"""Kinds whose outcome strengthens or flags the memory. A paraphrased question may be wrong, so tests with paraphrased
questions only measure the service."""
EMPTY_SHARE: Final = 0.9
"""A tenant's recall counts as empty if at least this share of a run's recalls returned no result."""
EMPTY_TESTS_MIN: Final = 5
"""A tenant's recall counts as empty only if the run had at least this number of recalls."""

_SEED_BYTES: Final = 6  # JSON represents integers of this size exactly


@dataclass(frozen=True, config=STRICT)
class SelfTests:
    """Settings of self-tests."""

    enabled: bool = True
    """Run self-tests at night."""
    every_days: Annotated[int, Field(ge=1, le=3650)] = 7
    """Days between two runs."""
    sample: Annotated[int, Field(ge=1, le=200)] = 20
    """Maximum number of tests of each kind per run."""
    found_within: Annotated[int, Field(ge=1, le=50)] = 10
    """Rank within which a search must return the memory."""
    speed_p95_ms: Annotated[float, Field(gt=0, le=60_000, allow_inf_nan=False)] = 50.0
    """Maximum 95th percentile of search times, including embedding of the query."""
    by_model: bool = True
    """Let the provider's model write the questions if one is configured; otherwise a rule does."""


def is_due(parameters: SelfTests, last: datetime | None, as_of: datetime, time_zone: str) -> bool:
    """Return whether a nightly run at `as_of` includes self-tests.

    The interval is counted in the tenant's local dates, since two nightly runs are seldom whole days apart.

    Args:
        parameters: Settings of the policy in force.
        last: Moment of the last run; None if there was none.
        as_of: Moment of the nightly run.
        time_zone: The tenant's time zone.
    """
    if not parameters.enabled or last is None:
        return parameters.enabled
    zone = ZoneInfo(time_zone)
    return (as_of.astimezone(zone).date() - last.astimezone(zone).date()).days >= parameters.every_days


def next_seed(tenant_id: UUID, last_run: UUID | None) -> int:
    """Return the seed for the sample of a tenant's next run, so that a dry run shows the sample of the actual run."""
    key = tenant_id.bytes + (last_run.bytes if last_run else b"")
    return int.from_bytes(hashlib.blake2b(key, digest_size=_SEED_BYTES).digest())


def empty_share(results: Mapping[str, Mapping[str, int]]) -> float | None:
    """Return the share of a run's recalls without any result, or None for a run without recalls."""
    outcomes = results.get("recall")
    tests = count_tests(outcomes) if outcomes else 0
    return outcomes["empty"] / tests if outcomes and tests else None


def is_recall_empty(results: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether the tenant's recall counts as empty: enough recalls in the run, nearly all without a result."""
    share = empty_share(results)
    return share is not None and share >= EMPTY_SHARE and count_tests(results["recall"]) >= EMPTY_TESTS_MIN


def count_tests(outcomes: Mapping[str, int]) -> int:
    """Return the number of tests of a kind in a run."""
    return outcomes["passed"] + outcomes["failed"]


def rank_of_first(wanted: Iterable[bool], within: int) -> int | None:
    """Return the rank of the first wanted result, from 1, or None if there is none among the first `within`."""
    return next((place for place, is_wanted in enumerate(wanted, start=1) if is_wanted and place <= within), None)


def quantile(numbers: Sequence[float], share: float) -> float | None:
    """Return the smallest x of the numbers such that at least this share of them is x or less; None without numbers."""
    return sorted(numbers)[max(math.ceil(share * len(numbers)) - 1, 0)] if numbers else None
