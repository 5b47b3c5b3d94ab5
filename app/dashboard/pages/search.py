"""Search page: a search without side effects, with an explanation of each result.

The query is posted in the body, because URLs end up in browser histories and logs.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, get_args

import msgspec
from fastapi import APIRouter, Depends, Request, Response

from app.api.http.request_body import decode
from app.dashboard import rendering, svg_graph
from app.dashboard.access import Action, Reading, Viewer, require_action
from app.domain.ingest.memory import KINDS
from app.domain.search.parameters import Mode
from app.domain.search.request import RESULTS_MAX, SearchRequest, SearchResult
from app.errors import FieldError, Invalid
from app.services.search import search
from app.services.uses import reviews

TIERS: Final = ("active", "archived")
"""Tiers offered in the form; cold storage isn't searched."""
NAMES: Final[Mapping[str, str]] = {
    "words": "words",
    "soft_words": "similar words",
    "relevance": "meaning",
    "role": "sender's role",
    "actor": "speaker named",
    "when": "states a time",
    "first_person": "first person",
    "moment": "time match",
    "now": "current",
    "thread": "best match in thread",
    "neighbours": "neighbours' match",
    "spread": "linked result",
    "strength": "strength",
    "importance": "importance",
}
"""Labels of score parts and factors; those not listed use their own name."""
FIELDS: Final = (
    *("query", "subject", "thread", "limit", "mode", "kind", "tags", "as_of", "superseded"),
    *(f"tier_{tier}" for tier in TIERS),
)
TEXT_MAX: Final = 600
DAY_LENGTH: Final = 10

FLAGGED_MAX: Final = 100

router = APIRouter()

Asking = Annotated[Action, Depends(require_action("read", asks_why=False))]


@dataclass(frozen=True, slots=True)
class Signal:
    """Contribution of one signal to a result's score.

    Attributes:
        value: Amount added to the score, negative if it lowered the score.
        share: Fraction of the final score; 0 for factors that lower it.
        factor: Multiplier, if the signal multiplies the score.
    """

    name: str
    value: float
    share: float
    factor: float | None = None


@router.get("/search")
def show_form(viewer: Reading, request: Request) -> Response:
    """Show the empty form."""
    return _page(request, viewer, {"tier_active": "on", "limit": "10"})


@router.post("/search")
def run_search(acting: Asking, request: Request) -> Response:
    """Run the search without reinforcement, priming and reranking."""
    given = acting.form
    try:
        wanted = build_request(given)
        began = time.perf_counter()
        found = search.search(acting.tenant_id, wanted)
    except Invalid as error:
        return _page(request, acting.viewer, given, errors=error.errors, status=422)
    took = time.perf_counter() - began
    return _page(request, acting.viewer, given, results=found, took_ms=took * 1000)


@router.get("/reviews")
def list_flagged(viewer: Reading, request: Request) -> Response:
    """List memories flagged by a failed review or self-test."""
    found = reviews.list_flagged(viewer.tenant_id, FLAGGED_MAX)
    return rendering.page(request, viewer, "reviews", found=found, most=FLAGGED_MAX)


def build_request(given: Mapping[str, str]) -> SearchRequest:
    """Build the search request from the form.

    Raises:
        Invalid: A field is invalid.
    """
    filled = {name: value.strip() for name, value in given.items() if value.strip()}
    if "query" not in filled:
        raise Invalid(errors=[FieldError("query", "must be given")])
    asked: dict[str, Any] = {"query": filled["query"], "explain": True, "reinforce": False, "rerank": 0}
    asked["tiers"] = [tier for tier in TIERS if f"tier_{tier}" in filled]
    asked |= {name: filled[name] for name in ("subject", "thread", "mode") if name in filled}
    asked["superseded"] = "superseded" in filled
    if "kind" in filled:
        asked["kinds"] = [filled["kind"]]
    if "tags" in filled:
        asked["tags"] = [tag.strip() for tag in filled["tags"].split(",") if tag.strip()]
    if "limit" in filled:
        if not (filled["limit"].isascii() and filled["limit"].isdigit()):
            raise Invalid(errors=[FieldError("limit", "must be a whole number", None, RESULTS_MAX)])
        asked["limit"] = int(filled["limit"])
    if "as_of" in filled:
        day = filled["as_of"]
        asked["as_of"] = f"{day}T00:00:00Z" if len(day) == DAY_LENGTH else day
    return decode(msgspec.json.encode(asked), SearchRequest)


def break_down_score(result: SearchResult) -> list[Signal]:
    """Break a score down: parts are summed, then factors are applied in order."""
    told = result.explain or {}
    parts = {name: value for name, value in told.items() if isinstance(value, int | float) and value}
    whole = result.score or 1.0
    found = [Signal(NAMES.get(name, name), value, value / whole) for name, value in parts.items()]
    height = sum(parts.values())
    for name, factor in told.get("factors", {}).items():
        gained, height = height * (factor - 1), height * factor
        found.append(Signal(NAMES.get(name, name), gained, max(gained, 0.0) / whole, factor))
    return sorted(found, key=lambda signal: -signal.share)


def _page(
    request: Request,
    viewer: Viewer,
    given: Mapping[str, str],
    *,
    results: list[SearchResult] | None = None,
    errors: tuple[FieldError, ...] = (),
    took_ms: float = 0.0,
    status: int = 200,
) -> Response:
    shown = None if results is None else [(result, break_down_score(result)) for result in results]
    return rendering.page(
        request,
        viewer,
        "search",
        status=status,
        given={name: given.get(name, "") for name in FIELDS},
        results=shown,
        errors=errors,
        wrong={error.field.partition("[")[0] for error in errors},
        took_ms=took_ms,
        tiers=TIERS,
        kinds=KINDS,
        modes=get_args(Mode),
        limit_max=RESULTS_MAX,
        meter=svg_graph.draw_meter,
        text_max=TEXT_MAX,
    )
