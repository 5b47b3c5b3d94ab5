"""Chapter 2: storing memories.

A worker takes pending requests from the queue and stores each memory exactly once, despite crashes and retries.
Messages of a conversation stay in order. A caller with its own ids can send them as `external_id`: a repeated id
refers to the same memory.
"""

from __future__ import annotations

from tests.fundamentals.client import Accepted, Client, read
from tests.waiting import until


def test_a_stored_memory_is_read_as_it_was_given(ebbing: Client) -> None:
    [memory_id] = ebbing.remember(
        {"text": "Ben prefers tea.", "subject": "ben", "thread": "kitchen", "tags": ["drinks"], "metadata": {"n": 1}}
    )

    memory = ebbing.get(memory_id)

    assert (memory.text, memory.subject, memory.thread, memory.tags) == (
        "Ben prefers tea.",
        "ben",
        "kitchen",
        ["drinks"],
    )


def test_each_memory_is_stored_once_however_often_it_is_sent(ebbing: Client) -> None:
    answers = [ebbing.send("One of a kind.", idempotency_key="once") for _ in range(4)]
    ebbing.send("One of a kind.", idempotency_key="once", prefer="wait=20")

    assert len({read(answer, Accepted).ids[0] for answer in answers}) == 1
    assert ebbing.stats().memories["active"] == 1


def test_the_same_words_under_two_keys_are_two_memories(ebbing: Client) -> None:
    ebbing.remember("It rained.")
    ebbing.remember("It rained.")

    assert ebbing.stats().memories["active"] == 2


def test_a_list_shows_the_newest_first_page_by_page(ebbing: Client) -> None:
    ids = ebbing.remember("one", "two", "three")

    newest = ebbing.page(limit=2)
    oldest = ebbing.page(limit=2, cursor=newest.next_cursor or "")

    assert [memory.id for memory in newest.memories + oldest.memories] == ids[::-1]
    assert oldest.next_cursor is None


def test_what_was_said_in_a_thread_keeps_its_order_over_requests(ebbing: Client) -> None:
    said = [[f"line {request}.{place}" for place in range(3)] for request in range(4)]
    for lines in said:
        ebbing.send(*({"text": line, "thread": "chat"} for line in lines))

    def stored() -> list[str]:
        return [memory.text for memory in ebbing.page(thread="chat").memories]

    until(lambda: len(stored()) == 12, "all lines are stored")
    assert stored()[::-1] == [line for lines in said for line in lines]


def test_the_same_external_id_again_updates_the_memory(ebbing: Client) -> None:
    [first] = ebbing.remember({"text": "Ana lives in Porto.", "external_id": "ana-home"})
    [again] = ebbing.remember({"text": "Ana lives in Faro.", "external_id": "ana-home"})

    assert ebbing.get(first).text == "Ana lives in Faro."
    assert ebbing.get(again).id == first  # the repeat's id resolves to the existing memory
    assert ebbing.stats().memories["active"] == 1


def test_within_a_request_the_last_memory_of_an_external_id_counts(ebbing: Client) -> None:
    ids = ebbing.remember(
        {"text": "Draft.", "external_id": "letter"},
        {"text": "Final version.", "external_id": "letter"},
    )

    assert {ebbing.get(memory_id).text for memory_id in ids} == {"Final version."}
    assert ebbing.stats().memories["active"] == 1
