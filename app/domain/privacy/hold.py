"""A legal hold as callers give it: what is neither removed, moved nor changed until it is released."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

import msgspec

from app.domain.ingest.memory import LABEL_MAX_CHARACTERS, LABELS_MAX, NAME_MAX_CHARACTERS, Kind, check_moment
from app.errors import FieldError, Invalid

IDS_MAX: Final = 1_000
REASON_MAX_CHARACTERS: Final = 2_000

_TEXT: Final = r"^[^\x00]*$"
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=_TEXT)]
_Label = Annotated[str, msgspec.Meta(min_length=1, max_length=LABEL_MAX_CHARACTERS, pattern=_TEXT)]
_Labels = Annotated[tuple[_Label, ...], msgspec.Meta(min_length=1, max_length=LABELS_MAX)]
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class HoldFilter(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Which memories are meant, by what their callers said of them; all that is given must hold.

    Attributes:
        thread: Of this conversation.
        tags: With all of these tags.
        categories: With any of these categories.
        kinds: Of any of these kinds.
        after: That happened at this moment or later; where that isn't known, were accepted.
        before: The same, earlier than this moment.
    """

    thread: _Name | None = None
    tags: _Labels | None = None
    categories: _Labels | None = None
    kinds: Annotated[tuple[Kind, ...], msgspec.Meta(min_length=1)] | None = None
    after: _Moment | None = None
    before: _Moment | None = None


class NewHold(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A hold to be placed: on memories by their ids, or on all of a subject, a filter or both, those to come included.

    Attributes:
        reason: Why, 1 to 2,000 characters; shown to those with the scope `privacy` alone.
        memory_ids: Up to 1,000 memories, which are stored.
        subject: All memories about this subject.
        filter: Other conditions.
        dry_run: Only count what it would be on.
    """

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_MAX_CHARACTERS, pattern=_TEXT)]
    memory_ids: Annotated[tuple[UUID, ...], msgspec.Meta(min_length=1, max_length=IDS_MAX)] | None = None
    subject: _Name | None = None
    filter: HoldFilter | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Meant:
    """The conditions of a hold, all of which must be met; None is none."""

    memory_ids: list[UUID] | None = None
    subject: str | None = None
    thread: str | None = None
    tags: list[str] | None = None
    categories: list[str] | None = None
    kinds: list[str] | None = None
    after: datetime | None = None
    before: datetime | None = None

    def given(self) -> dict[str, object]:
        """The conditions that there are, by name."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


def meant(given: NewHold) -> Meant:
    """The conditions of a hold to be placed.

    Raises:
        Invalid: There is none, there are ids and others as well, or a moment can't be stored.
    """
    by = given.filter or HoldFilter()
    found = Meant(
        None if given.memory_ids is None else list(dict.fromkeys(given.memory_ids)),
        given.subject,
        by.thread,
        None if by.tags is None else list(by.tags),
        None if by.categories is None else list(by.categories),
        None if by.kinds is None else list(by.kinds),
        by.after,
        by.before,
    )
    conditions = found.given()
    if not conditions:
        raise Invalid(errors=[FieldError("memory_ids", "is missing: give memory_ids, a subject, or a filter")])
    if found.memory_ids is not None and len(conditions) > 1:
        raise Invalid(errors=[FieldError("memory_ids", "goes with neither subject nor filter")])
    for name in ("after", "before"):
        if isinstance(moment := conditions.get(name), datetime):
            check_moment(moment, f"filter.{name}")
    if found.after is not None and found.before is not None and found.after >= found.before:
        raise Invalid(errors=[FieldError("filter.before", "isn't later than after")])
    return found
