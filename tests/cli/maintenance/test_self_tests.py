"""`ebbing maintain selftest`, and the self-test figures in `ebbing stats` and `ebbing reviews`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

STARTED = "POST /v1/maintenance/selftest"


def job(status: str, counts: dict[str, int]) -> Reply:
    shown = {"id": "j1", "kind": "selftest", "status": status, "total": 3, "done": 3, "counts": counts, "error": None}
    return Reply(200, shown)


@pytest.fixture(autouse=True)
def _started(api: Stub, pauses: list[float]) -> None:
    api.replies[STARTED] = Reply(202, {"job_id": "j1"})


def test_it_starts_a_job_and_shows_what_came_of_it(cli: Cli, api: Stub) -> None:
    assert cli("maintain", "selftest").out == "started job j1\n"
    api.replies["GET /v1/jobs/j1"] = job("done", {"connection_passed": 2, "application_failed": 1})
    lines = [line.split() for line in cli("maintain", "selftest", "--wait").out.splitlines()]
    assert ["connection", "2", "0"] in lines
    assert ["application", "0", "1"] in lines
    api.replies["GET /v1/jobs/j1"] = job("done", {"recall_passed": 2, "recall_failed": 3, "recall_empty": 1})
    assert ["recall", "2", "3", "1"] in [
        line.split() for line in cli("maintain", "selftest", "--wait").out.splitlines()
    ]
    api.replies["GET /v1/jobs/j1"] = job("failed", {})
    assert cli("maintain", "selftest", "--wait").code == 1


def test_a_dry_run_lists_what_would_be_asked_about(cli: Cli, api: Stub) -> None:
    changes = [{"id": "m2", "kind": "connection", "from": "m1"}, {"id": "m1", "kind": "application", "from": None}]
    found = {"changes": changes, "counts": {"connection": 1, "application": 1}, "next_cursor": None}
    api.replies[STARTED] = Reply(200, found)
    out = cli("maintain", "selftest", "--dry-run", "--as-of", "2030-01-01T00:00:00Z").out
    assert ["connection", "m2", "m1"] in [line.split() for line in out.splitlines()]
    assert api.asked[-1].json == {"dry_run": True, "as_of": "2030-01-01T00:00:00+00:00"}
    assert json.loads(cli("maintain", "selftest", "--dry-run", "--json").out) == found


def test_stats_show_the_trend(cli: Cli, api: Stub) -> None:
    def one(day: str, share: float, p95: float | None) -> dict[str, Any]:
        speed = {"p50_ms": p95, "p95_ms": p95, "target_ms": 50.0}
        return {"as_of": f"{day}T02:00:00Z", "passed": {"application": share}, "tests": {"application": 20}, **speed}

    stats = {"memories": {}, "pending": {}, "lanes": {}, "dead_letters": 0}
    api.replies["GET /v1/stats"] = Reply(
        200, stats | {"self_tests": [one("2026-03-08", 0.9, 31.25), one("2026-03-01", 1, None)]}
    )
    lines = [" ".join(line.split()) for line in cli("stats").out.splitlines()]
    assert "2026-03-08 90% of 20 31 ms 31 ms 50 ms" in lines
    assert "2026-03-01 100% of 20 50 ms" in lines


def test_stats_show_own_words_beside_others_and_recall(cli: Cli, api: Stub) -> None:
    shares = {"application": 0.95, "other_words": 0.6, "recall": 0.4}
    run = {"as_of": "2026-03-08T02:00:00Z", "passed": shares, "tests": dict.fromkeys(shares, 20), "recall_empty": 0.3}
    speed = {"p50_ms": None, "p95_ms": None, "target_ms": 50.0}
    stats = {"memories": {}, "pending": {}, "lanes": {}, "dead_letters": 0, "self_tests": [run | speed]}
    api.replies["GET /v1/stats"] = Reply(200, stats)
    out = cli("stats").out
    assert all(head in out for head in ("application", "other words", "recall", "empty recalls"))
    assert "2026-03-08 95% of 20 60% of 20 40% of 20 30% 50 ms" in [" ".join(line.split()) for line in out.splitlines()]


def test_reviews_can_be_those_that_failed(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/reviews"] = Reply(200, {"reviews": [], "total": 0})
    assert cli("reviews", "--flagged").err == "no memory is flagged\n"
    assert api.asked[-1].path == "/v1/reviews?by=flagged"
    assert cli("reviews", "--flagged", "--danger").code == 2
