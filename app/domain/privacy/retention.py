"""When memories expire: by a category that the caller gave, or once the risk of keeping them is too high.

Categories come as bits, in the order of the policy's `names`: bit 0 is the first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.privacy.parameters import ARCHIVED_CONVERSATIONS, HEALTH, PII, Privacy

YEAR_DAYS: Final = 365.0
ROUNDING: Final = 1e-6
"""A risk that is so near its threshold isn't above it."""
NO_CATEGORY: Final = -1
CONVERSATION: Final = -2

Bits = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Personal:
    """What is known of memories, shape (n,).

    Attributes:
        given: The caller's categories.
        found: Those that were detected, or that a model has inferred.
        pii: The surest finding's confidence, 0 to 1.
        rated: The sensitivity that a model gave, 0 to 1; nan for none.
        is_talk: Whether it is a turn of a thread, and not active any more.
    """

    given: Bits
    found: Bits
    pii: Floats
    rated: Floats
    is_talk: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Expiry:
    """When memories expire and why, shape (n,).

    Attributes:
        at: Seconds since 1970; infinite for never.
        category: Whose limit it is, as a place in the policy's `names`; `NO_CATEGORY`, or `CONVERSATION`.
        by_risk: Whether it is the risk that makes the limit count.
        pii: As it counts in the risk.
        sensitivity: As it counts in the risk.
        categories: All that apply, as bits.
    """

    at: Floats
    category: npt.NDArray[np.int64]
    by_risk: npt.NDArray[np.bool_]
    pii: Floats
    sensitivity: Floats
    categories: Bits

    def __getitem__(self, rows: npt.NDArray[np.integer[Any]]) -> Expiry:
        """These rows alone."""
        return Expiry(*(getattr(self, field.name)[rows] for field in fields(self)))


def never(count: int) -> Expiry:
    """Of memories of which nothing is known."""
    return Expiry(
        np.full(count, np.inf),
        np.full(count, NO_CATEGORY),
        np.zeros(count, np.bool_),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, np.int64),
    )


def privacy_risk(privacy: Privacy, pii: Floats, sensitivity: Floats, age_days: Floats) -> Floats:
    """How bad it is to keep a memory, 0 to 1 with the default weights."""
    age = np.clip(age_days / YEAR_DAYS, 0, 1)
    return np.asarray(privacy.pii_weight * pii + privacy.sensitivity_weight * sensitivity + privacy.age_weight * age)


def expiry(privacy: Privacy, personal: Personal, accepted_at: Floats) -> Expiry:
    """When memories expire; a category of the policy that the caller gave takes the place of all that was found.

    Args:
        privacy: The policy's.
        personal: What is known of them.
        accepted_at: Seconds since 1970.
    """
    is_given = personal.given != 0
    categories = np.where(is_given, personal.given, personal.found)
    has = _flags(categories, len(privacy.names))
    limits = np.array([np.inf if days is None else days for days in privacy.days])
    each = np.where(has, limits, np.inf)
    shortest, category = each.min(1), each.argmin(1)
    table = np.where(has, np.array(privacy.sensitivities), 0.0).max(1)
    sensitivity = np.where(is_given | np.isnan(personal.rated), table, personal.rated)
    pii = np.where(is_given & has[:, PII], 1.0, personal.pii)

    keeps = has[:, HEALTH] & (privacy.health_days is None)
    default = np.where(keeps, np.inf, privacy.default_days)
    risk_days = np.where(keeps & ~is_given, np.inf, np.where(np.isfinite(shortest), shortest, default))
    by_risk = np.maximum(risk_days, _days_until_risky(privacy, pii, sensitivity))
    by_category = np.where(is_given, shortest, np.inf)
    talk_days = privacy.archived_conversation_days
    talks = personal.is_talk & ~is_given & ~keeps
    by_talk = np.where(talks, np.inf if talk_days is None else talk_days, np.inf)

    of = np.where(np.isfinite(shortest), category, NO_CATEGORY)
    days = np.minimum(np.minimum(by_category, by_risk), by_talk)
    risky = (by_risk < by_category) & (by_risk <= by_talk)
    return Expiry(
        accepted_at + days * DAY_SECONDS,
        np.where(by_talk < np.minimum(by_category, by_risk), CONVERSATION, of),
        risky,
        pii,
        sensitivity,
        categories,
    )


def _flags(bits: Bits, count: int) -> npt.NDArray[np.bool_]:
    return np.asarray((bits[:, None] >> np.arange(count)) & 1, np.bool_)


def _days_until_risky(privacy: Privacy, pii: Floats, sensitivity: Floats) -> Floats:
    """Days after which the risk is above its threshold; infinite where it never is."""
    missing = privacy.risk_above - privacy_risk(privacy, pii, sensitivity, np.zeros(len(pii)))
    ever = missing < privacy.age_weight - ROUNDING
    share = np.divide(missing, privacy.age_weight, out=np.zeros(len(pii)), where=ever & (privacy.age_weight > 0))
    return np.where(missing < -ROUNDING, 0.0, np.where(ever, share * YEAR_DAYS, np.inf))


def name_of(privacy: Privacy, category: int) -> str | None:
    """What a place of `Expiry.category` is called; None for no category."""
    if category == CONVERSATION:
        return ARCHIVED_CONVERSATIONS
    return None if category == NO_CATEGORY else privacy.names[category]


def days_of(privacy: Privacy, category: int) -> float | None:
    """The limit that it has."""
    if category == CONVERSATION:
        return privacy.archived_conversation_days
    return privacy.default_days if category == NO_CATEGORY else privacy.days[category]
