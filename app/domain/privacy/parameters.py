"""What a tenant may choose about how long personal memories are kept (design: lifecycle, Privacy)."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, field_validator
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameters import STRICT, Days, Share

KNOWN: Final = ("pii", "financial", "casual", "work", "health", "credentials")
"""The categories that every policy has; a tenant adds its own after them."""
HEALTH: Final = KNOWN.index("health")
PII: Final = KNOWN.index("pii")
SENSITIVITIES: Final = (0.7, 1.0, 0.1, 0.3, 1.0, 1.0)
"""Of `KNOWN`, in its order, where no model has rated the memory."""
ARCHIVED_CONVERSATIONS: Final = "archived_conversations"

Name = Annotated[str, Field(min_length=1, max_length=128)]
Region = Annotated[str, Field(pattern=r"^[A-Z]{2}$")]


@dataclass(frozen=True, config=STRICT)
class Category:
    """One that a tenant has added."""

    name: Name
    """As callers give it in `categories`; upper and lower case are the same."""
    max_days: Days
    """Days that its memories are kept."""
    sensitivity: Share = 0.0
    """Harm if strangers read them, where no model has rated that."""


@dataclass(frozen=True, config=STRICT)
class Privacy:
    """How long personal memories are kept, whatever their importance and tags; legal holds alone keep them longer.

    A category that the caller gave counts in any case. One that was only found counts once the privacy risk is above
    `risk_above`; where none applies then, `default_days` do.
    """

    pii_days: Days | None = 30.0
    """Days that memories of the category `pii` are kept; null for as long as others."""
    financial_days: Days | None = 90.0
    """The same of `financial`."""
    casual_days: Days | None = 180.0
    """The same of `casual`."""
    work_days: Days | None = 365.0
    """The same of `work`."""
    health_days: Days | None = None
    """The same of `health`; null keeps them as the person has said, also above the risk."""
    credentials_days: Days | None = None
    """The same of `credentials`; null leaves them to `default_days` once the risk is above its threshold."""
    archived_conversation_days: Days | None = 730.0
    """The same of turns of a thread that aren't active any more and that no category of the caller's is for."""
    further: Annotated[tuple[Category, ...], Field(max_length=24)] = ()
    """Categories of the tenant's own."""
    pii_weight: Share = 0.4
    """What the surest finding counts in the risk."""
    sensitivity_weight: Share = 0.4
    """What the sensitivity counts."""
    age_weight: Share = 0.2
    """What the age counts, as a share of a year."""
    risk_above: Share = 0.7
    """From above this on, neither importance nor tags protect a memory."""
    default_days: Days = 30.0
    """Days that a memory above that is kept where it is of no category with a limit."""
    regions: Annotated[tuple[Region, ...], Field(max_length=16)] | None = None
    """Countries (ISO 3166) whose ways of writing telephone numbers are looked for; null for that of the time zone."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all categories, in lower case."""
        return (*KNOWN, *(each.name.lower() for each in self.further))

    @property
    def days(self) -> tuple[float | None, ...]:
        """Their limits."""
        own = (self.pii_days, self.financial_days, self.casual_days, self.work_days)
        return (*own, self.health_days, self.credentials_days, *(each.max_days for each in self.further))

    @property
    def sensitivities(self) -> tuple[float, ...]:
        """Their sensitivities."""
        return (*SENSITIVITIES, *(each.sensitivity for each in self.further))

    @field_validator("further")
    @classmethod
    def _names_apart(cls, further: tuple[Category, ...]) -> tuple[Category, ...]:
        names = [each.name.lower() for each in further]
        taken = {*KNOWN, ARCHIVED_CONVERSATIONS}
        for place, name in enumerate(names):
            if name in taken or name in names[:place]:
                raise ValueError(f"the category {name!r} is there already: its days have a field of their own")
        return further
