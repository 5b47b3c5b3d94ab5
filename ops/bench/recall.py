"""A running service as a retriever: what an evidence-recall script needs to index a conversation and ask.

    export EBBING_API_URL=http://127.0.0.1:8000 EBBING_API_KEY=ebb_…
    python recall_script.py --callable ops.bench.recall:factory

The key needs the scope `admin`: every conversation becomes a tenant of its own.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any
from uuid import uuid4

import httpx

from app.settings import settings

BATCH = 500
PATIENCE_SECONDS = 120


class Service:
    """Indexes conversations and searches them over HTTP.

    A conversation is `{"conversation", "memories": [{"id", "session", "time", "speaker", "text"}]}`; its turns
    go in as they were spoken, a thread a session, a second apart.
    """

    def __init__(self, url: str, admin_key: str) -> None:
        """Talk to the service at this address."""
        self._client = httpx.Client(base_url=url, timeout=60)
        self._admin = {"authorization": f"Bearer {admin_key}"}
        self._tenant: dict[str, str] = {}
        self._ids: dict[str, str] = {}

    def index(self, conversation: dict[str, Any]) -> None:
        """Make a tenant of the conversation and wait until all of it is searchable."""
        name = f"recall {conversation['conversation']} {uuid4().hex[:8]}"
        made = self._client.post("/v1/admin/tenants", json={"name": name}, headers=self._admin).raise_for_status()
        self._tenant = {"authorization": f"Bearer {made.json()['api_key']}"}
        self._ids = {}
        for batch in _batches(conversation["memories"], BATCH):
            body = [_memory(turn, place) for place, turn in batch]
            answer = self._client.post("/v1/memories", json=body, headers=self._tenant).raise_for_status().json()
            self._ids |= {given: turn["id"] for given, (_, turn) in zip(answer["ids"], batch, strict=True)}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while any(self._client.get("/v1/stats", headers=self._tenant).raise_for_status().json()["pending"].values()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{name}: not everything was searchable within {PATIENCE_SECONDS} s")
            time.sleep(0.05)

    def search(self, question: dict[str, Any], k: int) -> list[str]:
        """The turns found for a question, best first, by their ids in the conversation."""
        body = {"query": question["question"], "limit": k, "reinforce": False}
        found = self._client.post("/v1/search", json=body, headers=self._tenant).raise_for_status().json()
        return [self._ids[result["id"]] for result in found["results"]]


def factory() -> Service:
    """A retriever for the service named by the environment."""
    config = settings()
    if config.api_key is None:
        raise ValueError("set EBBING_API_KEY to a key with the scope admin")
    return Service(config.api_url or "http://127.0.0.1:8000", config.api_key.get_secret_value())


def _memory(turn: dict[str, Any], place: int) -> dict[str, Any]:
    moment = datetime.fromisoformat(turn["time"]) + timedelta(seconds=place)
    return {
        "text": turn["text"],
        "speaker": turn["speaker"],
        "thread": str(turn["session"]),
        "occurred_at": f"{moment.isoformat()}Z",
    }


def _batches(turns: list[dict[str, Any]], size: int) -> Iterator[list[tuple[int, dict[str, Any]]]]:
    numbered = iter(enumerate(turns))
    while batch := list(islice(numbered, size)):
        yield batch
