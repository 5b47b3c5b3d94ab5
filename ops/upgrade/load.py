"""Requests of all kinds to the APIs of both versions, with a record of what must be true afterwards."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx

TRIES: Final = 120
PAUSE_SECONDS: Final = 0.5
DETAIL_CHARACTERS: Final = 60
CASES: Final = 10
"""Number of texts by topic: few, so that consolidation compares similar memories."""
DAYS_AGO: Final = (35, 60)
UNAVAILABLE: Final = 503
ADMISSION: Final = frozenset({429, UNAVAILABLE})
"""Documented statuses that ask a client to repeat the request later."""

TOPICS: Final = (
    "Ann books the nine o'clock train to Bern on Friday, booking",
    "Bob promised to call the landlord about the broken heating, case",
    "The team decided to release the new version on Monday, ticket",
    "Carol is allergic to peanuts and has informed the kitchen, note",
    "My daughter starts school in August and needs a red bag, list",
)


@dataclass
class Book:
    """Texts and tenants' keys of accepted memories, deleted ids, and the number of answers by version and request."""

    texts: dict[str, str] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    answers: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, version: str, request: str, answer: str) -> None:
        """Count an answer."""
        with self._lock:
            self.answers[version, request, answer] += 1

    def add_fault(self, wrong: str) -> None:
        """Record a fault."""
        with self._lock:
            self.wrong.append(wrong)

    def summary(self) -> list[str]:
        """Return a line for each version with the number of requests by kind and answer."""
        lines: dict[str, list[str]] = defaultdict(list)
        for (version, request, answer), number in sorted(self.answers.items()):
            lines[version].append(f"{request} {answer} ×{number}")
        return [f"{version}: {', '.join(each)}" for version, each in lines.items()]


