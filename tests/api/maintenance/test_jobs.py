"""`/v1/jobs`: fields, pagination, and the jobs that can't be cancelled."""

from __future__ import annotations

from uuid import UUID

import pytest

from app.domain.jobs import Job, Step
from app.services.jobs import queue, runner
from tests.api.caller import Api, fields
from tests.services.job_kinds import set_kind

SHAPE = {
    *("id", "kind", "status", "parameters", "total", "done", "counts", "error"),
    *("created_at", "started_at", "finished_at", "cancel_wanted"),
}


def step(_: Job) -> Step:
    return Step(5, {"secret": "of the step"}, finished=True, total=5, counts={"embedded": 5}, notes=("5 done",))


@pytest.fixture(autouse=True)
def _kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("test", "other"):
        set_kind(monkeypatch, kind, step)


def make(api: Api, kind: str = "test") -> UUID:
    return queue.create(api.tenant.tenant_id, kind, {"model": "m"}, lone=False)


def test_a_job_is_shown_from_its_start_to_its_end(api: Api) -> None:
    job_id = make(api)
    before = api.get(f"/v1/jobs/{job_id}").json()
    assert before.keys() == SHAPE | {"log"}
    assert (before["id"], before["kind"], before["status"]) == (str(job_id), "test", "queued")
    assert (before["parameters"], before["total"], before["done"]) == ({"model": "m"}, None, 0)
    assert (before["started_at"], before["finished_at"], before["log"]) == (None, None, [])
    runner.run_slice(job_id)
    after = api.get(f"/v1/jobs/{job_id}").json()
    assert (after["status"], after["total"], after["done"], after["counts"]) == ("done", 5, 5, {"embedded": 5})
    assert [line["message"] for line in after["log"]] == ["5 done"]
    assert after["started_at"] <= after["log"][0]["at"] <= after["finished_at"]


def test_jobs_are_listed_newest_first_page_by_page(api: Api) -> None:
    made = [str(make(api)) for _ in range(5)]
    api.service.rows("UPDATE jobs SET created_at = now() WHERE job_id = ANY(%s::uuid[])", made[1:3])  # same instant
    found, cursor = [], None
    while True:
        page = api.get("/v1/jobs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
        assert all(job.keys() == SHAPE for job in page["jobs"])
        found += [(job["created_at"], job["id"]) for job in page["jobs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert {job_id for _, job_id in found} == set(made)
    assert len(found) == 5
    assert [moment for moment, _ in found] == sorted((moment for moment, _ in found), reverse=True)


def test_jobs_are_listed_by_status_and_kind(api: Api) -> None:
    done, other = make(api), make(api, "other")
    runner.run_slice(done)
    for params, wanted in (
        ({"status": "done"}, [done]),
        ({"status": "queued"}, [other]),
        ({"kind": "other"}, [other]),
        ({"kind": "other", "status": "done"}, []),
        ({"kind": "none"}, []),
    ):
        assert [job["id"] for job in api.get("/v1/jobs", params=params).json()["jobs"]] == [str(i) for i in wanted]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"status": "lost"}, "status"),
        ({"limit": 0}, "limit"),
        ({"limit": 501}, "limit"),
        ({"kind": "\0"}, "kind"),
        ({"cursor": "x"}, "cursor"),
        ({"cursor": "é"}, "cursor"),
        ({"cursor": "f" + "_" * 31}, "cursor"),
    ],
    ids=str,
)
def test_a_list_that_cannot_be_given_says_why(api: Api, params: dict[str, str], field: str) -> None:
    answer = api.get("/v1/jobs", params=params)
    assert answer.status_code == 422
    assert fields(answer) == [field]


def test_a_job_is_cancelled_once_it_is_its_turn(api: Api) -> None:
    job_id = make(api)
    answer = api.post(f"/v1/jobs/{job_id}/cancel")
    assert answer.status_code == 202
    assert (answer.json()["status"], answer.json()["cancel_wanted"]) == ("queued", True)
    assert api.post(f"/v1/jobs/{job_id}/cancel").status_code == 202, "cancelling an unfinished job is repeatable"
    runner.run_slice(job_id)
    assert api.get(f"/v1/jobs/{job_id}").json()["status"] == "cancelled"
    ended = api.post(f"/v1/jobs/{job_id}/cancel")
    assert ended.status_code == 409
    assert "cancelled" in ended.json()["detail"]
    fields(ended)
