"""Shares of relevant memories among the results of `POST /v1/recall`."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ops.recall.measures import half_interval

BEST: Final = 5
"""Number of memories in a recall that requests the best ones regardless of their relevance."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The result of one recall.

    Attributes:
        wanted: Ids of relevant memories; empty if the right answer is none.
        brought: Ids of the returned memories.
        best: Ids of the `BEST` best, without a minimum relevance; None if they were not requested.
    """

    wanted: Collection[str]
    brought: Sequence[str]
    best: Sequence[str] | None = None


def summarise(recalled: Sequence[Recalled]) -> Mapping[str, float]:
    """Return the figures of some recalls, at least one; a share without any recall that counts for it is omitted.

    `found` is the share of the relevant memories that were returned, `precision` the share of relevant memories among
    the returned ones. Both are means over the conversations with relevant memories (precision: and with results).
    `pooled precision` is the share over all returned memories of every conversation. `rightly empty` is the share of
    empty results among conversations without relevant memories, `memories` the mean number of returned memories, and
    `best 5` the share of the relevant memories among the best.
    """
    wanting = [each for each in recalled if each.wanted]
    idle = [each for each in recalled if not each.wanted]
    found = [_share(each.wanted, each.brought) for each in wanting]
    precise = [_share(each.brought, each.wanted) for each in wanting if each.brought]
    best = [_share(each.wanted, each.best) for each in wanting if each.best is not None]
    pooled = [float(memory in each.wanted) for each in recalled for memory in each.brought]
    empty = [float(not each.brought) for each in idle]
    shares = {"found": found, "precision": precise, "pooled precision": pooled, "rightly empty": empty}
    return {
        "conversations": len(recalled),
        **{name: statistics.fmean(values) for name, values in shares.items() if values},
        **({f"best {BEST}": statistics.fmean(best)} if best else {}),
        "memories": statistics.fmean(len(each.brought) for each in recalled),
        "error": half_interval(found),
    }


def _share(of: Collection[str], among: Collection[str]) -> float:
    """Return the share of `of` that is in `among`."""
    return sum(each in among for each in of) / len(of)
