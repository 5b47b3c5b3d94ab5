"""Chapter 12: the interface of mem0's `Memory`, against the running service."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from ebbing_client import AsyncEbbing, Ebbing, Invalid, Misconfigured
from ebbing_client.mem0 import AsyncMemory, Memory
from tests.fundamentals.service import Service, Tenant
from tests.waiting import PATIENCE_SECONDS

WAIT = int(PATIENCE_SECONDS)
ANN: dict[str, Any] = {"filters": {"user_id": "ann"}}


@pytest.fixture
def memory(service: Service, tenant: Tenant) -> Iterator[Memory]:
    with Ebbing(service.url, tenant.api_key, timeout=PATIENCE_SECONDS) as client:
        yield Memory(client, wait=WAIT)


def texts(found: dict[str, Any]) -> list[str]:
    return [each["memory"] for each in found["results"]]


def test_a_text_has_the_life_of_a_mem0_memory(memory: Memory) -> None:
    [added] = memory.add("Ann drinks rooibos", user_id="ann", agent_id="cook", metadata={"topic": "tea"})["results"]
    tea = added["id"]
    assert added == {"id": tea, "memory": "Ann drinks rooibos", "event": "ADD", "role": "user"}
    [found] = memory.search("Which tea does Ann drink?", **ANN)["results"]
    assert (found["id"], found["user_id"], found["agent_id"], found["metadata"]) == (
        tea,
        "ann",
        "cook",
        {"topic": "tea"},
    )
    assert found["hash"] == hashlib.md5(b"Ann drinks rooibos", usedforsecurity=False).hexdigest()
    assert isinstance(found["score"], float)
    assert memory.update(tea, "Ann drinks mint tea") == {"message": "Memory updated successfully!"}
    shown = memory.get(tea)
    assert shown is not None
    assert (shown["memory"], shown["role"], shown["metadata"]) == ("Ann drinks mint tea", "user", {"topic": "tea"})
    assert "run_id" not in shown
    events = memory.history(tea)
    assert [(each["event"], each["old_memory"], each["new_memory"]) for each in events] == [
        ("ADD", None, None),
        ("UPDATE", None, "Ann drinks mint tea"),
    ]
    assert memory.delete(tea) == {"message": "Memory deleted successfully!"}
    assert (memory.get(tea), memory.history(tea)) == (None, [])


def test_messages_are_stored_one_by_one_and_selected_by_ids_and_metadata(memory: Memory) -> None:
    messages = [
        {"role": "user", "content": "My son is six", "name": "Ann"},
        {"role": "assistant", "content": "Good to know"},
        {"role": "user", "content": ""},
    ]
    results = memory.add(messages, user_id="ann", run_id="monday", expiration_date="2099-12-31")["results"]
    assert [(each["memory"], each["role"]) for each in results] == [
        ("My son is six", "user"),
        ("Good to know", "assistant"),
    ]
    memory.add({"role": "user", "content": "Ann cooks"}, user_id="ann", agent_id="cook", timestamp=1_790_000_000)
    memory.add("Bob cooks", user_id="bob", metadata={"topic": "food", "level": 2}, memory_type="procedural_memory")
    assert sorted(texts(memory.get_all(**ANN))) == ["Ann cooks", "Good to know", "My son is six"]
    assert len(texts(memory.get_all(top_k=2, **ANN))) == 2
    assert texts(memory.get_all(filters={"agent_id": "cook"})) == ["Ann cooks"]
    assert texts(memory.get_all(filters={"user_id": "bob", "topic": "food"})) == ["Bob cooks"]
    assert texts(memory.get_all(filters={"user_id": "bob", "topic": "sports"})) == []
    assert texts(memory.search("Who cooks?", filters={"user_id": "bob", "level": 2}, explain=True)) == ["Bob cooks"]
    assert texts(memory.search("Who cooks?", filters={"agent_id": "cook", "user_id": "bob"})) == []
    [son, *_] = sorted(memory.get_all(filters={"run_id": "monday"})["results"], key=lambda each: each["role"])[::-1]
    assert (son["actor_id"], son["run_id"], son["expiration_date"]) == ("Ann", "monday", "2099-12-31")
    memory.update(son["id"], expiration_date=None)
    shown = memory.get(son["id"])
    assert shown is not None
    assert "expiration_date" not in shown
    assert memory.delete_all(user_id="ann", agent_id="cook") == {"message": "Memories deleted successfully!"}
    assert sorted(texts(memory.get_all(**ANN))) == ["Good to know", "My son is six"]
    memory.delete_all(user_id="ann")
    assert (texts(memory.get_all(**ANN)), texts(memory.get_all(filters={"user_id": "bob"}))) == ([], ["Bob cooks"])


@pytest.mark.parametrize(
    ("method", "arguments", "field"),
    [
        ("add", {"messages": "x"}, "filters"),
        ("add", {"messages": "x", "user_id": "ann", "infer": True}, "infer"),
        ("add", {"messages": "x", "user_id": "ann", "prompt": "Extract"}, "prompt"),
        ("add", {"messages": "x", "user_id": "ann", "memory_type": "core"}, "memory_type"),
        ("add", {"messages": "x", "user_id": "ann", "expiration_date": "soon"}, "expiration_date"),
        ("search", {"query": "x"}, "filters"),
        ("search", {"query": "x", "user_id": "ann"}, "user_id"),
        ("search", {"query": "x", "threshold": 0.5, **ANN}, "threshold"),
        ("search", {"query": "x", "filters": {"OR": [{"user_id": "ann"}]}}, "filters.OR"),
        ("search", {"query": "x", "filters": {"user_id": "ann", "level": {"gt": 1}}}, "filters.level"),
        ("get_all", {"show_expired": True, **ANN}, "show_expired"),
        ("delete_all", {}, "filters"),
    ],
)
def test_what_has_no_counterpart_is_refused_by_name(
    memory: Memory, method: str, arguments: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        getattr(memory, method)(**arguments)
    assert [problem.field for problem in refused.value.fields] == [field]


def test_unknown_arguments_and_clients_with_buffers_are_refused(memory: Memory, service: Service) -> None:
    with pytest.raises(TypeError, match="'limit'"):
        memory.search("x", limit=3, **ANN)  # type: ignore[call-arg]
    with Ebbing(service.url, "k", batch_size=10) as client, pytest.raises(Misconfigured, match="batches"):
        Memory(client)


def test_the_asynchronous_twin_has_the_same_methods(service: Service, tenant: Tenant) -> None:
    methods = {name: list(inspect.signature(each).parameters) for name, each in vars(Memory).items() if name[0] != "_"}
    assert methods == {
        name: list(inspect.signature(each).parameters) for name, each in vars(AsyncMemory).items() if name[0] != "_"
    }

    async def use() -> None:
        async with AsyncEbbing(service.url, tenant.api_key, timeout=PATIENCE_SECONDS) as client:
            memory = AsyncMemory(client, wait=WAIT)
            [added] = (await memory.add("Bob plays chess", user_id="bob"))["results"]
            bob: dict[str, Any] = {"filters": {"user_id": "bob"}}
            assert texts(await memory.search("Who plays?", **bob)) == ["Bob plays chess"]
            assert texts(await memory.get_all(top_k=1, **bob)) == ["Bob plays chess"]
            await memory.update(added["id"], data="Bob plays go")
            shown = await memory.get(added["id"])
            assert shown is not None
            assert shown["memory"] == "Bob plays go"
            assert [each["event"] for each in await memory.history(added["id"])] == ["ADD", "UPDATE"]
            await memory.delete(added["id"])
            assert await memory.get(added["id"]) is None
            assert await memory.history(added["id"]) == []
            await memory.add("Bob sings", user_id="bob")
            await memory.delete_all(user_id="bob")
            assert texts(await memory.get_all(**bob)) == []

    asyncio.run(use())
