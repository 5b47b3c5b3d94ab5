"""Self-tests page: results by run, charts, and memories flagged by failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fastapi import APIRouter, Request, Response

from app.api.http.cursors import TIMED
from app.dashboard import rendering
from app.dashboard.access import AnyViewer, Maintaining
from app.dashboard.rendering import redirect_back
from app.dashboard.svg_charts import ChartLine, Level
from app.domain.evaluation.self_test_rules import KINDS, count_tests, empty_share, is_recall_empty
from app.services.evaluation import self_tests
from app.services.jobs import queue
from app.services.strength import current_policy
from app.services.uses import reviews
from app.store.self_tests import SelfTestRun

RUNS: Final = 30
FLAGGED: Final = 100
DRAWN: Final[Mapping[str, str]] = {
    "connection": "a",
    "application": "b",
    "other_words": "cold",
    "recall": "deleted",
    "coherence": "archived",
}
"""Line colour by kind of memory test; search latency has a separate chart."""
ASKS: Final[Mapping[str, str]] = {
    "connection": "a search for one memory finds a linked memory by words and links only",
    "application": "a question in the memory's own words finds the memory",
    "other_words": "a paraphrased question finds the memory",
    "recall": "recall returns the memory for the paraphrased question",
    "coherence": "a summary contains the key points of its sources",
}

router = APIRouter(prefix="/tests")


@dataclass(frozen=True)
class Charts:
    """Chart data: pass rates in percent by kind, and latencies in milliseconds, over time."""

    passed: list[ChartLine]
    speed: list[ChartLine]
    targets: list[Level]
    names: list[tuple[float, str]]


@router.get("")
def show_runs(viewer: AnyViewer, request: Request, cursor: str | None = None) -> Response:
    """Show runs, newest first, with charts of completed runs."""
    found = self_tests.list_runs(viewer.tenant_id, TIMED.decode(cursor), RUNS)
    flagged = reviews.list_flagged(viewer.tenant_id, FLAGGED + 1)
    return rendering.page(
        request,
        viewer,
        "self_tests",
        runs=found,
        charts_of=_charts([run for run in reversed(found) if run.finished_at]),
        kinds=KINDS,
        drawn=DRAWN,
        asks=ASKS,
        share=_share,
        empty_share=empty_share,
        is_recall_empty=is_recall_empty,
        flagged=flagged[:FLAGGED],
        flagged_more=len(flagged) > FLAGGED,
        rules=current_policy.read(viewer.tenant_id).self_tests,
        following=TIMED.encode(found.following),
        is_first=cursor is None,
    )


@router.post("/run")
def start_run(acting: Maintaining) -> Response:
    """Start a run, even if none is due."""
    acting.record("run_self_tests")
    queue.create(acting.tenant_id, self_tests.KIND, {}, actor=acting.key_id)
    return redirect_back("/tests", "tested")


def _share(run: SelfTestRun, kind: str) -> float | None:
    """Return the pass rate of a kind in a run; None if it had no tests."""
    found = run.results.get(kind)
    return found["passed"] / count_tests(found) if found and count_tests(found) else None


def _charts(runs: Sequence[SelfTestRun]) -> Charts:
    """Build the charts from runs in chronological order."""
    passed = [
        ChartLine(
            kind,
            [(_x(run.as_of), 100 * share) for run in runs if (share := _share(run, kind)) is not None],
            DRAWN[kind],
        )
        for kind in DRAWN
    ]
    speed = [
        ChartLine("p50", [(_x(run.as_of), run.p50_ms) for run in runs if run.p50_ms is not None], "a"),
        ChartLine("p95", [(_x(run.as_of), run.p95_ms) for run in runs if run.p95_ms is not None], "b"),
    ]
    targets = [Level(f"target {runs[-1].target_ms:g} ms", runs[-1].target_ms)] if runs else []
    ends = dict.fromkeys([runs[0].as_of, runs[-1].as_of]) if runs else {}
    return Charts(passed, speed, targets, [(_x(at), f"{at:%d %b}") for at in ends])


def _x(at: datetime) -> float:
    return at.timestamp()
