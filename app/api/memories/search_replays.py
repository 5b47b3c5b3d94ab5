"""`/v1/policy/replay` and `/v1/policy/fit`: replay recorded searches and fit ranking weights to reported uses."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Response

from app.api.http import responses
from app.api.http.auth import Maintainer
from app.api.http.request_body import json_body
from app.domain.search.policy_comparison import Comparison, MeanInterval, ReplayedSearch, UsedRanks
from app.services.search import search_replays
from app.services.search.search_replays import SEARCHES_MAX, ReplayOptions, SearchReplay

router = APIRouter(prefix="/v1/policy", tags=["policy"])

EXAMPLES_MAX = 100
SHOWN = 10
NOT_RECORDED: dict[int | str, dict[str, Any]] = {409: {"description": "The current policy does not record searches"}}

_Searches = Annotated[int, msgspec.Meta(ge=1, le=SEARCHES_MAX)]


class ReplayRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a replay of recorded searches.

    Attributes:
        policy: Fields that differ from the current policy; null resets a field to its default.
        preset: Preset to apply before the fields.
        searches: Number of the newest recorded searches to replay, 1 to 10,000.
        again: Run the searches again on the current memories (at most the newest 500) instead of re-ranking the
            recorded candidates. Uses the recorded vectors and terms, without signals from the query's wording.
        examples: Number of most-changed searches to list, 0 to 100.
    """

    policy: dict[str, Any] = {}
    preset: str | None = None
    searches: _Searches = 1000
    again: bool = False
    examples: Annotated[int, msgspec.Meta(ge=0, le=EXAMPLES_MAX)] = 5


class FitRequest(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Options of a weight fit.

    Attributes:
        searches: Number of the newest recorded searches to read, 1 to 10,000.
    """

    searches: _Searches = SEARCHES_MAX


@router.post("/replay", summary="Replay recorded searches under another policy", responses=NOT_RECORDED)
def replay(caller: Maintainer, wanted: Annotated[ReplayRequest, Depends(json_body(ReplayRequest))]) -> Response:
    """Return how results change, and whether memories that callers used rank higher or lower. Read-only.

    The response contains only ids, no text. Searches are recorded while the policy's `record_searches` is true.
    """
    wish = ReplayOptions(wanted.policy, wanted.preset, wanted.searches, wanted.again)
    return responses.answer(_replay(search_replays.replay_searches(caller.tenant_id, wish), wanted.examples))


@router.post("/fit", summary="Fit ranking weights to reported uses", responses=NOT_RECORDED)
def fit(caller: Maintainer, wanted: Annotated[FitRequest, Depends(json_body(FitRequest))]) -> Response:
    """Propose weights that rank used memories higher in held-out searches. Nothing is applied.

    `policy` contains the fields for `PUT /v1/policy`; if there is no proposal, it is null and `reason` explains why.
    """
    found = search_replays.fit_ranking(caller.tenant_id, wanted.searches)
    shown = {
        **responses.pick(found, "searches", "pairs", "reason"),
        "reciprocal_rank": {"before": found.before, "after": found.after, "difference": _interval(found.difference)},
        "policy": {"ranking": found.weights} if found.weights else None,
    }
    return responses.answer(shown)


def _replay(found: SearchReplay, examples: int) -> dict[str, Any]:
    return {
        "changes": [{"field": one.field, "from": one.before, "to": one.after} for one in found.changes],
        **responses.pick(found, "again", "vitals", "left_out"),
        **_comparison(found.comparison),
        "examples": [_example(pair) for pair in _most_changed(found.pairs)[:examples]],
    }


def _comparison(found: Comparison) -> dict[str, Any]:
    return {
        **responses.pick(found, "searches", "as_answered"),
        "changed": {f"top_{depth}": count for depth, count in found.changed.items()},
        "overlap": {f"top_{depth}": round(share, 4) for depth, share in found.overlap.items()},
        "uses": None if found.uses is None else _uses(found.uses),
    }


def _uses(found: UsedRanks) -> dict[str, Any]:
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


def _interval(found: MeanInterval | None) -> dict[str, float] | None:
    return None if found is None else found._asdict()


def _most_changed(pairs: list[ReplayedSearch]) -> list[ReplayedSearch]:
    """Return the searches whose top ten changed, smallest overlap first."""
    changed = [pair for pair in pairs if list(pair.before[:SHOWN]) != list(pair.after[:SHOWN])]
    return sorted(changed, key=lambda pair: len(set(pair.before[:SHOWN]).intersection(pair.after[:SHOWN])))


def _example(pair: ReplayedSearch) -> dict[str, Any]:
    return {
        "id": pair.search_id,
        "search_id": pair.search_id,  # deprecated name of `id`
        "before": list(pair.before[:SHOWN]),
        "after": list(pair.after[:SHOWN]),
        "used": sorted(pair.used),
    }
