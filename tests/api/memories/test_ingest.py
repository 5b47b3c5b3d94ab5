"""`POST /v1/memories`: accepted, repeated, pending and refused requests."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

import httpx
import pytest

from app.clients.embedding.embedder import embedder
from app.clients.redis.connection import BACKLOG, QUEUE, stream_key
from app.services.enrichment import stage_runner
from app.services.ingest import drain
from tests.api.caller import Api, fields
from tests.service import Service


def test_memories_are_accepted_with_ids_in_order(api: Api) -> None:
    answer = api.post("/v1/memories", json=[{"text": "one"}, {"text": "two"}], headers={"x-request-id": "mine-1"})
    assert answer.status_code == 202
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "mine-1"
    first, second = answer.json()["ids"]
    api.service.work()
    assert api.get(f"/v1/memories/{first}").json()["text"] == "one"
    assert api.get(f"/v1/memories/{second}").json()["text"] == "two"


def test_what_a_caller_calls_its_request_enters_no_queue(api: Api) -> None:
    headers = {"x-request-id": "request-of-orla"}
    [memory_id] = api.post("/v1/memories", json={"text": "one"}, headers=headers).raise_for_status().json()["ids"]
    api.post("/v1/observations", json={"ids": [memory_id]}, headers=headers).raise_for_status()
    entries = cast("list[Any]", api.service.redis.xrange(stream_key(api.tenant.tenant_id)))
    assert len(entries) == 2
    assert "orla" not in repr(entries)


def test_one_object_is_a_batch_of_one(api: Api) -> None:
    answer = api.post("/v1/memories", json={"text": "one"})
    assert len(answer.json()["ids"]) == 1


@pytest.mark.parametrize(
    "media_type",
    ["application/x-ndjson", "application/ndjson", "application/jsonl", "Application/X-JsonLines; charset=utf-8"],
)
def test_lines_are_taken_where_the_type_says_so(api: Api, media_type: str) -> None:
    answer = api.post("/v1/memories", content=b'{"text":"one"}\n{"text":"two"}\n', headers={"content-type": media_type})
    assert len(answer.json()["ids"]) == 2
    api.service.work()
    assert api.service.texts(api.tenant.tenant_id) == ["one", "two"]


def test_lines_without_the_type_are_unreadable(api: Api) -> None:
    answer = api.post("/v1/memories", content=b'{"text":"one"}\n{"text":"two"}\n')
    assert answer.status_code == 400
    assert fields(answer) == []


def test_a_wrong_line_is_named_by_its_number_and_nothing_is_kept(api: Api) -> None:
    body = b'{"text":"one"}\n{"text":""}\n{"text":"three"}'
    answer = api.post("/v1/memories", content=body, headers={"content-type": "application/x-ndjson"})
    assert answer.status_code == 422
    assert fields(answer) == ["[1].text"]
    assert answer.json()["errors"][0] | {"message": ""} == {"field": "[1].text", "message": "", "value": 0, "limit": 1}
    assert api.service.backlog() == {}


@pytest.mark.parametrize("number", [0, 3])
def test_a_request_has_at_least_one_memory_and_a_limit(service: Service, number: int) -> None:
    service.configure(request_memories_max=2)
    with Api(service) as api:
        answer = api.post("/v1/memories", json=[{"text": "x"}] * number)
        assert answer.status_code == 422
        [error] = answer.json()["errors"]
        assert (error["field"], error["value"], error["limit"]) == ("body", number, 2)
        assert api.post("/v1/memories", json=[{"text": "x"}] * 2).status_code == 202


BAD = {
    "nothing": (b"", 400),
    "half": (b'{"text":', 400),
    "not UTF-8": (b'{"text":"\xff"}', 400),
    "a million levels": (b'{"text":"x","metadata":{"a":' + b"[" * 10**6, 400),
    "500 levels": (b'{"text":"x","metadata":{"a":' + b"[" * 500 + b"]" * 500 + b"}}", 422),
    "a wrong field before a broken rest": (b'{"text":"",', 422),
    "a huge number": (b'{"text":"x","multiplier":' + b"9" * 300 + b"}", 422),
    "an unknown field": (b'{"text":"x","nickname":1}', 422),
}


@pytest.mark.parametrize(("body", "status"), BAD.values(), ids=BAD)
def test_bad_bodies_are_problems_and_leave_nothing(api: Api, body: bytes, status: int) -> None:
    answer = api.post("/v1/memories", content=body)
    assert answer.status_code == status
    fields(answer)
    assert api.service.backlog() == {}


def test_a_vector_of_another_size_is_refused_however_its_field_is_written(api: Api) -> None:
    size = embedder().dimensions
    for name in (b"embedding", rb"emb\u0065dding"):
        answer = api.post("/v1/memories", content=b'{"text":"x","' + name + b'":[1,2]}')
        assert answer.status_code == 422, name
        [error] = answer.json()["errors"]
        assert (error["field"], error["value"], error["limit"]) == ("embedding", 2, size)
    assert api.post("/v1/memories", json={"text": "x", "embedding": [1.0] * size}).status_code == 202


# --- Idempotency ---


MASTER_KEY = "a master key of the required length"


def outcomes(api: Api) -> dict[str, str]:
    """Return the stored outcomes by the digest of their Idempotency-Key."""
    redis = api.service.redis
    return {name.decode().rpartition(":")[2]: str(redis.get(name)) for name in redis.scan_iter("*idempotency:*")}


def plain(value: bytes) -> str:
    """Return a digest without a key, as a reader of Redis could compute it."""
    return hashlib.blake2b(value, digest_size=16).hexdigest()


@pytest.mark.parametrize("path", ["/v1/memories", "/v1/observations"])
def test_the_stored_answer_keeps_neither_the_callers_id_nor_a_digest_that_can_be_guessed(api: Api, path: str) -> None:
    api.service.configure(master_key=MASTER_KEY)
    body = {"/v1/memories": b'{"text":"Orla is ill"}', "/v1/observations": b'{"ids":[]}'}[path]
    mail = "orla@example.com"
    given = hashlib.md5(mail.encode(), usedforsecurity=False).hexdigest()  # looks like an id of the service
    headers = {"idempotency-key": mail, "x-request-id": given}
    api.post("/v1/memories", json={"text": "the first one has no key"}).raise_for_status()
    first = api.post(path, content=body, headers=headers).raise_for_status()
    again = api.post(path, content=body, headers=headers | {"x-request-id": "second"}).raise_for_status()
    assert again.json().get("ids") == first.json().get("ids")
    assert (first.json()["request_id"], again.json()["request_id"]) == (given, "second")
    [(digest, stored)] = outcomes(api).items()
    assert digest != plain(mail.encode())
    assert given not in stored
    form = {"/v1/memories": b"json", "/v1/observations": b"touches"}[path]
    assert plain(form + body) not in stored


def test_for_a_day_processes_of_the_version_before_recognise_a_repeat(api: Api) -> None:
    """They look under the digest without a key only, in the same outcome."""
    api.service.configure(master_key=MASTER_KEY)
    redis = api.service.redis
    redis.hset(BACKLOG, "entries", 0)  # the version before has accepted requests
    api.post("/v1/memories", json={"text": "x"}, headers={"idempotency-key": "once"}).raise_for_status()
    stored = outcomes(api)
    assert len(stored) == 2
    assert len(set(stored.values())) == 1
    assert plain(b"once") in stored
    redis.hincrby(QUEUE, "keyed_since", 3600 - 86_400)
    api.post("/v1/memories", json={"text": "y"}, headers={"idempotency-key": "late"}).raise_for_status()
    [name] = redis.scan_iter(f"*idempotency:*{plain(b'late')}")
    assert 0 < redis.ttl(name) <= 3600, "the day isn't prolonged"
    redis.hincrby(QUEUE, "keyed_since", -3600)
    api.post("/v1/memories", json={"text": "z"}, headers={"idempotency-key": "later"}).raise_for_status()
    assert plain(b"later") not in outcomes(api)
    for text, key in ("x", "once"), ("y", "late"), ("z", "later"):
        api.post("/v1/memories", json={"text": text}, headers={"idempotency-key": key}).raise_for_status()
    assert api.service.backlog()["entries"] == 3


def test_a_process_without_a_master_key_begins_the_day_anew(api: Api) -> None:
    """Other processes get the key one after the other."""
    api.service.configure(master_key="")
    api.post("/v1/memories", json={"text": "x"}, headers={"idempotency-key": "one"}).raise_for_status()
    api.service.configure(master_key=MASTER_KEY)
    api.post("/v1/memories", json={"text": "y"}, headers={"idempotency-key": "two"}).raise_for_status()
    assert plain(b"two") in outcomes(api)


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_repeat_is_recognised_while_processes_have_different_master_keys(api: Api, is_turned: bool) -> None:
    """As in steps 2 and 3 of a rotation."""
    keys = [MASTER_KEY, "another master key of the required length"]
    ids = []
    for current, other in ((0, 1), (1, 0)) if is_turned else ((1, 0), (0, 1)):
        api.service.configure(master_key=keys[current], other_master_keys=keys[other])
        answer = api.post("/v1/memories", json={"text": "x"}, headers={"idempotency-key": "once"})
        ids.append(answer.raise_for_status().json()["ids"])
    assert ids[0] == ids[1]


def test_a_repeat_of_a_request_to_the_version_before_is_recognised(api: Api) -> None:
    body = b'{"text":"x"}'
    api.service.configure(master_key="")  # its digests have no key
    first = api.post("/v1/memories", content=body, headers={"idempotency-key": "once"}).raise_for_status()
    api.service.configure(master_key=MASTER_KEY)
    again = api.post("/v1/memories", content=body, headers={"idempotency-key": "once"}).raise_for_status()
    assert again.json()["ids"] == first.json()["ids"]
    assert api.post("/v1/memories", json={"text": "y"}, headers={"idempotency-key": "once"}).status_code == 409


def test_the_same_key_and_body_get_the_same_answer_and_one_memory(api: Api) -> None:
    def send() -> httpx.Response:
        return api.post("/v1/memories", json={"text": "x"}, headers={"idempotency-key": "once"})

    first, second = send(), send()
    assert (first.status_code, second.status_code) == (202, 202)
    assert first.json()["ids"] == second.json()["ids"]
    assert first.json()["request_id"] == second.json()["request_id"]
    api.service.work()
    assert send().json()["ids"] == first.json()["ids"]
    api.service.work()
    assert api.service.texts(api.tenant.tenant_id) == ["x"]


def test_64_requests_at_once_with_one_key_are_one_memory(api: Api) -> None:
    api.tenant  # noqa: B018 - creates the tenant outside the loop

    async def all_at_once() -> list[httpx.Response]:
        headers = {"idempotency-key": "once"}
        requests = [api.send("POST", "/v1/memories", json={"text": "x"}, headers=headers) for _ in range(64)]
        return list(await asyncio.gather(*requests))

    answers = api.run(all_at_once())
    assert {answer.status_code for answer in answers} == {202}
    assert len({tuple(answer.json()["ids"]) for answer in answers}) == 1
    api.service.work()
    assert api.service.texts(api.tenant.tenant_id) == ["x"]


def test_the_same_key_with_another_body_is_a_conflict(api: Api) -> None:
    headers = {"idempotency-key": "once"}
    assert api.post("/v1/memories", content=b'{"text":"x"}', headers=headers).status_code == 202
    for other, more in (b'{"text":"y"}', {}), (b'{"text":"x"}', {"content-type": "application/x-ndjson"}):
        answer = api.post("/v1/memories", content=other, headers=headers | more)
        assert answer.status_code == 409
        fields(answer)
    assert api.service.backlog()["entries"] == 1


def test_another_tenants_key_of_the_same_name_is_another(api: Api) -> None:
    other = api.service.tenant()
    headers = {"idempotency-key": "once"}
    mine = api.post("/v1/memories", json={"text": "mine"}, headers=headers)
    theirs = api.post("/v1/memories", json={"text": "theirs"}, headers=headers, key=other.key)
    assert (mine.status_code, theirs.status_code) == (202, 202)
    assert mine.json()["ids"] != theirs.json()["ids"]
    api.service.work()
    assert api.service.texts(other.tenant_id) == ["theirs"]


def test_a_refused_request_may_be_sent_right_under_the_same_key(api: Api) -> None:
    headers = {"idempotency-key": "once"}
    assert api.post("/v1/memories", content=b'{"text":""}', headers=headers).status_code == 422
    assert api.post("/v1/memories", content=b'{"text":"x"}', headers=headers).status_code == 202


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_an_idempotency_key_has_a_length(api: Api, key: str) -> None:
    answer = api.post("/v1/memories", json={"text": "x"}, headers={"idempotency-key": key})
    assert answer.status_code == 422
    assert fields(answer) == ["Idempotency-Key"]
    assert answer.json()["errors"][0]["limit"] == 255


# --- Waiting for processing ---


@contextmanager
def worker(service: Service) -> Iterator[None]:
    """Process pending work in a loop, in a thread."""
    over = threading.Event()

    def go_on() -> None:
        while not over.is_set():
            service.work()

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("prefer", ["wait=300", "wait=0000000300"])
def test_prefer_wait_answers_200_when_all_are_searchable(api: Api, prefer: str) -> None:
    with worker(api.service):
        answer = api.post("/v1/memories", json=[{"text": "zebra"}, {"text": "two"}], headers={"prefer": prefer})
    assert answer.status_code == 200
    assert answer.headers["preference-applied"] == "wait=300"
    [found] = api.post("/v1/search", json={"query": "zebra", "limit": 1}).json()["results"]
    assert found["id"] == answer.json()["ids"][0]


@pytest.mark.parametrize("prefer", ["wait=0", "wait=00", "respond-async, wait=0", "wait=0; x=y"])
def test_prefer_wait_answers_202_when_time_is_up(api: Api, prefer: str) -> None:
    answer = api.post("/v1/memories", json={"text": "x"}, headers={"prefer": prefer})
    assert answer.status_code == 202
    assert answer.headers["preference-applied"] == "wait=0"
    assert len(answer.json()["ids"]) == 1


def test_a_wait_has_a_limit(service: Service) -> None:
    service.configure(wait_max_seconds=0)
    with Api(service) as api:
        answer = api.post("/v1/memories", json={"text": "x"}, headers={"prefer": "wait=999999999"})
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "wait=0")


@pytest.mark.parametrize("prefer", ["", "return=minimal", "await=5", 'respond-async, foo="x"'])
def test_other_preferences_are_not_applied(api: Api, prefer: str) -> None:
    answer = api.post("/v1/memories", json={"text": "x"}, headers={"prefer": prefer})
    assert answer.status_code == 202
    assert "preference-applied" not in answer.headers


@pytest.mark.parametrize("prefer", ["wait=soon", "wait=", "wait", "wait=-1", "wait=1.5", "foo; wait=abc", "Wait=x, y"])
def test_a_wait_that_is_no_number_is_refused_by_the_headers_name(api: Api, prefer: str) -> None:
    answer = api.post("/v1/memories", json={"text": "x"}, headers={"prefer": prefer})
    assert (answer.status_code, fields(answer)) == (400, ["Prefer"])
    assert answer.json()["type"] == "urn:ebbing:problem:invalid-header"
    assert "such as `Prefer: wait=5`" in answer.json()["detail"]
    assert api.service.is_idle()


@pytest.mark.parametrize("prefer", ['wait="0"', "respond-async, wait=0", "WAIT=0", "wait = 0; x=y"])
def test_a_wait_may_be_written_in_every_way_of_the_standard(api: Api, prefer: str) -> None:
    answer = api.post("/v1/memories", json={"text": "x"}, headers={"prefer": prefer})
    assert answer.headers["preference-applied"] == "wait=0"


def test_a_repeat_may_wait_for_the_first(api: Api) -> None:
    headers = {"idempotency-key": "once", "prefer": "wait=300"}
    first = api.post("/v1/memories", json={"text": "x"}, headers={"idempotency-key": "once"})
    api.service.work()
    again = api.post("/v1/memories", json={"text": "x"}, headers=headers)
    assert (again.status_code, again.json()["ids"]) == (200, first.json()["ids"])


# --- Backpressure ---


def test_a_full_backlog_of_one_tenant_is_429(service: Service) -> None:
    service.configure(tenant_backlog_entries=1)
    with Api(service) as api:
        assert api.post("/v1/memories", json={"text": "x"}).status_code == 202
        answer = api.post("/v1/memories", json={"text": "x"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 0
        fields(answer)
        assert api.post("/v1/memories", json={"text": "x"}, key=service.tenant().key).status_code == 202
        drain.drain_streams()
        assert api.post("/v1/memories", json={"text": "x"}).status_code == 202


def test_a_backlog_of_too_many_memories_is_429_and_names_the_limit(service: Service) -> None:
    service.configure(tenant_backlog_memories=100)
    with Api(service) as api:
        assert api.post("/v1/memories", json=[{"text": "x"}] * 90).status_code == 202
        answer = api.post("/v1/memories", json=[{"text": "x"}] * 11)
        assert answer.status_code == 429
        assert answer.json()["detail"] == "90 memories are pending for this tenant; the limit is 100"
        assert int(answer.headers["retry-after"]) > 0
        fields(answer)
        drain.drain_streams()
        assert api.post("/v1/memories", json=[{"text": "x"}] * 11).status_code == 202


def test_a_full_backlog_of_all_is_503(service: Service) -> None:
    service.configure(backlog_entries=1)
    with Api(service) as api:
        api.post("/v1/memories", json={"text": "x"})
        answer = api.post("/v1/memories", json={"text": "x"}, key=service.tenant().key)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    fields(answer)


def test_a_full_redis_is_503_until_there_is_room(api: Api) -> None:
    redis = api.service.redis
    api.post("/v1/memories", json={"text": "before"})
    before = str(redis.config_get("maxmemory")["maxmemory"])
    redis.config_set("maxmemory", 1024)
    try:
        answer = api.post("/v1/memories", json={"text": "x"}, headers={"idempotency-key": "once"})
    finally:
        redis.config_set("maxmemory", before)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert api.post("/v1/memories", json={"text": "x"}, headers={"idempotency-key": "once"}).status_code == 202
    api.service.work()
    assert api.service.texts(api.tenant.tenant_id) == ["before", "x"]


# --- From request to row ---


def test_a_memory_is_pending_then_stored_indexed_embedded(api: Api) -> None:
    given = {"text": "x", "subject": "ann", "tags": ["a"], "salience": 0.5, "metadata": {"n": 1}}
    [memory_id] = api.post("/v1/memories", json=given).json()["ids"]

    def shown() -> dict[str, object]:
        answer: dict[str, object] = api.get(f"/v1/memories/{memory_id}").json()
        return answer

    pending = shown()
    drain.drain_streams()
    stored = shown()
    stage_runner.run_index_stage()
    indexed = shown()
    stage_runner.embed()
    embedded = shown()
    seen = [pending, stored, indexed, embedded]
    assert [memory["status"] for memory in seen] == ["pending", "stored", "indexed", "embedded"]
    assert len({frozenset(memory) for memory in seen}) == 1, "all statuses have the same fields"
    for memory in seen:
        assert given.items() <= (memory | {"salience": 0.5}).items()
        assert memory["id"] == memory_id
    assert pending["created_at"] == stored["created_at"]


def test_a_pending_memory_cant_be_edited_or_deleted_yet(api: Api) -> None:
    [memory_id] = api.post("/v1/memories", json={"text": "x"}).json()["ids"]
    for answer in (
        api.patch(f"/v1/memories/{memory_id}", json={"text": "y"}),
        api.delete(f"/v1/memories/{memory_id}"),
    ):
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) > 0
        fields(answer)
    assert UUID(memory_id).version == 7
