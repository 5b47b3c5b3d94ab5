"""Define links between memories, as created by callers."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec

KIND_MAX_CHARACTERS: Final = 64
LINKS_A_CALL: Final = 1_000
LINKS_A_MEMORY: Final = 1_000
"""Maximum number of links per memory, incoming and outgoing together; a use of the memory affects all linked ones."""


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
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=KIND_MAX_CHARACTERS, pattern=r"^[^\x00]*$")] = "related"
    weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    both_ways: bool = False
