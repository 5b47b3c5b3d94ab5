"""Define links between memories, as created by callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, NamedTuple
from uuid import UUID

import msgspec

KIND_MAX_CHARACTERS: Final = 64
LINKS_A_CALL: Final = 1_000
LINKS_A_MEMORY: Final = 1_000
"""Maximum number of links per memory, incoming and outgoing together; a use of the memory affects all linked ones."""
LINKS_AT_INGEST: Final = 64
"""Maximum number of links in the field `links` of one memory."""
NAME_MAX_CHARACTERS: Final = 512

Kind = Annotated[str, msgspec.Meta(min_length=1, max_length=KIND_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1)]
Unlinked = Literal["missing", "itself", "full"]
"""Reason why a link of an accepted memory doesn't exist: no memory has the target's id or external id, the target is
the memory itself, or one of the two has `LINKS_A_MEMORY` links already."""


class NewLink(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A link to create; repeating the same link updates its weight.

    Attributes:
        from_id: Source memory.
        to_id: Target memory, different from the source.
        kind: The caller's name for the relation, 1 to 64 characters.
        weight: Strength of the relation, 0 to 1; with 0, nothing spreads along the link.
        both_ways: Also create the link in the opposite direction.
    """

    from_id: UUID = msgspec.field(name="from")
    to_id: UUID = msgspec.field(name="to")
    kind: Kind = "related"
    weight: Weight = 1.0
    both_ways: bool = False


class GivenLink(msgspec.Struct, forbid_unknown_fields=True, frozen=True, gc=False):
    """A link from a memory to another one, submitted with the memory.

    Attributes:
        to: Id or external id of the target memory, 1 to 512 characters.
        kind: The caller's name for the relation, 1 to 64 characters.
        weight: Strength of the relation, 0 to 1; with 0, nothing spreads along the link.
    """

    to: Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=r"^[^\x00]*$")]
    kind: Kind = "related"
    weight: Weight = 1.0


class MissingLink(NamedTuple):
    """A link that was submitted with a memory but not created, and why; `to` is the target's id or external id."""

    memory_id: UUID
    to: str
    kind: str
    weight: float
    reason: Unlinked


def select_excess(added: Sequence[tuple[UUID, UUID]], link_counts: Mapping[UUID, int], most: int) -> list[int]:
    """Return the indexes of the new links to remove so that no memory has more than `most` links, latest first.

    Args:
        added: Source and target of the new links, in the order in which they were submitted.
        link_counts: Number of links, the new ones included, of each memory that has more than `most`.
    """
    excess = {memory_id: count - most for memory_id, count in link_counts.items()}
    removed = []
    for place in range(len(added) - 1, -1, -1):
        if any(excess.get(end, 0) > 0 for end in added[place]):
            removed.append(place)
            for end in added[place]:
                if end in excess:
                    excess[end] -= 1
    return removed
