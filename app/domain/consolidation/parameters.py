"""What a tenant may choose about consolidation; the defaults are seed 004's (§3)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameters import STRICT, Days, Share

Level = Literal["light", "medium", "aggressive"]

KEPT_SHARES: Final[dict[Level, tuple[float, float]]] = {
    "light": (0.8, 0.9),
    "medium": (0.5, 0.7),
    "aggressive": (0.2, 0.4),
}
"""How long a summary shall be, from and to, as a share of its sources' text: 10-20, 30-50, 60-80 % less (§3.4)."""


@dataclass(frozen=True, config=STRICT)
class Consolidation:
    """When memories that belong together become one, and which never do."""

    at_night: bool = True
    """Every night; else only in nights in which one of the next two holds, or by hand."""
    paused: bool = False
    """Nothing is merged by itself, whatever else is said here; by hand it is."""
    memories_above: Annotated[int, Field(ge=1, le=10**9)] = 10_000
    """In a night with more active memories than this, or with the quota nearly used up."""
    method: Literal["linkage", "hdbscan"] = "linkage"
    """How groups are found: average linkage, or HDBSCAN where there are at most 5,000 to group."""
    distance_below: Share = 0.3
    """Memories belong together whose distance, 1 less their cosine less what follows, is below this."""
    near_in_time: Share = 0.1
    """What two from the same moment are nearer by; it falls to 0 in a straight line."""
    near_in_time_hours: Annotated[float, Field(gt=0, le=8760, allow_inf_nan=False)] = 1.0
    """How far apart they are when it is 0."""
    same_thread: Share = 0.05
    """What two of the same thread are nearer by."""
    shared_entities: Share = 0.05
    """What two are nearer by that share their entities."""
    shared_entities_above: Share = 0.5
    """Share of the entities of the one that has fewer that the other must name too, to count as shared."""
    neighbours: Annotated[int, Field(ge=1, le=50)] = 10
    """How many of the nearest each memory is compared with."""
    rule: Literal["by_profile", "table", "cohesion"] = "by_profile"
    """What decides about a group: seed 004's table, or how alike its memories are; `mnemex` has the latter, the other
    profiles the former."""
    merged_from: Share = 0.9
    """With `cohesion`: groups whose memories have at least this mean cosine become one."""
    asked_from: Share = 0.75
    """With `cohesion`: those with at least this wait for somebody's yes; what is less alike stays apart."""
    level: Level = "medium"
    """How much shorter a summary shall be."""
    low_importance_below: Share = 0.4
    """Groups of more than three that are all below this become one summary."""
    high_importance_above: Share = 0.6
    """Memories above this are kept beside the summary of the others."""
    keep_importance_above: Share = 0.8
    """Memories above this are always kept."""
    keep_days: Days = 7.0
    """So are those of the last days."""
    summarise_after_days: Days = 30.0
    """From this age on, all but what is kept for its importance may go into a summary at the policy's level."""
    one_a_day: bool = True
    """Of each day of each subject at least one memory stays as it is."""
