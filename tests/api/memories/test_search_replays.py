"""`/v1/policy/replay` and `/v1/policy/fit` over HTTP: response shapes, limits, ids instead of text."""

from __future__ import annotations

from typing import Any

import pytest

from app.domain.search import weight_fitting
from tests.api.caller import Api, fields

REPLAY, FIT = "/v1/policy/replay", "/v1/policy/fit"
TALK = (
    {"text": "I drink sage tea before breakfast", "speaker": "user", "thread": "tea"},
    {"text": "You could add honey to your sage tea", "speaker": "assistant", "thread": "tea"},
    {"text": "We bought a kettle for the office tea", "speaker": "user", "thread": "office"},
    {"text": "The office tea is in the second drawer", "speaker": "assistant", "thread": "office"},
)


def replay(api: Api, **body: Any) -> dict[str, Any]:
    answer = api.post(REPLAY, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def recorded(api: Api) -> list[str]:
    """Ids of the results of the last of three recorded searches."""
    assert api.put("/v1/policy", json={"policy": {"record_searches": True}}).is_success
    api.remember(*TALK)
    found: list[str] = []
    for query in ("sage tea", "office kettle", "tea with honey"):
        answer = api.post("/v1/search", json={"query": query, "session": query, "reinforce": False})
        found = [result["id"] for result in answer.json()["results"]]
    return found


def test_a_replay_tells_what_another_policy_changes(api: Api, recorded: list[str]) -> None:
    assert api.post("/v1/observations", json={"ids": [recorded[-1]], "session": "tea with honey"}).is_success
    api.service.work()
    found = replay(api, policy={"ranking": {"role": 5.0}}, examples=2)
    assert found["changes"] == [{"field": "ranking.role", "from": 0.75, "to": 5.0}]
    assert {name: found[name] for name in ("again", "vitals", "left_out", "searches", "as_answered")} == {
        "again": False,
        "vitals": "recorded",
        "left_out": {},
        "searches": 3,
        "as_answered": 3,
    }
    assert found["changed"].keys() == found["overlap"].keys() == {"top_1", "top_5", "top_10"}
    assert (found["uses"]["searches"], found["uses"]["memories"]) == (1, 1)
    for measure in ("recall_at_10", "reciprocal_rank"):
        reported = found["uses"][measure]
        assert reported.keys() == {"before", "after", "difference"}
        assert reported["difference"].keys() == {"mean", "low", "high"}
        assert reported["difference"]["mean"] == pytest.approx(reported["after"] - reported["before"])
    assert 1 <= len(found["examples"]) <= 2
    for example in found["examples"]:
        assert example.keys() == {"id", "search_id", "before", "after", "used"}
        assert example["before"] != example["after"]
    assert not any(said["text"] in api.post(REPLAY, json={}).text for said in TALK)


def test_without_changes_the_policy_in_force_is_replayed(api: Api, recorded: list[str]) -> None:
    found = replay(api)
    assert (found["changes"], found["searches"], found["as_answered"]) == ([], 3, 3)
    assert (found["changed"], found["examples"]) == ({"top_1": 0, "top_5": 0, "top_10": 0}, [])
    assert found["uses"] is None
    assert replay(api, searches=2)["searches"] == 2


def test_searches_are_repeated_on_request(api: Api, recorded: list[str]) -> None:
    refused = api.post(REPLAY, json={"policy": {"ranking": {"context": 0.0}}})
    assert refused.status_code == 422
    assert fields(refused) == ["policy.ranking.context"]
    found = replay(api, policy={"ranking": {"context": 0.0}}, again=True)
    assert (found["again"], found["vitals"], found["searches"]) == (True, "present", 3)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"searches": 0}, "searches"),
        ({"searches": 10_001}, "searches"),
        ({"examples": 101}, "examples"),
        ({"policy": {"ranking": {"role": 11}}}, "policy.ranking.role"),
        ({"policy": {"nothing": 1}}, "policy.nothing"),
        ({"preset": "nothing"}, "preset"),
        ({"nothing": 1}, "nothing"),
    ],
)
def test_wrong_fields_are_named(api: Api, recorded: list[str], body: dict[str, Any], field: str) -> None:
    answer = api.post(REPLAY, json=body)
    assert answer.status_code == 422
    assert fields(answer) == [field]


def test_both_need_the_scope_maintain_and_consent(api: Api) -> None:
    reader = api.service.tenant(scopes=["read"])
    for path in (REPLAY, FIT):
        assert api.post(path, json={}, key=reader.key).status_code == 403
        refused = api.post(path, json={})
        assert refused.status_code == 409
        assert "record_searches=true" in refused.json()["detail"]


def test_a_fit_of_few_uses_says_so(api: Api, recorded: list[str]) -> None:
    found = api.post(FIT, json={}).json()
    assert found.keys() == {"searches", "pairs", "reciprocal_rank", "policy", "reason"}
    assert (found["policy"], found["searches"]) == (None, 0)
    assert str(weight_fitting.USES_MIN) in found["reason"]


def test_a_preference_of_callers_is_proposed_and_can_be_set_as_it_is(
    api: Api, recorded: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers always use the assistant's statement, whatever ranks above it."""
    monkeypatch.setattr(weight_fitting, "USES_MIN", 20)
    said = {memory["id"]: memory["role"] for memory in api.get("/v1/memories").json()["memories"]}
    for place in range(24):
        query = ("sage tea", "office kettle", "tea with honey", "the office tea")[place % 4]
        answer = api.post("/v1/search", json={"query": query, "session": str(place), "reinforce": False})
        used = next(each["id"] for each in answer.json()["results"] if said[each["id"]] == "assistant")
        assert api.post(f"/v1/memories/{used}/touch", json={"session": str(place)}).is_success
    before = api.get("/v1/policy").json()["version"]
    found = api.post(FIT, json={}).json()
    assert found["reason"] is None, found
    assert found["policy"]["ranking"]["role"] < 0.75
    assert found["reciprocal_rank"]["difference"]["low"] > 0
    assert api.get("/v1/policy").json()["version"] == before, "a proposal is never applied automatically"
    reported = replay(api, policy=found["policy"])["uses"]["reciprocal_rank"]
    assert reported["after"] > reported["before"]
    assert api.put("/v1/policy", json={"policy": found["policy"]}).json()["version"] == before + 1
