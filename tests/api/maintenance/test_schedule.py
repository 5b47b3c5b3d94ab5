"""`/v1/schedule`: due times, results of runs, and manual control."""

from __future__ import annotations

import pytest

from app.domain.policy.night_hours import Night
from app.domain.policy.policy import Policy
from app.services.jobs import runner, schedule
from app.services.monitoring import fleet_gauges
from app.settings import settings
from tests.api.caller import Api, fields
from tests.service import Tenant
from tests.waiting import PATIENCE_SECONDS

RUN = {
    *("id", "name", "kind", "local_date", "scheduled_for", "late_seconds", "coalesced", "skipped", "status"),
    *("started_at", "finished_at", "seconds", "step", "left", "failed", "done", "counts", "error", "job_id"),
}


@pytest.fixture
def tenant(api: Api) -> Tenant:
    made = api.service.tenant(Policy(time_zone="Europe/Berlin", night=Night(starts_at="03:30")))
    schedule.insert_due_runs(["night"])
    return made


def test_a_schedule_shows_its_times_and_its_last_run(api: Api, tenant: Tenant) -> None:
    [before] = api.get("/v1/schedule", key=tenant.key).json()["schedule"]
    assert before.pop("next_run_at") > "2026"
    assert before == {
        "name": "night",
        "paused": False,
        "late_seconds": 0,
        "time_zone": "Europe/Berlin",
        "starts_at": "03:30",
        "jitter_seconds": 3600,
        "catch_up_hours": 24,
        "last_run": None,
    }
    started = api.post("/v1/schedule/night/run", key=tenant.key)
    assert started.status_code == 202
    runner.run_slice(started.json()["job_id"])
    [after] = api.get("/v1/schedule", key=tenant.key).json()["schedule"]
    assert after["last_run"].keys() == RUN
    assert (after["last_run"]["id"], after["last_run"]["status"]) == (started.json()["id"], "done")
    night = api.get("/v1/stats", key=tenant.key).json()["last_night"]
    assert night.keys() == {"local_date", "status", "late_seconds", "seconds", "failed_steps"}
    assert (night["status"], night["failed_steps"]) == ("done", [])


def test_it_is_shown_how_late_a_night_is(api: Api, tenant: Tenant) -> None:
    api.service.rows("UPDATE schedules SET next_run_at = now() - interval '1 hour'")
    [shown] = api.get("/v1/schedule", key=tenant.key).json()["schedule"]
    assert 3600 <= shown["late_seconds"] < 3600 + PATIENCE_SECONDS
    fleet_gauges.refresh(thoroughly=True)
    text = api.get("/metrics", key=None).text
    assert 'ebbing_night_failed{step="sweep"} 0.0' in text
    assert float(text.partition("\nebbing_night_overdue_seconds ")[2].partition("\n")[0]) >= 3600
    assert api.post("/v1/schedule/night/pause", key=tenant.key).json()["late_seconds"] == 0
    assert api.post("/v1/schedule/night/resume", key=tenant.key).json()["late_seconds"] >= 3600


def test_runs_are_listed_newest_first_page_by_page(api: Api, tenant: Tenant) -> None:
    made = []
    for _ in range(5):
        made.append(api.post("/v1/schedule/night/run", key=tenant.key).json()["id"])
        api.service.rows("UPDATE jobs SET status = 'done'")
    found, params = [], {"limit": "2"}
    while True:
        page = api.get("/v1/schedule/night/runs", params=params, key=tenant.key).json()
        found += [run["id"] for run in page["runs"]]
        if page["next_cursor"] is None:
            break
        params["cursor"] = page["next_cursor"]
    assert found == made[::-1]


@pytest.mark.parametrize("path", ["day/run", "day/pause", "day/resume", "%00/run"])
def test_an_unknown_name_is_404_and_says_which_there_are(api: Api, tenant: Tenant, path: str) -> None:
    answer = api.post(f"/v1/schedule/{path}", key=tenant.key)
    assert answer.status_code == 404
    assert "night" in answer.json()["detail"]
    fields(answer)


@pytest.mark.parametrize(
    "night", [{"starts_at": "24:00"}, {"starts_at": "2:00"}, {"jitter_seconds": -1}, {"catch_up_hours": 0}, {"x": 1}]
)
def test_a_night_that_cannot_be_is_refused(api: Api, night: dict[str, object]) -> None:
    answer = api.put("/v1/policy", json={"policy": {"night": night}})
    assert answer.status_code == 422
    assert fields(answer)[0].endswith(next(iter(night)))


def test_a_dry_run_of_a_night_lists_what_each_step_would_do(api: Api, tenant: Tenant) -> None:
    api.service.monkeypatch.delenv("EBBING_MASTER_KEY")
    settings.cache_clear()
    path, then = "/v1/schedule/night/run", "2099-01-01T00:00:00Z"
    ids = api.remember("one", "two", key=tenant.key)
    page = api.post(path, json={"dry_run": True, "as_of": then, "limit": 3}, key=tenant.key).json()
    assert page.keys() == {"as_of", "steps", "changes", "next_cursor"}
    assert page["as_of"] == then
    reported = [(change["step"], change["id"], change["from"], change["to"]) for change in page["changes"]]
    assert reported == [
        ("sweep", ids[0], "active", "deleted"),
        ("sweep", ids[1], "active", "deleted"),
        ("archive", ids[0], "active", "archived"),
    ]
    rest = {"dry_run": True, "as_of": then, "cursor": page["next_cursor"]}
    following = api.post(path, json=rest, key=tenant.key).json()
    assert [(change["step"], change["id"]) for change in following["changes"]] == [("archive", ids[1])]
    assert following["next_cursor"] is None
    [cold] = [step for step in following["steps"] if step["name"] == "cold"]
    assert "no master key" in cold["note"]
    assert api.get("/v1/jobs", key=tenant.key).json()["jobs"] == [], "a dry run creates no job"
    assert fields(api.post(path, json={"as_of": then}, key=tenant.key)) == ["as_of"]
    for cursor in ("x", "AAAA", "AAAAAAAAAAAAAAAAAAAAAAE="):
        answer = api.post(path, json={"dry_run": True, "cursor": cursor}, key=tenant.key)
        assert (answer.status_code, fields(answer)) == (422, ["cursor"])
    answer = api.post("/v1/schedule/other/run", json={"dry_run": True}, key=tenant.key)
    assert answer.status_code == 404


def test_a_night_may_be_of_an_earlier_moment(api: Api, tenant: Tenant) -> None:
    then = "2026-01-01T00:00:00Z"
    run = api.post("/v1/schedule/night/run", json={"as_of": then}, key=tenant.key)
    assert run.status_code == 202
    assert api.service.one("SELECT (parameters->>'as_of')::timestamptz = %s FROM jobs", then)
    entered = "SELECT actor, details->>'kind' FROM audit WHERE action = 'job_started' AND details->>'job' = %s"
    [(actor, kind)] = api.service.rows(entered, run.json()["job_id"])
    assert (actor, kind) == (tenant.key.split("_")[1], "night"), "the audit names the caller's key"
