"""Decide which memories may supersede which.

A superseded memory is no longer considered current: searches show the newer one and state what it supersedes. Nothing
else about the older memory changes: it is retained, and its decay and protection stay the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

import msgspec
from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from app.domain.dynamics.parameter_types import STRICT
from app.domain.ingest.memory import NAME_MAX_CHARACTERS
from app.domain.ingest.sources import is_lower

Status = Literal["active", "waiting", "proposed", "rejected"]
"""`active`: the older memory isn't current. `waiting`: the named memory isn't stored yet. `proposed`: awaiting a
person's decision. `rejected`: not in force, and not proposed again."""
Source = Literal["caller", "model", "person"]
Reason = Literal["cycle", "subject", "undone", "declined", "source"]
"""Why a supersession was rejected, or only proposed. `cycle`: the older memory supersedes the newer one. `subject`:
their subjects differ. `undone`: a person reverted it. `declined`: a person declined the proposal. `source`: the newer
memory has a lower source than the older one, so a person has to decide."""

WAITING_DAYS: Final = 30
"""Days that a supersession waits for the named memory; a memory stored later is unlikely to be the intended one."""


@checked_dataclass(frozen=True, config=STRICT)
class Supersession:
    """Settings for memories that contradict earlier ones."""

    corrections: bool = True
    """Link a user's statement to the earlier one that it corrects (English only), and rank it above the earlier one
    when a question asks about the present. Nothing is hidden and nothing else changes. While this is off, such links
    are neither created nor used."""
    asked_a_night: Annotated[int, Field(ge=0, le=10_000)] = 200
    """Maximum number of new memories per night that a model compares with the three nearest of the same subject; 0 for
    none. Nothing is proposed without a model."""
    approve: bool = False
    """Apply a model's proposals at once, except for memories that are never forgotten or under a legal hold; if off, a
    person decides."""


class NewSupersession(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A supersession as submitted by a person.

    Attributes:
        memory: Id or `external_id` of the newer memory.
        supersedes: Id or `external_id` of the memory that is no longer true.
    """

    memory: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]
    supersedes: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]


class SupersessionEnd(NamedTuple):
    """A stored memory's properties that decide whether it can supersede or be superseded."""

    memory_id: UUID
    subject: str | None
    created_at: datetime
    source: str | None = None


class SupersessionPair(NamedTuple):
    """A newer memory and the older memory that it is meant to supersede."""

    memory_id: UUID
    superseded_id: UUID


_REFUSED: Final[dict[Reason, str]] = {
    "cycle": "refused: the older memory already supersedes the newer one, directly or through other memories",
    "subject": "refused: the two memories are about different subjects",
    "undone": "undone by a person",
    "declined": "proposed and rejected by a person",
    "source": "proposed, since the newer memory has a lower source: a person must approve or reject it",
}


def explain_outcome(status: Status, reason: Reason | None, made_at: datetime) -> str:
    """Return the outcome of a supersession in words."""
    if status == "waiting":
        until = made_at + timedelta(days=WAITING_DAYS)
        return f"no memory with this name is stored: the supersession is dropped unless one is stored by {until.date()}"
    if status == "rejected":
        return _REFUSED[reason] if reason else "refused"
    if status == "proposed" and reason == "source":
        return _REFUSED[reason]
    return "active" if status == "active" else "proposed by a model: a person must approve or reject it"


@dataclass(frozen=True, slots=True)
class PairOutcome:
    """Outcome for a pair.

    Attributes:
        since: Time from which the older memory isn't current: when the later of the two was accepted.
        reason: Why the pair is rejected, or only proposed (`source`); None if it is accepted.
    """

    pair: SupersessionPair
    since: datetime
    reason: Reason | None


def judge_pairs(
    pairs: Sequence[SupersessionPair], ends: Mapping[UUID, SupersessionEnd], above: Collection[SupersessionPair]
) -> list[PairOutcome]:
    """Judge pairs in order, skipping pairs of a memory with itself; accepted pairs count when later ones are judged.

    Pairs are rejected if the subjects differ or if a memory would supersede itself through others, and only proposed if
    the newer memory has a lower source.

    Args:
        ends: All memories of the pairs.
        above: All active pairs above the newer memories: the pairs of their superseders, of the superseders'
            superseders, and so on.
    """
    superseders: dict[UUID, set[UUID]] = {}
    for active_pair in above:
        superseders.setdefault(active_pair.superseded_id, set()).add(active_pair.memory_id)
    outcomes = []
    for pair in dict.fromkeys(pairs):
        if pair.memory_id == pair.superseded_id:
            continue
        newer, older = ends[pair.memory_id], ends[pair.superseded_id]
        reason = _against(newer, older, superseders)
        if reason is None and is_lower(newer.source, older.source):
            reason = "source"
        if reason is None:
            superseders.setdefault(pair.superseded_id, set()).add(pair.memory_id)
        outcomes.append(PairOutcome(pair, max(newer.created_at, older.created_at), reason))
    return outcomes


def _against(one: SupersessionEnd, other: SupersessionEnd, newer: Mapping[UUID, set[UUID]]) -> Reason | None:
    """Return why `one` can't supersede `other`, or None; `newer` maps memories to their superseders."""
    if one.subject != other.subject:
        return "subject"
    seen, frontier = {one.memory_id}, [one.memory_id]
    while frontier:
        for memory_id in newer.get(frontier.pop(), ()):
            if memory_id == other.memory_id:
                return "cycle"
            if memory_id not in seen:
                seen.add(memory_id)
                frontier.append(memory_id)
    return None
