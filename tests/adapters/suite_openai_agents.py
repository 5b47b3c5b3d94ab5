"""`EbbingSession` and the memory tools against a running service, with the SDK's runner and a scripted model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import pytest
from agents import Agent, Model, ModelResponse, Runner, Session, SessionSettings, SQLiteSession, Usage, function_tool
from agents.tool_context import ToolContext
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from ebbing_client import AsyncEbbing, Ebbing
from ebbing_client.adapters.openai_agents import EbbingSession, memory_tools
from tests.adapters import pages
from tests.adapters.ageing import list_leaving

USER = {"role": "user", "content": "Which tea does Ann drink? Ü ✓"}
CALL = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": '{"what": "tea"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": 'rooibos\0"\\'}
REASONING = {"type": "reasoning", "id": "r1", "summary": []}
ANSWER = {
    "type": "message",
    "role": "assistant",
    "id": "m1",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Ann drinks rooibos", "annotations": []}],
}
ITEMS: list[Any] = [USER, CALL, OUTPUT, REASONING, ANSWER]


@pytest.fixture
def session(client: Ebbing, name: str) -> EbbingSession:
    return EbbingSession(name, client)


def test_it_is_a_session(session: EbbingSession) -> None:
    assert isinstance(session, Session)


def test_items_come_back_unchanged_and_in_order(session: EbbingSession) -> None:
    async def run() -> None:
        assert await session.get_items() == []
        await session.add_items(ITEMS[:2])
        await session.add_items([])
        await session.add_items(ITEMS[2:])
        found = await session.get_items()
        assert found == ITEMS
        assert [list(item) for item in found] == [list(item) for item in ITEMS], "fields keep their order"
        assert await session.get_items(limit=2) == ITEMS[-2:]
        assert await session.get_items(limit=0) == []
        assert await session.get_items(limit=99) == ITEMS

    asyncio.run(run())


def test_sessions_behave_like_the_sdks_own(session: EbbingSession) -> None:
    async def run(other: Session) -> list[Any]:
        seen: list[Any] = [await other.pop_item()]
        await other.add_items([{"role": "user", "content": str(n)} for n in range(5)])
        seen += [await other.pop_item(), await other.pop_item(), await other.get_items(2), await other.get_items(0)]
        await other.add_items([USER, USER])
        seen += [await other.get_items()]
        await other.clear_session()
        seen += [await other.get_items(), await other.pop_item()]
        await other.add_items([ANSWER])
        return [*seen, await other.get_items()]

    assert asyncio.run(run(session)) == asyncio.run(run(SQLiteSession("s")))


def test_settings_limit_the_items(client: Ebbing, name: str) -> None:
    async def run() -> None:
        session = EbbingSession(name, client, session_settings=SessionSettings(limit=3))
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS[-3:]
        assert await session.get_items(limit=1) == ITEMS[-1:]

    asyncio.run(run())


def test_long_histories_and_long_items(session: EbbingSession) -> None:
    large = {"type": "function_call_output", "call_id": "c", "output": '"\\ü😀' * 20_000}
    many = [{"role": "user", "content": f"turn {n}"} for n in range(250)]

    async def run() -> None:
        await session.add_items([*many, large])
        assert await session.get_items(limit=1) == [large]
        assert await session.get_items() == [*many, large]
        assert await session.pop_item() == large
        assert await session.get_items(limit=120) == many[-120:]

    asyncio.run(run())


def test_writers_beside_each_other_lose_nothing(name: str) -> None:
    async def run() -> None:
        async with AsyncEbbing(timeout=120) as client:
            sessions = [EbbingSession(name, client) for _ in range(3)]
            await asyncio.gather(
                *(each.add_items([{"role": "user", "content": f"{n}"}]) for n, each in enumerate(sessions))
            )
            found = await sessions[0].get_items()
            assert sorted(str(item["content"]) for item in found) == ["0", "1", "2"]
            popped = await asyncio.gather(*(each.pop_item() for each in sessions))
            assert sorted(str(item["content"]) for item in popped if item) == ["0", "1", "2"]
            assert await sessions[0].pop_item() is None

    asyncio.run(run())


def test_other_conversations_recall_what_was_said(client: Ebbing, name: str) -> None:
    session = EbbingSession(f"{name}-1", client, subject=name, tags=["chat"])
    asyncio.run(session.add_items(ITEMS))
    memories = list(client.memories(thread=f"{name}-1", tag="chat"))
    assert [(memory.role, memory.text) for memory in reversed(memories)] == [
        ("user", USER["content"]),
        ("tool", 'look_up {"what": "tea"}'),
        ("tool", 'rooibos "\\'),
        ("system", "(continued)"),
        ("assistant", "Ann drinks rooibos"),
    ]
    found = client.search("rooibos", subject=name, exclude_thread=f"{name}-2")
    assert "Ann drinks rooibos" in [hit.text for hit in found]
    assert {hit.role for hit in found} <= {"user", "assistant"}


def test_a_history_does_not_forget(client: Ebbing, name: str) -> None:
    asyncio.run(EbbingSession(f"{name}-kept", client).add_items(ITEMS))
    asyncio.run(EbbingSession(f"{name}-fading", client, is_kept=False).add_items(ITEMS))
    kept, fading = ({memory.id for memory in client.memories(thread=f"{name}-{kind}")} for kind in ("kept", "fading"))
    leaving = list_leaving(client)
    assert (kept & leaving, fading <= leaving) == (set(), True)


def test_an_erasure_of_the_person_empties_the_session(client: Ebbing, name: str) -> None:
    session = EbbingSession(f"{name}-1", client, subject=name)
    asyncio.run(session.add_items(ITEMS))
    client.forget(name)
    assert asyncio.run(session.get_items()) == []


class Scripted(Model):
    """A model that gives prepared answers, and notes what it is asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.inputs: list[Any] = []

    async def get_response(self, **given: Any) -> ModelResponse:
        self.inputs.append(given["input"])
        return ModelResponse(output=[self.answers.pop(0)], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def says(text: str) -> ResponseOutputMessage:
    content = [ResponseOutputText(type="output_text", text=text, annotations=[])]
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=content)


