"""Determine when memories expire: at a stated time, by a category that the caller set, or by their privacy risk.

Expiry doesn't depend on model ratings, because a memory's text can manipulate the model.

Categories are encoded as bits in the order of the policy's `names`: bit 0 is the first.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from app.domain.dynamics.ops import Floats
from app.domain.dynamics.state import DAY_SECONDS
from app.domain.ingest.json_input import precompile
from app.domain.ingest.memory import LABEL_MAX_CHARACTERS, KeepDays
from app.domain.privacy import parameters
from app.domain.privacy.legal_hold import TEXT, StorableName
from app.domain.privacy.parameters import HEALTH, PII, Privacy

YEAR_DAYS: Final = 365.0
ROUNDING: Final = 1e-6
"""A risk within this distance of the threshold doesn't exceed it."""
NO_CATEGORY: Final = -1
CONVERSATION: Final = -2
STATED: Final = -3
"""The caller gave the memory's own time of expiry."""
OF_SUBJECT: Final = -4
"""A period that was set for the memory's subject."""
OTHER_NAMES: Final = {
    CONVERSATION: parameters.ARCHIVED_CONVERSATIONS,
    STATED: parameters.STATED,
    OF_SUBJECT: parameters.OF_SUBJECT,
}
"""Names of the limits that aren't a category's, by value of `Expiry.category`."""

Bits = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PersonalData:
    """Privacy-related facts about memories, shape (n,).

    Attributes:
        given: Categories set by the caller.
        found: Categories of the detected personal data.
        pii: Highest confidence of a finding, 0 to 1.
        is_talk: Whether the memory is a turn of a thread and no longer active.
        expires_at: Time of expiry stated by the caller, in seconds since 1970; infinite if none was.
        subject_days: Shortest period that applies of those set for the subject, in days; infinite if none does.
    """

    given: Bits
    found: Bits
    pii: Floats
    is_talk: npt.NDArray[np.bool_]
    expires_at: Floats
    subject_days: Floats


@dataclass(frozen=True, slots=True)
class Expiry:
    """Expiry of memories with its causes, arrays of shape (n,).

    Attributes:
        at: Time of expiry, in seconds since 1970; infinite for never.
        category: Category whose limit applies, as an index in the policy's `names`; or `NO_CATEGORY`, `CONVERSATION`,
            `STATED`, `OF_SUBJECT`.
        by_risk: Whether the limit applies because of the risk.
        pii: Confidence used for the risk.
        sensitivity: Sensitivity used for the risk.
        categories: All categories that apply, as bits.
    """

    at: Floats
    category: npt.NDArray[np.int64]
    by_risk: npt.NDArray[np.bool_]
    pii: Floats
    sensitivity: Floats
    categories: Bits

    def __getitem__(self, rows: npt.NDArray[np.integer[Any]]) -> Expiry:
        """Return only these rows."""
        return Expiry(*(getattr(self, field.name)[rows] for field in fields(self)))


