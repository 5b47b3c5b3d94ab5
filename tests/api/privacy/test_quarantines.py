"""`/v1/quarantines`: preview, confirm, list, lift; and what other routes say about memories in quarantine."""

from __future__ import annotations

from app.services.tenants import tenants
from tests.api.caller import Api

PATH = "/v1/quarantines"


def test_a_quarantine_is_previewed_placed_listed_and_lifted(api: Api) -> None:
    key = tenants.issue_key(api.tenant.tenant_id, "bot", source="tool")
    [memory_id] = api.post("/v1/memories", json={"text": "poison"}, key=key).json()["ids"]
    [mine] = api.post("/v1/memories", json={"text": "mine"}).json()["ids"]
    api.service.work()
    asked = {"key_id": key[4:17]}
    seen = api.post(PATH, json=asked)
    assert (seen.status_code, seen.json()["memories"], seen.json()["summaries"]) == (200, 1, 0)
    assert api.get(f"/v1/memories/{memory_id}").status_code == 200
    placed = api.post(PATH, json=asked | {"confirm": True, "before": seen.json()["before"]})
    assert placed.status_code == 201
    shown = placed.json()
    assert (shown["status"], shown["memories"], shown["placed_by"]) == ("placed", 1, api.tenant.key_id)
    assert api.get(f"/v1/memories/{memory_id}").status_code == 404
    why = api.get(f"/v1/memories/{memory_id}/why").json()
    assert (why["tier"], why["rule"]) == ("quarantined", "quarantine")
    assert f"POST {PATH}/{shown['id']}/lift shows it again" in why["why"]
    assert why["source"] == "tool"
    assert why.keys() == api.get(f"/v1/memories/{mine}/why").json().keys()
    assert [row["id"] for row in api.get(PATH).json()["quarantines"]] == [shown["id"]]
    assert api.get(f"{PATH}/{shown['id']}").json() == shown
    lifted = api.post(f"{PATH}/{shown['id']}/lift")
    assert (lifted.status_code, lifted.json()["status"]) == (200, "lifted")
    assert api.get(f"/v1/memories/{memory_id}").json()["text"] == "poison"
    assert api.get(PATH).json()["quarantines"] == []
    assert [row["status"] for row in api.get(f"{PATH}?lifted=true").json()["quarantines"]] == ["lifted"]


def test_a_quarantine_of_another_tenant_isnt_found(api: Api) -> None:
    placed = api.post(PATH, json={"source": "tool", "confirm": True}).json()
    api.change_tenant()
    assert api.get(f"{PATH}/{placed['id']}").status_code == 404
    assert api.post(f"{PATH}/{placed['id']}/lift").status_code == 404
    assert api.get(f"{PATH}?lifted=true").json()["quarantines"] == []


def test_bad_input_names_the_field(api: Api) -> None:
    for given, field in (
        ({"source": "model"}, "source"),
        ({"source": "tool", "key_id": "a"}, "key_id"),
        ({}, "key_id"),
    ):
        answer = api.post(PATH, json=given)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field), given
