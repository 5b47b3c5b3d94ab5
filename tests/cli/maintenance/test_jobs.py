"""`ebbing jobs`: list, show, watch and cancel."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub, problem

PATH = "/v1/jobs/j1"


def job(status: str, done: int = 0, total: int | None = 4, **more: Any) -> dict[str, Any]:
    return {
        "id": "j1",
        "kind": "reembed",
        "status": status,
        "done": done,
        "total": total,
        "counts": {"embedded": done},
        "log": [{"at": "2026-03-07T12:00:00+00:00", "message": "4 of 4 done"}],
        "error": None,
        "cancel_wanted": False,
        "created_at": "2026-03-07T11:00:00Z",
        **more,
    }


def test_jobs_are_listed(cli: Cli, api: Stub) -> None:
    found = {"jobs": [job("running", 1), job("queued", 2, None, cancel_wanted=True)], "next_cursor": None}
    api.replies["GET /v1/jobs"] = Reply(200, found)
    shown = cli("jobs").out
    for words in ("reembed", "running", "1 of 4", "cancelling"):
        assert words in shown
    assert json.loads(cli("jobs", "--status", "running", "--type", "reembed", "--limit", "5", "--json").out) == found
    assert [asked.path for asked in api.asked] == [
        "/v1/jobs?limit=20",
        "/v1/jobs?status=running&kind=reembed&limit=5",
    ]


def test_a_job_is_shown_with_its_counts_and_log(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = Reply(200, job("failed", 4, error="ValueError"))
    shown = cli("jobs", "show", "j1").out
    for words in ("failed", "4 of 4", "ValueError", "embedded", "4 of 4 done"):
        assert words in shown
    assert json.loads(cli("jobs", "show", "j1", "--json").out)["log"]


def test_a_log_cannot_steer_the_terminal(cli: Cli, api: Stub) -> None:
    api.replies[f"GET {PATH}"] = Reply(200, job("done", log=[{"at": "2026-03-07T12:00:00Z", "message": "\x1b[2J"}]))
    assert "\x1b" not in cli("jobs", "show", "j1").out


@pytest.mark.parametrize(("ending", "code"), [("done", 0), ("failed", 1), ("cancelled", 1)])
def test_a_job_is_watched_until_it_ends(cli: Cli, api: Stub, pauses: list[float], ending: str, code: int) -> None:
    api.replies[f"GET {PATH}"] = [
        Reply(200, job("queued", 0, None)),
        Reply(200, job("running", 2)),
        Reply(503, problem(503, "unavailable"), {"Retry-After": "2"}),
        Reply(200, job(ending, 4)),
    ]
    done = cli("jobs", "watch", "j1")
    assert done.code == code
    assert ending in done.out
    assert pauses == [1.0, 1.0, 2.0]


def test_a_watch_with_json_prints_the_job_alone(cli: Cli, api: Stub, pauses: list[float]) -> None:
    api.replies[f"GET {PATH}"] = [Reply(200, job("running", 2)), Reply(200, job("done", 4))]
    done = cli("jobs", "watch", "j1", "--json")
    assert json.loads(done.out) == job("done", 4)
    assert done.err == ""


def test_a_job_is_cancelled(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/cancel"] = Reply(202, job("running", cancel_wanted=True))
    assert "j1" in cli("jobs", "cancel", "j1").out
    assert json.loads(cli("jobs", "cancel", "j1", "--json").out)["cancel_wanted"]


def test_a_job_that_has_ended_says_so(cli: Cli, api: Stub) -> None:
    api.replies[f"POST {PATH}/cancel"] = Reply(409, problem(409, "conflict", detail="this job has ended: it is done"))
    done = cli("jobs", "cancel", "j1")
    assert done.code == 1
    assert "it is done" in done.err


def test_an_id_is_one_part_of_the_path(cli: Cli, api: Stub) -> None:
    assert cli("jobs", "show", "../stats").code == 1
    assert [asked.path for asked in api.asked] == ["/v1/jobs/..%2Fstats"]
