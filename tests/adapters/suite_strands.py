"""`EbbingMemoryStore` against a running service, alone and behind Strands' `MemoryManager` and agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from strands import Agent
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext, MemoryEntry, _has_method
from strands.models import Model

from ebbing_client import AsyncEbbing, Ebbing
from ebbing_client.adapters.strands import EbbingMemoryStore
from tests.adapters import pages


@pytest.fixture
def store(client: Ebbing, name: str) -> EbbingMemoryStore:
    return EbbingMemoryStore(client, name)


def contents(found: list[MemoryEntry]) -> list[str]:
    return [entry.content for entry in found]


def test_facts_are_added_once_and_found(client: Ebbing, store: EbbingMemoryStore, name: str) -> None:
    async def run() -> None:
        ids = [await store.add("Ann drinks rooibos tea", {"place": "home", "id": "mine"}) for _ in range(2)]
        await store.add("The car needs new tyres")
        [best] = await store.search("Which tea does Ann drink?", {"max_search_results": 1})
        assert (best.content, best.metadata and best.metadata["place"]) == ("Ann drinks rooibos tea", "home")
        assert best.metadata
        assert best.metadata["id"] == ids[0]
        assert contents(await store.search("tyres"))[0] == "The car needs new tyres"
        assert len(await store.search("tea tyres", {"max_search_results": 1_000})) == 2
        assert await store.search(" ") == []
        assert await EbbingMemoryStore(client, f"{name}2").search("tea") == []
        assert await EbbingMemoryStore(client, name, name="other").search("tea") == []
        assert len(await EbbingMemoryStore(client, name, max_search_results=1).search("tea tyres")) == 1

    asyncio.run(run())
    assert len(list(client.memories(subject=name))) == 2


def said(*texts: str) -> list[Any]:
    return [{"role": "user", "content": [{"text": text}, {"image": {}}]} for text in texts]


def test_a_repeated_batch_of_messages_is_stored_once(client: Ebbing, name: str) -> None:
    store = EbbingMemoryStore(client, name, thread=f"{name}-1")

    async def run() -> None:
        for _ in range(2):
            await store.add_messages(said("ok", "ok", " "), AddMessagesContext([0, 1, 2]))
        await store.add_messages(said("another run"), AddMessagesContext([0]))
        await store.add_messages(said("without numbers"))
        await store.add_messages([])

    asyncio.run(run())
    stored = list(client.memories(subject=name, thread=f"{name}-1"))
    assert [memory.text for memory in reversed(stored)] == ["ok", "ok", "another run", "without numbers"]
    assert {memory.role for memory in stored} == {"user"}


class Scripted(Model):
    """A model that always gives the same answer, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def update_config(self, **_: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    def structured_output(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    async def stream(self, messages: Any, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        self.asked.append(str(messages))
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "Rooibos."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def test_an_agent_gets_what_matters_and_its_conversation_is_stored(name: str) -> None:
    async def run() -> None:
        async with AsyncEbbing(timeout=120) as client:
            store = EbbingMemoryStore(client, name, extraction=True)
            assert all(_has_method(store, method) for method in ("search", "add", "add_messages"))
            await store.add("Ann drinks rooibos tea")
            manager = MemoryManager(stores=[store], add_tool_config=True)
            assert sorted(tool.tool_name for tool in manager.tools) == ["add_memory", "search_memory"]
            model = Scripted()
            agent = Agent(model=model, memory_manager=manager, callback_handler=None)
            await agent.invoke_async("Which tea does Ann drink?")
            assert "Ann drinks rooibos tea" in model.asked[0]
            await manager.flush()
            await manager.add("Ann lives in Stockholm")
            texts = {memory.text async for memory in client.memories(subject=name)}
            assert texts >= {
                "Ann drinks rooibos tea",
                "Which tea does Ann drink?",
                "Rooibos.",
                "Ann lives in Stockholm",
            }

    asyncio.run(run())


def test_the_page_works(client: Ebbing) -> None:
    assert pages.run("strands") == pages.output("strands")
