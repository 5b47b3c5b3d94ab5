"""`POST /v1/memories/delete`: several memories by id or external id, or a thread."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from app.domain.ingest.deletion import DELETED_MAX
from tests.api.caller import Api

PATH = "/v1/memories/delete"


@pytest.fixture
def ids(api: Api) -> list[str]:
    return api.remember(
        {"text": "tea one", "external_id": "k1", "thread": "t"},
        {"text": "tea two", "external_id": "k2", "thread": "t"},
        {"text": "tea three", "thread": "u"},
        {"text": "tea four"},
    )


def texts(api: Api) -> list[str]:
    """Return the texts that lists and searches have, which must be the same."""
    listed = {memory["text"].split()[1] for memory in api.get("/v1/memories").json()["memories"]}
    found = api.post("/v1/search", json={"query": "tea", "reinforce": False}).json()["results"]
    assert listed == {result["text"].split()[1] for result in found}
    return sorted(listed)


def test_named_memories_are_deleted_once_and_others_stay(api: Api, ids: list[str]) -> None:
    assert api.post(PATH, json={"external_ids": ["k1", "k9"]}).json() == {"deleted": 1}
    assert texts(api) == ["four", "three", "two"]
    assert api.post(PATH, json={"external_ids": ["k1"]}).json() == {"deleted": 0}
    answer = api.post(PATH, json={"ids": [ids[0], ids[2], str(uuid4())]})
    assert (answer.status_code, answer.json(), texts(api)) == (202, {"deleted": 1}, ["four", "two"])
    assert api.post(PATH, json={"thread": "t"}).json() == {"deleted": 1}
    assert texts(api) == ["four"]
    assert api.get(f"/v1/memories/{ids[1]}").status_code == 404


def test_an_id_of_an_update_names_the_stored_memory(api: Api, ids: list[str]) -> None:
    [alias] = api.remember({"text": "tea five", "external_id": "k1"})
    assert alias != ids[0]
    assert api.post(PATH, json={"ids": [alias]}).json() == {"deleted": 1}
    assert texts(api) == ["four", "three", "two"]


def test_a_deleted_external_id_can_be_stored_again(api: Api, ids: list[str]) -> None:
    api.post(PATH, json={"external_ids": ["k1"]})
    api.remember({"text": "tea six", "external_id": "k1"})
    found = api.get("/v1/memories", params={"external_ids": ["k1", "k2"]}).json()["memories"]
    assert [memory["text"] for memory in found] == ["tea six", "tea two"]


def test_a_legal_hold_prevents_the_whole_deletion(api: Api, ids: list[str]) -> None:
    held = api.post("/v1/privacy/holds", json={"ids": [ids[0]], "reason": "case"})
    assert held.status_code == 201, held.text
    answer = api.post(PATH, json={"ids": ids})
    assert (answer.status_code, len(texts(api))) == (409, 4)


def test_another_tenants_memories_stay(api: Api, ids: list[str]) -> None:
    own = api.tenant.key
    api.change_tenant()
    for body in ({"ids": ids}, {"external_ids": ["k1"]}, {"thread": "t"}):
        assert api.post(PATH, json=body).json() == {"deleted": 0}
    assert len(api.get("/v1/memories", key=own).json()["memories"]) == 4


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "ids"),
        ({"ids": [], "thread": "t"}, "ids"),
        ({"ids": [str(uuid4())] * (DELETED_MAX + 1)}, "ids"),
        ({"external_ids": ["a"], "thread": "t"}, "thread"),
        ({"external_ids": [""]}, "external_ids[0]"),
        ({"external_ids": ["a\0"]}, "external_ids[0]"),
        ({"thread": ""}, "thread"),
        ({"subject": "ann"}, "subject"),
    ],
)
def test_invalid_requests_are_refused(api: Api, body: dict[str, Any], field: str) -> None:
    answer = api.post(PATH, json=body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)
