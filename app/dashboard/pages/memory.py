"""Memory page: text, forgetting curve, tier with its reason, related memories and history."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from fastapi import APIRouter, Request, Response
from markupsafe import Markup

from app.api.http.cursors import HISTORY
from app.api.http.path_ids import MEMORY, MemoryId
from app.dashboard import rendering, svg_charts, svg_graph
from app.dashboard.access import Reading, Viewer, Writing
from app.dashboard.rendering import PREFIX, redirect_back
from app.dashboard.svg_charts import ChartLine, ChartMark, Level
from app.dashboard.text_display import as_json, make_visible, shorten
from app.domain.formatting import format_number
from app.domain.ingest.memory import KINDS
from app.domain.ingest.roles import infer_role
from app.domain.privacy.pii_detection import count_identities
from app.domain.tiers.decay_tier import DECAY_TIERS
from app.errors import NotFound
from app.services.enrichment import pii_scan
from app.services.memories import explanation, history, live_numbers, manual_restore, relations
from app.services.memories.explanation import TierExplanation
from app.services.memories.relations import Relations
from app.services.storage import lookup
from app.services.storage.lookup import Pending
from app.services.strength import memory_curve
from app.services.strength.memory_curve import DrawnCurve
from app.store.core.paging import page_of
from app.store.memories.history import HistoryEvent
from app.store.memories.memories import StoredMemory

ENTRIES: Final = 30
MARKS_MAX: Final = 300
LABEL_MAX: Final = 24
_NAMES_AT: Final = (0.07, 0.28, 0.5, 0.72, 0.92)
MARKS: Final = {
    **dict.fromkeys(("use", "late_use", "associate", "review_passed"), "use"),
    **dict.fromkeys(("tier", "wanted_tier", "restored"), "tier"),
    **dict.fromkeys(("salience", "kind", "multiplier", "pace", "promoted", "demoted", "policy"), "score"),
    **dict.fromkeys(("test", "review_failed"), "test"),
}
"""Events drawn on the curve, with their colour class."""

router = APIRouter(prefix="/memories")


@dataclass(frozen=True, slots=True)
class Related:
    """Related memory in the list next to the graph."""

    how: str
    memory_id: UUID
    said: str
    tier: str


@router.get("/{memory_id}")
def show_memory(viewer: Reading, request: Request, memory_id: str, cursor: str | None = None) -> Response:
    """Show a memory, or a notice if it is pending or doesn't exist."""
    try:
        found = lookup.get(viewer.tenant_id, MEMORY.parse(memory_id))
        if isinstance(found, Pending):
            accepted = datetime.fromtimestamp(found.accepted_ms / 1000, UTC)
            return rendering.page(
                request, viewer, "memory/pending", accepted=accepted, text=make_visible(found.given.text)
            )
        return _page(viewer, request, found, cursor)
    except NotFound:
        return rendering.page(request, viewer, "memory/missing", 404)


def _page(viewer: Viewer, request: Request, found: StoredMemory, cursor: str | None) -> Response:
    tenant_id, memory_id = viewer.tenant_id, found.memory_id
    older_than = HISTORY.decode(cursor)
    alive = live_numbers.live_numbers(tenant_id, [found]).get(memory_id)
    if alive is None:
        raise NotFound("Memory not found")
    drawn = memory_curve.draw_curve(tenant_id, found)
    happened = page_of(drawn.happened[:ENTRIES], ENTRIES, lambda entry: (entry.at, entry.place))
    if older_than is not None:
        happened = history.list_history(tenant_id, memory_id, older_than, ENTRIES)
    tied = relations.find_ties(tenant_id, memory_id)
    explained = explanation.explain_tier(tenant_id, memory_id)
    protection = describe_protection(explained)
    return rendering.page(
        request,
        viewer,
        "memory/page",
        memory=found,
        role=infer_role(found.role, found.speaker),
        numbers=alive.numbers,
        live=alive,
        explained=explained,
        protection=protection,
        found=pii_scan.get_findings(tenant_id, memory_id),
        identities=count_identities(found.text),
        is_whole=drawn.course.is_whole,
        chart=draw_curve(drawn, protection),
        graph=_graph(found, tied) if tied.ties else None,
        related=_related(memory_id, tied),
        history=[(entry, describe_event(entry)) for entry in happened],
        following=HISTORY.encode(happened.following),
        may_see_reasons=viewer.may("privacy"),
        as_json=as_json,
    )


@router.post("/{memory_id}/restore")
def restore_memory(acting: Writing, memory_id: MemoryId) -> Response:
    """Restore a memory: from the archive at once, from cold storage in a job."""
    acting.record_on("restore_memory", memory_id, lookup.get)
    manual_restore.restore(acting.tenant_id, memory_id, acting.key_id)
    return redirect_back(f"/memories/{memory_id}", "restored")


def describe_protection(explained: TierExplanation) -> str:
    """Return what keeps a memory in its tier although its strength falls; empty if decay alone decides."""
    found, tier = explained.lasting, explained.verdict.tier
    if found is not None and found.rule in _PROTECTIONS:
        later = " after the grace period" if explained.verdict.rule == "grace" != found.rule else ""
        label = _LASTING_GRACE if found.rule == "grace" else _PROTECTIONS[found.rule]
        return f"{label}{later}: {_PROTECTED_UNTIL.get(found.rule, 'never leaves')} the {tier} tier"
    if explained.change_at is not None and explained.verdict.rule in _PROTECTIONS:
        leaves = f"if unused, it leaves the {tier} tier on {explained.change_at:%Y-%m-%d}"
        return f"{_PROTECTIONS[explained.verdict.rule]} for now; {leaves}"
    return ""


