"""`ebbing restore`: immediately, or by a job that the command can wait for."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Cli
from tests.cli.stub import Reply, Stub

JOB = {"id": "j1", "kind": "restore", "status": "done", "total": 1, "done": 1, "error": None}


@pytest.fixture(autouse=True)
def _two(api: Stub, pauses: list[float]) -> None:
    api.replies["POST /v1/memories/m1/restore"] = Reply(200, {"id": "m1", "tier": "active"})
    api.replies["POST /v1/memories/m2/restore"] = Reply(202, {"job_id": "j1"})
    api.replies["GET /v1/jobs/j1"] = Reply(200, JOB | {"counts": {"restored": 1, "failed": 0}})


def test_each_memory_is_told_of(cli: Cli, api: Stub) -> None:
    assert cli("restore", "m1", "m2").out == "m1 is active\nm2 is being restored by job j1\n"
    assert json.loads(cli("restore", "m1", "m2", "--json").out) == {
        "restored": [{"id": "m1", "job_id": None}, {"id": "m2", "job_id": "j1"}]
    }
    assert cli("restore", "m2", "--wait").out == "m2 is active\n"


def test_what_could_not_be_fetched_fails_the_command(cli: Cli, api: Stub) -> None:
    api.replies["GET /v1/jobs/j1"] = Reply(200, JOB | {"counts": {"restored": 0, "failed": 1}})
    done = cli("restore", "m2", "--wait")
    assert (done.code, done.out) == (1, "")
    assert "ebbing jobs show j1" in done.err
