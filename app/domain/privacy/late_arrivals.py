"""Decide whether an erasure covers memories that arrive during the erasure or after its end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from app.domain.ingest.ids import last_seq
from app.domain.ingest.memory import MemoryIn
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


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A record of an erased subject or thread: its data that arrived up to a stream position is dropped.

    Attributes:
        what: Whether a `subject` or a `thread` was erased.
        digest: Keyed digest of the subject's or thread's name.
        cut: Last stream position that the erasure covers.
    """

    what: Named
    digest: bytes
    cut: str


def is_buried(graves: Iterable[Tombstone], key: bytes, memory: MemoryIn, seq: int) -> bool:
    """Return whether a tombstone covers a memory: its subject or thread was erased after the memory was accepted.

    Args:
        graves: The tenant's tombstones.
        key: Key of the tombstones' digests.
        memory: The memory as submitted.
        seq: Sequence number of the memory, which a replay preserves.
    """
    covering = {(grave.what, grave.digest) for grave in graves if seq <= last_seq(grave.cut)}
    if not covering:
        return False
    names: dict[Named, str | None] = {"subject": memory.subject, "thread": memory.thread}
    return any((what, digest(key, what, name)) in covering for what, name in names.items() if name is not None)


@dataclass(frozen=True, slots=True)
class ArrivalErasures:
    """Erasures against which a tenant's arriving memories must be checked.

    Attributes:
        scopes: Scopes of open erasures, by erasure id. Scopes that list memory ids are omitted.
        cuts: Last stream positions that started erasures cover, by erasure id; later data belongs to a new subject.
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
