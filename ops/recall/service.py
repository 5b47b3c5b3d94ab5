"""A running service, told conversations and asked questions over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from itertools import islice
from typing import Any, Final
from uuid import uuid4

import httpx

from ops.recall.dataset import Conversation, Memory

BATCH: Final = 500
PATIENCE_SECONDS: Final = 120
"""How long nothing may come of what waits."""
POLL_SECONDS: Final = 0.05


class Refused(Exception):
    """The service gave another answer than hoped for; says which, and why."""


class Service:
    """A service at an address; every conversation becomes a tenant of its own, so the key needs the scope `admin`."""

    def __init__(self, url: str, admin_key: str, policy: Mapping[str, Any] | None = None) -> None:
        """Talk to this service.

        Args:
            url: Without a path.
            admin_key: A key with the scope `admin`.
            policy: Of each tenant, where it isn't to be the default.
        """
        self._client = httpx.Client(base_url=url, timeout=60)
        self._admin_key = admin_key
        self._policy = policy or {}

    def told(self, conversation: Conversation, say: Callable[[int, int], object] = lambda *_: None) -> Told:
        """Tell a new tenant the conversation, and wait until every stage is through with it.

        Turns go in as they were spoken, a thread a session, a second apart: datasets often date sessions alone.

        Args:
            conversation: What is told.
            say: Called with how many of how many memories have come through, now and then.

        Raises:
            Refused: The service refused, or nothing happened for `PATIENCE_SECONDS`.
            httpx.HTTPError: It can't be reached.
        """
        name = f"recall {conversation.conversation} {uuid4().hex[:8]}"
        wanted = {"name": name, **({"policy": self._policy} if self._policy else {})}
        key = self.call("POST", "/v1/admin/tenants", self._admin_key, wanted)["api_key"]
        ids: dict[str, str] = {}
        for batch in _batches(conversation.memories, BATCH):
            given = self.call("POST", "/v1/memories", key, [_body(turn, place) for place, turn in batch])["ids"]
            ids |= {memory_id: turn.id for memory_id, (_, turn) in zip(given, batch, strict=True)}
        self._settle(key, name, len(ids), say)
        space = self.call("GET", "/v1/stats", key)["embedding_space"]
        embedder = f"{space['model']}, {space['dimensions']} dimensions" if space else "none"
        return Told(self, key, ids, embedder)

    def call(self, method: str, path: str, key: str, body: object = None) -> Any:
        """The answer to a call.

        Raises:
            Refused: It isn't a success.
            httpx.HTTPError: There is none.
        """
        headers = {"authorization": f"Bearer {key}"}
        answer = self._client.request(method, path, json=body, headers=headers)
        if answer.is_error:
            raise Refused(f"{method} {path} gave {answer.status_code}: {answer.text}")
        return answer.json()

    def _settle(self, key: str, name: str, memories: int, say: Callable[[int, int], object]) -> None:
        left, since = -1, time.monotonic()
        while waiting := max(self.call("GET", "/v1/stats", key)["pending"].values()):
            now = time.monotonic()
            if waiting != left:
                left, since = waiting, now
            elif now - since > PATIENCE_SECONDS:
                raise Refused(f"{name}: {waiting} memories still wait, none has come on for {PATIENCE_SECONDS} s")
            say(memories - waiting, memories)
            time.sleep(POLL_SECONDS)


class Told:
    """A conversation that the service knows now."""

    def __init__(self, service: Service, key: str, ids: Mapping[str, str], embedder: str) -> None:
        """Ask this tenant; `ids` gives the ids of the conversation for the service's."""
        self._service, self._key, self._ids = service, key, ids
        self.embedder = embedder

    def search(self, query: str, limit: int, mode: str | None = None) -> list[str]:
        """The turns found, best first, by their ids in the conversation; nothing counts as used.

        Args:
            query: The question.
            limit: Most results.
            mode: How results are ranked; None leaves it to the tenant's policy.
        """
        body = {"query": query, "limit": limit, "reinforce": False, **({"mode": mode} if mode else {})}
        found = self._service.call("POST", "/v1/search", self._key, body)["results"]
        return [self._ids[result["id"]] for result in found]


def _body(turn: Memory, place: int) -> dict[str, Any]:
    said = {
        "text": turn.text,
        "thread": str(turn.session),
        "occurred_at": (turn.moment + timedelta(seconds=place)).isoformat(),
    }
    return said | ({"speaker": turn.speaker} if turn.speaker else {})


def _batches(turns: tuple[Memory, ...], size: int) -> Iterator[list[tuple[int, Memory]]]:
    numbered = iter(enumerate(turns))
    while batch := list(islice(numbered, size)):
        yield batch
