"""`/v1/policy/replay` and `/v1/policy/fit`: recorded searches under another policy, and weights that uses speak for."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api.http import shapes
from app.api.http.auth import Caller, needs
from app.api.http.body import body_of, decode
from app.domain.search.comparing import Comparison, Interval, Pair, Uses
from app.services.search import search_replays
from app.services.search.search_replays import SEARCHES_MAX, Replay, Wish

router = APIRouter(prefix="/v1/policy", tags=["policy"])

EXAMPLES_MAX = 100
SHOWN = 10
NOT_RECORDED: dict[int | str, dict[str, Any]] = {409: {"description": "The policy in force records no searches"}}

Maintainer = Annotated[Caller, Depends(needs("maintain"))]
Body = Annotated[bytes, Depends(body_of)]
_Searches = Annotated[int, msgspec.Meta(ge=1, le=SEARCHES_MAX)]


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which policy to replay recorded searches under.

    Attributes:
        policy: The fields that differ from the policy in force; null is the default.
        preset: Name of a preset, which goes before the fields.
        searches: How many of the newest recorded searches are replayed, 1 to 10,000.
        again: Repeat the searches on today's memories, at most the newest 500, instead of ranking the recorded
            candidates: by the recorded vectors and terms, without what only the query's wording tells.
        examples: How many of the searches that change most are listed, 0 to 100.
    """

    policy: dict[str, Any] = {}
    preset: str | None = None
    searches: _Searches = 1000
    again: bool = False
    examples: Annotated[int, msgspec.Meta(ge=0, le=EXAMPLES_MAX)] = 5


class FitRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Which recorded searches to fit weights to.

    Attributes:
        searches: How many of the newest recorded searches are read, 1 to 10,000.
    """

    searches: _Searches = SEARCHES_MAX


@router.post("/replay", summary="Replay recorded searches under another policy", responses=NOT_RECORDED)
def replay(caller: Maintainer, body: Body) -> Response:
    """Which results change, and whether what callers used afterwards ranks higher or lower; nothing is written.

    Only ids are shown, no text. Searches are recorded while the policy's `record_searches` is true.
    """
    wanted = decode(body, ReplayRequest)
    wish = Wish(wanted.policy, wanted.preset, wanted.searches, wanted.again)
    return shapes.answer(_replay(search_replays.replay(caller.tenant_id, wish), wanted.examples))


@router.post("/fit", summary="Fit the ranking's weights to what was used", responses=NOT_RECORDED)
def fit(caller: Maintainer, body: Body) -> Response:
    """Weights under which used memories rank higher in searches that the fit never saw; nothing is applied.

    `policy` holds the fields to change, as `PUT /v1/policy` takes them; null where `reason` says why there are none.
    """
    found = search_replays.fit(caller.tenant_id, decode(body, FitRequest).searches)
    shown = {
        "searches": found.searches,
        "pairs": found.pairs,
        "reciprocal_rank": {"before": found.before, "after": found.after, "difference": _interval(found.difference)},
        "policy": {"ranking": found.weights} if found.weights else None,
        "reason": found.reason,
    }
    return shapes.answer(shown)


def _replay(found: Replay, examples: int) -> dict[str, Any]:
    return {
        "changes": [{"field": one.field, "from": one.before, "to": one.after} for one in found.changes],
        "again": found.again,
        "vitals": found.vitals,
        "left_out": found.left_out,
        **_comparison(found.comparison),
        "examples": [_example(pair) for pair in _most_changed(found.pairs)[:examples]],
    }


def _comparison(found: Comparison) -> dict[str, Any]:
    return {
        "searches": found.searches,
        "as_answered": found.as_answered,
        "changed": {f"top_{depth}": count for depth, count in found.changed.items()},
        "overlap": {f"top_{depth}": round(share, 4) for depth, share in found.overlap.items()},
        "uses": None if found.uses is None else _uses(found.uses),
    }


def _uses(found: Uses) -> dict[str, Any]:
    return {
        "searches": found.searches,
        "memories": found.uses,
        "recall_at_10": {
            "before": found.before.recall,
            "after": found.after.recall,
            "difference": _interval(found.recall),
        },
        "reciprocal_rank": {
            "before": found.before.reciprocal_rank,
            "after": found.after.reciprocal_rank,
            "difference": _interval(found.reciprocal_rank),
        },
    }


def _interval(found: Interval | None) -> dict[str, float] | None:
    return None if found is None else found._asdict()


def _most_changed(pairs: list[Pair]) -> list[Pair]:
    """Return the searches whose best ten change, those that keep the least of them first."""
    changed = [pair for pair in pairs if list(pair.before[:SHOWN]) != list(pair.after[:SHOWN])]
    return sorted(changed, key=lambda pair: len(set(pair.before[:SHOWN]).intersection(pair.after[:SHOWN])))


def _example(pair: Pair) -> dict[str, Any]:
    return {
        "search_id": pair.search_id,
        "before": list(pair.before[:SHOWN]),
        "after": list(pair.after[:SHOWN]),
        "used": sorted(pair.used),
    }
