"""Promotion by hand: criteria, force, demotion, and the filters of lists and searches."""

from __future__ import annotations

from uuid import uuid4

from tests.api.caller import Api, fields


def test_a_refusal_names_each_criterion_with_value_and_limit(api: Api) -> None:
    """Seed 001, promotion criteria: a score of .65, or five uses within 14 days."""
    [memory_id] = api.remember("mine")
    answer = api.post(f"/v1/memories/{memory_id}/promote")
    assert answer.status_code == 409
    [error] = answer.json()["errors"]
    assert (error["field"], error["value"], error["limit"]) == ("uses", 0, 5)
    assert answer.json()["detail"] == (
        "this memory isn't promoted: its number of uses, 0, is 5 below 5. `force` promotes it all the same"
    )
    api.put("/v1/policy", json={"policy": {"forgetting": {"profile": "mnemex"}}})
    api.service.rows(
        "UPDATE memory_state SET accessed_at = accessed_at - interval '9 days', "
        "anchored_at = anchored_at - interval '9 days', created_at = created_at - interval '20 days'"
    )
    answer = api.post(f"/v1/memories/{memory_id}/promote", json={"force": False}).json()
    assert {error["field"]: error["limit"] for error in answer["errors"]} == {"score": 0.65, "uses": 5, "age_days": 14}


def test_force_promotes_and_a_demotion_takes_it_back(api: Api) -> None:
    [memory_id] = api.remember("mine")
    answers = [api.post(f"/v1/memories/{memory_id}/promote", json={"force": True}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    promoted = answers[0].json()["promoted"]
    assert (promoted["for"], promoted["note"]) == ("manual", None)
    assert 0 < promoted["strength"] <= 1
    assert answers[1].json()["promoted"] == promoted
    demoted = [api.post(f"/v1/memories/{memory_id}/demote") for _ in range(2)]
    assert [(answer.status_code, answer.json()["promoted"]) for answer in demoted] == [(200, None), (200, None)]
    kinds = [event["kind"] for event in api.get(f"/v1/memories/{memory_id}/history").json()["history"]]
    assert kinds == ["demoted", "promoted", "accepted"]
    entries = api.get("/v1/privacy/audit").json()["entries"]
    acts = [entry["action"] for entry in entries if entry["action"].startswith("memory_")]
    assert sorted(acts) == ["memory_demoted", "memory_promoted"]


def test_criteria_that_are_met_need_no_force(api: Api) -> None:
    [memory_id] = api.remember("mine")
    api.service.rows("UPDATE memory_state SET access_count = 5")
    assert api.post(f"/v1/memories/{memory_id}/promote").json()["promoted"]["for"] == "uses"


def test_lists_and_searches_filter_by_promotion(api: Api) -> None:
    first, second = api.remember("green tea", "black tea")
    api.post(f"/v1/memories/{first}/promote", json={"force": True})
    for wanted, expected in ((True, [first]), (False, [second])):
        listed = api.get("/v1/memories", params={"promoted": str(wanted).lower()}).json()["memories"]
        body = {"query": "tea", "promoted": wanted, "reinforce": False}
        found = api.post("/v1/search", json=body).json()["results"]
        assert [memory["id"] for memory in listed] == [result["id"] for result in found] == expected
    both = api.post("/v1/search", json={"query": "tea", "promoted": None, "reinforce": False}).json()["results"]
    assert len(both) == 2


def test_what_is_unknown_or_another_tenants_is_not_found(api: Api) -> None:
    [memory_id] = api.remember("mine")
    other = api.service.tenant().key
    assert api.post(f"/v1/memories/{uuid4()}/promote").status_code == 404
    assert api.post(f"/v1/memories/{memory_id}/promote", key=other).status_code == 404
    assert api.post(f"/v1/memories/{memory_id}/demote", key=other).status_code == 404
    answer = api.post(f"/v1/memories/{memory_id}/promote", json={"forced": True})
    assert (answer.status_code, fields(answer)) == (422, ["forced"])
