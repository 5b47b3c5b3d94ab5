"""A client of the HTTP API, as small as a newcomer's first one."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx
import msgspec

from tests.waiting import PATIENCE_SECONDS

Given = str | dict[str, Any]
T = TypeVar("T")


class Accepted(msgspec.Struct):
    """The answer to memories that were sent."""

    ids: list[str]
    request_id: str
    skipped: list[dict[str, Any]] = []


class Memory(msgspec.Struct):
    """A memory as it is read, in the fields that these tests look at."""

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
    """Memories, newest first, and where the next page begins."""

    memories: list[Memory]
    next_cursor: str | None


class Found(msgspec.Struct):
    """A result of a search."""

    id: str
    text: str
    score: float
    explain: dict[str, Any] | None = None


class Stats(msgspec.Struct):
    """The numbers of a tenant."""

    memories: dict[str, int]
    pending: dict[str, int]
    dead_letters: int


class Problem(msgspec.Struct):
    """Why a request was refused (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[dict[str, Any]]
    request_id: str


class Client:
    """What a tenant can do with its API key."""

    def __init__(self, url: str, key: str) -> None:
        # The environment's proxies are for others: the API is on this machine.
        self.http = httpx.Client(
            base_url=url, headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_SECONDS, trust_env=False
        )

    def send(self, *memories: Given, **headers: str) -> httpx.Response:
        """POST memories. Headers in Python's spelling: `idempotency_key="…"`, `prefer="wait=5"`."""
        body = [{"text": memory} if isinstance(memory, str) else memory for memory in memories]
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post("/v1/memories", json=body, headers=named)

    def remember(self, *memories: Given) -> list[str]:
        """Send memories and wait until they can be found. Returns their ids, in the order given."""
        answer = self.send(*memories, prefer="wait=300")
        assert answer.status_code == 200, answer.text
        return read(answer, Accepted).ids

    def get(self, memory_id: str) -> Memory:
        return read(self.http.get(f"/v1/memories/{memory_id}"), Memory)

    def page(self, **query: str | int) -> Page:
        return read(self.http.get("/v1/memories", params=query), Page)

    def search(self, query: str, **fields: Any) -> list[Found]:
        """The best memories for a query, best first. Fields as the API has them: `limit`, `tags`, and so on."""
        return read(self.http.post("/v1/search", json={"query": query, **fields}), _Results).results

    def edit(self, memory_id: str, **changes: Any) -> Memory:
        return read(self.http.patch(f"/v1/memories/{memory_id}", json=changes), Memory)

    def delete(self, memory_id: str) -> httpx.Response:
        return self.http.delete(f"/v1/memories/{memory_id}")

    def stats(self) -> Stats:
        return read(self.http.get("/v1/stats"), Stats)


class _Results(msgspec.Struct):
    results: list[Found]


def read(answer: httpx.Response, shape: type[T]) -> T:
    """The body of an answer as a value of the shape; fails when the request was refused."""
    assert answer.is_success, f"{answer.status_code}: {answer.text}"
    return msgspec.json.decode(answer.content, type=shape)


def refusal(answer: httpx.Response) -> Problem:
    """The problem in the answer to a request that was refused."""
    assert answer.is_error, answer.status_code
    assert answer.headers["content-type"] == "application/problem+json"
    return msgspec.json.decode(answer.content, type=Problem)
