"""The passes of an erasure: each pass ends when nothing is left, or only memories under legal holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from app.domain.formatting import MISSING, count_memories

HELD: Final = "held memories"
_HOLD: Final = re.compile(r"legal hold ([0-9a-f-]{36}) ")


class HoldDelay(NamedTuple):
    """A legal hold that delayed an erasure, and the largest number of the erasure's memories that it covered.

    Attributes:
        placed_at: Time of placement; None if the hold is unknown in this copy of the data.
        released_at: Time of release; None if the hold is still in force or unknown.
    """

    hold_id: UUID
    placed_at: datetime | None
    released_at: datetime | None
    memories: int


def add_pass(
    report: Mapping[str, Any] | None,
    started_at: datetime | None,
    finished_at: datetime,
    memories: int,
    held: int,
    holds: Sequence[UUID],
) -> list[dict[str, Any]]:
    """Return the passes of an erasure, including the pass that ends now.

    A pass that erased nothing isn't listed if the same holds delayed the previous pass.

    Args:
        report: The report after the previous pass; None for the first pass.
        started_at: Start of the erasure's first pass.
        memories: Memories erased by all passes.
        held: Memories that legal holds retain.
        holds: Ids of these legal holds.
    """
    earlier = _read_passes(report, started_at)
    resumed_at = (report or {}).get("resumed_at")
    new = {
        "started_at": resumed_at or started_at,
        "finished_at": finished_at,
        "memories": max(memories - sum(each["memories"] for each in earlier), 0),
        "held": held,
        "holds": [str(each) for each in holds],
    }
    if earlier and held and not new["memories"] and earlier[-1]["holds"] == new["holds"]:
        return earlier
    return [*earlier, new]


def _read_passes(report: Mapping[str, Any] | None, started_at: datetime | None) -> list[dict[str, Any]]:
    """Return a report's passes. A report of a version that didn't list them yields one, the first; None yields none."""
    if report is None:
        return []
    if "passes" in report:
        return list(report["passes"])
    holds = [str(hold_id) for hold_id in read_delays(report)]
    first = {"started_at": started_at, "finished_at": report["made_at"], "memories": report["memories"]}
    return [first | {"held": None, "holds": holds}]


def read_delays(report: Mapping[str, Any] | None) -> dict[UUID, int]:
    """Return the number of memories covered by each legal hold in an erasure's report."""
    if report is None:
        return {}
    if "holds" in report:
        return {UUID(hold["hold_id"]): hold["memories"] for hold in report["holds"]}
    rows = [(_HOLD.search(row["ground"]), row["count"]) for row in report["kept"] if row["what"] == HELD]
    return {UUID(match[1]): count for match, count in rows if match is not None}


def describe_delays(delays: Sequence[HoldDelay], current: Sequence[UUID]) -> list[dict[str, Any]]:
    """Return report rows for the holds that delayed an erasure and no longer retain any of its memories.

    Args:
        current: The holds that retain memories.
    """
    return [
        {
            "what": "nothing under a released legal hold",
            "count": 0,
            "ground": f"legal hold {delay.hold_id} of {_day(delay.placed_at)} was released on "
            f"{_day(delay.released_at)}; it had delayed {count_memories(delay.memories)}",
            "until": MISSING,
            "code": "released",
            "values": {
                "hold": str(delay.hold_id),
                "placed_at": _iso(delay.placed_at),
                "released_at": _iso(delay.released_at),
                "memories": delay.memories,
            },
        }
        for delay in delays
        if delay.hold_id not in current
    ]


def _day(moment: datetime | None) -> str:
    return "an unknown day" if moment is None else f"{moment:%Y-%m-%d}"


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
