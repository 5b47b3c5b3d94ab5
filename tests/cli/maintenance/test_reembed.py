"""Requests, job tracking and output of `ebbing reembed`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Request, Stub, problem

START = "POST /v1/maintenance/reembed"
JOB = "GET /v1/jobs/j1"


def job(status: str, done: int = 0, **more: Any) -> Reply:
    shown = {"id": "j1", "kind": "reembed", "status": status, "total": 3, "done": done, "counts": {}, "error": None}
    return Reply(200, shown | more)


@pytest.fixture(autouse=True)
def _started(api: Stub, pauses: list[float]) -> None:
    api.replies[START] = Reply(202, {"job_id": "j1"})
    api.replies[JOB] = [job("queued"), job("running", 1), job("done", 3)]


def test_it_waits_until_the_job_is_done(cli: Cli, api: Stub, pauses: list[float]) -> None:
    done = cli("reembed")
    assert (done.code, done.out) == (0, "3 memories embedded; searches use the new model\n")
    assert [asked.method for asked in api.asked] == ["POST", "GET", "GET", "GET"]
    assert api.asked[0].json == {}
    assert len(pauses) == 2


def test_json_is_the_job_as_it_ended(cli: Cli) -> None:
    assert json.loads(cli("reembed", "--json").out) == job("done", 3).body


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_job_that_fails_fails_the_command(cli: Cli, api: Stub, status: str) -> None:
    api.replies[JOB] = job(status, 1, error="Conflict")
    done = cli("reembed")
    assert (done.code, done.out) == (1, "")
    assert done.err == f"ebbing: job j1 {status} (Conflict); searches still use the old model\n"
    done = cli("reembed", "--json")
    assert (done.code, json.loads(done.out)["status"]) == (1, status)


def test_what_was_set_aside_is_told(cli: Cli, api: Stub) -> None:
    api.replies[JOB] = job("done", 2, counts={"set_aside": 1})
    done = cli("reembed")
    assert done.code == 0
    assert "1 couldn't be embedded" in done.err


def test_it_need_not_be_waited_for(cli: Cli, api: Stub) -> None:
    assert cli("reembed", "--no-wait").out == "started job j1\n"
    assert json.loads(cli("reembed", "--no-wait", "--json").out) == {"job_id": "j1"}
    api.replies[START] = Reply(202, {"job_ids": ["j1", "j2"]})
    assert cli("reembed", "--no-wait", "--every-tenant").out == "started job j1\nstarted job j2\n"
    assert [asked.method for asked in api.asked] == ["POST"] * 3


def test_a_dry_run_counts(cli: Cli, api: Stub) -> None:
    api.replies[START] = Reply(200, {"changes": [], "counts": {"memories": 1204, "tenants": 1}})
    assert cli("reembed", "--dry-run").out == "1,204 memories would be embedded\n"
    assert json.loads(cli("reembed", "--dry-run", "--json").out) == {"counts": {"memories": 1204, "tenants": 1}}
    assert [asked.json for asked in api.asked] == [{"dry_run": True}] * 2


def every(*left: tuple[int, int]) -> Any:
    """Reply as a service with two tenants to re-embed; each count returns the next of these (memories, tenants)."""
    counts = list(left)

    def reply(asked: Request) -> Reply:
        if not asked.json.get("dry_run"):
            return Reply(202, {"job_ids": ["j1", "j2"]})
        memories, tenants = counts.pop(0) if len(counts) > 1 else counts[0]
        return Reply(200, {"changes": [], "counts": {"memories": memories, "tenants": tenants}})

    return reply


def test_every_tenant_is_followed_by_what_is_left(cli: Cli, api: Stub) -> None:
    api.replies[START] = every((9, 2), (4, 1), (0, 1), (0, 0))
    done = cli("reembed", "--every-tenant")
    assert (done.code, done.out) == (0, "2 tenants moved\n")
    assert [asked.json for asked in api.asked[:2]] == [{"every_tenant": True}, {"every_tenant": True, "dry_run": True}]
    api.replies[START] = every((0, 0))
    shown = json.loads(cli("reembed", "--every-tenant", "--json").out)
    assert shown == {"job_ids": ["j1", "j2"], "counts": {"memories": 0, "tenants": 0}}


def test_a_standstill_of_every_tenant_fails_the_command(cli: Cli, api: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.cli.maintenance.reembed.STANDSTILL_SECONDS", 0.0)
    api.replies[START] = every((4, 1))
    done = cli("reembed", "--every-tenant")
    assert done.code == 1
    assert "4 memories of 1 tenant left and no progress" in done.err


def test_a_refusal_is_told(cli: Cli, api: Stub) -> None:
    api.replies[START] = Reply(403, problem(403, "not-allowed", detail="every_tenant needs a key of the scope 'admin'"))
    done = cli("reembed", "--every-tenant")
    assert (done.code, "scope 'admin'" in done.err) == (4, True)
