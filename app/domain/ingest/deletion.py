"""A caller's request to delete several memories at once."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import Name
from app.domain.search.content_filters import NUL
from app.errors import FieldError, Invalid

DELETED_MAX: Final = 1_000


@precompile
class DeletionOfMany(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The memories to delete; exactly one field must be given.

    Attributes:
        ids: Ids of 1 to 1,000 memories.
        external_ids: External ids of 1 to 1,000 memories.
        thread: All memories of this thread.
    """

    ids: Annotated[tuple[UUID, ...], msgspec.Meta(min_length=1, max_length=DELETED_MAX)] | None = None
    external_ids: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=DELETED_MAX)] | None = None
    thread: Name | None = None

    def __post_init__(self) -> None:
        """Refuse a request without exactly one field, and NUL characters.

        Raises:
            Invalid: No field or several fields are given, or a text contains NUL.
        """
        given = [name for name in self.__struct_fields__ if getattr(self, name) is not None]
        if not given:
            raise Invalid(errors=[FieldError("ids", "is missing: give `ids`, `external_ids` or `thread`")])
        if len(given) > 1:
            raise Invalid(errors=[FieldError(given[1], f"can't be combined with `{given[0]}`")])
        texts = {f"external_ids[{place}]": name for place, name in enumerate(self.external_ids or ())}
        texts["thread"] = self.thread or ""
        if errors := [FieldError(field, NUL) for field, name in texts.items() if "\0" in name]:
            raise Invalid(errors=errors)
