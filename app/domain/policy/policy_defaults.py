"""Track defaults that changed between versions, and update policies stored under earlier defaults.

A tenant's stored policy contains every value, defaults included. A value that equals the default of its time doesn't
count as the tenant's choice and is replaced by the new default. Every other value is retained.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from app.domain.policy.policy import Policy
from app.domain.policy.stored_policy import STORED

FORMER: Final[tuple[Mapping[str, float], ...]] = (
    {
        "ranking.words": 1.0,
        "ranking.relevance": 0.6,
        "ranking.actor": 0.4,
        "ranking.first_person": 0.1,
        "ranking.moment": 0.3,
        "ranking.thread": 0.3,
        "ranking.strength": 0.05,
        "ranking.importance": 0.1,
        "reinforcement.by_search_share": 0.8,
        "recall.relevance_above": 0.6,
    },
    {
        "protection.salience_above": 0.145,
        "tiers.deleted_salience_below": 0.145,
    },
)
"""For each change of defaults, the former default of every field that it changed."""
CURRENT: Final = len(FORMER)
"""Version of the current defaults. For each tenant, the version of the defaults that its policies follow is stored."""


def follow_defaults(policy: Policy, written_under: int) -> Policy:
    """Return the policy with this version's defaults in place of the former defaults.

    Args:
        policy: The stored policy.
        written_under: Version of the defaults under which the policy was written.
    """
    body: dict[str, Any] = policy.model_dump(mode="json")
    for former in FORMER[written_under:]:
        for path, value in former.items():
            section, field = path.split(".")
            if body.get(section, {}).get(field) == value:
                del body[section][field]
    return Policy.model_validate(body, context=STORED)
