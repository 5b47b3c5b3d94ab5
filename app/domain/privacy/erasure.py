"""The request for an erasure: the memories that it covers (a `legal_hold.Scope`), legal basis and grace period."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec

from app.domain.privacy.case_details import (
    CaseReference,
    Controller,
    LegalBasis,
    check_legal_basis,
    check_nameless,
)
from app.domain.privacy.legal_deadlines import Law
from app.domain.privacy.legal_hold import (
    IDS_MAX,
    REASON_MAX_CHARACTERS,
    TEXT,
    HoldFilter,
    NewHold,
    Scope,
    StorableName,
    parse_scope,
)
from app.errors import FieldError, Invalid

Status = Literal["grace", "running", "held", "verified", "cancelled"]
Named = Literal["subject", "thread"]
EVERYTHING: Final = Scope(after=datetime.min.replace(tzinfo=UTC))
"""Scope of the deletion of a tenant: every memory, because no time is earlier than `datetime.min`."""


class NewErasure(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A requested erasure: of memories by their ids, or of all data that matches the subject, thread and filter.

    Attributes:
        subject: Only data about this person.
        ids: Ids of up to 1,000 memories, without other conditions.
        thread: Only data of this conversation.
        filter: Only memories that match these conditions.
        kind: `gdpr` or `ccpa` for a request under that law, `user` for any other deletion. Default: the law of
            `request_id`, otherwise `user`.
        grace_days: Days in which the erasure can be cancelled: 0 to 30 (default 30), under a law 0 to 14 (default 7).
        reason: The reason, up to 2,000 characters; stored until the erasure is finished.
        controller: Name and address of the company that answers the request, for the report; retained with it.
        case_reference: Reference of the case or letter, for the report. It is retained with the report, so it must not
            contain personal data.
        legal_basis: Legal basis of the erasure, for the report. Under the GDPR a letter of Art. 17(1), `a` to `f`, or
            any text without personal data.
        dry_run: Only report what would be hidden and erased.
        received_at: Time at which the request was received, if it is entered later; the legal deadline counts from it.
            Default: now. It can't be in the future.
        request_id: ID of an open request in the log that this erasure answers. The request keeps its ID, its time of
            receipt, identity check, extension and deadline; `received_at` must be omitted.
    """

    subject: StorableName | None = None
    ids: Annotated[tuple[UUID, ...], msgspec.Meta(min_length=1, max_length=IDS_MAX)] | None = None
    thread: StorableName | None = None
    filter: HoldFilter | None = None
    kind: Law | None = None
    grace_days: Annotated[int, msgspec.Meta(ge=0, le=30)] | None = None
    reason: Annotated[str, msgspec.Meta(max_length=REASON_MAX_CHARACTERS, pattern=TEXT)] | None = None
    controller: Controller | None = None
    case_reference: CaseReference | None = None
    legal_basis: LegalBasis | None = None
    dry_run: bool = False
    received_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    request_id: UUID | None = None


class MentionReview(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Decisions on texts that contain a part of an erased person's name, by their numbers in the list.

    Attributes:
        redact: Texts that refer to the person: each is replaced by a standard sentence.
        keep: Texts that refer to another person: they remain.
    """

    redact: tuple[int, ...] = ()
    keep: tuple[int, ...] = ()


def check_case_details(given: NewErasure) -> None:
    """Check the texts that the report retains.

    With `request_id`, the legal basis is checked later, when the request has been read from the log.

    Raises:
        Invalid: The legal basis belongs to another law, or a text contains the erased subject.
    """
    if given.request_id is None:
        check_legal_basis(given.kind or "user", given.legal_basis)
    texts = {name: getattr(given, name) for name in ("controller", "case_reference", "legal_basis")}
    check_nameless(given.subject, **texts)


def requested_scope(given: NewErasure) -> Scope:
    """Return an erasure's scope.

    Raises:
        Invalid: There is no condition, ids are combined with other conditions, or a time is outside the years 1 to 9999
            in UTC.
    """
    conditions = given.filter or HoldFilter()
    if given.thread is not None:
        if conditions.thread not in (None, given.thread):
            raise Invalid(errors=[FieldError("filter.thread", "differs from the field `thread`")])
        conditions = msgspec.structs.replace(conditions, thread=given.thread)
    if given.subject is None and given.ids is None and conditions == HoldFilter():
        raise Invalid(errors=[FieldError("subject", "is missing: give a subject, ids, a thread, or a filter")])
    try:
        return parse_scope(NewHold("x", given.ids, given.subject, conditions))
    except Invalid as error:
        raise Invalid(errors=[_named_here(each) for each in error.errors]) from None


def _named_here(error: FieldError) -> FieldError:
    return FieldError(error.field.replace("memory_ids", "ids"), *(error.message, error.value, error.limit))


def scope_name(scope: Scope) -> str:
    """Return the kind of a scope for the report: `subject`, `thread`, `ids`, or `filter` for any other conditions."""
    if is_whole(scope, "subject") or is_whole(scope, "thread"):
        return next(iter(scope.conditions()))
    return "ids" if scope.memory_ids is not None else "filter"


def scope_as_json(scope: Scope) -> bytes:
    """Encode a scope for storage until the erasure is finished."""
    return msgspec.json.encode(scope.conditions())


def scope_from_json(kept: dict[str, Any]) -> Scope:
    """Decode a stored scope; it is empty once the erasure is finished."""
    return msgspec.convert(kept, Scope)


def is_whole(scope: Scope, what: Named) -> bool:
    """Return whether `what`, a subject or thread, is the scope's only condition.

    If it is, the erasure also drops data about this subject or thread that arrives late.
    """
    return scope.conditions().keys() == {what}


def digest(key: bytes, what: Named, name: str) -> bytes:
    """Return the keyed digest that identifies an erased subject or thread, 32 bytes; useless without the key."""
    return hmac.new(key, f"{what}\0{name}".encode(), hashlib.sha256).digest()
