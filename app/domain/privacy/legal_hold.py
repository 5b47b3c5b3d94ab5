"""A requested legal hold: its memories can't be deleted, merged, edited or moved to a lower tier until its release."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Literal, get_args
from uuid import UUID

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import LABEL_MAX_CHARACTERS, LABELS_MAX, NAME_MAX_CHARACTERS, Kind, Moment, check_moment
from app.domain.privacy.case_details import check_nameless
from app.errors import FieldError, Invalid

IDS_MAX: Final = 1_000
REASON_MAX_CHARACTERS: Final = 2_000
HoldGround = Literal["legal_claims", "legal_obligation", "public_interest", "public_health", "archiving", "expression"]
HOLD_GROUNDS: Final[tuple[HoldGround, ...]] = get_args(HoldGround)
"""Legal grounds for retaining data, in the sense of GDPR Art. 17(3)."""
NO_GROUND: Final = "no legal ground is stated: letters leave a blank for it, and reports state that none was given"
TEXT: Final = r"^[^\x00]*$"
StorableName = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_MAX_CHARACTERS, pattern=TEXT)]
_Label = Annotated[str, msgspec.Meta(min_length=1, max_length=LABEL_MAX_CHARACTERS, pattern=TEXT)]
_Ids = Annotated[tuple[UUID, ...], msgspec.Meta(min_length=1, max_length=IDS_MAX)]
DEPRECATED: Final = msgspec.Meta(extra_json_schema={"deprecated": True})
_Labels = Annotated[tuple[_Label, ...], msgspec.Meta(min_length=1, max_length=LABELS_MAX)]


class HoldFilter(msgspec.Struct, forbid_unknown_fields=True, frozen=True, omit_defaults=True):
    """Conditions on the submitted fields of memories, all of which must match; None means no condition.

    Attributes:
        thread: Memories of this conversation.
        tags: Memories with all of these tags.
        categories: Memories with any of these categories.
        kinds: Memories of any of these kinds.
        after: Memories of events at this time or later. If the event's time is unknown, the acceptance time counts.
        before: Memories of events before this time. If the event's time is unknown, the acceptance time counts.
    """

    thread: StorableName | None = None
    tags: _Labels | None = None
    categories: _Labels | None = None
    kinds: Annotated[tuple[Kind, ...], msgspec.Meta(min_length=1)] | None = None
    after: Moment | None = None
    before: Moment | None = None


class NewHold(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A hold on memories by their ids, or on all current and future memories that match a subject, a filter or both.

    Attributes:
        reason: The reason, 1 to 2,000 characters; shown only to callers with the scope `privacy`.
        memory_ids: Old name of `ids`.
        subject: All memories about this subject.
        filter: Other conditions.
        dry_run: Only count the memories that the hold would cover.
        ids: Ids of up to 1,000 stored memories.
        ground: Legal ground for retaining the data, in the sense of GDPR Art. 17(3): `legal_claims`,
            `legal_obligation`, `public_interest`, `public_health`, `archiving` or `expression`. Letters and reports
            state this ground if an erasure waits for the release of the hold.
    """

    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_MAX_CHARACTERS, pattern=TEXT)]
    memory_ids: Annotated[_Ids | None, DEPRECATED] = None
    subject: StorableName | None = None
    filter: HoldFilter | None = None
    dry_run: bool = False
    ids: _Ids | None = None
    ground: HoldGround | None = None


class HoldRelease(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Release of a legal hold.

    Attributes:
        reason: The reason, up to 2,000 characters; stored with the hold. It must not contain personal data.
    """

    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX_CHARACTERS, pattern=TEXT)] | None = None


class HoldCorrection(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Correction of a legal hold, in force or released. Fields that are omitted remain.

    Attributes:
        ground: Legal ground for retaining the data, as for a new hold; null if there is none.
        reason: The reason, 1 to 2,000 characters. It must not contain personal data.
    """

    ground: HoldGround | msgspec.UnsetType | None = msgspec.UNSET
    reason: (
        Annotated[str, msgspec.Meta(min_length=1, max_length=REASON_MAX_CHARACTERS, pattern=TEXT)] | msgspec.UnsetType
    ) = msgspec.UNSET


@precompile
@dataclass(frozen=True, slots=True)
class Scope:
    """Conditions of a hold or an erasure, all of which must match; None means no condition."""

    memory_ids: list[UUID] | None = None
    subject: str | None = None
    thread: str | None = None
    tags: list[str] | None = None
    categories: list[str] | None = None
    kinds: list[str] | None = None
    after: datetime | None = None
    before: datetime | None = None

    def conditions(self) -> dict[str, object]:
        """Return the conditions that are set, by name."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


def parse_scope(given: NewHold) -> Scope:
    """Return the conditions of a requested hold.

    Raises:
        Invalid: There is no condition, ids are combined with other conditions, a time is outside the years 1 to 9999 in
            UTC, or the reason names the subject.
    """
    filters = msgspec.structs.asdict(given.filter or HoldFilter())
    filter_conditions: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in filters.items()
    }
    if given.ids is not None and given.memory_ids is not None:
        raise Invalid(errors=[FieldError("memory_ids", "is the old name of `ids`: give only `ids`")])
    chosen = given.memory_ids if given.ids is None else given.ids
    ids = None if chosen is None else list(dict.fromkeys(chosen))
    check_nameless(given.subject, reason=given.reason)
    scope = Scope(ids, given.subject, **filter_conditions)
    conditions = scope.conditions()
    if not conditions:
        raise Invalid(errors=[FieldError("ids", "is missing: give ids, a subject, or a filter")])
    if scope.memory_ids is not None and len(conditions) > 1:
        raise Invalid(errors=[FieldError("ids", "can't be combined with subject or filter")])
    for name in ("after", "before"):
        if isinstance(moment := conditions.get(name), datetime):
            check_moment(moment, f"filter.{name}")
    if scope.after is not None and scope.before is not None and scope.after >= scope.before:
        raise Invalid(errors=[FieldError("filter.before", "must be later than `after`")])
    return scope
