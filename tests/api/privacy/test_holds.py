"""`/v1/privacy/holds`: place, show, list and release holds, and what other endpoints reveal of them."""

from __future__ import annotations

from typing import Any

import pytest

from app.services.tenants import tenants
from tests.api.caller import Api, fields

PATH = "/v1/privacy/holds"
SHAPE = {
    *("id", "reason", "ids", "memory_ids", "subject", "filter", "placed_at", "placed_by", "released_at", "released_by"),
    *("ground", "release_reason"),
}
NOTHING = {"erasures": 0, "memories": 0}


def place(api: Api, **given: Any) -> dict[str, Any]:
    answer = api.post(PATH, json={"reason": "case 17", **given})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_hold_is_shown_from_its_placing_to_its_release(api: Api) -> None:
    api.remember({"text": "x", "subject": "ann", "tags": ["a"]}, {"text": "y", "subject": "ann"})
    placed = place(api, subject="ann", filter={"tags": ["a"], "after": "2026-01-01T00:00:00Z"})
    assert placed.pop("ground_warning").startswith("no legal ground is stated")
    assert placed.keys() == SHAPE
    assert (placed["memory_ids"], placed["subject"]) == (None, "ann")
    assert placed["filter"] == {"tags": ["a"], "after": "2026-01-01T00:00:00Z"}
    assert (placed["placed_by"], placed["released_at"]) == (api.tenant.key_id, None)
    shown = api.get(f"{PATH}/{placed['id']}").json()
    assert shown == placed | {"memories": 1, "hidden": 0, "waiting": NOTHING, "changes": []}
    released = api.post(f"{PATH}/{placed['id']}/release").json()
    assert released.pop("continued") == NOTHING
    assert (released["released_by"], released["placed_at"]) == (api.tenant.key_id, placed["placed_at"])
    nothing = {"memories": 0, "hidden": 0, "waiting": NOTHING, "changes": []}
    assert api.get(f"{PATH}/{placed['id']}").json() == released | nothing
    again = api.post(f"{PATH}/{placed['id']}/release")
    assert again.status_code == 409
    fields(again)


def test_a_reason_names_no_subject_of_the_thread_or_of_the_listed_memories(api: Api) -> None:
    [memory_id, _] = api.remember(
        {"text": "x", "subject": "Marta Lindqvist", "thread": "dispute-7"},
        {"text": "y", "subject": "bob", "thread": "dispute-7"},
    )
    for scope in ({"filter": {"thread": "dispute-7"}}, {"ids": [memory_id]}):
        for reason in ("Marta Lindqvist against her landlord", "marta lindqvist, appeal"):
            for dry_run in (True, False):
                refused = api.post(PATH, json={"reason": reason, "dry_run": dry_run, **scope})
                assert (refused.status_code, fields(refused)) == (422, ["reason"])
        hold = place(api, **scope)["id"]
        named = {"reason": "Marta Lindqvist"}
        assert fields(api.patch(f"{PATH}/{hold}", json=named)) == ["reason"]
        assert fields(api.post(f"{PATH}/{hold}/release", json=named)) == ["reason"]
        assert api.post(f"{PATH}/{hold}/release", json={"reason": "settled"}).status_code == 200
    items = "SELECT action, items FROM audit WHERE action IN ('hold_placed', 'hold_released') ORDER BY seq"
    assert api.service.rows(items) == [
        *(("hold_placed", 2), ("hold_released", 2), ("hold_placed", 1), ("hold_released", 1)),
    ]


def test_a_dry_run_counts_and_places_nothing(api: Api) -> None:
    api.remember({"text": "x", "subject": "ann"}, {"text": "y", "subject": "ann"})
    answer = api.post(PATH, json={"reason": "case 17", "subject": "ann", "dry_run": True})
    counted = answer.json()
    assert counted.pop("ground_warning").startswith("no legal ground is stated")
    assert (answer.status_code, counted) == (200, {"memories": 2, "hidden": 0})
    grounded = {"reason": "case 17", "subject": "ann", "dry_run": True, "ground": "archiving"}
    assert api.post(PATH, json=grounded).json() == {"memories": 2, "hidden": 0}
    api.remember({"text": "z", "subject": "Ann"})
    others = api.post(PATH, json=grounded).json()["other_spellings"]
    assert others == [{"subject": "Ann", "likeness": "case", "memories": 1}]
    assert api.get(PATH).json()["holds"] == []


def test_holds_are_listed_page_by_page_without_the_released_ones(api: Api) -> None:
    made = [place(api, subject=name)["id"] for name in "abcde"]
    api.post(f"{PATH}/{made[2]}/release")
    for params, wanted in (({}, [4, 3, 1, 0]), ({"released": True}, [4, 3, 2, 1, 0])):
        found, cursor = [], None
        while True:
            page = api.get(PATH, params={"limit": 2} | params | ({"cursor": cursor} if cursor else {})).json()
            found += [hold["id"] for hold in page["holds"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert found == [made[number] for number in wanted]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({}, "ids"),
        ({"reason": ""}, "reason"),
        ({"filter": {}}, "ids"),
        ({"filter": {"tags": []}}, "filter.tags"),
        ({"filter": {"kinds": ["dull"]}}, "filter.kinds[0]"),
        ({"filter": {"tag": ["x"]}}, "filter.tag"),
        ({"filter": {"before": "0001-01-01T00:00:00+14:00"}}, "filter.before"),
        ({"subject": "a\0b"}, "subject"),
        ({"memory_ids": []}, "memory_ids"),
        ({"memory_ids": ["00000000-0000-0000-0000-000000000000"]}, "ids[0]"),
    ],
    ids=str,
)
def test_a_hold_that_cant_be_placed_names_the_field(api: Api, given: dict[str, Any], field: str) -> None:
    answer = api.post(PATH, json={"reason": "x", **given})
    assert answer.status_code == 422, answer.text
    assert fields(answer) == [field]


def test_a_held_memory_says_so_to_whoever_would_change_it(api: Api) -> None:
    [memory_id] = api.remember({"text": "x", "subject": "ann"})
    path = f"/v1/memories/{memory_id}"
    hold = place(api, memory_ids=[str(memory_id)])
    for answer in (api.request("DELETE", path), api.request("PATCH", path, json={"text": "y"})):
        assert answer.status_code == 409
        assert hold["id"] in answer.json()["detail"]
        assert hold["reason"] not in answer.text
    assert api.get(path).json()["text"] == "x"
    found = api.get(f"{path}/why").json()
    assert (found["rule"], found["why"], found["wanted"]) == ("hold", "under a legal hold", "active")
    reported = {"id": hold["id"], "placed_at": hold["placed_at"]}
    assert found["holds"] == [reported | {"reason": "case 17"}]
    reader = tenants.issue_key(api.tenant.tenant_id, "reader", ["read"])
    assert api.get(f"{path}/why", key=reader).json()["holds"] == [reported]
    api.post(f"{PATH}/{hold['id']}/release")
    assert api.get(f"{path}/why").json()["holds"] == []
    assert api.request("DELETE", path).status_code == 202
