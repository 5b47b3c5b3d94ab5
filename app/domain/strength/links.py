"""A relation from one memory to another, as callers give it."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec

KIND_MAX_CHARACTERS: Final = 64
LINKS_A_CALL: Final = 1_000
LINKS_A_MEMORY: Final = 1_000
"""Most links of one memory, from it and to it together: a use of it reaches all that they lead to."""


class NewLink(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One link as given; the same again has the new weight.

    Attributes:
        from_id: The memory that it leads from.
        to_id: Another memory, to which it leads.
        kind: What relates them, 1 to 64 characters of the caller's own.
        weight: How closely, 0 to 1; along 0, nothing spreads.
        both_ways: Make the link back as well.
    """

    from_id: UUID = msgspec.field(name="from")
    to_id: UUID = msgspec.field(name="to")
    kind: Annotated[str, msgspec.Meta(min_length=1, max_length=KIND_MAX_CHARACTERS, pattern=r"^[^\x00]*$")] = "related"
    weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    both_ways: bool = False
