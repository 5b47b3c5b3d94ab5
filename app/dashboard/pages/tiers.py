"""Tiers page: memories by tier, tier moves with their reasons, and a forecast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from app.api.http.cursors import HISTORY
from app.dashboard import rendering
from app.dashboard.access import AnyViewer
from app.dashboard.svg_charts import ChartLine
from app.domain.formatting import format_number
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.errors import Invalid
from app.services.tiers import tier_report
from app.services.tiers.forecast import TierForecast
from app.services.tiers.tier_report import DAYS
from app.store.tiers.tier_moves import DailyMoves, Move, TierMove

PAGE: Final = 25
TOLD: Final = (0, 7, 30, 60, 90)
"""Days ahead listed in the forecast table."""

KINDS: Final[dict[Move, str]] = {
    "archived": "archived",
    "cold": "cold",
    "merged": "merged",
    "deleted": "deleted",
    "expired": "expired",
    "hidden": "hidden",
    "restored": "active",
}
"""Colour class of each kind of move, in stacking order."""

WHY: Final[dict[tuple[str, str], str]] = {
    ("archived", "decay"): "strength below the archive threshold",
    ("cold", "decay"): "strength below the cold-storage threshold",
    ("deleted", "decay"): "decayed below the deletion threshold, and old, rarely used and unimportant",
    ("archived", "erasure"): "erasure pending",
    ("deleted", "erasure"): "erased on request",
    ("hidden", "erasure"): "erasure requested",
    ("hidden", "quarantine"): "put in quarantine",
    ("expired", "category"): "retention period of its category expired",
    ("expired", "risk"): "retention period for its privacy risk expired",
    ("expired", "source_expired"): "summary whose sources have all expired",
    ("hidden", "source_expired"): "summary to be regenerated without expired sources",
    ("merged", "consolidation"): "merged by a consolidation run",
    ("merged", "approved"): "merge approved manually",
    ("deleted", "undo"): "summary of an undone merge",
    ("deleted", "sources_gone"): "summary without remaining sources",
    ("restored", "undo"): "merge undone",
    ("restored", "use"): "used",
    ("restored", "edit"): "edited or sent again",
    ("restored", "hand"): "restored manually",
    ("restored", "cancelled"): "erasure cancelled",
    ("restored", "quarantine"): "quarantine lifted",
    ("restored", "made_again"): "summary regenerated without deleted sources",
}

router = APIRouter(prefix="/ladder")


@dataclass(frozen=True)
class MoveReason:
    """Kind of move with its reason and counts for the whole period, the last week and today."""

    move: str
    kind: str
    why: str
    memories: int
    week: int
    today: int


@router.get("")
def show_tiers(viewer: AnyViewer, request: Request, cursor: str | None = None) -> Response:
    """Show the page from counters; the browser loads the expensive forecast separately."""
    held = tier_report.tier_report(viewer.tenant_id)
    latest = tier_report.list_latest_moves(viewer.tenant_id, HISTORY.decode(cursor), PAGE)
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
        latest=[(one, DECAY_TIERS[one.before], DECAY_TIERS[one.after], _explain_move(one)) for one in latest],
        following=HISTORY.encode(latest.following),
        is_first=cursor is None,
    )


@router.get("/ahead")
def show_forecast(viewer: AnyViewer, request: Request) -> Response:
    """Render the fragment with the forecast and the compression of archived vectors."""
    try:
        found = tier_report.cached_outlook(viewer.tenant_id)
    except Invalid as error:
        return rendering.page(request, viewer, "ladder_ahead", found=None, problem=error, drawn=[], rows=[], names=[])
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
        rows=[(day, outlook.dates[day], outlook.counts[day].tolist()) for day in days],
    )


def _lines(outlook: TierForecast) -> list[ChartLine]:
    kinds = {"active": "a"}
    return [
        ChartLine(tier, list(enumerate(outlook.counts[:, place].tolist())), kinds.get(tier, tier))
        for place, tier in enumerate(DECAY_TIERS)
    ]


def _by_day(days: Sequence[date], moved: Sequence[DailyMoves]) -> list[tuple[date, dict[str, int]]]:
    """Count moves by kind for every day, including days without moves."""
    counted = Counter[tuple[date, str]]()
    for one in moved:
        counted[one.day, one.move] += one.memories
    return [(day, {move: counted[day, move] for move in KINDS}) for day in days]


def _columns(days: Sequence[date], moved: Sequence[DailyMoves]) -> list[tuple[str, list[tuple[str, float, str]]]]:
    return [
        (f"{day:%d %b}", [(move, float(counts[move]), kind) for move, kind in KINDS.items()])
        for day, counts in _by_day(days, moved)
    ]


def _reasons(today: date, moved: Sequence[DailyMoves]) -> list[MoveReason]:
    """Count moves by kind and rule, most frequent first."""
    counted: dict[tuple[Any, str], list[int]] = {}
    for one in moved:
        row = counted.setdefault((one.move, one.rule), [0, 0, 0])
        row[0] += one.memories
        row[1] += one.memories if one.day > today - timedelta(days=7) else 0
        row[2] += one.memories if one.day == today else 0
    ordered = sorted(counted.items(), key=lambda item: (-item[1][0], item[0]))
    return [MoveReason(move, KINDS[move], WHY.get((move, rule), rule), *row) for (move, rule), row in ordered]


def _explain_move(one: TierMove) -> str:
    """Describe why a memory moved, as far as its history contains the reason."""
    if one.kind == "restored":
        return "restored by a use, by an edit or manually"
    if one.after < one.before:
        return WHY["restored", "undo"]
    return WHY["merged", "consolidation"] if one.merge_id else f"decayed to strength {format_number(one.strength)}"
