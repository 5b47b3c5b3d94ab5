"""`EbbingMemoryService` against a running service: ADK's interface, its runner and its memory tool."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.tools import load_memory
from google.genai import types

from ebbing_client import AsyncEbbing, Ebbing, Invalid
from ebbing_client.adapters.google_adk import EbbingMemoryService
from tests.adapters import pages


@pytest.fixture
def memory(client: Ebbing) -> EbbingMemoryService:
    return EbbingMemoryService(client)


def event(event_id: str, author: str, *texts: str, **fields: Any) -> Event:
    parts = [types.Part(text=text) for text in texts]
    content = types.Content(role="user" if author == "user" else "model", parts=parts) if parts else None
    return Event(id=event_id, author=author, content=content, timestamp=1_700_000_000.5, **fields)


def session(user: str, *events: Event, app: str = "app", session_id: str = "s") -> Session:
    return Session(id=session_id, app_name=app, user_id=user, events=list(events))


TEA = event("e1", "user", "Ann drinks rooibos tea")
NOTED = event("e2", "helper", "Noted, rooibos", "for Ann")
CAR = event("e3", "user", "The car needs new tyres")


def search(memory: EbbingMemoryService, user: str, query: str, app: str = "app") -> list[MemoryEntry]:
    found = asyncio.run(memory.search_memory(app_name=app, user_id=user, query=query))
    return list(found.memories)


def texts(entries: list[MemoryEntry]) -> list[str]:
    return [str(entry.content.parts[0].text) for entry in entries if entry.content.parts]


def test_a_session_is_added_as_it_grows(client: Ebbing, memory: EbbingMemoryService, name: str) -> None:
    empty, half = event("e4", "helper"), event("e5", "helper", "half", partial=True)
    for events in ((TEA,), (TEA, NOTED), (TEA, NOTED), (TEA, NOTED, empty, half, CAR)):
        asyncio.run(memory.add_session_to_memory(session(name, *events)))
    stored = list(client.memories(subject=name))
    assert [(each.text, each.role, each.speaker, each.thread) for each in reversed(stored)] == [
        ("Ann drinks rooibos tea", "user", "user", "s"),
        ("Noted, rooibos\nfor Ann", "assistant", "helper", "s"),
        ("The car needs new tyres", "user", "user", "s"),
    ]
    assert all(each.occurred_at and each.occurred_at.timestamp() == 1_700_000_000.5 for each in stored)
    assert len({each.id for each in stored}) == 3


def test_a_search_returns_entries_best_first(memory: EbbingMemoryService, name: str) -> None:
    asyncio.run(memory.add_session_to_memory(session(name, CAR, TEA, NOTED)))
    [best, *_] = search(memory, name, "Which tea does Ann drink?")
    assert (texts([best]), best.author, best.content.role) == (["Ann drinks rooibos tea"], "user", "user")
    assert best.timestamp == "2023-11-14T22:13:20.500000+00:00"
    assert texts(search(memory, name, "tyres"))[0] == "The car needs new tyres"
    assert search(memory, name, " ") == []
    assert texts(search(memory, name, "tyres " * 10_000))[0] == "The car needs new tyres"


def test_users_and_applications_are_separate(client: Ebbing, memory: EbbingMemoryService, name: str) -> None:
    asyncio.run(memory.add_session_to_memory(session(name, TEA)))
    asyncio.run(memory.add_session_to_memory(session(name, CAR, app="other")))
    asyncio.run(memory.add_session_to_memory(session(f"{name}2", NOTED)))
    assert texts(search(memory, name, "rooibos tyres")) == ["Ann drinks rooibos tea"]
    assert texts(search(memory, name, "rooibos tyres", app="other")) == ["The car needs new tyres"]
    assert texts(search(memory, f"{name}2", "rooibos tyres")) == ["Noted, rooibos\nfor Ann"]
    client.forget(name)
    assert search(memory, name, "rooibos") == search(memory, name, "tyres", app="other") == []
    assert len(search(memory, f"{name}2", "rooibos")) == 1


def test_events_are_added_without_their_session(client: Ebbing, memory: EbbingMemoryService, name: str) -> None:
    async def add(*events: Event, **fields: Any) -> None:
        await memory.add_events_to_memory(app_name="app", user_id=name, events=events, **fields)

    asyncio.run(add(TEA))
    asyncio.run(add(TEA, NOTED, custom_metadata={"channel": "mail"}))
    asyncio.run(add())
    assert {each.external_id for each in client.memories(subject=name)} == {
        f'google_adk:["app","{name}","","{event_id}"]' for event_id in ("e1", "e2")
    }
    found = {texts([entry])[0]: entry.custom_metadata for entry in search(memory, name, "rooibos")}
    assert found == {"Ann drinks rooibos tea": {}, "Noted, rooibos\nfor Ann": {"channel": "mail"}}


def entry(text: str, **fields: Any) -> MemoryEntry:
    return MemoryEntry(content=types.Content(parts=[types.Part(text=text)]), **fields)


def test_entries_are_added_and_replaced(client: Ebbing, memory: EbbingMemoryService, name: str) -> None:
    def add(*entries: MemoryEntry) -> None:
        asyncio.run(memory.add_memory(app_name="app", user_id=name, memories=entries, custom_metadata={"a": 1, "b": 1}))

    add(
        entry("Ann lives in Stockholm", id="city", author="helper", timestamp="2026-01-02T03:04:05+00:00"),
        entry("Ann drinks rooibos", custom_metadata={"b": 2}),
    )
    add(entry("Ann lives in Malmö", id="city"))
    found = search(memory, name, "Where does Ann live?")
    assert texts(found)[0] == "Ann lives in Malmö"
    assert {texts([each])[0]: each.custom_metadata for each in found}["Ann drinks rooibos"] == {"a": 1, "b": 2}
    assert len(list(client.memories(subject=name))) == 2
    for wrong, field in ((entry(" "), "memories[0].content"), (entry("x", id="x" * 600), "memories[0].id")):
        with pytest.raises(Invalid) as refused:
            add(wrong)
        assert refused.value.fields[0].field == field


def test_a_deleted_memory_stays_deleted(client: Ebbing, memory: EbbingMemoryService, name: str) -> None:
    whole = session(name, TEA, CAR)
    asyncio.run(memory.add_session_to_memory(whole))
    [tea] = [found for found in search(memory, name, "rooibos tea") if "tea" in texts([found])[0]]

    def delete(user: str, memory_id: str | None, app: str = "app") -> None:
        asyncio.run(memory.delete_memory(app_name=app, user_id=user, memory_id=memory_id))

    delete(f"{name}2", tea.id)
    delete(name, tea.id, app="other")
    delete(name, "unknown")
    assert len(search(memory, name, "rooibos")) == 2
    delete(name, tea.id)
    asyncio.run(EbbingMemoryService(client).add_session_to_memory(whole))
    assert texts(search(memory, name, "rooibos tea")) == ["The car needs new tyres"]
    with pytest.raises(ValueError, match="memory_id"):
        delete(name, None)
    client.forget(name)
    assert list(client.memories(subject=name)) == [], "the note of the deletion is the person's, too"


class Scripted(BaseLlm):
    """A model that asks for memories, and then answers with what it got."""

    async def generate_content_async(self, llm_request: Any, *_: Any, **__: Any) -> AsyncGenerator[LlmResponse, None]:
        part = llm_request.contents[-1].parts[-1]
        if part.function_response is None:
            call = types.FunctionCall(name="load_memory", args={"query": part.text})
            answer = types.Part(function_call=call)
        else:
            answer = types.Part(text=f"I remember: {part.function_response.response}")
        yield LlmResponse(content=types.Content(role="model", parts=[answer]))


def test_the_runner_recalls_an_earlier_session(name: str) -> None:
    async def run() -> str:
        async with AsyncEbbing(timeout=120) as client:
            memory = EbbingMemoryService(client)
            sessions = InMemorySessionService()
            await memory.add_session_to_memory(session(name, TEA))
            agent = LlmAgent(name="helper", model=Scripted(model="scripted"), tools=[load_memory])
            runner = Runner(app_name="app", agent=agent, session_service=sessions, memory_service=memory)
            started = await sessions.create_session(app_name="app", user_id=name)
            asked = types.Content(role="user", parts=[types.Part(text="Which tea does Ann drink?")])
            last = ""
            async for each in runner.run_async(user_id=name, session_id=started.id, new_message=asked):
                last = (each.content and each.content.parts and each.content.parts[0].text) or last
            return last

    assert "Ann drinks rooibos tea" in asyncio.run(run())


def test_the_page_works(client: Ebbing) -> None:
    assert pages.run("google_adk") == pages.output("google_adk")
