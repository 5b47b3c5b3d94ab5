"""Chapter 1: sending memories.

A memory is a line of text that an agent was given or has observed, with any metadata known about it.
Sending is fast because little happens: the service validates the request, puts it into a queue that survives
a crash, and answers 202 with an id for each memory. A worker stores and indexes the memories a moment later.
"""

from __future__ import annotations

from uuid import UUID

from tests.fundamentals.client import Accepted, Client, read, refusal
from tests.fundamentals.service import Service
from tests.waiting import until


def test_sending_answers_at_once_with_an_id_for_each_memory_in_the_order_given(ebbing: Client) -> None:
    answer = ebbing.send("Ana is allergic to peanuts.", "Ana's birthday is in May.")

    assert answer.status_code == 202
    first, second = read(answer, Accepted).ids
    assert UUID(first).version == UUID(second).version == 7  # ids sort by time
    assert first < second


def test_only_the_text_is_needed_and_one_memory_needs_no_list(ebbing: Client) -> None:
    answer = ebbing.http.post("/v1/memories", json={"text": "The spare key is under the flowerpot."})

    assert len(read(answer, Accepted).ids) == 1


def test_many_memories_can_come_as_one_json_object_a_line(ebbing: Client) -> None:
    lines = '{"text": "Water the plants."}\n{"text": "Feed the cat."}\n'

    answer = ebbing.http.post("/v1/memories", content=lines, headers={"content-type": "application/x-ndjson"})

    assert len(read(answer, Accepted).ids) == 2


def test_a_chat_can_be_sent_as_its_messages_are(ebbing: Client) -> None:
    messages = [
        {"role": "user", "name": "Ana", "content": "Remind me to call the dentist."},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function"}]},
        {"role": "assistant", "content": "I have set a reminder for Monday."},
    ]

    answer = read(ebbing.http.post("/v1/memories", json={"messages": messages, "thread": "dentist"}), Accepted)

    sent = [ebbing.get(memory_id) for memory_id in answer.ids]
    assert [(memory.role, memory.speaker, memory.thread) for memory in sent] == [
        ("user", "Ana", "dentist"),
        ("assistant", None, "dentist"),
    ]
    assert answer.skipped == [{"message": 1, "reason": "no text"}]


def test_a_memory_can_be_read_while_it_still_waits(service: Service, ebbing: Client) -> None:
    with service.paused("ingest"):
        [memory_id] = read(ebbing.send("The meeting moved to Friday."), Accepted).ids

        waiting = ebbing.get(memory_id)

        assert (waiting.status, waiting.text) == ("pending", "The meeting moved to Friday.")
        assert ebbing.stats().pending["ingest"] == 1
    until(lambda: ebbing.get(memory_id).status != "pending", "the memory is stored")


def test_who_wants_to_wait_until_memories_can_be_found_says_so(ebbing: Client) -> None:
    answer = ebbing.send("The wifi password is on the fridge.", prefer="wait=300")

    assert answer.status_code == 200  # instead of 202: processing is complete
    assert answer.headers["preference-applied"] == "wait=300"
    [memory_id] = read(answer, Accepted).ids
    assert ebbing.get(memory_id).status == "embedded"


def test_who_waits_gets_an_honest_answer_when_time_is_up(service: Service, ebbing: Client) -> None:
    with service.paused("ingest"):
        assert ebbing.send("The train leaves at nine.", prefer="wait=0").status_code == 202


def test_a_request_that_got_no_answer_is_sent_again_with_the_same_idempotency_key(ebbing: Client) -> None:
    first = ebbing.send("Paid the rent for June.", idempotency_key="rent-june")
    again = ebbing.send("Paid the rent for June.", idempotency_key="rent-june", prefer="wait=300")

    assert read(again, Accepted) == read(first, Accepted)
    assert [memory.id for memory in ebbing.page().memories] == read(first, Accepted).ids


def test_a_key_is_for_one_request_another_body_under_it_is_a_conflict(ebbing: Client) -> None:
    ebbing.send("Paid the rent for June.", idempotency_key="rent")

    problem = refusal(ebbing.send("Paid the rent for July.", idempotency_key="rent"))

    assert (problem.status, problem.type) == (409, "urn:ebbing:problem:conflict")