class Caller:
    """A client of one tenant that repeats each request until it is answered, and uses another API if one is gone."""

    def __init__(self, book: Book, apis: Sequence[tuple[str, str]], key: str, seed: str) -> None:
        """Use the first of these APIs, each a version's name and URL, while it answers."""
        self.book, self._apis, self._at, self._key = book, list(apis), 0, key
        self.random = random.Random(seed)  # noqa: S311 - a load, no secret
        self.own: list[str] = []
        self._http = httpx.Client(headers={"authorization": f"Bearer {key}"}, timeout=60, trust_env=False)

    def add_api(self, name: str, url: str) -> None:
        """Name another API to change to."""
        self._apis.append((name, url))

    def ask(self, request: str, method: str, path: str, *allowed: int, **given: Any) -> httpx.Response:
        """Send a request until it is answered by anything but a refusal for the moment, and return the answer.

        An answer of another class than 2xx that isn't `allowed` is recorded as a fault.

        Raises:
            RuntimeError: There was no answer after many tries.
        """
        for _ in range(TRIES):
            version, url = self._apis[self._at % len(self._apis)]
            try:
                answer = self._http.request(method, url + path, **given)
            except httpx.TransportError as error:
                self.book.count(version, request, type(error).__name__)
                if isinstance(error, httpx.TimeoutException):
                    self.book.add_fault(f"{version}: {request} had no answer in time")
                self._at += 1
                time.sleep(PAUSE_SECONDS)
                continue
            self.book.count(version, request, _describe(answer))
            if answer.status_code in ADMISSION and "retry-after" not in answer.headers:
                self.book.add_fault(f"{version}: {request} returned {_describe(answer)} without Retry-After")
            if answer.status_code in ADMISSION and UNAVAILABLE not in allowed:
                time.sleep(PAUSE_SECONDS)
                continue
            if not answer.is_success and answer.status_code not in allowed:
                self.book.add_fault(f"{version}: {request} returned {_describe(answer)}")
            return answer
        raise RuntimeError(f"{method} {path} had no answer in {TRIES} tries")

    def send(self, count: int, **fields: Any) -> list[str]:
        """Send memories in one request, under an idempotency key, and return their ids."""
        memories = []
        for _ in range(count):
            code = f"{self.random.getrandbits(60):015x}"
            text = f"{self.random.choice(TOPICS)} {self.random.randrange(CASES)}."
            memory = {"text": text, "thread": f"thread {self.random.randrange(9)}", "metadata": {"code": code}}
            keyed = {"external_id": code} if self.random.random() < 0.2 else {}
            if self.random.random() < 0.5:  # with a history of decay
                then = datetime.now(UTC) - timedelta(days=self.random.uniform(*DAYS_AGO))
                keyed["occurred_at"] = then.isoformat()
            memories.append(memory | keyed | {"subject": self.random.choice(("ann", "bob", "carol"))} | fields)
        body = memories[0] if count == 1 else memories
        key = f"{self.random.getrandbits(80):020x}"
        answer = self.ask("ingest", "POST", "/v1/memories", json=body, headers={"Idempotency-Key": key})
        ids: list[str] = answer.json().get("ids", [])
        self.book.keys.update(dict.fromkeys(ids, self._key))
        self.book.texts.update(zip(ids, (str(memory["text"]) for memory in memories), strict=True))
        return ids

    def ingest_once(self) -> None:
        """Send one memory or a batch."""
        ids = self.send(self.random.choice((1, 1, 5, 12)))
        self.own += ids

    def act_once(self) -> None:
        """Send one request of another kind than ingest."""
        if len(self.own) < 8:
            self.ingest_once()
            return
        self.random.choice(self.actions())()

    def actions(self) -> list[Callable[[], object]]:
        """Return the requests that `act_once` chooses from."""
        one, other = self.random.sample(self.own, 2)
        at = f"/v1/memories/{one}"
        word = self.book.texts[one]
        key = {"Idempotency-Key": f"{self.random.getrandbits(80):020x}"}
        hold = {"memory_ids": [one], "reason": "dispute"}
        return [
            self.ingest_once,
            lambda: self._edit(one),
            lambda: self._edit(one),
            lambda: self._delete(one),
            lambda: self.ask("link", "POST", "/v1/links", 404, 409, json={"from": one, "to": other, "kind": "next"}),
            lambda: self.ask("use", "POST", "/v1/observations", json={"ids": [one, other]}, headers=key),
            lambda: self.ask("touch", "POST", f"{at}/touch", 404, 409, json={}),
            lambda: self.ask("search", "POST", "/v1/search", json={"query": word, "limit": 5}),
            lambda: self.ask("search", "POST", "/v1/search", json={"query": word[:20], "explain": True}),
            lambda: self.ask("recall", "POST", "/v1/recall", json={"messages": [word]}),
            lambda: self.ask("why", "GET", f"{at}/why", 404),
            lambda: self.ask("history", "GET", f"{at}/history", 404),
            lambda: self.ask("list", "GET", "/v1/memories?limit=20"),
            lambda: self.ask("stats", "GET", "/v1/stats"),
            lambda: self.ask("reviews", "GET", "/v1/reviews"),
            lambda: self._hold(hold),
        ]

    def _edit(self, memory_id: str) -> None:
        text = f"{self.random.choice(TOPICS)} e{self.random.getrandbits(60):015x}."
        answer = self.ask("edit", "PATCH", f"/v1/memories/{memory_id}", 404, 409, json={"text": text})
        if answer.is_success:
            self.book.texts[memory_id] = text

    def _delete(self, memory_id: str) -> None:
        answer = self.ask("delete", "DELETE", f"/v1/memories/{memory_id}", 404, 409)
        if answer.is_success:
            self.book.deleted.add(memory_id)
            self.own.remove(memory_id)

    def _hold(self, hold: dict[str, Any]) -> None:
        placed = self.ask("hold", "POST", "/v1/privacy/holds", 404, 409, json=hold)
        if placed.is_success:
            self.ask("release", "POST", f"/v1/privacy/holds/{placed.json()['id']}/release", 409)


def _describe(answer: httpx.Response) -> str:
    """Return the status, for an error with the beginning of its reason, so that equal ones can be counted."""
    if answer.is_success:
        return str(answer.status_code)
    try:
        reason = answer.json()["detail"]
    except (ValueError, KeyError):
        reason = answer.text
    return f"{answer.status_code} ({reason[:DETAIL_CHARACTERS]})"


class Load:
    """Threads that send requests until `stop`; each caller has a thread of its own."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[str] = []

    def add(self, caller: Caller, step: Callable[[], None], pause_seconds: float) -> None:
        """Let a caller repeat one step."""
        thread = threading.Thread(target=self._repeat, args=(caller, step, pause_seconds), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _repeat(self, caller: Caller, step: Callable[[], None], pause_seconds: float) -> None:
        while not self._stop.wait(pause_seconds):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - becomes a finding
                caller.book.add_fault(f"a caller failed: {error!r}")
                return

    def stop(self) -> None:
        """Let every caller finish its request."""
        self._stop.set()
        for thread in self._threads:
            thread.join(TRIES * PAUSE_SECONDS)
