"""Google ADK: `EbbingMemoryService`, a memory service whose entries are memories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Final

from ebbing_client import operations
from ebbing_client.adapters.items import Items, NewItem, cut_text, make_external_id
from ebbing_client.adapters.steps import Steps, delete_ids, list_named, missing_package, run_async, write
from ebbing_client.async_client import AsyncEbbing
from ebbing_client.client import Ebbing
from ebbing_client.errors import Invalid, NotFound, invalid_field
from ebbing_client.results import Hit

try:
    from google.adk.events.event import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions.session import Session
    from google.genai import types
except ImportError as error:
    raise missing_package("google-adk", "google-adk") from error

NAME: Final = "google_adk"
QUERY_MAX_CHARACTERS: Final = 32_768
_NO_SESSION: Final = ""
_DELETED: Final = Items(f"{NAME}-deleted")


class EbbingMemoryService(BaseMemoryService):
    """A memory service for ADK's `Runner`, `load_memory` and `preload_memory`.

    Each event with text is one memory; adding a session again stores only its new events, and an event whose memory
    was deleted by `delete_memory` stays deleted. Users and applications don't see each other's memories.

    Args:
        client: `AsyncEbbing`, or `Ebbing`, whose calls then run in a thread.
        limit: Maximum number of entries that a search returns, 1 to 100.
        subject: Function that returns the memories' person from the application's name and the user's id; by default
            the user's id, so that erasures of the person cover all applications.
    """

    def __init__(
        self,
        client: Ebbing | AsyncEbbing,
        *,
        limit: int = 10,
        subject: Callable[[str, str], str] = lambda _, user_id: user_id,
    ) -> None:
        self._client = client
        self._limit = limit
        self._subject = subject

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the events of a session that aren't stored yet."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store events that aren't stored yet; searches find them when this returns.

        Args:
            app_name: Name of the application.
            user_id: Id of the user.
            events: Events, of which those with text are stored.
            session_id: The memories' thread.
            custom_metadata: Stored with each memory, and part of the entries that searches return.
        """
        given = dict(custom_metadata or {})
        bodies: dict[str, dict[str, Any]] = {}
        names: dict[str, tuple[tuple[str, ...], str]] = {}
        for event in events:
            text = "" if event.partial else _text(event.content)
            if not text:
                continue
            name = ((app_name, user_id, session_id or _NO_SESSION), event.id)
            external_id = make_external_id(NAME, (*name[0], event.id), "event.id")
            at = datetime.fromtimestamp(event.timestamp, timezone.utc)
            body = self._body(app_name, user_id, text, event.author, event.content, given)
            body["metadata"]["event_id"] = event.id
            thread = {"thread": session_id} if session_id else {}
            bodies[external_id] = {**body, "external_id": external_id, "occurred_at": at, **thread}
            names[external_id] = name
        await run_async(self._client, self._add_new(bodies, names))

    def _add_new(
        self, bodies: Mapping[str, dict[str, Any]], names: Mapping[str, tuple[tuple[str, ...], str]]
    ) -> Steps[None]:
        stored = yield from list_named(bodies)
        new = [external_id for external_id in bodies if external_id not in stored]
        deleted = yield from _DELETED.get([names[external_id] for external_id in new])
        yield from write([bodies[external_id] for external_id in new if names[external_id] not in deleted])

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Store entries; an entry replaces the stored entry with the same `id`.

        Raises:
            Invalid: An entry has no text, or its timestamp isn't in ISO 8601 with an offset.
        """
        bodies = []
        for place, entry in enumerate(memories):
            text = _text(entry.content)
            if not text:
                raise invalid_field(f"memories[{place}].content", "has no text")
            given = {**(custom_metadata or {}), **entry.custom_metadata}
            body = self._body(app_name, user_id, text, entry.author, entry.content, given)
            if entry.id:
                body["external_id"] = make_external_id(NAME, (app_name, user_id, entry.id), f"memories[{place}].id")
            if entry.timestamp:
                body["occurred_at"] = entry.timestamp
            bodies.append(body)
        await run_async(self._client, write(bodies))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Return the best entries for a query, best first."""
        if not query.strip():
            return SearchMemoryResponse()
        found = await run_async(self._client, self._search(app_name, user_id, query[:QUERY_MAX_CHARACTERS]))
        return SearchMemoryResponse(memories=[_entry(hit) for hit in found])

    def _search(self, app_name: str, user_id: str, query: str) -> Steps[list[Hit]]:
        subject = self._subject(app_name, user_id)
        results = yield operations.search(query, limit=self._limit, subject=subject, tags=[_tag(app_name)])
        return list(results)

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory; adding its session again doesn't store it again. Unknown ids are ignored.

        Args:
            app_name: Name of the application.
            user_id: Id of the user.
            memory_id: `MemoryEntry.id` of a search's result.

        Raises:
            ValueError: No id is given; `client.forget` erases everything about a user.
        """
        if not memory_id:
            raise ValueError("delete_memory needs memory_id; to erase a user, call forget of the client")
        await run_async(self._client, self._delete(app_name, user_id, memory_id))

    def _delete(self, app_name: str, user_id: str, memory_id: str) -> Steps[None]:
        try:
            memory = yield operations.get(memory_id)
        except (NotFound, Invalid):
            return
        subject = self._subject(app_name, user_id)
        if memory.subject != subject or _tag(app_name) not in memory.tags:
            return
        event_id = memory.metadata.get("event_id")
        if isinstance(event_id, str):
            namespace = (app_name, user_id, memory.thread or _NO_SESSION)
            kept = Items(_DELETED.name, subject=lambda _: subject)
            yield from kept.put([NewItem(namespace, event_id, {}, None)])
        yield from delete_ids([memory.id])

    def _body(
        self, app_name: str, user_id: str, text: str, author: str | None, content: Any, custom: Mapping[str, object]
    ) -> dict[str, Any]:
        role = "user" if author == "user" or (not author and content.role == "user") else "assistant"
        body: dict[str, Any] = {"text": text, "role": role, "subject": self._subject(app_name, user_id)}
        body |= {"tags": [_tag(app_name)], "metadata": {"custom": dict(custom)}}
        return body | ({"speaker": author} if author else {})


def _tag(app_name: str) -> str:
    return f"{NAME}:{app_name}"


def _text(content: Any) -> str:
    """Return the text of a content's parts, without thoughts; empty if there is none."""
    parts = (content.parts or ()) if content else ()
    return cut_text("\n".join(part.text for part in parts if part.text and not part.thought))


def _entry(hit: Hit) -> MemoryEntry:
    at = hit.occurred_at or hit.created_at
    role = "user" if hit.role == "user" else "model"
    return MemoryEntry(
        id=hit.id,
        content=types.Content(role=role, parts=[types.Part(text=hit.text)]),
        author=hit.speaker or role,
        timestamp=None if at is None else at.isoformat(),
        custom_metadata=dict(hit.metadata.get("custom") or {}),
    )
