"""`ebbing schedule`: list, run, pause and resume."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Request, Stub

NIGHT = "/v1/schedule/night"


def run(status: str, **more: Any) -> dict[str, Any]:
    shown = {"id": "r1", "name": "night", "kind": "scheduled", "local_date": "2026-03-08", "status": status}
    printed = {"late_seconds": 4000.2, "seconds": 75, "skipped": None, "error": None, "step": None, "done": 1234}
    return {**shown, **printed, "job_id": "j1", **more}


def schedule(*, paused: bool = False, last: dict[str, Any] | None = None) -> dict[str, Any]:
    times = {"next_run_at": "2026-03-09T02:17:05Z", "late_seconds": 0, "starts_at": "02:00", "time_zone": "UTC"}
    return {"name": "night", "paused": paused, **times, "last_run": last}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (schedule(), ("night", "2026-03-09 02:17", "02:00 UTC", "none yet")),
        (schedule(paused=True, last=run("cut_short")), ("paused", "2026-03-08", "cut short", "1,234")),
    ],
)
def test_it_is_listed(cli: Cli, api: Stub, found: dict[str, Any], words: tuple[str, ...]) -> None:
    api.replies["GET /v1/schedule"] = Reply(200, {"schedule": [found]})
    shown = cli("schedule").out
    assert [word for word in words if word not in shown] == []
    assert json.loads(cli("schedule", "--json").out) == {"schedule": [found]}


def test_it_is_run_and_waited_for(cli: Cli, api: Stub, pauses: list[float]) -> None:
    api.replies[f"POST {NIGHT}/run"] = Reply(202, run("queued"))
    assert cli("schedule", "run", "night").out == "started job j1\n"
    job: dict[str, Any] = {"id": "j1", "kind": "night", "total": None, "done": 14, "status": "done"}
    job["counts"] = {"sweep": 7, "sweep.cold": 0, "promote": 7, "promote.promoted": 0}
    api.replies["GET /v1/jobs/j1"] = [Reply(200, job | {"status": "running"}), Reply(200, job)]
    done = cli("schedule", "run", "night", "--wait")
    assert (done.code, len(pauses)) == (0, 1)
    assert "night: done, 14 processed" in done.out
    counts = [line.split() for line in done.out.splitlines()][-4:-1]
    assert counts == [["promote", "7"], ["promote.promoted", "0"], ["sweep", "7"]]
    assert "promote, sweep and consolidate count examined memories" in done.out
    shown = [line.split() for line in cli("jobs", "show", "j1").out.splitlines() if line.startswith("  ")]
    assert shown == counts, "by name, and without zeros that say nothing"
    api.replies["GET /v1/jobs/j1"] = Reply(200, job | {"status": "failed"})
    done = cli("schedule", "run", "night", "--wait", "--json")
    assert (done.code, json.loads(done.out)["status"]) == (1, "failed")


def test_its_dry_run_shows_all_pages_as_one_by_step(cli: Cli, api: Stub) -> None:
    def pages(asked: Request) -> Reply:
        def page(part: str, note: str | None, following: str | None, *ids: str) -> Reply:
            counts = {"cold": len(ids)} if ids else {}
            printed = {"from": "archived", "to": "cold", "rule": "decay", "why": "weak"}
            changes = [{"step": part, "id": each, **printed} for each in ids]
            steps = [{"name": part, "counts": counts, "note": note}]
            return Reply(200, {"as_of": "then", "steps": steps, "changes": changes, "next_cursor": following})

        match asked.json.get("cursor"):
            case None:
                return page("cold", None, "c", "m1", "m2")
            case "c":
                return page("cold", None, "d", "m3")
            case _:
                return page("graphs", "moves no memory", None)

    api.replies[f"POST {NIGHT}/run"] = pages
    shown = cli("schedule", "run", "night", "--dry-run", "--as-of", "2030-01-01T00:00:00Z").out
    assert [word for word in ("m1", "m3", "weak", "3 to cold", "moves no memory") if word not in shown] == []
    asked = {"dry_run": True, "limit": 1000}
    assert [each.json for each in api.asked] == [
        {**asked, "as_of": "2030-01-01T00:00:00+00:00"},
        {**asked, "as_of": "then", "cursor": "c"},
        {**asked, "as_of": "then", "cursor": "d"},
    ]
    found = json.loads(cli("schedule", "run", "night", "--dry-run", "--json").out)
    assert [each["id"] for each in found["changes"]] == ["m1", "m2", "m3"]
    assert found["steps"][0] == {"name": "cold", "counts": {"cold": 3}, "note": None}


def test_the_dry_run_tells_decisions_of_the_sweep_from_moves(cli: Cli, api: Stub) -> None:
    parts = ("sweep", "archive")
    printed = {"id": "m1", "from": "active", "to": "archived", "rule": "decay", "why": "weak"}
    found: dict[str, Any] = {
        "as_of": "then",
        "steps": [{"name": part, "counts": {"archived": 1, "cold": 0}, "note": None} for part in parts],
        "changes": [{"step": part, **printed} for part in parts],
        "next_cursor": None,
    }
    api.replies[f"POST {NIGHT}/run"] = Reply(200, found)
    shown = cli("schedule", "run", "night", "--dry-run").out
    assert [" ".join(line.split()) for line in shown.splitlines()][-2:] == [
        "sweep 1 decided: archived",
        "archive 1 to archived",
    ]
    assert "a memory has a row for its decision and one for each move" in " ".join(shown.split())
    moves = {name: found[name][1:] for name in ("steps", "changes")}
    api.replies[f"POST {NIGHT}/run"] = Reply(200, found | moves)
    assert "decision" not in cli("schedule", "run", "night", "--dry-run").out


def test_it_rests_and_goes_on(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {NIGHT}/pause"] = Reply(200, schedule(paused=True))
    api.replies[f"POST {NIGHT}/resume"] = Reply(200, schedule())
    assert cli("schedule", "pause", "night").out == "night is paused\n"
    assert cli("schedule", "resume", "night").out.startswith("night runs next at 2026-03-09 02:17 UTC (")
    assert json.loads(cli("schedule", "resume", "night", "--json").out) == schedule()


def test_runs_are_listed_with_what_went_wrong(cli: Cli, api: Stub) -> None:
    found = [
        run("skipped", skipped="not started within 6 hours of the scheduled time", seconds=None, done=0),
        run("failed", error="cold: OSError"),
        run("cut_short", step="archive"),
    ]
    api.replies[f"GET {NIGHT}/runs"] = Reply(200, {"runs": found, "next_cursor": None})
    shown = cli("schedule", "runs", "night", "--limit", "3").out
    for words in ("skipped", "within 6 hours", "cold: OSError", "cut short", "archive", "1 h 6 min", "1 min 15 s"):
        assert words in shown
    assert [asked.path for asked in api.asked] == [f"{NIGHT}/runs?limit=3"]
