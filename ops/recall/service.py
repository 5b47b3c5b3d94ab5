"""A running service that stores conversations and answers questions over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Final, Literal, get_args
from uuid import uuid4

import httpx

from ops.recall.dataset import Conversation, Memory

BATCH: Final = 500
PATIENCE_SECONDS: Final = 120
"""Maximum duration for which the number of pending memories may stay unchanged."""
POLL_SECONDS: Final = 0.05

Roles = Literal["field", "speaker", "none"]
ROLES: Final[tuple[Roles, ...]] = get_args(Roles)


class Refused(Exception):
    """The service refused a request or made no progress; the message names the request and the reason."""


@dataclass(frozen=True, slots=True)
class Sending:
    """Options for sending memories.

    Attributes:
        roles: `field` sends a speaker's role as the field `role`, `speaker` sends it as the speaker if there is no
            name, and `none` omits it.
        threads: False omits threads.
    """

    roles: Roles = "field"
    threads: bool = True

    def body(self, memory: Memory, place: int) -> dict[str, Any]:
        """Return the memory in the format of the API, dated `place` seconds after its time."""
        role_as_name = memory.role if self.roles == "speaker" else None
        fields = {
            "text": memory.text,
            "thread": str(memory.session) if self.threads else None,
            "occurred_at": (memory.moment + timedelta(seconds=place)).isoformat(),
            "speaker": memory.speaker or role_as_name,
            "role": memory.role if self.roles == "field" else None,
        }
        return {name: value for name, value in fields.items() if value is not None}


class Service:
    """A service at an address; every conversation gets a separate tenant, so the key needs the scope `admin`."""

    def __init__(
        self, url: str, admin_key: str, policy: Mapping[str, Any] | None = None, sending: Sending | None = None
    ) -> None:
        """Use this service.

        Args:
            url: Without a path.
            admin_key: A key with the scope `admin`.
            policy: The tenants' policy, if not the default.
            sending: Options for sending memories, if not the default.
        """
        self._client = httpx.Client(base_url=url, timeout=60)
        self._admin_key = admin_key
        self._policy = policy or {}
        self._sending = sending or Sending()

    def store(self, conversation: Conversation, show: Callable[[int, int], object] = lambda *_: None) -> Stored:
        """Store the conversation for a new tenant, and wait until none of its memories is pending.

        Memories are sent in conversation order, one thread per session, a second apart: datasets often date only
        sessions.

        Args:
            conversation: The memories.
            show: Called repeatedly with the numbers of finished and of all memories.

        Raises:
            Refused: The service refused, or made no progress for `PATIENCE_SECONDS`.
            httpx.HTTPError: The service is unreachable.
        """
        name = f"recall {conversation.conversation} {uuid4().hex[:8]}"
        wanted = {"name": name, **({"policy": self._policy} if self._policy else {})}
        key = self.call("POST", "/v1/admin/tenants", self._admin_key, wanted)["api_key"]
        ids: dict[str, str] = {}
        for batch in _batches(conversation.memories, BATCH):
            bodies = [self._sending.body(memory, place) for place, memory in batch]
            accepted = self.call("POST", "/v1/memories", key, bodies)["ids"]
            ids |= {memory_id: memory.id for memory_id, (_, memory) in zip(accepted, batch, strict=True)}
        self._settle(key, name, len(ids), show)
        space = self.call("GET", "/v1/stats", key)["embedding_space"]
        embedder = f"{space['model']}, {space['dimensions']} dimensions" if space else "none"
        return Stored(self, key, ids, embedder)

    def call(self, method: str, path: str, key: str, body: object = None) -> Any:
        """Return the body of the response.

        Raises:
            Refused: The status is an error.
            httpx.HTTPError: There is no response.
        """
        headers = {"authorization": f"Bearer {key}"}
        answer = self._client.request(method, path, json=body, headers=headers)
        if answer.is_error:
            raise Refused(f"{method} {path} returned {answer.status_code}: {answer.text}")
        return answer.json()

    def _settle(self, key: str, name: str, memories: int, show: Callable[[int, int], object]) -> None:
        left, since = -1, time.monotonic()
        while waiting := max(self.call("GET", "/v1/stats", key)["pending"].values()):
            now = time.monotonic()
            if waiting != left:
                left, since = waiting, now
            elif now - since > PATIENCE_SECONDS:
                raise Refused(f"{name}: {waiting} memories are pending, and none was processed in {PATIENCE_SECONDS} s")
            show(memories - waiting, memories)
            time.sleep(POLL_SECONDS)


class Stored:
    """A conversation that the service has stored."""

    def __init__(self, service: Service, key: str, ids: Mapping[str, str], embedder: str) -> None:
        """Use the key of the tenant; `ids` maps the service's ids to the conversation's."""
        self._service, self._key, self._ids = service, key, ids
        self.embedder = embedder

    def search(self, query: str, limit: int, mode: str | None = None) -> list[str]:
        """Return the ids of the memories found, in the conversation, the best first; nothing counts as used.

        Args:
            query: The question.
            limit: Maximum number of results.
            mode: The ranking mode; None uses the tenant's policy.
        """
        body = {"query": query, "limit": limit, "reinforce": False, **({"mode": mode} if mode else {})}
        found = self._service.call("POST", "/v1/search", self._key, body)["results"]
        return [self._ids[result["id"]] for result in found]

    def recall(self, messages: Sequence[str | Mapping[str, Any]], **options: float) -> list[str]:
        """Return the conversation's ids of the memories recalled for the messages, the most relevant first.

        Args:
            messages: The conversation's latest messages, the newest last.
            options: Further fields of the request, such as `limit`.
        """
        body = {"messages": list(messages), **options}
        brought = self._service.call("POST", "/v1/recall", self._key, body)["memories"]
        return [self._ids[memory["id"]] for memory in brought]


def _batches(memories: Sequence[Memory], size: int) -> Iterator[list[tuple[int, Memory]]]:
    numbered = iter(enumerate(memories))
    while batch := list(islice(numbered, size)):
        yield batch
