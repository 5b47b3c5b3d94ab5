"""`POST /v1/maintenance/sweep`, `/rebase` and `/archive`: the jobs they create and what a dry run lists."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.services.jobs import runner
from tests.api.caller import Api, fields

SWEEP, REBASE, ARCHIVE = (f"/v1/maintenance/{kind}" for kind in ("sweep", "rebase", "archive"))
both = pytest.mark.parametrize("path", [SWEEP, REBASE, ARCHIVE])


@pytest.fixture
def ids(api: Api) -> list[str]:
    """Ids of five memories of different ages, none yet evaluated; another tenant has one memory."""
    found = api.remember("a year", "a month and a half", "two weeks", "a week", "today")
    api.remember("another's", key=api.admin.key)
    api.service.rows("UPDATE policies SET effective_at = '2000-01-01T00:00:00Z'")
    for memory_id, age in zip(found, (365, 45, 14, 8, 0), strict=True):
        moment = datetime.now(UTC) - timedelta(days=age)
        api.service.rows(
            "UPDATE memory_state SET created_at = %s, accessed_at = %s, anchored_at = %s, salience = 0 "
            "WHERE memory_id = %s",
            *[moment] * 3,
            memory_id,
        )
        api.service.rows("UPDATE memories SET created_at = %s WHERE memory_id = %s", moment, memory_id)
    return found


def listed(api: Api, path: str, **body: Any) -> dict[str, Any]:
    answer = api.post(path, json={"dry_run": True, **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def worked(api: Api, job_id: str) -> dict[str, Any]:
    """Run the job and return it."""
    [(found,)] = api.service.rows("SELECT job_id FROM jobs WHERE job_id = %s", job_id)
    runner.run_slice(found)
    shown: dict[str, Any] = api.get(f"/v1/jobs/{job_id}").json()
    return shown


def test_a_dry_run_lists_what_a_sweep_then_changes(api: Api, ids: list[str]) -> None:
    found = listed(api, SWEEP)
    assert found["next_cursor"] is None
    assert found["counts"] == {"looked_at": 5, "active": 0, "archived": 1, "cold": 1, "deleted": 1}
    assert [(change["id"], change["from"], change["to"]) for change in found["changes"]] == [
        (ids[0], "active", "deleted"),
        (ids[1], "active", "cold"),
        (ids[2], "active", "archived"),
    ]
    assert {change["rule"] for change in found["changes"]} == {"decay"}
    assert all(change["why"].startswith("strength ") for change in found["changes"])
    assert {change["rule"] for change in found["changes"]} == {"decay"}
    started = api.post(SWEEP, json={})
    assert started.status_code == 202
    job = worked(api, started.json()["job_id"])
    assert (job["kind"], job["status"], job["total"], job["done"]) == ("sweep", "done", 5, 5)
    assert job["counts"] == {"archived": 1, "cold": 1, "deleted": 1}
    assert listed(api, SWEEP) == {"changes": [], "counts": dict.fromkeys(found["counts"], 0), "next_cursor": None}


@pytest.mark.parametrize("swept", [False, True])
def test_a_dry_run_lists_what_archiving_then_moves(api: Api, ids: list[str], *, swept: bool) -> None:
    if swept:
        worked(api, api.post(SWEEP, json={}).json()["job_id"])
    found = listed(api, ARCHIVE)
    assert found["counts"] == {"looked_at": 3 if swept else 5, "archived": 3}
    moves = [(change["id"], change["from"], change["to"], change["rule"]) for change in found["changes"]]
    assert moves == [(memory_id, "active", "archived", "decay") for memory_id in ids[:3]]
    assert [change["id"] for change in listed(api, ARCHIVE, limit=2)["changes"]] == ids[:2]
    job = worked(api, api.post(ARCHIVE, json={}).json()["job_id"])
    assert (job["status"], job["counts"]["archived"]) == ("done", 3)
    assert [api.get(f"/v1/memories/{memory_id}").json()["tier"] for memory_id in ids] == ["archived"] * 3 + [
        "active"
    ] * 2
    assert api.get("/v1/stats").json()["memories"] == {"active": 2, "archived": 3, "cold": 0}
    assert listed(api, ARCHIVE)["changes"] == []


def test_a_dry_run_comes_in_pages(api: Api, ids: list[str]) -> None:
    whole, pages = listed(api, SWEEP), [listed(api, SWEEP, limit=1)]
    while cursor := pages[-1]["next_cursor"]:
        pages.append(listed(api, SWEEP, limit=1, cursor=cursor))
    assert [change["id"] for page in pages for change in page["changes"]] == ids[:3]
    for name, count in whole["counts"].items():
        assert sum(page["counts"][name] for page in pages) == count


def test_a_dry_run_looks_ahead(api: Api, ids: list[str]) -> None:
    later = (datetime.now(UTC) + timedelta(days=200)).isoformat()
    found = listed(api, SWEEP, as_of=later)
    assert [change["to"] for change in found["changes"]] == ["deleted"] * 5
    assert listed(api, SWEEP, as_of="9999-12-31T23:59:59-14:00")["counts"]["deleted"] == 5
    assert listed(api, SWEEP, as_of="0001-01-01T00:00:00+14:00")["counts"]["looked_at"] == 0


@both
def test_what_has_not_happened_yet_is_not_written(api: Api, path: str) -> None:
    answer = api.post(path, json={"as_of": (datetime.now(UTC) + timedelta(hours=1)).isoformat()})
    assert answer.status_code == 422
    assert fields(answer) == ["as_of"]
    assert "dry_run" in answer.json()["errors"][0]["message"]
    assert api.get("/v1/jobs").json()["jobs"] == []


def test_a_sweep_may_be_of_an_earlier_moment(api: Api, ids: list[str]) -> None:
    earlier = datetime.now(UTC) - timedelta(days=30)
    job = worked(api, api.post(SWEEP, json={"as_of": earlier.isoformat()}).json()["job_id"])
    assert (job["done"], job["parameters"]) == (2, {"as_of": earlier.isoformat()})


def test_a_rebase_is_of_what_is_left_under_an_older_policy(api: Api, ids: list[str]) -> None:
    worked(api, api.post(SWEEP, json={}).json()["job_id"])
    assert listed(api, REBASE)["counts"]["looked_at"] == 0
    api.service.rows(
        "INSERT INTO policies (tenant_id, version, body) VALUES (%s, 2, %s)",
        api.tenant.tenant_id,
        '{"tiers": {"archived_below": 0.99}}',
    )
    found = listed(api, REBASE)
    assert found["counts"]["looked_at"] == 5
    assert [(change["id"], change["from"], change["to"]) for change in found["changes"]] == [
        (ids[3], "active", "archived")
    ]
    job = worked(api, api.post(REBASE, json={}).json()["job_id"])
    assert (job["kind"], job["status"], job["done"], job["counts"]) == ("rebase", "done", 5, {"archived": 1})


@both
def test_asked_twice_it_is_one_job(api: Api, path: str) -> None:
    first, second = (api.post(path, json={}).json()["job_id"] for _ in range(2))
    assert first == second


@both
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"as_of": "2026-01-01T00:00:00"}, "as_of"),
        ({"as_of": "yesterday"}, "as_of"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
        ({"dry_run": True, "cursor": "x"}, "cursor"),
        ({"dry_run": 1}, "dry_run"),
        ({"tenant": "x"}, "tenant"),
    ],
)
def test_what_makes_no_sense_is_named(api: Api, path: str, body: dict[str, Any], field: str) -> None:
    answer = api.post(path, json=body)
    assert answer.status_code == 422
    assert fields(answer) == [field]
