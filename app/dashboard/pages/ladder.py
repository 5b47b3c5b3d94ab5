"""The ladder: memories by tier, what has moved and why, and what time will make of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Request, Response

from app.api.http import shapes
from app.dashboard import rendering
from app.dashboard.access import LOOKS, Viewer, sees
from app.dashboard.charts import Line
from app.domain.tiers.tiers import DECAY_TIERS
from app.errors import Invalid
from app.services.tiers import ladder
from app.services.tiers.forecast import Outlook
from app.services.tiers.ladder import DAYS
from app.store.tiers.tier_moves import Day, Move, Moved

PAGE: Final = 25
PLACE_MAX: Final = 2**63 - 1
TOLD: Final = (0, 7, 30, 60, 90)
"""Days ahead that are told in numbers."""

KINDS: Final[dict[Move, str]] = {
    "archived": "archived",
    "cold": "cold",
    "merged": "merged",
    "deleted": "deleted",
    "expired": "expired",
    "hidden": "hidden",
    "restored": "active",
}
"""The colour of each move, in the order in which they are stacked."""

WHY: Final[dict[tuple[str, str], str]] = {
    ("archived", "decay"): "it faded, and nothing protected it",
    ("cold", "decay"): "it faded further",
    ("deleted", "decay"): "it faded away, old, unused and of no importance",
    ("archived", "erasure"): "it is to be erased",
    ("deleted", "erasure"): "it was erased by request",
    ("hidden", "erasure"): "its erasure was asked for",
    ("expired", "category"): "the time that privacy allows its category was over",
    ("expired", "risk"): "its privacy risk was too high to keep it longer",
    ("expired", "source_expired"): "a summary with nothing left but what expired",
    ("hidden", "source_expired"): "a summary to be made again without what expired",
    ("merged", "consolidation"): "a run of consolidation summarised it",
    ("merged", "approved"): "somebody agreed to the merge",
    ("deleted", "undo"): "a summary whose merge was undone",
    ("deleted", "sources_gone"): "a summary with nothing left to summarise",
    ("restored", "undo"): "its merge was undone",
    ("restored", "use"): "it was used",
    ("restored", "edit"): "it was edited, or sent again",
    ("restored", "hand"): "somebody asked for it",
    ("restored", "cancelled"): "its erasure was cancelled",
    ("restored", "made_again"): "a summary made again without what is gone",
}

router = APIRouter(prefix="/ladder")

Looking = Annotated[Viewer, Depends(sees(*LOOKS))]


@dataclass(frozen=True)
class Reason:
    """A kind of move, why it was, and how often: in all of the days, in the last week, and today."""

    move: str
    kind: str
    why: str
    memories: int
    week: int
    today: int


@router.get("")
def page(viewer: Looking, request: Request, cursor: str | None = None) -> Response:
    """The page, out of counters alone; what costs more is asked for by itself."""
    place = shapes.place_in_cursor(cursor)
    older_than = place and (place[0], min(place[1].int, PLACE_MAX))
    held = ladder.tier_report(viewer.tenant_id)
    latest = ladder.latest(viewer.tenant_id, older_than, PAGE)
    following = shapes.cursor_at(latest[-1].at, UUID(int=latest[-1].place)) if len(latest) == PAGE else None
    days = [held.today - timedelta(days=back) for back in reversed(range(DAYS))]
    return rendering.page(
        request,
        viewer,
        "ladder",
        held=held,
        columns=_columns(days, held.moved),
        by_day=_by_day(days, held.moved),
        reasons=_reasons(held.today, held.moved),
        kinds=KINDS,
        latest=[(one, DECAY_TIERS[one.before], DECAY_TIERS[one.after], _why(one)) for one in latest],
        following=following,
        is_first=cursor is None,
    )


@router.get("/ahead")
def ahead(viewer: Looking, request: Request) -> Response:
    """The part with the forecast and the archive's bases."""
    try:
        found = ladder.ahead(viewer.tenant_id)
    except Invalid as error:
        return rendering.page(request, viewer, "ladder_ahead", found=None, problem=error, drawn=[], told=[], names=[])
    outlook = found.outlook
    days = [day for day in TOLD if day < len(outlook.dates)]
    return rendering.page(
        request,
        viewer,
        "ladder_ahead",
        found=found,
        problem=None,
        drawn=_lines(outlook),
        names=[(day, f"{outlook.dates[day]:%d %b}") for day in days if day != TOLD[1]],
        told=[(day, outlook.dates[day], outlook.counts[day].tolist()) for day in days],
    )


def _lines(outlook: Outlook) -> list[Line]:
    kinds = {"active": "a"}
    return [
        Line(tier, list(enumerate(outlook.counts[:, place].tolist())), kinds.get(tier, tier))
        for place, tier in enumerate(DECAY_TIERS)
    ]


def _by_day(days: Sequence[date], moved: Sequence[Day]) -> list[tuple[date, dict[str, int]]]:
    """How many of each move on each day, none left out."""
    counted = Counter[tuple[date, str]]()
    for one in moved:
        counted[one.day, one.move] += one.memories
    return [(day, {move: counted[day, move] for move in KINDS}) for day in days]


def _columns(days: Sequence[date], moved: Sequence[Day]) -> list[tuple[str, list[tuple[str, float, str]]]]:
    return [
        (f"{day:%d %b}", [(move, float(counts[move]), kind) for move, kind in KINDS.items()])
        for day, counts in _by_day(days, moved)
    ]


def _reasons(today: date, moved: Sequence[Day]) -> list[Reason]:
    """By move and rule, the most frequent first."""
    counted: dict[tuple[Any, str], list[int]] = {}
    for one in moved:
        row = counted.setdefault((one.move, one.rule), [0, 0, 0])
        row[0] += one.memories
        row[1] += one.memories if one.day > today - timedelta(days=7) else 0
        row[2] += one.memories if one.day == today else 0
    ordered = sorted(counted.items(), key=lambda item: (-item[1][0], item[0]))
    return [Reason(move, KINDS[move], WHY.get((move, rule), rule), *row) for (move, rule), row in ordered]


def _why(one: Moved) -> str:
    """Why a memory has moved, as far as its history tells."""
    if one.kind == "restored":
        return "it was used, or somebody asked for it"
    if one.after < one.before:
        return WHY["restored", "undo"]
    return WHY["merged", "consolidation"] if one.merge_id else f"it faded: its strength was {one.strength:.2f}"
