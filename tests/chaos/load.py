"""Callers of several tenants, and the ledger of what the service has accepted, changed, deleted and erased."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import httpx

from app.domain.maintenance import KINDS
from tests.faults.load import Caller
from tests.waiting import PATIENCE_SECONDS

OUTAGE_SECONDS: Final = 4 * PATIENCE_SECONDS
RETRY_SECONDS: Final = 0.2
LATER: Final = frozenset({429, 503})
RECENT: Final = 400
SUBJECTS: Final = ("ann", "bob", "carol")
HELD: Final = "a person under legal hold"
# Few texts: consolidation compares similar memories.
TOPICS: Final = (
    "The night train to Vienna leaves from platform nine at ten o'clock, seat",
    "The gardener waters the young apple trees behind the shed, row",
    "We agreed to repaint the blue kitchen before the summer, wall",
    "The choir rehearses the long hymn in the old chapel, verse",
)
CASES: Final = 6
DAYS_AGO: Final = (5, 200)
POLICY: Final = {
    "decay_from": "occurred",
    "privacy": {
        **{f"{name}_days": None for name in ("pii", "financial", "casual", "work", "archived_conversation")},
        "default_days": 36_500,
    },
    "tiers": {"archived_below": 0.8, "cold_below": 0.5, "deleted_below": 0.0},
    "protection": {"grace_days": 0},
    "consolidation": {
        "keep_days": 0,
        "summarise_after_days": 0,
        "one_a_day": False,
        "low_importance_below": 1,
        "high_importance_above": 1,
        "keep_importance_above": 1,
    },
}
"""Old memories fade into the archive and cold storage at once, similar ones are merged, and none expires."""


@dataclass
class Ledger:
    """Expected final state of one tenant, by memory id.

    Attributes:
        texts: Texts that each memory may have: several after an edit whose outcome was refused half way.
        deleted: Memories whose deletion was confirmed and not cancelled.
        uncertain: Memories whose deletion or its cancellation had no certain outcome.
        erased: Memories of persons who were, or will be, erased.
        held: Memories of a person under legal hold, whose erasure waits.
        poison: Entries put into the stream that must become dead letters.
    """

    sentinel: str
    texts: dict[str, set[str]] = field(default_factory=dict)
    deleted: set[str] = field(default_factory=set)
    uncertain: set[str] = field(default_factory=set)
    erased: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    leavers: list[str] = field(default_factory=list)
    poison: int = 0
    wrong: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin_leaver(self) -> str:
        """Name another person, whose erasure follows."""
        with self.lock:
            self.leavers.append(f"{self.sentinel} {len(self.leavers)}")
            return self.leavers[-1]


@dataclass
class Client(Caller):
    """One thread's client of a tenant. A request is repeated until it is answered by more than "later"."""

    ledger: Ledger = field(default_factory=lambda: Ledger("nobody"))
    mine: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def ask(self, name: str, method: str, path: str, *allowed: int, **given: Any) -> tuple[httpx.Response, bool]:
        """Send a request until it is answered; return the answer, and True if an earlier attempt may have succeeded.

        Any other failure than `allowed` is a finding.
        """
        unsure = False
        pause = threading.Event()
        for _ in range(int(OUTAGE_SECONDS / RETRY_SECONDS)):
            try:
                answer = self.http.request(method, path, **given)
            except httpx.TransportError as error:
                self.answers[type(error).__name__] += 1
                unsure |= not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                pause.wait(RETRY_SECONDS)
                continue
            self.answers[str(answer.status_code)] += 1
            if answer.status_code in LATER:
                if "retry-after" not in answer.headers:
                    self.ledger.wrong.append(f"{name}: {answer.status_code} without Retry-After: {answer.text[:200]}")
                unsure |= answer.status_code != 429
                pause.wait(RETRY_SECONDS)
                continue
            if not answer.is_success and answer.status_code not in allowed:
                self.ledger.wrong.append(f"{name}: {answer.status_code} {answer.text[:300]}")
            return answer, unsure
        raise AssertionError(f"{name} had no answer in {OUTAGE_SECONDS:g} s: {dict(self.answers)}")

    def new_memories(self, count: int) -> tuple[list[dict[str, Any]], str]:
        """Return bodies of memories about one subject, and the subject."""
        drawn = self.random.random()
        subject = self.ledger.leavers[-1] if drawn < 0.2 else HELD if drawn < 0.25 else self.random.choice(SUBJECTS)
        bodies = []
        for _ in range(count):
            code = f"{self.random.getrandbits(60):015x}"
            text = f"{self.random.choice(TOPICS)} {self.random.randrange(CASES)}."
            body: dict[str, Any] = {"text": text, "subject": subject, "metadata": {"code": code}}
            if self.random.random() < 0.8:  # the others are scored, by the provider or the rules
                body["salience"] = round(self.random.uniform(0, 0.3), 2)
            if self.random.random() < 0.5:
                then = datetime.now(UTC) - timedelta(days=self.random.uniform(*DAYS_AGO))
                body["occurred_at"] = then.isoformat()
            if self.random.random() < 0.1:
                body["external_id"] = code
            if subject in self.ledger.leavers:
                word = self.ledger.sentinel
                body |= {"text": f"{word} said: {text}", "thread": f"{word} thread", "tags": [word], "entities": [word]}
                body["metadata"] |= {word: code}
            elif self.random.random() < 0.3:
                body["thread"] = f"thread {self.random.randrange(20)}"
            bodies.append(body)
        return bodies, subject

    def ingest(self, count: int | None = None) -> None:
        """Send memories; some requests are sent twice under their key, and must have the same answer."""
        bodies, subject = self.new_memories(count or self.random.choice((1, 1, 3, 10)))
        given: dict[str, Any] = {"json": bodies[0] if len(bodies) == 1 else bodies}
        given["headers"] = {"Idempotency-Key": f"{self.random.getrandbits(80):020x}"}
        answer, _ = self.ask("ingest", "POST", "/v1/memories", **given)
        ids: list[str] = answer.json().get("ids", [])
        with self.ledger.lock:
            for memory_id, body in zip(ids, bodies, strict=True):
                self.ledger.texts[memory_id] = {body["text"]}
            if subject in self.ledger.leavers:
                self.ledger.erased.update(ids)
            if subject == HELD:
                self.ledger.held.update(ids)
        if subject in SUBJECTS:
            self.mine = (self.mine + ids)[-RECENT:]
        if self.random.random() < 0.1:
            again, _ = self.ask("keyed retry", "POST", "/v1/memories", **given)
            if again.json().get("ids") != ids:
                self.ledger.wrong.append(f"a keyed retry returned {again.text[:200]} instead of {ids}")

    def act(self) -> None:
        """Send one request of another kind than ingest."""
        if len(self.mine) < 2:
            self.ingest()
            return
        one, other = self.random.sample(self.mine, 2)
        at, gone = f"/v1/memories/{one}", (404, 409)
        word = self.random.choice(TOPICS)
        key = {"Idempotency-Key": f"{self.random.getrandbits(80):020x}"}
        link = {"from": one, "to": other, "kind": "next"}
        acts: list[tuple[int, Callable[[], object]]] = [
            (6, self.ingest),
            (3, lambda: self._edit(one)),
            (2, lambda: self._delete(one)),
            (3, lambda: self.ask("observe", "POST", "/v1/observations", json={"ids": [one, other]}, headers=key)),
            (1, lambda: self.ask("touch", "POST", f"{at}/touch", *gone, json={})),
            (2, lambda: self.ask("link", "POST", "/v1/links", *gone, json=link)),
            (3, lambda: self.ask("search", "POST", "/v1/search", json={"query": word, "limit": 5})),
            (2, lambda: self.ask("recall", "POST", "/v1/recall", json={"messages": [word]})),
            (2, lambda: self.ask("restore", "POST", f"{at}/restore", *gone)),
            (1, lambda: self.ask("why", "GET", f"{at}/why", *gone)),
            (1, lambda: self.ask("list", "GET", "/v1/memories?limit=20")),
            (1, lambda: self.ask("stats", "GET", "/v1/stats")),
        ]
        self.random.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def _edit(self, memory_id: str) -> None:
        text = f"{self.random.choice(TOPICS)} e{self.random.getrandbits(40):010x}."
        answer, unsure = self.ask("edit", "PATCH", f"/v1/memories/{memory_id}", 404, 409, json={"text": text})
        if answer.is_success:
            self.ledger.texts[memory_id] = {text}
        elif unsure:
            self.ledger.texts[memory_id].add(text)

    def _delete(self, memory_id: str) -> None:
        answer, unsure = self.ask("delete", "DELETE", f"/v1/memories/{memory_id}", 404, 409)
        if unsure and not answer.is_success:
            self.ledger.uncertain.add(memory_id)
        if not answer.is_success:
            return
        self.mine.remove(memory_id)
        self.ledger.deleted.add(memory_id)
        if self.random.random() < 0.4:
            path = f"/v1/privacy/erasures/{answer.json()['erasure_id']}/cancel"
            cancelled, unsure = self.ask("cancel", "POST", path, 404, 409)
            if cancelled.is_success:
                self.ledger.deleted.discard(memory_id)
                self.mine.append(memory_id)
            elif unsure:
                self.ledger.uncertain.add(memory_id)

    def operate(self) -> None:
        """Start a night, a job, an erasure, an export or a hold, or decide about a merge."""
        path = self.random.choice(
            [
                self._erase,
                self._erase,
                self._night,
                self._export,
                self._hold,
                self._merge,
                self._pause,
                *[self._job] * 6,
            ]
        )
        path()

    def _night(self) -> None:
        self.ask("night", "POST", "/v1/schedule/night/run", 409, json={})

    def _job(self) -> None:
        kind = self.random.choice([kind for kind in KINDS if kind not in {"delete", "expire"}])
        self.ask(kind, "POST", f"/v1/maintenance/{kind}", 409, json={})

    def _erase(self) -> None:
        leaver = self.ledger.leavers[-1]
        self.ledger.begin_leaver()
        self.erase(leaver)

    def erase(self, subject: str) -> None:
        """Request the erasure of a subject without a grace period."""
        asked = {"subject": subject, "kind": "gdpr", "grace_days": 0, "reason": "asked for it"}
        self.ask("erase", "POST", "/v1/privacy/erasures", 404, 409, json=asked)

    def _export(self) -> None:
        asked = {"subject": self.random.choice(SUBJECTS)}
        self.ask("export", "POST", "/v1/privacy/exports", 409, 429, json=asked)

    def _hold(self) -> None:
        asked = {"ids": [self.random.choice(self.mine)] if self.mine else [], "reason": "dispute"}
        if not self.mine:
            return
        placed, _ = self.ask("hold", "POST", "/v1/privacy/holds", 404, 409, 422, json=asked)
        if placed.is_success:
            self.ask("release", "POST", f"/v1/privacy/holds/{placed.json()['id']}/release", 404, 409)

    def _merge(self) -> None:
        found, _ = self.ask("merges", "GET", "/v1/consolidation/merges?limit=20")
        merges = found.json()["merges"]
        if merges:
            merge_id, what = self.random.choice(merges)["id"], self.random.choice(("undo", "undo", "approve", "reject"))
            self.ask(what, "POST", f"/v1/consolidation/merges/{merge_id}/{what}", 404, 409)

    def _pause(self) -> None:
        self.ask("pause", "POST", "/v1/schedule/night/pause", 409)
        self.ask("resume", "POST", "/v1/schedule/night/resume", 409)


