"""Requests about somebody's data, as the log keeps them: what was asked, when, and what was answered; never by whom."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final, Literal
from uuid import UUID

import msgspec

from app.domain.ingest.decoding import prepared
from app.domain.privacy.clocks import Law

Nature = Literal["erasure", "access", "portable", "correction", "restriction", "objection"]
Manner = Literal["api", "mail", "letter", "telephone", "form", "person"]
Answer = Literal["done", "cancelled", "denied"]

KEPT_MONTHS: Final = 24
"""Counted from the answer (11 CCR 7101)."""
BASIS_MAX_CHARACTERS: Final = 500


class NewRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A request to be entered that no call of the API has entered by itself, such as a correction asked for by mail.

    Attributes:
        nature: What was asked for.
        law: What it was asked under.
        manner: How it came.
        received_at: When; now where left out.
    """

    nature: Nature
    law: Law = "user"
    manner: Manner = "mail"
    received_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class Denial(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a request is denied.

    Attributes:
        basis: The ground, such as `GDPR Art. 17(3)(b)`; it is kept 24 months, and must say nothing of anybody.
    """

    basis: Annotated[
        str, msgspec.Meta(min_length=1, max_length=BASIS_MAX_CHARACTERS, pattern=r"^[^\x00]*[^\s\x00][^\x00]*$")
    ]


class Ground(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Why a memory is kept that is made anonymous.

    Attributes:
        ground: Such as `GDPR Art. 17(3)(b), tax records`. Reports of erasures tell it: it must say nothing of anybody.
    """

    ground: Annotated[str, msgspec.Meta(max_length=BASIS_MAX_CHARACTERS, pattern=r"^[^\x00]*$")] | None = None


@prepared
@dataclass(frozen=True, slots=True)
class Request:
    """A request as it stands.

    Attributes:
        confirm_by: By when it is to be confirmed; None where no law says.
        due_at: By when it is to be answered; None where no law says.
        answer: None while it is open.
        basis: The ground of a denial.
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
class Tally:
    """Requests of a nature under a law, received in a period.

    Attributes:
        late: Answered after they were due, or not yet.
        median_days: From receipt to the answer, of those that were answered; None where none was.
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
