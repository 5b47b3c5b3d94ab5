"""Entries of the privacy request log: nature, deadlines and answer of each request, but not the requester."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.privacy.case_details import CaseReference, Controller, NotedText
from app.domain.privacy.legal_deadlines import Law

Nature = Literal["erasure", "access", "portable", "correction", "restriction", "objection"]
Manner = Literal["api", "mail", "letter", "telephone", "form", "person"]
Answer = Literal["done", "cancelled", "denied"]
IdentityMethod = Literal["account", "email", "telephone", "document", "person", "representative", "other"]

KEPT_MONTHS: Final = 24
"""Retention period of a log entry, counted from the answer (11 CCR 7101)."""
BASIS_MAX_CHARACTERS: Final = 500


class NewRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A request to log when it is received, such as a correction requested by e-mail.

    Attributes:
        nature: The right that the person exercises, such as erasure or access.
        law: Law under which the request is made: `gdpr` or `ccpa`, or `user` for none.
        manner: Channel through which the request arrived; `mail` means e-mail.
        received_at: Time of receipt; defaults to now.
        controller: Name of the company that answers, for the letters; stored until 24 months after the answer, and
            with the report of an erasure until the tenant is deleted.
        case_reference: Reference of the case or letter; stored as long as `controller`, and must not contain personal
            data.
    """

    nature: Nature
    law: Law = "user"
    manner: Manner = "mail"
    received_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    controller: Controller | None = None
    case_reference: CaseReference | None = None


class IdentityCheck(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Check of a requester's identity.

    Attributes:
        method: The way in which identity was checked: log-in to the person's `account`, message to the `email`
            address on file, call to the `telephone` number on file, identity `document`, in `person`, proof of the
            authority of a `representative`, or `other`.
        checked_at: Time of the check; defaults to now.
        note: Free text, up to 500 characters; deleted when the request is answered, when the request's export expires
            or is removed, or when a person whom the note names is erased.
    """

    method: IdentityMethod
    checked_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    note: NotedText | None = None


class Extension(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Extension of a request's legal deadline. The notice to the requester must be sent before the first deadline.

    Attributes:
        reason: The reason, up to 500 characters, which the notice states; stored for 24 months, and must not contain
            personal data.
        months: Number of further months under the GDPR, 1 or 2 (default 2). Omit this field under the CCPA, which
            always extends by 45 days.
        notified_at: Time at which the notice was sent; omit it if the notice is sent later, and record it then.
        dry_run: Only return the request with the new deadline.
    """

    reason: NotedText
    months: Annotated[int, msgspec.Meta(ge=1, le=2)] | None = None
    notified_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    dry_run: bool = False


class Notice(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Letter sent to the requester: the notice of an extension, or the partial answer while a hold delays an erasure.

    Attributes:
        sent_at: Time at which the letter was sent; defaults to now.
    """

    sent_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class Denial(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Denial of a request.

    Attributes:
        basis: The ground, such as `GDPR Art. 17(3)(b)`; stored for 24 months, and must not contain personal data.
    """

    basis: Annotated[
        str, msgspec.Meta(min_length=1, max_length=BASIS_MAX_CHARACTERS, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")
    ]


class Ground(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Legal ground for retaining a memory in anonymised form.

    Attributes:
        ground: The ground, such as `GDPR Art. 17(3)(b), tax records`. It must not contain personal data, because
            erasure reports show the ground.
    """

    ground: Annotated[str, msgspec.Meta(max_length=BASIS_MAX_CHARACTERS, pattern=r"^[^\x00]*$")] | None = None


@precompile
@dataclass(frozen=True, slots=True)
class PrivacyRequest:
    """A request in its current state.

    Attributes:
        confirm_by: Deadline for confirming receipt; None if no law sets one.
        due_at: Deadline for the answer, including an extension; None if no law sets one.
        answer: None while the request is open.
        basis: Ground of a denial.
        controller: Name of the company that answers.
        identity_checked_by: Id of the operator or API key that recorded the identity check.
        identity_note: Free text on the identity check; None once the request is answered.
        confirmed_at: Time at which a confirmation of receipt was recorded; None if none was.
        extended_at: Time at which the extension was recorded; None if there is none.
        first_due_at: Deadline before the extension; None if there is none.
        notice_sent_at: Time at which the notice of the extension was sent to the requester; None if none is recorded.
        notice_recorded_at: Time at which the notice was recorded; None also in records of earlier versions.
        notice_recorded_by: Id of the operator or API key that recorded the notice.
        partial_sent_at: Time at which the requester was sent the partial answer to an erasure that a legal hold delays.
            The partial answer meets `due_at` if it was sent by then. None if no such letter is recorded.
        partial_recorded_at: Time at which that letter was recorded.
        partial_recorded_by: Id of the operator or API key that recorded that letter.
        extended_by: Id of the operator or API key that recorded the extension; None also in records of earlier
            versions.
    """

    request_id: UUID
    nature: Nature
    law: Law
    manner: Manner
    received_at: datetime
    confirm_by: datetime | None
    due_at: datetime | None
    confirmed_at: datetime | None = None
    answered_at: datetime | None = None
    answer: Answer | None = None
    basis: str | None = None
    controller: str | None = None
    case_reference: str | None = None
    identity_method: IdentityMethod | None = None
    identity_checked_at: datetime | None = None
    identity_checked_by: str | None = None
    identity_note: str | None = None
    extended_at: datetime | None = None
    extension_reason: str | None = None
    first_due_at: datetime | None = None
    notice_sent_at: datetime | None = None
    notice_recorded_at: datetime | None = None
    notice_recorded_by: str | None = None
    partial_sent_at: datetime | None = None
    partial_recorded_at: datetime | None = None
    partial_recorded_by: str | None = None
    extended_by: str | None = None


@dataclass(frozen=True, slots=True)
class RequestStatistics:
    """Statistics of requests of one nature under one law, received in a period.

    Attributes:
        late: Number answered after the deadline, or overdue. If a partial answer is recorded, its time is compared
            with the deadline instead.
        median_days: Median time from receipt to answer, over answered requests, without cancelled ones; None if there
            are none.
    """

    nature: Nature
    law: Law
    received: int
    open: int
    done: int
    denied: int
    cancelled: int
    late: int
    confirmed_late: int
    median_days: float | None
    mean_days: float | None
    median_days_to_confirm: float | None
