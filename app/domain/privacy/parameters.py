"""Retention settings for personal memories (design: lifecycle, Privacy)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, field_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameter_types import STRICT, Days, Share

KNOWN: Final = ("pii", "financial", "casual", "work", "health", "credentials")
"""Categories of every policy; a tenant's own categories follow them."""
HEALTH: Final = KNOWN.index("health")
PII: Final = KNOWN.index("pii")
SENSITIVITIES: Final = (0.7, 1.0, 0.1, 0.3, 1.0, 1.0)
"""Sensitivity of each of `KNOWN`, in its order; a model's rating has no part in expiry."""
ARCHIVED_CONVERSATIONS: Final = "archived_conversations"
STATED: Final = "expires_at"
"""Name of the limit that is the time of expiry stated by the caller; no category may have this name."""
OF_SUBJECT: Final = "subject_retention"
"""Name of the limit that is a period set for the subject; no category may have this name."""

IdentityKind = Literal["person_name", "street_address"]
Name = Annotated[str, Field(min_length=1, max_length=128)]
Region = Annotated[str, Field(pattern=r"^[A-Z]{2}$")]


@dataclass(frozen=True, config=STRICT)
class Category:
    """A category defined by a tenant."""

    name: Name
    """Name as given by callers in `categories`; case is ignored."""
    max_days: Days
    """Retention period of its memories, in days."""
    sensitivity: Share = 0.0
    """Harm if strangers read its memories, 0 to 1; a model's rating has no part in expiry."""


@dataclass(frozen=True, config=STRICT)
class Privacy:
    """Retention periods of personal memories, regardless of importance and tags; only legal holds extend them.

    A category given by the caller always applies. A detected or inferred one applies once the privacy risk exceeds
    `risk_above`; if none applies then, `default_days` does.
    """

    pii_days: Days | None = 30.0
    """Retention period of the category `pii` in days; null for no limit of its own."""
    financial_days: Days | None = 90.0
    """Retention period of `financial`."""
    casual_days: Days | None = 180.0
    """Retention period of `casual`."""
    work_days: Days | None = 365.0
    """Retention period of `work`."""
    health_days: Days | None = None
    """Retention period of `health`; null sets no limit, and exempts these memories from the risk threshold."""
    credentials_days: Days | None = None
    """Retention period of `credentials`; null applies `default_days` above the risk threshold."""
    archived_conversation_days: Days | None = 730.0
    """Retention period of archived and cold conversation turns that have no category given by the caller."""
    further: Annotated[tuple[Category, ...], Field(max_length=24)] = ()
    """The tenant's own categories."""
    pii_weight: Share = 0.4
    """Weight of the most confident finding in the risk."""
    sensitivity_weight: Share = 0.4
    """Weight of the sensitivity."""
    age_weight: Share = 0.2
    """Weight of the age, which counts in years, at most 1."""
    risk_above: Share = 0.7
    """Risk above which neither importance nor tags protect a memory."""
    default_days: Days = 30.0
    """Retention period above that risk for memories without a category that has a limit."""
    regions: Annotated[tuple[Region, ...], Field(max_length=16)] | None = None
    """Countries (ISO 3166) whose national formats of telephone numbers are recognised; null for the time zone's
    country."""
    identities: Annotated[tuple[IdentityKind, ...], Field(max_length=2)] = ()
    """Identities (`person_name`, `street_address`) that count as findings of `pii` in texts stored or edited from then
    on; others have no part in the risk and in expiry."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all categories, in lower case."""
        return (*KNOWN, *(each.name.lower() for each in self.further))

    @property
    def days(self) -> tuple[float | None, ...]:
        """Retention periods of all categories."""
        own = (self.pii_days, self.financial_days, self.casual_days, self.work_days)
        return (*own, self.health_days, self.credentials_days, *(each.max_days for each in self.further))

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """Sensitivities of all categories."""
        return (*SENSITIVITIES, *(each.sensitivity for each in self.further))

    @field_validator("further")
    @classmethod
    def _names_apart(cls, further: tuple[Category, ...]) -> tuple[Category, ...]:
        names = [each.name.lower() for each in further]
        taken = {*KNOWN, ARCHIVED_CONVERSATIONS, STATED, OF_SUBJECT}
        for place, name in enumerate(names):
            if name in taken or name in names[:place]:
                raise ValueError(f"the category {name!r} already exists; built-in categories have fields of their own")
        return further
