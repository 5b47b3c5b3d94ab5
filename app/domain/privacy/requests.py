"""Entries of the privacy request log: nature, deadlines and answer of each request, but not the requester."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec

from app.domain.ingest.json_input import precompile
from app.domain.privacy.legal_deadlines import Law

Nature = Literal["erasure", "access", "portable", "correction", "restriction", "objection"]
Manner = Literal["api", "mail", "letter", "telephone", "form", "person"]
Answer = Literal["done", "cancelled", "denied"]

KEPT_MONTHS: Final = 24
"""Retention period of a log entry, counted from the answer (11 CCR 7101)."""
BASIS_MAX_CHARACTERS: Final = 500


class NewRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A request to log manually because no API call logs it, such as a correction requested by mail.

    Attributes:
        nature: The right that the person exercises, such as erasure or access.
        law: Legal basis of the request.
        manner: Channel through which the request arrived.
        received_at: Time of receipt; defaults to now.
    """

    nature: Nature
    law: Law = "user"
    manner: Manner = "mail"
    received_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


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
        due_at: Deadline for the answer; None if no law sets one.
        answer: None while the request is open.
        basis: Ground of a denial.
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


@dataclass(frozen=True, slots=True)
class RequestStatistics:
    """Statistics of requests of one nature under one law, received in a period.

    Attributes:
        late: Number answered after the deadline, or overdue.
        median_days: Median time from receipt to answer, over answered requests; None if there are none.
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
