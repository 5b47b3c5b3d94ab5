"""`GET /v1/threads`, and the memories of a thread in order (seed 003, section "HTTP")."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from app.services.memories import memories
from tests.api.caller import Api

PATH = "/v1/threads"


def pages(api: Api, path: str, noun: str, **params: Any) -> list[dict[str, Any]]:
    """Return the entries of all pages of a list; every page but the last has `limit` entries."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    for _ in range(20):
        body = api.get(path, params=params | cursor).json()
        found += body[noun]
        if body["next_cursor"] is None:
            return found
        assert len(body[noun]) == params["limit"]
        cursor = {"cursor": body["next_cursor"]}
    raise AssertionError("the list doesn't end")


def test_threads_are_listed_with_counts_times_and_subjects(api: Api) -> None:
    api.remember(
        {"text": "1", "thread": "b", "subject": "bo", "occurred_at": "2026-03-07T12:00:00Z"},
        {"text": "2", "thread": "b", "subject": "ann", "occurred_at": "2026-03-05T12:00:00Z"},
        {"text": "3", "thread": "b", "subject": "bo"},
        {"text": "4", "thread": "a/ü"},
        {"text": "5", "thread": "c", "subject": "cy"},
        "6",
    )
    found = pages(api, PATH, "threads", limit=2)
    assert [(each["thread"], each["memories"], each["subjects"], each["subject_count"]) for each in found] == [
        ("a/ü", 1, [], 0),
        ("b", 3, ["ann", "bo"], 2),
        ("c", 1, ["cy"], 1),
    ]
    assert found[1]["first_at"] == "2026-03-05T12:00:00Z"
    assert found[1]["last_at"] > "2026-03-07T12:00:00Z", "the time of acceptance, where none is given"
    assert [each["thread"] for each in pages(api, PATH, "threads", limit=1, subject="ann")] == ["b"]
    assert pages(api, PATH, "threads", limit=1, subject="nobody") == []
    api.change_tenant()
    assert api.get(PATH).json() == {"threads": [], "next_cursor": None}


def test_hidden_memories_and_their_threads_are_not_listed(api: Api) -> None:
    ids = api.remember(*({"text": f"{n}", "thread": thread} for n, thread in enumerate("aabcd")))
    for memory_id in (ids[0], ids[2]):
        assert api.delete(f"/v1/memories/{memory_id}").status_code == 202
    found = pages(api, PATH, "threads", limit=1)
    assert [(each["thread"], each["memories"]) for each in found] == [("a", 1), ("c", 1), ("d", 1)]


def test_many_subjects_are_counted_and_not_all_listed(api: Api) -> None:
    api.remember(*({"text": f"{n}", "thread": "t", "subject": f"{n:02}"} for n in range(25)))
    [found] = api.get(PATH).json()["threads"]
    assert (found["subjects"], found["subject_count"]) == ([f"{n:02}" for n in range(20)], 25)


def test_a_thread_that_was_erased_ends_the_list(api: Api) -> None:
    api.remember({"text": "1", "thread": "a"}, {"text": "2", "thread": "b"})
    cursor = api.get(PATH, params={"limit": 1}).json()["next_cursor"]
    assert "a" not in api.get(PATH, params={"limit": 1, "cursor": cursor}).json()["threads"][0]["thread"]
    api.service.rows("DELETE FROM memories WHERE thread = 'a'")
    answer = api.get(PATH, params={"cursor": cursor})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor")


def test_turns_are_listed_in_order_of_acceptance_with_their_numbers(api: Api) -> None:
    ids = []
    for n, day in enumerate((9, 3, 7, 5, 1)):
        memory = {"text": f"turn {n}", "thread": "t", "occurred_at": f"2026-03-0{day}T12:00:00Z", "tags": [f"{n % 2}"]}
        ids += api.remember(memory, {"text": "elsewhere", "thread": "u"})[:1]
    turns = {"thread": "t", "order": "thread"}
    found = pages(api, "/v1/memories", "memories", limit=2, **turns)
    assert [(each["id"], each["turn"]) for each in found] == [(memory_id, n + 1) for n, memory_id in enumerate(ids)]
    odd = pages(api, "/v1/memories", "memories", limit=1, tag="1", **turns)
    assert [(each["text"], each["turn"]) for each in odd] == [("turn 1", 2), ("turn 3", 4)]
    late = pages(api, "/v1/memories", "memories", limit=1, strength_above=0, after="2026-03-06T00:00:00Z", **turns)
    assert [each["turn"] for each in late] == [1, 3]
    memories.delete(api.tenant.tenant_id, UUID(ids[1]))
    assert [(each["text"], each["turn"]) for each in pages(api, "/v1/memories", "memories", limit=9, **turns)] == [
        ("turn 0", 1),
        ("turn 2", 2),
        ("turn 3", 3),
        ("turn 4", 4),
    ]
    newest = api.get("/v1/memories", params={"thread": "t"}).json()["memories"]
    assert [each["text"] for each in newest] == ["turn 4", "turn 3", "turn 2", "turn 0"]
    assert all("turn" not in each for each in newest)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"order": "thread"}, "thread"),
        ({"order": "thread_newest"}, "thread"),
        ({"order": "oldest"}, "order"),
        ({"order": "thread", "thread": "t", "cursor": "AaHzwnweekCdETtfDG6KAQ"}, "cursor"),
        ({"thread": "t", "cursor": "7"}, "cursor"),
    ],
)
def test_an_order_that_can_not_be_is_refused(api: Api, params: dict[str, str], field: str) -> None:
    answer = api.get("/v1/memories", params=params)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, field)


def test_the_newest_turns_of_a_thread_come_first_with_their_numbers(api: Api) -> None:
    api.remember(*({"text": f"{n}", "thread": "t"} for n in range(1, 6)), {"text": "other", "thread": "u"})
    found = pages(api, "/v1/memories", "memories", thread="t", order="thread_newest", limit=2)
    assert [(each["text"], each["turn"]) for each in found] == [(f"{n}", n) for n in (5, 4, 3, 2, 1)]
