"""Self-tests: what a tenant's memory is asked about itself, when, and what counts as an answer (seed 004 §4.3)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal, get_args
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameters import STRICT

Kind = Literal["connection", "application", "coherence", "retrieval_speed"]
"""Whether a linked memory is found from another by words and links alone; a memory by a question made from it; the key
points of its sources in a summary; and all that in time."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
ASKED: Final[tuple[Kind, ...]] = ("connection", "application", "coherence")
"""Those that are of a memory; speed is that of the searches of `application`, so no memory's fault or merit."""

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


def place_of(wanted: Iterable[bool], within: int) -> int | None:
    """Place of the first result that is the one wanted, from 1 on; None where none is among the first `within`."""
    return next((place for place, is_it in enumerate(wanted, start=1) if is_it and place <= within), None)


def quantile(numbers: Sequence[float], share: float) -> float | None:
    """The least of the numbers that is at least as large as this share of them; None of none."""
    return sorted(numbers)[max(math.ceil(share * len(numbers)) - 1, 0)] if numbers else None
