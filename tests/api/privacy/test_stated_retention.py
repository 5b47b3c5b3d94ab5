"""Retention that callers state, by HTTP: `expires_at` and `keep_days` of memories, and periods of subjects."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.api.caller import Api
from tests.api.privacy.test_erasure_reports import erased

RETENTION = "/v1/privacy/subjects/retention"
FUTURE = "2126-01-01T00:00:00Z"
PAST = "2020-01-01T00:00:00Z"


def expires_at(api: Api, memory_id: object) -> Any:
    return api.get(f"/v1/memories/{memory_id}").raise_for_status().json()["expires_at"]


def refused(api: Api, body: Any) -> list[tuple[str, str]]:
    answer = api.post("/v1/memories", json=body)
    assert answer.status_code == 422
    return [(error["field"], error["message"]) for error in answer.json()["errors"]]


def test_days_count_from_the_acceptance(api: Api) -> None:
    [memory_id] = api.remember({"text": "x", "keep_days": 30}, work=False)
    pending = expires_at(api, memory_id)
    api.service.work()
    assert expires_at(api, memory_id) == pending
    created = api.get(f"/v1/memories/{memory_id}").json()["created_at"]
    assert datetime.fromisoformat(pending) - datetime.fromisoformat(created) == timedelta(days=30)


def test_messages_share_their_time(api: Api) -> None:
    body = {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], "expires_at": FUTURE}
    ids = api.post("/v1/memories", json=body).raise_for_status().json()["ids"]
    api.service.work()
    assert [expires_at(api, memory_id) for memory_id in ids] == [FUTURE, FUTURE]


def test_a_repeated_external_id_keeps_the_time_unless_it_gives_another(api: Api) -> None:
    [memory_id] = api.remember({"text": "x", "external_id": "k", "expires_at": FUTURE})
    api.remember({"text": "y", "external_id": "k"})
    assert expires_at(api, memory_id) == FUTURE
    api.remember({"text": "y", "external_id": "k", "expires_at": "2127-01-01T00:00:00Z"})
    assert expires_at(api, memory_id) == "2127-01-01T00:00:00Z"


def test_an_edit_sets_and_removes_the_time(api: Api) -> None:
    [memory_id] = api.remember("x")
    before = datetime.now(UTC)
    edited = api.patch(f"/v1/memories/{memory_id}", json={"keep_days": 1.5}).raise_for_status().json()
    assert datetime.fromisoformat(edited["expires_at"]) >= before + timedelta(days=1.5)
    assert api.patch(f"/v1/memories/{memory_id}", json={"keep_days": None}).json()["expires_at"] is None


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ({"text": "x", "expires_at": PAST}, [("expires_at", "must be in the future")]),
        ([{"text": "x"}, {"text": "y", "expires_at": PAST}], [("[1].expires_at", "must be in the future")]),
        ({"text": "x", "expires_at": FUTURE, "keep_days": 3}, [("keep_days", "can't be given beside expires_at")]),
        (
            {"messages": [{"role": "user", "content": "a"}], "expires_at": PAST},
            [("expires_at", "must be in the future")],
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(api: Api, body: Any, wanted: list[tuple[str, str]]) -> None:
    assert refused(api, body) == wanted
    assert api.get("/v1/memories").json()["memories"] == []


@pytest.mark.parametrize("days", [0, -1, 36_501, "30"])
def test_days_have_limits(api: Api, days: object) -> None:
    assert [field for field, _ in refused(api, {"text": "x", "keep_days": days})] == ["keep_days"]


def test_a_subject_has_periods(api: Api) -> None:
    api.remember({"text": "x", "subject": "ann"})
    api.put(RETENTION, json={"subject": "ann", "keep_days": 365}).raise_for_status()
    answer = api.put(RETENTION, json={"subject": "ann", "keep_days": 30, "category": "Health"}).json()
    periods = [(each["category"], each["keep_days"]) for each in answer["retention"]]
    assert periods == [(None, 365), ("health", 30)]
    assert api.get("/v1/subjects/ann").json()["retention"] == answer["retention"]
    removed = api.put(RETENTION, json={"subject": "ann", "keep_days": None}).raise_for_status().json()
    assert [each["category"] for each in removed["retention"]] == ["health"]
    assert api.put(RETENTION, json={"subject": "ann", "keep_days": None}).status_code == 404


def test_an_unknown_subject_is_warned_about(api: Api) -> None:
    api.remember({"text": "x", "subject": "chen"})
    answer = api.put(RETENTION, json={"subject": "Chen", "keep_days": 3}).json()
    assert answer["warning"] == "no stored memory has this subject"
    assert [each["subject"] for each in answer["near"]] == ["chen"]


def test_an_erased_subject_leaves_no_period(api: Api) -> None:
    api.remember({"text": "x", "subject": "ann"}, {"text": "y", "subject": "bob"})
    for subject in ("ann", "bob"):
        api.put(RETENTION, json={"subject": subject, "keep_days": 365}).raise_for_status()
    erased(api, api.delete("/v1/subjects/ann?grace_days=0").raise_for_status().json()["erasure_id"])
    assert api.service.rows("SELECT subject FROM subject_retention") == [("bob",)]


def test_searches_and_recalls_omit_a_memory_from_its_time_on(api: Api) -> None:
    ended, open_ended = api.remember(
        {"text": "The spare key is under the blue pot", "expires_at": FUTURE},
        {"text": "The spare key is under the green pot"},
    )
    assert {each["id"] for each in search_keys(api)} == {ended, open_ended}
    api.service.rows("UPDATE memories SET expires_at = now() WHERE memory_id = %s", ended)
    assert {each["id"] for each in search_keys(api)} == {open_ended}
    recalled = (
        api.post("/v1/recall", json={"messages": [{"role": "user", "content": "Where is the spare key?"}]})
        .raise_for_status()
        .json()
    )
    assert "blue" not in str(recalled)


def search_keys(api: Api) -> list[dict[str, Any]]:
    answer = api.post("/v1/search", json={"query": "spare key pot"}).raise_for_status().json()
    return list(answer["results"])