def calls(name: str, **arguments: str) -> ResponseFunctionToolCall:
    return ResponseFunctionToolCall(type="function_call", call_id="c", name=name, arguments=json.dumps(arguments))


def test_the_runner_continues_a_session(client: Ebbing, name: str) -> None:
    @function_tool
    def look_up(what: str) -> str:
        """Look something up."""
        return f"{what}: rooibos"

    async def run() -> None:
        model = Scripted(calls("look_up", what="tea"), says("Rooibos."), says("As I said, rooibos."))
        agent = Agent(name="a", model=model, tools=[look_up])
        first = await Runner.run(agent, "Which tea?", session=EbbingSession(name, client))
        again = await Runner.run(agent, "Again?", session=EbbingSession(name, client))
        assert (first.final_output, again.final_output) == ("Rooibos.", "As I said, rooibos.")
        kinds = [item.get("role") or item.get("type") for item in model.inputs[-1]]
        assert kinds == ["user", "function_call", "function_call_output", "assistant", "user"]
        assert len(await EbbingSession(name, client).get_items()) == 6

    asyncio.run(run())


def test_an_agent_remembers_recalls_and_forgets(client: Ebbing, name: str) -> None:
    async def run() -> None:
        tools = memory_tools(client, name)
        assert [tool.name for tool in tools] == ["remember", "recall", "forget"]
        assert all(tool.description and "self" not in tool.params_json_schema["properties"] for tool in tools)
        model = Scripted(calls("remember", text="Ann drinks rooibos tea"), says("Noted."))
        await Runner.run(Agent(name="a", model=model, tools=tools), "I drink rooibos.")
        [memory] = client.memories(subject=name)
        assert (memory.text, memory.role) == ("Ann drinks rooibos tea", "assistant")

        model = Scripted(calls("recall", question="Which tea does Ann drink?"), says("Rooibos."))
        await Runner.run(Agent(name="a", model=model, tools=tools), "Which tea?")
        assert f"[{memory.id}]" in model.inputs[-1][-1]["output"]
        model = Scripted(calls("forget", memory_id=f"[{memory.id}]"), says("Done."))
        await Runner.run(Agent(name="a", model=model, tools=tools), "Forget that.")
        assert list(client.memories(subject=name)) == []

    asyncio.run(run())


def test_tools_stay_within_the_person_and_explain_refusals(client: Ebbing, name: str) -> None:
    [other] = client.add("Bo drinks milk", subject=f"{name}-bo", wait=30).ids

    def invoke(tool: Any, **arguments: str) -> Coroutine[Any, Any, str]:
        context = ToolContext(None, tool_name=tool.name, tool_call_id="c", tool_arguments="")
        return tool.on_invoke_tool(context, json.dumps(arguments))  # type: ignore[no-any-return]

    async def run() -> None:
        remember, recall, forget = memory_tools(client, name)
        assert await invoke(recall, question="What does Bo drink?") == "No memory is relevant."
        for unknown in (other, "nonsense"):
            assert await invoke(forget, memory_id=unknown) == f"There is no memory [{unknown}]."
        assert await invoke(remember, text=" ") == "Not stored: text must not be blank."

    asyncio.run(run())
    assert client.get(other).text == "Bo drinks milk"


def test_the_page_works(client: Ebbing) -> None:
    assert pages.run("openai_agents") == pages.output("openai_agents")
