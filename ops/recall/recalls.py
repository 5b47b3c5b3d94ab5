"""Shares of wanted memories among those that `POST /v1/recall` brings."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ops.recall.measures import half_interval

BEST: Final = 5
"""How many memories a recall brings that is asked for the best ones, however little they matter."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """The result of one recall.

    Attributes:
        wanted: Ids of the memories that it should bring; empty where the right answer is none.
        brought: Ids of the memories that it brought.
        best: Ids of the `BEST` best, without a least relevance; None where they weren't asked for.
    """

    wanted: Collection[str]
    brought: Sequence[str]
    best: Sequence[str] | None = None


def summarise(recalled: Sequence[Recalled]) -> Mapping[str, float]:
    """Return the figures of some recalls, at least one; a share is left out where nothing counts for it.

    `found` is the share of the wanted memories that came, `precision` the share of wanted memories among those that
    came, both as means over conversations that want any (precision: and that got any); `pooled precision` is the same
    share over all memories that came, of every conversation. `rightly empty` is the share of conversations without a
    wanted memory that got none, `memories` the mean number that came, `best 5` the share of the wanted among the best.
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
    """Return the share of some ids that is among others."""
    return sum(each in among for each in of) / len(of)
