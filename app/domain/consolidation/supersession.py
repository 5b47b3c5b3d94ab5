"""Which memory may take the place of which.

A memory that another one supersedes isn't believed any more: searches show the newer one, and say what it stands for.
Nothing of the older one changes but that: it is kept, fades and is protected as before.
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

from app.domain.dynamics.parameters import STRICT
from app.domain.ingest.memory import NAME_MAX_CHARACTERS

Status = Literal["active", "waiting", "proposed", "rejected"]
"""`active`: the older memory isn't current. `waiting`: what was named isn't stored yet. `proposed`: somebody has to
decide. `rejected`: it doesn't hold, and isn't proposed again."""
Source = Literal["caller", "model", "person"]
Reason = Literal["cycle", "subject", "undone", "declined"]
"""Why one is rejected: the older one supersedes the newer; they are about different subjects; a person took it back;
a person has refused a proposal."""

WAITING_DAYS: Final = 30
"""How long a name waits for its memory: what comes later is hardly what was meant."""


@checked_dataclass(frozen=True, config=STRICT)
class Supersession:
    """What is done about memories that contradict earlier ones."""

    corrections: bool = True
    """Link a user's statement to the earlier one that it corrects (English only), and rank it above that one where a
    question asks for the present. Nothing is hidden, and nothing else changes. While this is off, such links are
    neither made nor used."""
    asked_a_night: Annotated[int, Field(ge=0, le=10_000)] = 200
    """Most new memories that a night asks a model about, beside the three nearest of the same subject; 0 for none.
    Without a model nothing is proposed."""
    approve: bool = False
    """Let what a model proposes hold at once, but for memories that are never forgotten or under a legal hold;
    otherwise a person decides."""


class NewSupersession(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One memory in another's place, as a person gives it.

    Attributes:
        memory: The newer one: an id, or the caller's own.
        supersedes: The one that isn't true any more, likewise.
    """

    memory: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]
    supersedes: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]


class End(NamedTuple):
    """A stored memory as far as it matters here."""

    memory_id: UUID
    subject: str | None
    created_at: datetime


class Pair(NamedTuple):
    """A newer memory, and one that it is to supersede."""

    memory_id: UUID
    superseded_id: UUID


_REFUSED: Final[dict[Reason, str]] = {
    "cycle": "refused: that memory supersedes this one already, itself or through others",
    "subject": "refused: the two memories are about different subjects",
    "undone": "taken back by a person",
    "declined": "proposed, and declined by a person",
}


def explain(status: Status, reason: Reason | None, made_at: datetime) -> str:
    """Return the outcome of a supersession in words."""
    if status == "waiting":
        until = made_at + timedelta(days=WAITING_DAYS)
        return f"no memory of this name is stored: it is waited for until {until.date()}, and forgotten then"
    if status == "rejected":
        return _REFUSED[reason] if reason else "refused"
    return "it holds" if status == "active" else "proposed by a model: a person decides"


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of a pair.

    Attributes:
        since: When the older one ceased to be current: as soon as both were there.
        reason: Why not; None where nothing speaks against it.
    """

    pair: Pair
    since: datetime
    reason: Reason | None


def judge(pairs: Sequence[Pair], ends: Mapping[UUID, End], above: Collection[Pair]) -> list[Judged]:
    """What becomes of these pairs, taken one after another; a memory and itself are left out.

    No two that are about different subjects, and none that would let a memory supersede itself through others.

    Args:
        pairs: What is asked for.
        ends: All of their memories.
        above: All that supersedes the newer ones, and what supersedes that, and so on.
    """
    newer: dict[UUID, set[UUID]] = {}
    for known in above:
        newer.setdefault(known.superseded_id, set()).add(known.memory_id)
    judged = []
    for pair in dict.fromkeys(pairs):
        if pair.memory_id == pair.superseded_id:
            continue
        one, other = ends[pair.memory_id], ends[pair.superseded_id]
        reason = _against(one, other, newer)
        if reason is None:
            newer.setdefault(pair.superseded_id, set()).add(pair.memory_id)
        judged.append(Judged(pair, max(one.created_at, other.created_at), reason))
    return judged


def _against(one: End, other: End, newer: Mapping[UUID, set[UUID]]) -> Reason | None:
    if one.subject != other.subject:
        return "subject"
    seen, edge = {one.memory_id}, [one.memory_id]
    while edge:
        for memory_id in newer.get(edge.pop(), ()):
            if memory_id == other.memory_id:
                return "cycle"
            if memory_id not in seen:
                seen.add(memory_id)
                edge.append(memory_id)
    return None
