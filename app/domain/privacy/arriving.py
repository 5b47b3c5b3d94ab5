"""What comes in about somebody who is being erased, or was: whether an erasure is of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from app.domain.ingest.ids import last_seq
from app.domain.ingest.memory import MemoryIn
from app.domain.privacy.erasure import Named, digest
from app.domain.privacy.hold import Meant


def matches(scope: Meant, memory: MemoryIn, accepted_ms: int) -> bool:
    """Whether a memory that isn't stored yet meets a scope; one of ids is met by none."""
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


@dataclass(frozen=True, slots=True)
class Grave:
    """What came in up to a place of the stream about one who was erased is dropped.

    Attributes:
        what: `subject` or `thread`.
        digest: Of the name.
        cut: The last place that the erasure covers.
    """

    what: Named
    digest: bytes
    cut: str


def is_buried(graves: Iterable[Grave], key: bytes, memory: MemoryIn, seq: int) -> bool:
    """Whether a memory came at or before the cut of an erasure of its subject or thread.

    Args:
        graves: The tenant's.
        key: Of its digests.
        memory: What was given.
        seq: Its place in the order of speaking, which a replay keeps.
    """
    covering = {(grave.what, grave.digest) for grave in graves if seq <= last_seq(grave.cut)}
    if not covering:
        return False
    names: dict[Named, str | None] = {"subject": memory.subject, "thread": memory.thread}
    return any((what, digest(key, what, name)) in covering for what, name in names.items() if name is not None)


@dataclass(frozen=True, slots=True)
class Coming:
    """What to look out for among a tenant's arrivals.

    Attributes:
        scopes: Of open erasures, by their ids, those of ids alone left out.
        cuts: The last places that they cover, of those that have begun: what came later is about somebody new.
        last_cut_ms: The moment of the last cut, in milliseconds since 1970; what is from before it may be buried.
    """

    scopes: dict[UUID, Meant]
    cuts: dict[UUID, str]
    last_cut_ms: int

    def concerns(self, memories: Iterable[MemoryIn], accepted_ms: int) -> bool:
        """Whether any of a request's memories may have to be hidden or dropped."""
        if accepted_ms <= self.last_cut_ms:
            return True
        return bool(self.scopes) and any(
            matches(scope, memory, accepted_ms) for memory in memories for scope in self.scopes.values()
        )
