"""`/v1/supersessions`, and the supersessions that other endpoints report."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.api.caller import Api, fields
from tests.api.memories.test_ingest import worker

PATH = "/v1/supersessions"


def texts(api: Api, **more: object) -> list[str]:
    answer = api.post("/v1/search", json={"query": "Ann lives", "reinforce": False, **more})
    return sorted(result["text"] for result in answer.json()["results"])


def test_from_being_said_to_being_taken_back(api: Api) -> None:
    [rome] = api.remember({"text": "Ann lives in Rome", "external_id": "home"})
    [oslo] = api.remember({"text": "Ann lives in Oslo", "supersedes": "home"})
    [result] = api.post("/v1/search", json={"query": "Ann lives"}).json()["results"]
    assert (result["id"], result["supersedes"], result["superseded_by"]) == (oslo, [rome], [])
    older, newer = (api.get(f"/v1/memories/{memory_id}").json() for memory_id in (rome, oslo))
    assert (older["valid_from"], older["valid_to"]) == (older["created_at"], newer["created_at"])
    assert (older["superseded_by"], newer["supersedes"], newer["valid_to"]) == ([oslo], [rome], None)
    listed = api.get("/v1/memories", params={"superseded": "true"}).json()["memories"]
    assert [memory["id"] for memory in listed] == [rome]

    page = api.get(PATH, params={"memory": rome, "limit": 1}).json()
    [found] = page["supersessions"]
    assert (found["status"], found["source"], found["since"]) == ("active", "caller", newer["created_at"])
    assert found["memory"] == {"id": oslo, "text": "Ann lives in Oslo"}
    assert found["supersedes"] == {"id": rome, "text": "Ann lives in Rome"}
    assert api.get(PATH, params={"cursor": page["next_cursor"]}).json()["supersessions"] == []

    assert api.post(f"{PATH}/{found['id']}/reject").status_code == 409
    assert [api.delete(f"{PATH}/{found['id']}").status_code for _ in range(2)] == [204, 204]
    assert texts(api) == ["Ann lives in Oslo", "Ann lives in Rome"]
    approved = api.post(f"{PATH}/{found['id']}/approve").json()
    assert (approved["status"], approved["decided_by"]) == ("active", api.tenant.key_id)
    assert texts(api) == ["Ann lives in Oslo"]
    assert texts(api, superseded=True) == ["Ann lives in Oslo", "Ann lives in Rome"]


@pytest.mark.parametrize("supersedes", ["", 5, [""], ["x"] * 65, ["a\0b"], "a\0b", {"id": "x"}, "x" * 513])
def test_what_names_nothing_is_refused_at_the_door(api: Api, supersedes: object) -> None:
    answer = api.post("/v1/memories", json={"text": "x", "supersedes": supersedes})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith("supersedes")


def test_a_request_of_the_most_names_is_stored(api: Api) -> None:
    [memory_id] = api.remember({"text": "x", "supersedes": [f"name {place}" for place in range(64)]})
    found = api.get(PATH, params={"memory": memory_id, "status": "waiting", "limit": 500}).json()["supersessions"]
    assert {each["named"] for each in found} == {f"name {place}" for place in range(64)}
    assert api.post(f"{PATH}/{found[0]['id']}/approve").status_code == 409
    assert api.delete(f"{PATH}/{found[0]['id']}").status_code == 204
    assert len(api.get(PATH, params={"memory": memory_id}).json()["supersessions"]) == 50


def test_a_person_hears_what_can_not_be(api: Api) -> None:
    [one, other] = api.remember({"text": "one", "subject": "ann"}, {"text": "other", "subject": "bo"})
    for body, status in (
        ({"memory": one, "supersedes": other}, 409),
        ({"memory": one, "supersedes": one}, 422),
        ({"memory": one, "supersedes": str(uuid4())}, 404),
        ({"memory": "nobody", "supersedes": one}, 404),
        ({"memory": one}, 422),
    ):
        answer = api.post(PATH, json=body)
        assert answer.status_code == status, body
        fields(answer)
    assert api.get(PATH).json()["supersessions"] == []
    assert api.get(PATH, params={"memory": str(uuid4())}).status_code == 404


def test_an_update_that_says_it_again_after_it_was_taken_back_counts(api: Api) -> None:
    [rome] = api.remember("Ann lives in Rome")
    given = {"text": "Ann lives in Oslo", "external_id": "now", "supersedes": rome}
    api.remember(given)
    [found] = api.get(PATH).json()["supersessions"]
    api.delete(f"{PATH}/{found['id']}")
    assert len(texts(api)) == 2
    api.remember(given)
    assert texts(api) == ["Ann lives in Oslo"]


def test_an_answer_that_waits_says_what_has_become_of_each_name(api: Api) -> None:
    [rome] = api.remember({"text": "Ann lives in Rome", "external_id": "home", "subject": "ann"})
    given = [
        {"text": "Ann lives in Oslo", "supersedes": ["home", "nowhere"], "subject": "ann"},
        {"text": "Bo lives in Oslo", "supersedes": rome, "subject": "bo"},
        {"text": "It rains"},
    ]
    with worker(api.service):
        answer = api.post("/v1/memories", json=given, headers={"prefer": "wait=300"})
    assert answer.status_code == 200
    body = answer.json()
    ann, bo, _ = body["ids"]
    said = {(one["id"], one["superseded_id"] or one["named"]): one for one in body["supersedes"]}
    assert {key: (one["status"], one["reason"]) for key, one in said.items()} == {
        (ann, rome): ("active", None),
        (ann, "nowhere"): ("waiting", None),
        (bo, rome): ("rejected", "subject"),
    }
    assert "different subjects" in said[bo, rome]["why"]
    for memory_id in (ann, bo):
        found = api.get(f"/v1/memories/{memory_id}/why").json()["supersedes"]
        assert found == [
            {name: value for name, value in one.items() if name != "id"}
            for one in body["supersedes"]
            if one["id"] == memory_id
        ]


def test_an_answer_without_such_names_says_nothing_of_them(api: Api) -> None:
    with worker(api.service):
        answer = api.post("/v1/memories", json={"text": "It rains"}, headers={"prefer": "wait=300"})
    assert set(answer.json()) == {"ids", "request_id"}
    [memory_id] = answer.json()["ids"]
    assert api.get(f"/v1/memories/{memory_id}/why").json()["supersedes"] == []


def test_a_name_that_would_close_a_circle_is_told_to_be_refused(api: Api) -> None:
    api.remember({"text": "a", "external_id": "a"})
    api.remember({"text": "b", "external_id": "b", "supersedes": "a"})
    [again] = api.remember({"text": "a once more", "external_id": "a", "supersedes": "b"})
    [one] = api.get(f"/v1/memories/{again}/why").json()["supersedes"]
    assert (one["status"], one["reason"]) == ("rejected", "cycle")
    assert "through other memories" in one["why"]
