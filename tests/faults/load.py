"""A client that repeats each request under the same idempotency key until it is accepted, and records the ids."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.waiting import PATIENCE_SECONDS, until

BATCH_MAX = 20
THREADS = 4
# One batch in this many has external ids, which take another path into the database.
KEYED_BATCHES = 8


class Unexpected(Exception):
    """A response that no fault excuses."""


@dataclass
class Caller:
    """One tenant's client. `accepted` maps the id of each memory answered with 202 to its text."""

    url: str
    tenant_id: str
    key: str
    seed: int = 0
    accepted: dict[str, str] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.seed} {self.tenant_id}")
        # The API is local: ignore proxies set in the environment.
        self.http = httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=PATIENCE_SECONDS,
            trust_env=False,
        )

    def close(self) -> None:
        self.http.close()

    def batch(self, size: int | None = None) -> list[dict[str, Any]]:
        """Build memories that each contain a unique word."""
        keyed = self.random.randrange(KEYED_BATCHES) == 0
        memories = []
        for _ in range(size or self.random.randint(1, BATCH_MAX)):
            word = f"w{self.random.getrandbits(60):015x}"
            memory = {"text": f"We spoke about {word} again.", "thread": f"thread {self.random.randrange(50)}"}
            memories.append(memory | {"external_id": word} if keyed else memory)
        return memories

    def send(self, memories: Sequence[dict[str, Any]] | None = None) -> list[str]:
        """Send memories repeatedly until they are accepted, and return their ids."""
        memories = self.batch() if memories is None else memories
        key = f"{self.random.getrandbits(80):020x}"
        return until(lambda: self.try_once(memories, key), lambda: f"an answer of 202: {dict(self.answers)}")

    def try_once(self, memories: Sequence[dict[str, Any]], key: str) -> list[str] | None:
        """Send memories once; return their ids, or None if the client should retry."""
        try:
            answer = self.http.post("/v1/memories", json=list(memories), headers={"Idempotency-Key": key})
        except httpx.TransportError as error:
            self.answers[type(error).__name__] += 1
            return None
        self.answers[str(answer.status_code)] += 1
        if answer.status_code in {429, 503}:
            return None
        if answer.status_code != 202:
            raise Unexpected(f"{answer.status_code}: {answer.text}")
        ids: list[str] = answer.json()["ids"]
        self.accepted.update(zip(ids, (memory["text"] for memory in memories), strict=True))
        return ids

    def finds(self, memory_id: str) -> bool:
        """Return true if a search for its unique word finds an accepted memory."""
        word = self.accepted[memory_id].split()[3]
        answer = self.http.post("/v1/search", json={"query": word, "limit": 5})
        return answer.status_code == 200 and any(found["id"] == memory_id for found in answer.json()["results"])


@contextmanager
def load(callers: Sequence[Caller], pause_seconds: float = 0.01) -> Iterator[None]:
    """Make every caller send batch after batch during the block; raise any error that a caller hits."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def send_on(caller: Caller) -> None:
        try:
            while not stop.is_set():
                caller.send()
                stop.wait(pause_seconds)
        except BaseException as failure:  # noqa: BLE001 - raised below, in the test's own thread
            failures.append(failure)

    threads = [threading.Thread(target=send_on, args=(caller,), daemon=True) for caller in callers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(2 * PATIENCE_SECONDS)  # for a request and its retries
    if failures:
        raise failures[0]
    assert not any(thread.is_alive() for thread in threads)
