"""Chapter 6: backpressure and errors.

The queue is bounded. A tenant that sends more than can be stored gets a 429 with the time to retry after; accepted
memories are never dropped to make room. A refused request names the invalid field. An entry that reached the queue
but can't be stored is set aside as a dead letter: counted, retained, and never blocking other entries.
"""

from __future__ import annotations

import pytest

from tests.fundamentals.client import Accepted, Client, read, refusal
from tests.fundamentals.service import BACKLOG_ENTRIES, Service, Tenant
from tests.past_the_door import push
from tests.waiting import until


def test_a_full_queue_refuses_and_says_when_to_come_back(service: Service, ebbing: Client) -> None:
    with service.paused("ingest"):
        answers = [ebbing.send(f"request {number}") for number in range(BACKLOG_ENTRIES)]

        refused = ebbing.send("one too many")

        problem = refusal(refused)
        assert (problem.status, problem.type) == (429, "urn:ebbing:problem:backlog-full")
        assert int(refused.headers["retry-after"]) > 0
    ids = [read(answer, Accepted).ids[0] for answer in answers]
    until(lambda: ebbing.stats().memories["active"] == len(ids), "what was accepted is stored")
    assert ebbing.send("and the door is open again").status_code == 202


def test_a_full_queue_of_one_tenant_doesnt_stop_another(service: Service, ebbing: Client) -> None:
    neighbour = service.client(service.new_tenant().api_key)
    with service.paused("ingest"):
        for number in range(BACKLOG_ENTRIES):
            ebbing.send(f"request {number}")

        assert ebbing.send("one too many").status_code == 429
        assert neighbour.send("a quiet word").status_code == 202


@pytest.mark.parametrize(
    ("memory", "field"),
    [
        ({}, "text"),
        ({"text": ""}, "text"),
        ({"text": "  "}, "text"),
        ({"text": "x" * 32_769}, "text"),
        ({"text": "hello", "salience": 2}, "salience"),
        ({"text": "hello", "occurred_at": "yesterday"}, "occurred_at"),
        ({"text": "hello", "colour": "red"}, "colour"),
    ],
    ids=["nothing", "empty", "blank", "too long", "out of range", "no moment", "unknown field"],
)
def test_a_wrong_field_is_named(ebbing: Client, memory: dict[str, object], field: str) -> None:
    problem = refusal(ebbing.http.post("/v1/memories", json=memory))

    assert problem.status == 422
    assert field in problem.errors[0]["field"] or field in problem.errors[0]["message"]


def test_a_request_is_taken_whole_or_not_at_all(ebbing: Client) -> None:
    assert ebbing.send("fine", "fine too", {"text": ""}).status_code == 422

    [memory_id] = ebbing.remember("the only one")

    assert [memory.id for memory in ebbing.page().memories] == [memory_id]


def test_what_isnt_json_is_refused_as_unreadable(ebbing: Client) -> None:
    assert refusal(ebbing.http.post("/v1/memories", content="{oops")).status == 400


def test_what_cant_be_stored_is_set_aside_and_counted_and_its_neighbours_are_stored(
    service: Service, tenant: Tenant, ebbing: Client
) -> None:
    ebbing.remember("before")
    push(service.redis, tenant.tenant_id, body=b"not json at all")  # bypasses the door, which would refuse it
    ebbing.remember("after")

    until(lambda: ebbing.stats().dead_letters == 1, "the dead letter is counted")
    assert ebbing.stats().memories["active"] == 2
    until(lambda: set(ebbing.stats().pending.values()) == {0}, "nothing waits any more")


def test_metrics_tell_an_operator_how_it_goes(service: Service, ebbing: Client) -> None:
    ebbing.remember("count me in")

    def metrics() -> dict[str, float]:
        lines = service.operator.http.get("/metrics").text.splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    until(lambda: metrics()["ebbing_embedded_memories_total"] >= 1, "the embedded memory is counted")
    assert metrics()["ebbing_stored_memories_total"] >= 1
    assert metrics()['ebbing_ingest_accepted_total{outcome="accepted"}'] >= 1
    assert metrics()["ebbing_stores_reachable"] == 1
    until(lambda: metrics().get('ebbing_lane_silent_seconds{lane="embed"}', 60) < 15, "heartbeats of the lane's worker")
    until(lambda: metrics().get("ebbing_beat_silent_seconds", 60) < 15, "heartbeats of beat")


def test_readiness_names_what_the_service_leans_on(service: Service) -> None:
    ready = service.operator.http.get("/readyz").json()

    names = {dependency["name"] for dependency in ready["dependencies"] if dependency["well"]}
    assert {"postgresql", "schema", "redis"} <= names
