"""`EbbingHistory` and the memory tools against a running service, with Pydantic AI's agent and a scripted model."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ebbing_client import AsyncEbbing, Ebbing
from ebbing_client.adapters.pydantic_ai import EbbingHistory, memory_tools
from tests.adapters import pages
from tests.adapters.ageing import list_leaving

IMAGE = BinaryContent(data=b"\x00\xff" * 10_000, media_type="image/png")
MESSAGES: list[ModelMessage] = [
    ModelRequest(parts=[SystemPromptPart("Be brief."), UserPromptPart(["Which tea does Ann drink?", IMAGE])]),
    ModelResponse(parts=[ThinkingPart("Hm."), ToolCallPart("look_up", {"what": "tea"}, tool_call_id="c1")]),
    ModelRequest(parts=[ToolReturnPart("look_up", {"tea": "rooibos\0"}, tool_call_id="c1")]),
    ModelResponse(parts=[TextPart("Ann drinks rooibos")]),
]


def test_messages_come_back_unchanged_and_in_order(client: Ebbing, name: str) -> None:
    async def run() -> None:
        history = EbbingHistory(name, client)
        assert await history.load() == []
        await history.append(MESSAGES[:1])
        await history.append([])
        await history.append(MESSAGES[1:])
        # Reading a message from JSON turns a BinaryContent into a BinaryImage.
        expected = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(MESSAGES))
        assert await history.load() == await history.load(limit=4) == expected
        assert await history.load(limit=3) == [], "no result lacks its call, and no answer its question"
        more = [ModelRequest(parts=[UserPromptPart("And Bo?")]), ModelResponse(parts=[TextPart("Milk")])]
        await history.append(more)
        assert await history.load(limit=4) == more
        assert await EbbingHistory(f"{name}2", client).load() == []
        await history.clear()
        assert await history.load() == []

    asyncio.run(run())


def test_other_conversations_find_what_was_said(client: Ebbing, name: str) -> None:
    asyncio.run(EbbingHistory(name, client, subject=name, tags=["chat"]).append(MESSAGES))
    stored = [memory for memory in client.memories(thread=name, tag="chat") if memory.metadata["part"] == 0]
    assert [(memory.role, memory.text) for memory in reversed(stored)] == [
        ("user", "Which tea does Ann drink?"),
        ("system", "(continued)"),
        ("system", "(continued)"),
        ("assistant", "Ann drinks rooibos"),
    ]
    assert {hit.text for hit in client.search("tea rooibos", subject=name)} == {stored[0].text, stored[-1].text}
    client.forget(name)
    assert asyncio.run(EbbingHistory(name, client).load()) == []


def test_a_history_does_not_forget(client: Ebbing, name: str) -> None:
    asyncio.run(EbbingHistory(f"{name}-kept", client).append(MESSAGES))
    asyncio.run(EbbingHistory(f"{name}-fading", client, is_kept=False).append(MESSAGES))
    kept, fading = ({memory.id for memory in client.memories(thread=f"{name}-{kind}")} for kind in ("kept", "fading"))
    leaving = list_leaving(client)
    assert (kept & leaving, fading <= leaving) == (set(), True)


def calls(tool: str, **arguments: str) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(tool, arguments)])


def test_an_agent_continues_a_history_and_uses_the_tools(name: str) -> None:
    answers: list[ModelResponse] = []
    asked: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.append(messages)
        assert sorted(tool.name for tool in info.function_tools) == ["forget", "recall", "remember"]
        assert all(tool.description for tool in info.function_tools)
        return answers.pop(0)

    async def run() -> None:
        async with AsyncEbbing(timeout=120) as client:
            history = EbbingHistory(f"{name}-1", client, subject=name)
            agent: Any = Agent(FunctionModel(answer), tools=memory_tools(client, name))

            async def say(prompt: str) -> str:
                result = await agent.run(prompt, message_history=await history.load())
                await history.append(result.new_messages())
                return str(result.output)

            answers.extend([calls("remember", text="Ann drinks rooibos tea"), ModelResponse(parts=[TextPart("Noted")])])
            assert await say("I drink rooibos.") == "Noted"
            answers.extend(
                [calls("recall", question="Which tea does Ann drink?"), ModelResponse(parts=[TextPart("R.")])]
            )
            assert await say("Which tea?") == "R."
            assert "Ann drinks rooibos tea" in str(asked[-1][-1].parts[0].content)
            assert [type(message) for message in await history.load()] == [ModelRequest, ModelResponse] * 4
            [fact] = [each async for each in client.memories(subject=name) if each.thread is None]
            answers.extend([calls("forget", memory_id=fact.id), ModelResponse(parts=[TextPart("Done")])])
            assert await say("Forget that.") == "Done"
            assert not [each async for each in client.memories(subject=name) if each.thread is None]

    asyncio.run(run())


def test_the_page_works(client: Ebbing) -> None:
    assert pages.run("pydantic_ai") == pages.output("pydantic_ai")