class Load:
    """Threads of clients: `ingest`, `act` and `operate` again and again until `stop`."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._rest = threading.Event()
        self._threads: list[threading.Thread] = []
        self.failures: list[str] = []

    def add(self, client: Client, step: Callable[[], None], pause_seconds: float) -> None:
        """Let a client repeat one step."""
        thread = threading.Thread(target=self._repeat, args=(client, step, pause_seconds), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _repeat(self, client: Client, step: Callable[[], None], pause_seconds: float) -> None:
        while not self._stop.wait(pause_seconds):
            try:
                step()
            except Exception as error:  # noqa: BLE001 - becomes a finding
                self.failures.append(f"a client of {client.tenant_id} failed: {error!r}"[:500])
                return

    def stop(self) -> None:
        """Let every client finish its request."""
        self._stop.set()
        for thread in self._threads:
            thread.join(OUTAGE_SECONDS)
        if any(thread.is_alive() for thread in self._threads):
            self.failures.append("a client still waits for an answer")


def total_answers(clients: Sequence[Client]) -> Counter[str]:
    """Return the number of answers by status or error."""
    return sum((client.answers for client in clients), Counter[str]())


def seeded(seed: int, name: str) -> random.Random:
    """Return the source of chance of one client."""
    return random.Random(f"{seed} {name}")
