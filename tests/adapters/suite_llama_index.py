"""`EbbingMemoryBlock` against a running service, alone and as part of LlamaIndex's `Memory`."""

from __future__ import annotations

import asyncio

from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store.base_db import MessageStatus

from ebbing_client import AsyncEbbing, Ebbing
from ebbing_client.adapters.llama_index import EbbingMemoryBlock
from tests.adapters import pages

SAID = [
    ChatMessage(role="user", content="My son Max is allergic to peanuts"),
    ChatMessage(role="assistant", content="Thank you for telling me"),
    ChatMessage(role="tool", content="weather: rain"),
    ChatMessage(role="user", blocks=[ImageBlock(url="https://example.org/a.png")]),
    ChatMessage(role="chatbot", blocks=[TextBlock(text="first"), TextBlock(text="second")]),
    ChatMessage(role="user", content=""),
]
QUESTION = [ChatMessage(role="user", content="What is Max allergic to?")]


def test_messages_are_stored_with_role_thread_and_person(client: Ebbing, name: str) -> None:
    block = EbbingMemoryBlock(client=client, subject=name, tags=["chat"])
    asyncio.run(block.aput(SAID, session_id=f"{name}-1"))
    asyncio.run(block.aput([]))
    stored = list(client.memories(thread=f"{name}-1", tag="chat"))
    assert [(memory.role, memory.text, memory.subject) for memory in reversed(stored)] == [
        ("user", "My son Max is allergic to peanuts", name),
        ("assistant", "Thank you for telling me", name),
        ("tool", "weather: rain", name),
        ("assistant", "first\nsecond", name),
    ]


def test_the_block_returns_what_matters_for_the_chat(client: Ebbing, name: str) -> None:
    block = EbbingMemoryBlock(client=client, subject=name)
    assert asyncio.run(block.aget(QUESTION)) == ""
    asyncio.run(block.aput(SAID))
    assert "allergic to peanuts" in asyncio.run(block.aget(QUESTION))
    assert asyncio.run(block.aget()) == asyncio.run(block.aget([])) == ""
    assert asyncio.run(EbbingMemoryBlock(client=client, subject=f"{name}2").aget(QUESTION)) == ""
    assert asyncio.run(EbbingMemoryBlock(client=client, subject=name, tags=["other"]).aget(QUESTION)) == ""
    many = [ChatMessage(role="user", content=f"turn {n}") for n in range(150)]
    assert "allergic to peanuts" in asyncio.run(block.aget([*many, *QUESTION]))
    client.forget(name)
    assert asyncio.run(block.aget(QUESTION)) == ""


def test_a_memory_flushes_old_messages_into_the_block_and_recalls_them(name: str) -> None:
    async def run() -> None:
        async with AsyncEbbing(timeout=120) as client:
            memory = Memory.from_defaults(
                session_id=name,
                token_limit=60,
                chat_history_token_ratio=0.5,
                token_flush_size=10,
                memory_blocks=[EbbingMemoryBlock(client=client, subject=name)],
            )
            await memory.aput(SAID[0])
            for number in range(12):
                await memory.aput(ChatMessage(role="user", content=f"Some small talk, number {number}, about the rain"))
                await memory.aput(ChatMessage(role="assistant", content="It rains a lot here in autumn"))
            assert all(
                "peanuts" not in str(message.content) for message in await memory.aget_all(status=MessageStatus.ACTIVE)
            )
            stored = [each async for each in client.memories(thread=name)]
            assert SAID[0].content in [each.text for each in stored]
            await memory.aput(QUESTION[0])
            prompt = await memory.aget()
            assert any("allergic to peanuts" in str(message.content) for message in prompt)

    asyncio.run(run())


def test_a_dump_has_no_client(client: Ebbing) -> None:
    assert "client" not in EbbingMemoryBlock(client=client, subject="ann").model_dump()


def test_the_page_works(client: Ebbing) -> None:
    assert pages.run("llama_index") == pages.output("llama_index")