@precompile
class NewRetention(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Set or remove the retention period of a subject.

    Attributes:
        subject: The subject's name.
        keep_days: Days from each memory's acceptance, more than 0, up to 36,500; null removes the period.
        category: Only memories with this category, given by the caller; case is ignored. All memories if omitted.
    """

    subject: StorableName
    keep_days: KeepDays | None
    category: Annotated[str, msgspec.Meta(min_length=1, max_length=LABEL_MAX_CHARACTERS, pattern=TEXT)] | None = None


def no_expiry(count: int) -> Expiry:
    """Return the expiry of memories that never expire, without categories or findings."""
    return Expiry(
        np.full(count, np.inf),
        np.full(count, NO_CATEGORY),
        np.zeros(count, np.bool_),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, np.int64),
    )


def privacy_risk(privacy: Privacy, pii: Floats, sensitivity: Floats, age_days: Floats) -> Floats:
    """Return the privacy risk of retaining a memory, 0 to 1 with the default weights."""
    age = np.clip(age_days / YEAR_DAYS, 0, 1)
    return np.asarray(privacy.pii_weight * pii + privacy.sensitivity_weight * sensitivity + privacy.age_weight * age)


def compute_expiry(privacy: Privacy, personal: PersonalData, accepted_at: Floats) -> Expiry:
    """Return when memories expire: at the earliest of all limits. Categories set by the caller replace detected ones.

    Args:
        privacy: The policy's settings.
        personal: Facts about the memories.
        accepted_at: Time of acceptance, in seconds since 1970.
    """
    is_given = personal.given != 0
    categories = np.where(is_given, personal.given, personal.found)
    has_category = _flags(categories, len(privacy.names))
    limits = np.array([np.inf if days is None else days for days in privacy.days])
    category_limits = np.where(has_category, limits, np.inf)
    shortest, category = category_limits.min(1), category_limits.argmin(1)
    sensitivity = np.where(has_category, np.array(privacy.sensitivities), 0.0).max(1)
    pii = np.where(is_given & has_category[:, PII], 1.0, personal.pii)

    exempt = has_category[:, HEALTH] & (privacy.health_days is None)
    default = np.where(exempt, np.inf, privacy.default_days)
    risk_days = np.where(exempt & ~is_given, np.inf, np.where(np.isfinite(shortest), shortest, default))
    by_risk = np.maximum(risk_days, _days_until_risky(privacy, pii, sensitivity))
    by_category = np.where(is_given, shortest, np.inf)
    talk_days = privacy.archived_conversation_days
    expiring_talk = personal.is_talk & ~is_given & ~exempt
    by_talk = np.where(expiring_talk, np.inf if talk_days is None else talk_days, np.inf)

    limiting_category = np.where(np.isfinite(shortest), category, NO_CATEGORY)
    days = np.minimum(np.minimum(by_category, by_risk), by_talk)
    risky = (by_risk < by_category) & (by_risk <= by_talk)
    limiting_category = np.where(by_talk < np.minimum(by_category, by_risk), CONVERSATION, limiting_category)
    at = accepted_at + days * DAY_SECONDS
    stated_limits = (
        (STATED, personal.expires_at),
        (OF_SUBJECT, accepted_at + personal.subject_days * DAY_SECONDS),
    )
    for limit, limit_at in stated_limits:
        is_earlier = limit_at < at
        at = np.where(is_earlier, limit_at, at)
        limiting_category = np.where(is_earlier, limit, limiting_category)
        risky &= ~is_earlier
    return Expiry(
        at,
        limiting_category,
        risky,
        pii,
        sensitivity,
        categories,
    )


def _flags(bits: Bits, count: int) -> npt.NDArray[np.bool_]:
    return np.asarray((bits[:, None] >> np.arange(count)) & 1, np.bool_)


def _days_until_risky(privacy: Privacy, pii: Floats, sensitivity: Floats) -> Floats:
    """Return the days until the risk exceeds its threshold; infinite if the risk never exceeds it."""
    missing = privacy.risk_above - privacy_risk(privacy, pii, sensitivity, np.zeros(len(pii)))
    reaches_threshold = missing < privacy.age_weight - ROUNDING
    share = np.divide(
        missing, privacy.age_weight, out=np.zeros(len(pii)), where=reaches_threshold & (privacy.age_weight > 0)
    )
    return np.where(missing < -ROUNDING, 0.0, np.where(reaches_threshold, share * YEAR_DAYS, np.inf))


def category_name(privacy: Privacy, category: int) -> str | None:
    """Return the name for a value of `Expiry.category`; None for `NO_CATEGORY`."""
    return privacy.names[category] if category >= 0 else OTHER_NAMES.get(category)


def category_days(privacy: Privacy, category: int) -> float | None:
    """Return the limit in days for a value of `Expiry.category`; None for limits that aren't the policy's."""
    if category == CONVERSATION:
        return privacy.archived_conversation_days
    if category in (STATED, OF_SUBJECT):
        return None
    return privacy.default_days if category == NO_CATEGORY else privacy.days[category]
