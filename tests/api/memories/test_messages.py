"""`POST /v1/memories` with the messages of a chat: response, storage, repeats, and display while pending."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
import pytest
from msgspec import json

from app.domain.ingest.memory import MemoryIn
from app.domain.privacy.legal_hold import Scope
from app.errors import Invalid
from app.services.erasure import requests
from app.services.erasure.requests import ErasureOptions
from app.services.ingest import dead_letter_replay, drain
from tests.api.caller import Api, fields
from tests.api.memories.test_ingest import worker
from tests.service import Service

CHAT: dict[str, Any] = {
    "thread": "support-1",
    "subject": "ann",
    "messages": [
        {"role": "system", "content": "You are a helpful zebra."},
        {"role": "user", "name": "Ann", "content": "Please book the train on Friday."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function"}]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"departure": "9:00"}'},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "Done."}, {"type": "image_url", "image_url": {"url": "x"}}],
        },
    ],
}
STORED = [
    ("You are a helpful zebra.", "system", None),
    ("Please book the train on Friday.", "user", "Ann"),
    ('{"departure": "9:00"}', "tool", None),
    ("Done.", "assistant", None),
]


def shown(api: Api, ids: list[str]) -> list[dict[str, Any]]:
    return [api.get(f"/v1/memories/{memory_id}").json() for memory_id in ids]


def said(memories: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(each["text"], each["role"], each["speaker"]) for each in memories]


def test_each_message_with_text_is_stored_under_its_id(api: Api) -> None:
    answer = api.post("/v1/memories", json=CHAT)
    assert answer.status_code == 202
    assert answer.json().keys() == {"ids", "request_id", "skipped", "left_out"}
    assert answer.json()["skipped"] == [{"message": 2, "reason": "no text"}]
    assert answer.json()["left_out"] == [{"message": 4, "parts": {"image_url": 1}}]
    ids = answer.json()["ids"]
    for status in ("pending", "stored"):
        memories = shown(api, ids)
        assert said(memories) == STORED
        assert {(each["thread"], each["subject"], each["status"]) for each in memories} == {
            ("support-1", "ann", status)
        }
        drain.drain_streams()
    assert len({UUID(memory_id) for memory_id in ids}) == 4
    assert api.service.texts(api.tenant.tenant_id) == [text for text, _, _ in STORED]


def test_memories_are_answered_as_before(api: Api) -> None:
    for body in ({"text": "x"}, [{"text": "x"}]):
        assert api.post("/v1/memories", json=body).json().keys() == {"ids", "request_id"}


def test_where_everything_is_stored_nothing_is_listed(api: Api) -> None:
    answer = api.post("/v1/memories", json={"messages": [{"role": "user", "content": "x"}]}).json()
    assert (answer["skipped"], answer["left_out"]) == ([], [])


def test_the_same_key_and_messages_get_the_same_answer_and_are_stored_once(api: Api) -> None:
    headers = {"idempotency-key": "once"}
    first = api.post("/v1/memories", json=CHAT, headers=headers)
    assert api.post("/v1/memories", json=CHAT, headers=headers).json() == first.json()
    api.service.work()
    assert api.post("/v1/memories", json=CHAT, headers=headers).json() == first.json()
    api.service.work()
    assert len(api.service.texts(api.tenant.tenant_id)) == 4
    other = CHAT | {"messages": CHAT["messages"][:2]}
    assert api.post("/v1/memories", json=other, headers=headers).status_code == 409


def test_prefer_wait_answers_200_when_all_messages_are_searchable(api: Api) -> None:
    with worker(api.service):
        answer = api.post("/v1/memories", json=CHAT, headers={"prefer": "wait=300"})
    assert answer.status_code == 200
    assert len(answer.json()["skipped"]) == 1
    assert {each["status"] for each in shown(api, answer.json()["ids"])} == {"embedded"}


def test_the_limit_counts_stored_and_skipped_messages(service: Service) -> None:
    service.configure(request_memories_max=3)
    stored, skipped = {"role": "user", "content": "x"}, {"role": "assistant", "content": None}
    with Api(service) as api:
        assert api.post("/v1/memories", json={"messages": [stored, skipped, skipped]}).status_code == 202
        answer = api.post("/v1/memories", json={"messages": [stored, skipped, skipped, skipped]})
        assert answer.status_code == 422
        [error] = answer.json()["errors"]
        assert (error["field"], error["value"], error["limit"]) == ("messages", 4, 3)


REFUSED: dict[str, tuple[Any, str, str]] = {
    "an unknown role": ({"messages": [{"role": "robot", "content": "x"}]}, "json", "messages[0].role"),
    "text beside": ({"text": "x", **CHAT}, "json", "text"),
    "an unknown field beside": ({"session": "x", **CHAT}, "json", "session"),
    "nothing to store": ({"messages": [{"role": "assistant", "content": ""}]}, "json", "messages"),
    "in an array": ([{"text": "x"}, CHAT], "json", "[1].messages"),
    "in a line": (CHAT, "x-ndjson", "[0].messages"),
}


@pytest.mark.parametrize(("body", "media_type", "field"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_a_422_that_names_the_field(api: Api, body: Any, media_type: str, field: str) -> None:
    headers = {"content-type": f"application/{media_type}"}
    answer = api.post("/v1/memories", content=json.encode(body), headers=headers)
    assert answer.status_code == 422
    assert fields(answer) == [field]
    assert api.service.backlog() == {}


def test_a_message_with_fields_of_a_memory_is_refused_and_nothing_is_stored(api: Api) -> None:
    [old] = api.remember("I play the drums")
    bought = {"role": "user", "content": "I bought a new guitar yesterday.", "supersedes": str(old), "tags": ["music"]}
    refused = api.post("/v1/memories", json={"messages": [bought, {"role": "user", "content": "Bye", "refusal": None}]})
    assert (refused.status_code, set(fields(refused))) == (422, {"messages[0].supersedes", "messages[0].tags"})
    assert api.service.backlog()["entries"] == 0


def test_an_array_of_memories_takes_roles(api: Api) -> None:
    ids = api.remember({"text": "one", "role": "tool"}, {"text": "two", "speaker": "assistant"}, {"text": "three"})
    assert [each["role"] for each in shown(api, ids)] == ["tool", "assistant", None]
    answer = api.post("/v1/memories", json={"text": "x", "role": "developer"})
    assert fields(answer) == ["role"]
    assert answer.json()["errors"][0]["message"] == "isn't one of user, assistant, system, tool"


def test_other_names_of_roles_are_stored_as_the_role_that_they_mean(api: Api) -> None:
    meant = {"human": "user", "ai": "assistant", "bot": "assistant", "model": "assistant", "developer": "system"}
    messages = [{"role": role, "content": f"Said by {role}."} for role in meant]
    ids = api.post("/v1/memories", json={"messages": messages}).json()["ids"]
    assert [each["role"] for each in shown(api, ids)] == list(meant.values())


def test_the_list_shows_all_roles_and_can_be_asked_for_one(api: Api) -> None:
    api.post("/v1/memories", json=CHAT)
    api.remember({"text": "by name", "speaker": "system"}, {"text": "Ann's", "speaker": "Ann"})

    def listed(**params: str) -> list[str]:
        page = api.get("/v1/memories", params=params).json()["memories"]
        return [each["text"] for each in reversed(page)]

    assert len(listed()) == 6
    assert listed(role="system") == ["You are a helpful zebra.", "by name"]
    assert listed(role="assistant", thread="support-1") == ["Done."]
    assert api.get("/v1/memories", params={"role": "robot"}).status_code == 422


def test_an_edit_changes_a_role(api: Api) -> None:
    [memory_id] = api.remember({"text": "zebra", "role": "system"})
    found = {"query": "zebra"}
    assert api.post("/v1/search", json=found).json()["results"] == []
    assert api.patch(f"/v1/memories/{memory_id}", json={"role": "user"}).json()["role"] == "user"
    [result] = api.post("/v1/search", json=found).json()["results"]
    assert (result["id"], result["role"]) == (memory_id, "user")
    edited = api.patch(f"/v1/memories/{memory_id}", json={"role": None, "speaker": "tool"}).json()
    assert (edited["role"], edited["speaker"]) == ("tool", "tool")
    assert api.post("/v1/search", json=found).json()["results"] == []
    assert fields(api.patch(f"/v1/memories/{memory_id}", json={"role": "x"})) == ["role"]


def test_searches_and_recalls_leave_out_system_and_tool_unless_asked(api: Api) -> None:
    api.post("/v1/memories", json=CHAT)
    api.service.work()

    def searched(**more: Any) -> set[str]:
        answer = api.post("/v1/search", json={"query": "helpful zebra departure train done", **more})
        return {each["role"] for each in answer.json()["results"]}

    assert searched() == {"user", "assistant"}
    assert searched(roles=["system", "tool"]) == {"system", "tool"}
    asked = {"messages": ["Which train did I want you to book on Friday? Are you a helpful zebra?"]}
    recalled = api.post("/v1/recall", json=asked).json()["memories"]
    assert [each["role"] for each in recalled] == ["user"]
    recalled = api.post("/v1/recall", json=asked | {"roles": ["system"]}).json()["memories"]
    assert [each["role"] for each in recalled] == ["system"]


@pytest.mark.parametrize("path", ["/v1/search", "/v1/recall"])
@pytest.mark.parametrize("roles", [[], ["robot"], "user"])
def test_roles_to_search_are_a_list_of_known_ones(api: Api, path: str, roles: object) -> None:
    answer = api.post(path, json={"query": "x", "messages": ["x"], "roles": roles} if path == "/v1/recall" else
                      {"query": "x", "roles": roles})  # fmt: skip
    assert answer.status_code == 422


# --- Dead letters and the previous version ---


def refuse(service: Service, text: str) -> None:
    service.rows(f"ALTER TABLE memories ADD CONSTRAINT trouble CHECK (text <> '{text}') NOT VALID")


def test_messages_that_could_not_be_stored_are_replayed_under_their_ids(api: Api) -> None:
    refuse(api.service, "Done.")
    ids = api.post("/v1/memories", json=CHAT).json()["ids"]
    try:
        drain.drain_streams()
    finally:
        api.service.rows("ALTER TABLE memories DROP CONSTRAINT trouble")
    assert api.service.texts(api.tenant.tenant_id) == []
    [(letter_id, memories)] = api.service.rows("SELECT letter_id, memories FROM dead_letters")
    assert memories == 4
    dead_letter_replay.replay_letter(api.tenant.tenant_id, letter_id)
    drain.drain_streams()
    assert said(shown(api, ids)) == STORED


def test_a_worker_of_the_version_before_sets_messages_aside_for_a_replay(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The previous version accepts only one memory or a list of memories as a body."""
    ids = api.post("/v1/memories", json=CHAT).json()["ids"]
    before = msgspec.json.Decoder(list[MemoryIn] | MemoryIn)

    def decode(body: bytes, *_: object, **__: object) -> list[MemoryIn]:
        try:
            found = before.decode(body)
        except msgspec.ValidationError:
            raise Invalid from None
        return found if isinstance(found, list) else [found]

    with monkeypatch.context() as older:
        older.setattr("app.services.ingest.drain.decode", decode)
        drain.drain_streams()
    assert api.service.letters(api.tenant.tenant_id) == [("drain", "Invalid", 1)]
    assert api.service.texts(api.tenant.tenant_id) == []
    [[letter_id]] = api.service.rows("SELECT letter_id FROM dead_letters")
    dead_letter_replay.replay_letter(api.tenant.tenant_id, letter_id)
    drain.drain_streams()
    assert said(shown(api, ids)) == STORED


