"""`/v1/maintenance/selftest`, `/v1/self-tests`, and the self-test figures in `/v1/stats` and `/v1/reviews`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.domain.evaluation.self_test_rules import SelfTests
from app.domain.policy.policy import Policy
from app.services.jobs import runner
from tests.api.caller import Api, fields
from tests.services.backdated import age

PATH = "/v1/maintenance/selftest"


@pytest.fixture(autouse=True)
def _unsent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.queues.enqueue", lambda *_, **__: None)


@pytest.fixture
def alike(api: Api) -> list[str]:
    """Ids of two memories so similar that a question for either ranks the same one first."""
    api.tenant = api.service.tenant(Policy(self_tests=SelfTests(found_within=1)))
    ids = api.remember(*(f"The quiet budget meeting on Monday was about {name}" for name in "AB"))
    age(api.service, 20, *ids)
    return ids


def run(api: Api, **body: Any) -> dict[str, Any]:
    answer = api.post(PATH, json=body)
    assert answer.status_code == 202, answer.text
    job_id = answer.json()["job_id"]
    runner.run_slice(UUID(job_id))
    found: dict[str, Any] = api.get(f"/v1/jobs/{job_id}").json()
    return found


def test_a_dry_run_names_the_memories(api: Api, alike: list[str]) -> None:
    [first, second] = alike
    api.post("/v1/links", json={"from": first, "to": second})
    found = api.post(PATH, json={"dry_run": True}).json()
    assert found["counts"] == {"connection": 1, "application": 2, "other_words": 2, "recall": 2}
    assert found["changes"][0] == {"id": second, "kind": "connection", "from": first}
    assert api.get("/v1/self-tests").json() == {"runs": [], "next_cursor": None}


def test_a_run_is_listed_shown_and_followed_by_reviews(api: Api, alike: list[str]) -> None:
    job = run(api)
    assert (job["status"], job["total"], job["done"]) == ("done", 6, 6)
    assert (job["counts"]["application_passed"], job["counts"]["application_failed"]) == (1, 1)
    asked = {"passed", "failed"}
    for kind in ("other_words", "recall"):
        assert sum(job["counts"].get(f"{kind}_{outcome}", 0) for outcome in asked) == 2
    run(api)
    page = api.get("/v1/self-tests", params={"limit": 1}).json()
    [newest] = page["runs"]
    assert newest["results"]["application"] == {"passed": 1, "failed": 1}
    older = api.get("/v1/self-tests", params={"limit": 1, "cursor": page["next_cursor"]}).json()["runs"]
    assert older[0]["started_at"] < newest["started_at"]
    [last, _] = api.get("/v1/stats").json()["self_tests"]
    assert last["passed"]["application"] == 0.5
    recall = newest["results"]["recall"]
    assert last["recall_empty"] == recall["empty"] / (recall["passed"] + recall["failed"])
    flagged = api.get("/v1/reviews", params={"by": "flagged"}).json()
    [entry] = flagged["reviews"]
    assert entry["id"] in alike
    assert (entry["flagged"], entry["review_count"], entry["reviewed_at"]) == (True, 0, None)
    assert "Monday" not in str(page), "questions and answers must not be shown"


def test_a_moment_to_come_is_for_a_dry_run_alone(api: Api) -> None:
    later = "2999-01-01T00:00:00Z"
    assert api.post(PATH, json={"dry_run": True, "as_of": later}).status_code == 200
    assert fields(api.post(PATH, json={"as_of": later})) == ["as_of"]
    assert fields(api.get("/v1/self-tests", params={"cursor": "x"})) == ["cursor"]
