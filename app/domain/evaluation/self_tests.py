"""Self-tests: what a tenant's memory is asked about itself, when, and what counts as an answer (seed 004 §4.3)."""

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

from app.domain.dynamics.parameters import STRICT

Kind = Literal["connection", "application", "other_words", "recall", "coherence", "retrieval_speed"]
"""Tests: a linked memory is found from another by words and links alone; a memory by a question made of its own words;
by one in other words; recall brings it up for that one; a summary holds the key points of its sources; and all that
in time."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
ASKED: Final[tuple[Kind, ...]] = ("connection", "application", "other_words", "recall", "coherence")
"""Those about a memory; speed is that of the searches of `application`."""
FLAGGING: Final[tuple[Kind, ...]] = ("connection", "application", "coherence")
"""Those that strengthen or flag their memory. A question in other words may be a bad one: it measures the service."""
EMPTY_SHARE: Final = 0.9
"""Share of a run's recalls that bring nothing at all from which the tenant's recall counts as empty."""
EMPTY_TESTS_MIN: Final = 5
"""Recalls that a run needs for that."""

_SEED_BYTES: Final = 6  # a number that JSON keeps as it is


@dataclass(frozen=True, config=STRICT)
class SelfTests:
    """Parameters of self-tests."""

    enabled: bool = True
    """Whether nights do them."""
    every_days: Annotated[int, Field(ge=1, le=3650)] = 7
    """Days from one run to the next."""
    sample: Annotated[int, Field(ge=1, le=200)] = 20
    """Most tests of each kind in a run."""
    found_within: Annotated[int, Field(ge=1, le=50)] = 10
    """A memory has to be among so many of a search's best results."""
    speed_p95_ms: Annotated[float, Field(gt=0, le=60_000, allow_inf_nan=False)] = 50.0
    """19 of 20 searches have to take no longer, the query's vector included."""
    by_model: bool = True
    """Whether a provider's model, where there is one, makes the questions; else a rule does."""


def is_due(parameters: SelfTests, last: datetime | None, as_of: datetime, time_zone: str) -> bool:
    """Whether a night at `as_of` tests: by dates of the tenant's, as two nights are seldom whole days apart.

    Args:
        parameters: Of the policy in force.
        last: The moment of the last run; None for none so far.
        as_of: The night's moment.
        time_zone: The tenant's.
    """
    if not parameters.enabled or last is None:
        return parameters.enabled
    zone = ZoneInfo(time_zone)
    return (as_of.astimezone(zone).date() - last.astimezone(zone).date()).days >= parameters.every_days


def seed_after(tenant_id: UUID, last_run: UUID | None) -> int:
    """What the sample of a tenant's next run is drawn by: so a dry run shows the one that comes."""
    told = tenant_id.bytes + (last_run.bytes if last_run else b"")
    return int.from_bytes(hashlib.blake2b(told, digest_size=_SEED_BYTES).digest())


def empty_share(results: Mapping[str, Mapping[str, int]]) -> float | None:
    """Return the share of a run's recalls that brought nothing at all; None for a run without recalls."""
    found = results.get("recall")
    asked = tested(found) if found else 0
    return found["empty"] / asked if found and asked else None


def is_recall_empty(results: Mapping[str, Mapping[str, int]]) -> bool:
    """Return whether so many of a run's recalls brought nothing that the tenant's recall counts as empty."""
    share = empty_share(results)
    return share is not None and share >= EMPTY_SHARE and tested(results["recall"]) >= EMPTY_TESTS_MIN


def tested(outcomes: Mapping[str, int]) -> int:
    """Return the number of tests of a kind in a run."""
    return outcomes["passed"] + outcomes["failed"]


def place_of(wanted: Iterable[bool], within: int) -> int | None:
    """Place of the first result that is the one wanted, from 1 on; None where none is among the first `within`."""
    return next((place for place, is_it in enumerate(wanted, start=1) if is_it and place <= within), None)


def quantile(numbers: Sequence[float], share: float) -> float | None:
    """The least of the numbers that is at least as large as this share of them; None of none."""
    return sorted(numbers)[max(math.ceil(share * len(numbers)) - 1, 0)] if numbers else None