_PROTECTIONS: Final = {
    "hold": "protected by a legal hold",
    "never_forget": "protected permanently",
    "promoted": "protected by its promotion",
    "grace": "protected by its grace period",
    "salience": "protected by salience",
    "keep_chance": "protected by its keep chance",
}
"""Labels of the rules that protect a memory from decay."""
_LASTING_GRACE: Final = "protected by its kind or importance"
"""Label of the rule `grace` where it doesn't end: a grace period would (see `Protection`)."""
_PROTECTED_UNTIL: Final = {"hold": "until its release, it stays in", "promoted": "until it is demoted, it stays in"}


def draw_curve(drawn: DrawnCurve, protection: str = "") -> Markup:
    """Draw strength over time, with events, tier thresholds, and the rule that protects the memory from a move."""
    past, ahead = drawn.course.past, drawn.course.ahead
    now = past[-1]
    first, span = past[0].at, ahead[-1].at - past[0].at
    marks = [
        ChartMark(entry.at, f"{_day(entry.at)} {entry.kind.replace('_', ' ')}", MARKS[entry.kind], strength)
        for entry, strength in drawn.course.marks
        if entry.kind in MARKS
    ]
    limit = " unless protected" if protection else ""
    levels = [Level(f"{name} below {value:g}{limit}", value) for name, value in drawn.tiers.by_tier.items()]
    if protection:
        levels.append(Level(protection, 1.0))  # at the top, where no threshold is
    begin = "at creation" if drawn.course.is_whole else f"on {_day(first)}"
    label = (
        f"Strength: {format_number(past[0].strength)} {begin}, {format_number(now.strength)} now, "
        f"{format_number(ahead[-1].strength)} on {_day(ahead[-1].at)} if unused"
    ) + (f"; {protection}" if protection else "")
    return svg_charts.draw_lines(
        [ChartLine("until now", past), ChartLine("forecast without uses", ahead, "future")],
        label,
        names=[(first + share * span, _day(first + share * span)) for share in _NAMES_AT],
        levels=levels,
        marks=marks[-MARKS_MAX:],
        now=now.at,
        top=1.0,
        height=240,
    )


def describe_event(entry: HistoryEvent) -> str:
    """Describe an event of the history."""
    before, after = entry.before, entry.after
    if entry.kind in _PLACES:
        said, names = _PLACES[entry.kind]
        return said.format(names[int(before or 0)], names[int(after or 0)])
    if entry.kind in _SAID:
        return _SAID[entry.kind].format(format_number(before), format_number(after))
    return f"{entry.kind.replace('_', ' ')} changed from {format_number(before)} to {format_number(after)}"


_PLACES: Final = {
    "wanted_tier": ("scheduled to move from {0} to {1}", DECAY_TIERS),
    "tier": ("moved from {0} to {1}", DECAY_TIERS),
    "restored": ("restored from {0}", DECAY_TIERS),
    "promoted": ("promoted: {1}", ("high score", "frequent use", "by hand")),
    "kind": ("kind changed from {0} to {1}", KINDS),
}
"""Events whose numbers are indexes into a list."""
_SAID: Final = {
    "accepted": "accepted",
    "demoted": "demoted by hand",
    "policy": "policy version {1} took effect",
    "associate": "a linked memory was used: stability {0} → {1}",
    "use": "used: strength {0} → {1}",
    "late_use": "use reported late: strength {0} → {1}",
    "test": "passed a self-test: strength {0} → {1}",
    "review_passed": "passed a review: strength {0} → {1}",
    "review_failed": "failed a review: strength {0} → {1}",
}


def _day(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"


def _graph(found: StoredMemory, tied: Relations) -> Markup:
    column = svg_graph.assign_columns(found.memory_id, [(tie.from_id, tie.to_id) for tie in tied.ties])
    boxes = [
        svg_graph.Box(
            memory_id,
            f"{PREFIX}/memories/{memory_id}",
            shorten(text, LABEL_MAX),
            "this memory" if memory_id == found.memory_id else tied.tiers[memory_id],
            column[memory_id],
        )
        for memory_id, text in tied.texts.items()
        if memory_id in column
    ]
    edges = [
        svg_graph.Edge(tie.from_id, tie.to_id, _WAYS[tie.way][0], tie.way in ("link", "kept")) for tie in tied.ties
    ]
    return svg_graph.draw_graph(found.memory_id, boxes, edges)


_WAYS: Final[dict[str, tuple[str, str, str]]] = {
    "summary": ("merged into", "Source memory", "Summary of this memory"),
    "kept": ("kept separately", "Kept separately from this summary", "Summary next to this memory"),
    "superseded": ("superseded by", "Superseded by this memory", "Supersedes this memory"),
    "corrected": ("corrected by", "Corrected by this memory", "Corrects this memory"),
    "link": ("linked", "Links to this memory", "Linked from this memory"),
}
"""Labels by relation: of the arrow, of a memory at its start, and of a memory at its end, as seen from this memory."""


def _related(memory_id: UUID, tied: Relations) -> Sequence[Related]:
    found = []
    for tie in tied.ties:
        if memory_id not in (tie.from_id, tie.to_id):
            continue
        other = tie.to_id if tie.from_id == memory_id else tie.from_id
        how = _WAYS[tie.way][2 if tie.from_id == memory_id else 1]
        kind = f" ({shorten(tie.kind, LABEL_MAX)})" if tie.kind else ""
        found.append(Related(how + kind, other, shorten(tied.texts[other], 100), tied.tiers[other]))
    return found
