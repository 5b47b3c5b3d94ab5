"""Decide whether an erasure covers memories that arrive during the erasure or after its end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias
from uuid import UUID

from app.domain.ingest.ids import first_seq, last_seq
from app.domain.ingest.memory import MemoryIn, Written
from app.domain.ingest.quarantine import Terms
from app.domain.ingest.sources import Writer
from app.domain.privacy.erasure import Named, digest
from app.domain.privacy.legal_hold import Scope


def matches_scope(scope: Scope, memory: MemoryIn, accepted_ms: int) -> bool:
    """Return whether a memory that isn't stored yet matches a scope; a scope of ids never matches."""
    if scope.memory_ids is not None:
        return False
    happened = memory.occurred_at or datetime.fromtimestamp(accepted_ms / 1000, UTC)
    return (
        scope.subject in (None, memory.subject)
        and scope.thread in (None, memory.thread)
        and set(scope.tags or ()) <= set(memory.tags)
        and (scope.categories is None or not set(scope.categories).isdisjoint(memory.categories))
        and (scope.kinds is None or memory.kind in scope.kinds)
        and (scope.after is None or happened >= scope.after)
        and (scope.before is None or happened < scope.before)
    )


NameDigest: TypeAlias = tuple[Named, bytes]
"""A subject or thread, as identified in tombstones: which of the two it is, and the keyed digest of its name."""


def digest_names(key: bytes, memory: MemoryIn) -> dict[Named, bytes]:
    """Return the digests of a memory's subject and thread, which identify them in tombstones."""
    names: dict[Named, str | None] = {"subject": memory.subject, "thread": memory.thread}
    return {what: digest(key, what, name) for what, name in names.items() if name is not None}


def find_covering(cuts: Mapping[NameDigest, str], digests: Mapping[Named, bytes], seq: int) -> Named | None:
    """Return `subject` or `thread`, whichever was erased after the memory was written; None if neither was.

    Args:
        cuts: Last stream position that the erasure covers, by erased subject or thread.
        digests: The memory's digests, from `digest_names`.
        seq: Sequence number up to which a tombstone must reach: the memory's own, which a replay preserves, or that of
            a delayed write, from `delayed_seq`.
    """
    for name in digests.items():
        cut = cuts.get(name)
        if cut is not None and seq <= last_seq(cut):
            return name[0]
    return None


def delayed_seq(written: Written, seq: int, accepted_ms: int, sent_ms: int | None) -> int:
    """Return the sequence number that a delayed write would have had if its sender had sent it at once.

    The delay, which the sender measured with its own clock, is subtracted from the time of acceptance, so that it
    doesn't matter whether that clock is right. The last position that the sender had seen is a lower bound. If the
    time of writing is later than the time of sending, the clock was set in between, and only that bound applies.

    Args:
        seq: The memory's own sequence number, which is the upper bound.
        accepted_ms: Time of acceptance by Redis's clock, in milliseconds since 1970.
        sent_ms: Time of sending by the sender's clock; None if it is unknown.
    """
    seen = 0 if written.after is None else first_seq(written.after)
    delay = measure_delay(written, sent_ms)
    estimate = 0 if delay is None else first_seq(f"{max(accepted_ms - delay, 0)}-0")
    return min(max(seen, estimate), seq)


def measure_delay(written: Written, sent_ms: int | None) -> int | None:
    """Return how long a write waited at its sender, in milliseconds; None if the times contradict each other."""
    delay = -1 if sent_ms is None else sent_ms - math.floor(written.at.timestamp() * 1000)
    return delay if delay >= 0 else None


@dataclass(frozen=True, slots=True)
class ArrivalErasures:
    """Erasures against which a tenant's arriving memories must be checked.

    Attributes:
        scopes: Scopes of open erasures, by erasure id. Scopes that list memory ids are omitted.
        cuts: Last stream position that each started erasure covers, by erasure id; later data belongs to a new subject.
        last_cut_ms: Time of the latest of these positions, in milliseconds since 1970; data accepted until then may
            match a tombstone.
        quarantines: Conditions of the quarantines in force.
    """

    scopes: dict[UUID, Scope]
    cuts: dict[UUID, str]
    last_cut_ms: int
    quarantines: tuple[Terms, ...] = ()

    def may_match(self, memories: Iterable[MemoryIn], accepted_ms: int, writer: Writer) -> bool:
        """Return whether any of a request's memories may have to be hidden or dropped."""
        if accepted_ms <= self.last_cut_ms or any(
            terms.match_arrival(writer, accepted_ms) for terms in self.quarantines
        ):
            return True
        return bool(self.scopes) and any(
            matches_scope(scope, memory, accepted_ms) for memory in memories for scope in self.scopes.values()
        )
