"""Requests, job tracking and output of `ebbing maintain`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Request, Stub, problem

JOB = "GET /v1/jobs/j1"
NOTHING = {"looked_at": 0, "active": 0, "archived": 0, "cold": 0, "deleted": 0}
each = pytest.mark.parametrize("kind", ["sweep", "rebase", "archive"])


def job(status: str, done: int = 0, **more: Any) -> Reply:
    shown = {"id": "j1", "kind": "sweep", "status": status, "total": 3, "done": done, "counts": {}, "error": None}
    return Reply(200, shown | more)


@pytest.fixture(autouse=True)
def _started(api: Stub, pauses: list[float]) -> None:
    for kind in ("sweep", "rebase", "archive"):
        api.replies[f"POST /v1/maintenance/{kind}"] = Reply(202, {"job_id": "j1"})
    api.replies[JOB] = [job("queued"), job("running", 1), job("done", 3, counts={"archived": 2, "cold": 1})]


@each
def test_it_starts_a_job_and_names_it(cli: Cli, api: Stub, kind: str) -> None:
    assert cli("maintain", kind).out == "started job j1\n"
    assert json.loads(cli("maintain", kind, "--json", "--as-of", "2026-01-01T00:00:00Z").out) == {"job_id": "j1"}
    assert [(asked.path, asked.json) for asked in api.asked] == [
        (f"/v1/maintenance/{kind}", {}),
        (f"/v1/maintenance/{kind}", {"as_of": "2026-01-01T00:00:00+00:00"}),
    ]


@each
def test_it_waits_where_that_is_wanted(cli: Cli, api: Stub, pauses: list[float], kind: str) -> None:
    done = cli("maintain", kind, "--wait")
    assert (done.code, done.out) == (0, "3 memories processed; new tiers: 2 to archived, 1 to cold\n")
    assert len(pauses) == 2
    api.replies[JOB] = job("done", 3)
    assert cli("maintain", kind, "--wait").out == "3 memories processed; no tier changes\n"
    assert json.loads(cli("maintain", kind, "--wait", "--json").out) == job("done", 3).body


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_job_that_fails_fails_the_command(cli: Cli, api: Stub, status: str) -> None:
    api.replies[JOB] = job(status, 1, error="ValueError")
    done = cli("maintain", "sweep", "--wait")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"ebbing: job j1 {status} (ValueError); completed work is not reverted\n"
    done = cli("maintain", "sweep", "--wait", "--json")
    assert (done.code, json.loads(done.out)["status"]) == (1, status)


def pages(asked: Request) -> Reply:
    """Reply with three changes on two pages."""
    changes = [{"id": f"m{n}", "from": "active", "to": "cold", "rule": "decay", "why": f"weak {n}"} for n in range(3)]
    if "cursor" not in asked.json:
        return Reply(
            200, {"changes": changes[:2], "counts": {**NOTHING, "looked_at": 5, "cold": 2}, "next_cursor": "c"}
        )
    return Reply(200, {"changes": changes[2:], "counts": {**NOTHING, "looked_at": 3, "cold": 1}, "next_cursor": None})


@each
def test_a_dry_run_shows_all_pages_as_one(cli: Cli, api: Stub, kind: str) -> None:
    api.replies[f"POST /v1/maintenance/{kind}"] = pages
    done = cli("maintain", kind, "--dry-run", "--as-of", "2030-01-01T00:00:00Z")
    assert done.code == 0
    assert all(f"m{n}" in done.out and f"weak {n}" in done.out for n in range(3))
    assert done.out.endswith("8 memories due; new tiers: 3 to cold\n")
    asked = {"dry_run": True, "as_of": "2030-01-01T00:00:00+00:00", "limit": 1000}
    assert [each.json for each in api.asked] == [asked, {**asked, "cursor": "c"}]
    shown = json.loads(cli("maintain", kind, "--dry-run", "--json").out)
    assert [change["id"] for change in shown["changes"]] == ["m0", "m1", "m2"]
    assert shown["counts"] == {**NOTHING, "looked_at": 8, "cold": 3}


def test_a_dry_run_in_which_nothing_changes_shows_no_table(cli: Cli, api: Stub) -> None:
    api.replies["POST /v1/maintenance/sweep"] = Reply(200, {"changes": [], "counts": NOTHING, "next_cursor": None})
    assert cli("maintain", "sweep", "--dry-run").out == "0 memories due; no tier changes\n"


def test_a_long_list_is_cut_for_people_alone(cli: Cli, api: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.maintenance.maintain.SHOWN", 2)
    api.replies["POST /v1/maintenance/sweep"] = pages
    shown = cli("maintain", "sweep", "--dry-run").out
    assert "m2" not in shown
    assert "… and 1 more" in shown


def test_a_refusal_is_told(cli: Cli, api: Stub) -> None:
    error = {"field": "as_of", "message": "is in the future: only a dry run accepts a future time"}
    api.replies["POST /v1/maintenance/sweep"] = Reply(422, problem(422, "invalid", error))
    done = cli("maintain", "sweep", "--as-of", "2999-01-01T00:00:00Z")
    assert done.code != 0
    assert "is in the future" in done.err


def test_deleting_is_asked_about_and_listing_isnt(cli: Cli, api: Stub) -> None:
    path = "/v1/maintenance/delete"
    api.replies[f"POST {path}"] = Reply(202, {"job_id": "j1"})
    asked = cli("maintain", "delete", given="n\n")
    assert (asked.code, api.asked) == (1, [])
    assert "can't be undone" in asked.err
    assert "j1" in cli("maintain", "delete", "--yes").out
    page: dict[str, Any] = {"changes": [], "counts": {"looked_at": 2, "deleted": 0}, "next_cursor": None}
    api.replies[f"POST {path}"] = Reply(200, page)
    assert "2 memories due; no tier changes" in cli("maintain", "delete", "--dry-run").out