def test_messages_of_an_erased_subject_are_neither_shown_nor_stored(api: Api) -> None:
    tenant_id = api.tenant.tenant_id
    ids = api.post("/v1/memories", json=CHAT).json()["ids"]
    requests.request(tenant_id, ErasureOptions(Scope(subject="ann"), "gdpr", 0), "key")
    assert {api.get(f"/v1/memories/{memory_id}").status_code for memory_id in ids} == {404}
    api.service.work()
    assert {api.get(f"/v1/memories/{memory_id}").status_code for memory_id in ids} == {404}


# --- The OpenAPI description ---


def test_the_description_tells_of_messages_and_their_answer(api: Api) -> None:
    page = api.get("/openapi.json", key=None).json()
    operation, components = page["paths"]["/v1/memories"]["post"], page["components"]["schemas"]
    content = operation["requestBody"]["content"]["application/json"]
    assert {"$ref": "#/components/schemas/Messages"} in content["schema"]["anyOf"]
    example = content["examples"]["messages"]["value"]
    answer = api.post("/v1/memories", json=example)
    assert answer.status_code == 202
    assert (
        answer.json().keys() | {"supersedes", "links_missing", "dropped"} == components["Accepted"]["properties"].keys()
    )
    assert components["Messages"]["additionalProperties"] is False
    assert components["ChatMessage"]["required"] == ["role"]
    for word in ("developer", "left_out", "skipped", "tool_calls"):
        assert word in operation["description"]
