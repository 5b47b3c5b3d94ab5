"""Consolidation settings of a policy; the defaults are seed 004's (§3)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from app.domain.dynamics.parameter_types import STRICT, Days, Share

Level = Literal["light", "medium", "aggressive"]

KEPT_SHARES: Final[dict[Level, tuple[float, float]]] = {
    "light": (0.8, 0.9),
    "medium": (0.5, 0.7),
    "aggressive": (0.2, 0.4),
}
"""Minimum and maximum length of a summary, as shares of its sources' text: 10-20, 30-50, 60-80 % shorter (§3.4)."""


@dataclass(frozen=True, config=STRICT)
class Consolidation:
    """Settings for grouping memories and replacing groups by summaries."""

    at_night: bool = True
    """Consolidate every night. A consolidation also starts, by day or night and at most once a day, when there are more
    active memories than `memories_above` or the quota is nearly used up."""
    paused: bool = False
    """Suspend automatic consolidation, whatever the other settings; it can still be started by hand."""
    memories_above: Annotated[int, Field(ge=1, le=10**9)] = 10_000
    """Number of active memories above which a consolidation starts within minutes (§3.1)."""
    method: Literal["linkage", "hdbscan"] = "linkage"
    """Clustering method: average linkage, or HDBSCAN for up to 5,000 memories at a time."""
    distance_below: Share = 0.3
    """Distance below which two memories belong together: 1 minus their cosine, minus the bonuses below."""
    near_in_time: Share = 0.1
    """Bonus for two memories from the same moment; it falls linearly to 0."""
    near_in_time_hours: Annotated[float, Field(gt=0, le=8760, allow_inf_nan=False)] = 1.0
    """Time between two memories at which that bonus reaches 0."""
    same_thread: Share = 0.05
    """Bonus for two memories of the same thread."""
    shared_entities: Share = 0.05
    """Bonus for two memories that share their entities."""
    shared_entities_above: Share = 0.5
    """Minimum overlap for that bonus (exclusive): shared entities divided by the smaller of the two entity counts."""
    neighbours: Annotated[int, Field(ge=1, le=50)] = 10
    """Number of nearest neighbours that each memory is compared with."""
    rule: Literal["by_profile", "table", "cohesion"] = "by_profile"
    """Rule that chooses a group's action: seed 004's table, or the cohesion of its memories. By default `mnemex` uses
    cohesion and the other profiles use the table."""
    merged_from: Share = 0.9
    """Minimum mean cosine for merging memories that their salience or keep chance protects from decay; with `cohesion`,
    also for merging any group without approval."""
    asked_from: Share = 0.75
    """With `cohesion`: minimum mean cosine for proposing a merge, which needs approval. Less similar groups stay
    separate."""
    level: Level = "medium"
    """Compression level of summaries."""
    low_importance_below: Share = 0.4
    """Groups of more than three memories that are all below this importance become one summary."""
    high_importance_above: Share = 0.6
    """Memories above this importance are preserved, and only the others of their group are summarised."""
    keep_importance_above: Share = 0.8
    """Memories above this importance are always preserved."""
    keep_days: Days = 7.0
    """Memories younger than this are always preserved."""
    summarise_after_days: Days = 30.0
    """Groups of medium importance are summarised at level `light` until all of their memories are older than this."""
    one_a_day: bool = True
    """Preserve at least one memory per day and subject."""
