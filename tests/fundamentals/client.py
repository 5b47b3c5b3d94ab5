"""A minimal client of the HTTP API, as a newcomer might write it."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx
import msgspec

from tests.waiting import PATIENCE_SECONDS

Given = str | dict[str, Any]
T = TypeVar("T")


class Accepted(msgspec.Struct):
    """Response to accepted memories."""

    ids: list[str]
    request_id: str
    skipped: list[dict[str, Any]] = []


class Memory(msgspec.Struct):
    """A memory as the API returns it, with the fields that these tests read."""

    id: str
    text: str
    status: str
    subject: str | None
    thread: str | None
    speaker: str | None
    role: str | None
    external_id: str | None
    tags: list[str]
    created_at: str


class Page(msgspec.Struct):
    """A page of memories, newest first, and the cursor of the next page."""

    memories: list[Memory]
    next_cursor: str | None


class SearchResult(msgspec.Struct):
    """A search result."""

    id: str
    text: str
    score: float
    explain: dict[str, Any] | None = None


class Stats(msgspec.Struct):
    """A tenant's statistics."""

    memories: dict[str, int]
    pending: dict[str, int]
    dead_letters: int


class Problem(msgspec.Struct):
    """The reason for a refused request (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]]
    request_id: str


class Client:
    """Operations that a tenant's API key allows."""

    def __init__(self, url: str, key: str) -> None:
        # The API is local: ignore proxies set in the environment.
        self.http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS, trust_env=False
        )

    def send(self, *memories: Given, **headers: str) -> httpx.Response:
        """Post memories. Headers use Python's spelling: `idempotency_key="…"`, `prefer="wait=5"`."""
        body = [{"text": memory} if isinstance(memory, str) else memory for memory in memories]
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post("/v1/memories", json=body, headers=named)

    def remember(self, *memories: Given) -> list[str]:
        """Send memories, wait until they are searchable, and return their ids in the order given."""
        answer = self.send(*memories, prefer="wait=300")
        assert answer.status_code == 200, answer.text
        return read(answer, Accepted).ids

    def get(self, memory_id: str) -> Memory:
        return read(self.http.get(f"/v1/memories/{memory_id}"), Memory)

    def page(self, **query: str | int) -> Page:
        return read(self.http.get("/v1/memories", params=query), Page)

    def search(self, query: str, **fields: Any) -> list[SearchResult]:
        """Return the best memories for a query, best first. Fields are those of the API: `limit`, `tags`, and so on."""
        return read(self.http.post("/v1/search", json={"query": query, **fields}), _Results).results

    def edit(self, memory_id: str, **changes: Any) -> Memory:
        return read(self.http.patch(f"/v1/memories/{memory_id}", json=changes), Memory)

    def delete(self, memory_id: str) -> httpx.Response:
        return self.http.delete(f"/v1/memories/{memory_id}")

    def stats(self) -> Stats:
        return read(self.http.get("/v1/stats"), Stats)


class _Results(msgspec.Struct):
    results: list[SearchResult]


def read(answer: httpx.Response, shape: type[T]) -> T:
    """Decode a response into the given type; fails if the request was refused."""
    assert answer.is_success, f"{answer.status_code}: {answer.text}"
    return msgspec.json.decode(answer.content, type=shape)


def refusal(answer: httpx.Response) -> Problem:
    """Return the problem from the response to a refused request."""
    assert answer.is_error, answer.status_code
    assert answer.headers["content-type"] == "application/problem+json"
    return msgspec.json.decode(answer.content, type=Problem)
